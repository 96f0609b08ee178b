"""The certificate of a service that speaks TLS; one that is renewed in its files serves the next connections."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core import secret_file
from pipelines.core.errors import InputError, listed, one_line
from pipelines.core.progress import say

OPTION, KEY_OPTION = "--tls-certificate", "--tls-key"
WARNING = timedelta(days=7)  # before a certificate expires; or a third of its time, if that is less
MARKS = {"certificate": b"-----BEGIN CERTIFICATE-----", "private key": b"PRIVATE KEY-----"}  # of files in PEM


class Validity(NamedTuple):
    """The time from which a certificate is valid, and its end."""

    begin: datetime
    end: datetime

    def problem(self) -> str:
        """A sentence if the time has not come, or has passed; else empty."""
        now = datetime.now(UTC)
        if now > self.end:
            return f"the certificate has expired, on {self.end:%Y-%m-%d %H:%M} UTC; renew it"
        early = f"the certificate is valid from {self.begin:%Y-%m-%d %H:%M} UTC on; look at the clock, or wait"
        return early if now < self.begin else ""

    def is_near_end(self) -> bool:
        return datetime.now(UTC) > self.end - min(WARNING, (self.end - self.begin) / 3)


class Certificate:
    """A certificate, with those of its authorities behind it, and its private key, in PEM.

    Attributes:
        file, key: the files; one file may hold both.
        context: for a server, from TLS 1.2 on. At a connection it looks whether the files have changed since.
    """

    def __init__(self, file: Path, key: Path | None = None) -> None:
        """Read the files. Raises InputError with all that is wrong with them."""
        self.file, self.key = file, key or file
        if problems := _problems(self.file, self.key):
            raise InputError(listed(problems))
        self._read_states = self._file_states()
        self.context = self._current = _context(self.file, self.key)
        self.context.sni_callback = self._renew
        self._note_validity()

    def pem(self) -> bytes:
        """The certificate and the key as one text."""
        parts = dict.fromkeys((self.file, self.key))
        return b"\n".join(part.read_bytes() for part in parts)

    def _file_states(self) -> list[tuple[int, int]]:
        """The inodes of the files, and the times of their last change of text or mode; empty where one is missing."""
        try:
            states = [part.stat() for part in (self.file, self.key)]
        except OSError:
            return []
        return [(state.st_ino, state.st_ctime_ns) for state in states]

    def _note_validity(self) -> None:
        self._validity = _validity(self.file.read_bytes())
        self._has_warned = False
        self._warn()

    def _warn(self) -> None:
        """Say once that the certificate expires soon."""
        if self._validity and self._validity.is_near_end() and not self._has_warned:
            self._has_warned = True
            say(f"{self.file}: the certificate expires on {self._validity.end:%Y-%m-%d %H:%M} UTC; renew it")

    def _renew(self, connection: ssl.SSLObject, *_: Any) -> None:
        """Have a new connection use the files as they are now; called by OpenSSL at the beginning of each."""
        states = self._file_states()
        if states and states != self._read_states:
            self._read_states = states
            problems = _problems(self.file, self.key)
            if problems:  # one of two files may be written later than the other
                say(f"the former certificate stays: {problems[0]}")
            else:
                self._current = _context(self.file, self.key)
                self._note_validity()
                say(f"{self.file}: connections have the renewed certificate from now on")
        self._warn()
        if self._current is not self.context:
            connection.context = self._current


def _problems(file: Path, key: Path) -> list[str]:
    """A sentence for each thing that is wrong with the files."""
    problems, key_text, validity = [], b"", None
    for path, what in ((file, "certificate"), (key, "private key")):
        try:
            text = path.read_bytes()
        except OSError as error:
            problems.append(f"{path}: the {what} cannot be read ({error.strerror})")
            continue
        if MARKS[what] not in text:
            option = OPTION if what == "certificate" else KEY_OPTION
            problems.append(f"{path}: the file holds no {what} in PEM; name one that does with {option}")
        elif what == "private key":
            key_text = text
        else:
            validity = _validity(text)
    if key_text and key.stat().st_mode & secret_file.OTHERS:
        problems.append(f"{key}: other users may read the private key; run `chmod 600 {key}`")
    if b"ENCRYPTED" in key_text:
        way = f"(umask 077; openssl pkey -in {key} -out {key}.plain)"
        problems.append(f"{key}: the private key is encrypted; write it without a passphrase: `{way}`")
    if validity and (why := validity.problem()):
        problems.append(f"{file}: {why}")
    if not problems:
        try:
            _context(file, key)
        except (OSError, ValueError) as error:
            problems.append(_mismatch(file, key, error))
    return problems


def _validity(text: bytes) -> Validity | None:
    """The validity of the first certificate in PEM; None where its dates cannot be read."""
    from cryptography import x509  # 0.1 s to import

    try:
        certificate = x509.load_pem_x509_certificate(text)
    except ValueError:  # OpenSSL says what is wrong with it, if it is
        return None
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _mismatch(file: Path, key: Path, error: Exception) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"{file}: the private key in {key} belongs to another certificate; name the two that belong together"
    return f"{file}: TLS cannot use this certificate and the key in {key} ({one_line(error, 100)}); make them anew"


def _context(file: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(file, key, password=lambda: "")  # without it OpenSSL asks at the terminal
    return context


def address(host: str, port: int, certificate: Certificate | None) -> str:
    """The address of a service that listens there, with a certificate or without."""
    return f"{'https' if certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def untrusted(error: Exception) -> str:
    """The problem of a client that does not trust a service's certificate; empty if the error is another one."""
    for cause in (error, getattr(error, "reason", None)):  # urllib has it in a reason
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate is not trusted here ({cause.verify_message})"
            return f"{why}; SSL_CERT_FILE may name a file with the certificate of its authority"
    return ""
