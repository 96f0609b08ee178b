"""Certificates that tests make for 127.0.0.1; each is its own authority."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME = "certificate.pem"


def written(place: Path, passphrase: bytes = b"", days: tuple[float, float] = (-1, 2)) -> tuple[Path, Path]:
    """The files of a new certificate and its key in the folder `place`; they replace those that are there.

    Args:
        days: from now to the first and the last time at which the certificate is valid.
    """
    place.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days[0]))
        .not_valid_after(now + datetime.timedelta(days[1]))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    files = place / NAME, place / "key.pem"
    files[0].write_bytes(certificate.public_bytes(pem))
    files[1].touch(0o600)
    files[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, hidden))
    return files
