"""The service behind TLS: its certificate's files, its clients, and what is refused before anything starts."""

import asyncio
import http.client
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from flows.local import http_service, reachable
from flows.local.http_service import Settings
from pipelines.core.errors import InputError, UsageError
from pipelines.core.ports import free_port
from pipelines.lifecycle.service_watch import Client, Service, ServiceProbe
from pipelines.serving import connections, deployment, haproxy, ray_proxy
from pipelines.serving.certificates import Certificate
from pipelines.serving.model_sources import Source
from pipelines.tracking.registry import Version
from tests.support import certificates, commands, proxied, tiny

BODY = '{"rows": [{"text": "犬"}]}'.encode()
UNTRUSTED = "its certificate is not trusted here (self-signed certificate)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.classifier(tmp_path_factory.mktemp("tls") / "model")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return certificates.written(tmp_path / "tls")


@pytest.fixture
def address(folder: Path, files: tuple[Path, Path]) -> Iterator[str]:
    settings = Settings(certificate=Certificate(*files), origins=("https://www.example.com",))
    with http_service.serving({"tiny": Source("tiny", folder=folder)}, settings) as address:
        yield address


@contextmanager
def connected(address: str, trusted: Path) -> Iterator[http.client.HTTPSConnection]:
    """A connection after its handshake, to a service whose certificate is `trusted`."""
    context = ssl.create_default_context(cafile=trusted)
    connection = http.client.HTTPSConnection(urlsplit(address).netloc, timeout=30, context=context)
    with closing(connection):
        connection.connect()
        yield connection


def answered(connection: http.client.HTTPSConnection) -> http.client.HTTPResponse:
    connection.request("POST", "/predict/tiny", BODY, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer


def serial(connection: http.client.HTTPSConnection) -> bytes:
    """The certificate that the service sent."""
    assert isinstance(connection.sock, ssl.SSLSocket)
    sent = connection.sock.getpeercert(binary_form=True)
    assert sent
    return sent


def test_it_answers_by_https_alone_and_a_renewed_certificate_serves_new_connections(
    address: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    assert address.startswith("https://127.0.0.1:")
    former = Path(shutil.copy(files[0], tmp_path / "former.pem"))
    with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port), 30) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200" not in plain.makefile("rb").read()
    with connected(address, former) as first:
        assert isinstance(first.sock, ssl.SSLSocket)
        assert first.sock.version() in ("TLSv1.2", "TLSv1.3")
        assert answered(first).status == 200
        files[0].write_text("half of a file")
        with connected(address, former) as meanwhile:
            assert answered(meanwhile).status == 200, "the former one stays meanwhile"
        certificates.written(files[0].parent)
        with connected(address, files[0]) as second:
            assert answered(second).status == answered(first).status == 200
            assert serial(second) != serial(first)


def test_a_renewed_key_is_taken_up_once_only_its_owner_may_read_it(address: str, files: tuple[Path, Path]) -> None:
    former = files[0].read_bytes()
    certificates.written(files[0].parent)
    files[1].chmod(0o644)
    trusted = files[0].with_name("former.pem")
    trusted.write_bytes(former)
    with connected(address, trusted) as meanwhile:
        assert answered(meanwhile).status == 200, "the former one stays meanwhile"
    files[1].chmod(0o600)
    with connected(address, files[0]) as renewed:
        assert answered(renewed).status == 200


def test_an_expired_certificate_is_refused_and_one_that_expires_soon_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET")
    for days, why in (((-9, -2), "the certificate has expired, on "), ((2, 9), "the certificate is valid from ")):
        with pytest.raises(InputError, match=f"certificate.pem: {why}"):
            Certificate(*certificates.written(tmp_path / "wrong", days=days))
    for days, is_named in (((-80, 10), False), ((-80, 6), True), ((-1, 5), False), ((-4, 1), True)):
        Certificate(*certificates.written(tmp_path / "right", days=days))
        assert ("certificate.pem: the certificate expires on 20" in capsys.readouterr().err) == is_named, days


def test_the_projects_own_clients_speak_it_where_they_trust_it(
    address: str, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTLINE_SERVICE", address)
    with ServiceProbe(Service(address), Version("tiny", 1, {}), []) as watch:
        assert watch.why.startswith(UNTRUSTED)
    assert reachable.served()["problem"].startswith(f"{UNTRUSTED}; SSL_CERT_FILE may name a file")
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    with Client(Service(address)) as client:
        assert client.ask("POST", "/predict/tiny", {"rows": [{"text": "犬"}]})[0] == 200
    assert reachable.served()["models"] == [{"name": "tiny", "version": 0}]
    assert http_service.ask(address, "/health") == {"status": "ok"}


def test_silent_clients_are_closed_and_idle_ones_do_not_delay_the_end(
    folder: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    settings = Settings(certificate=Certificate(*files))
    with http_service.serving({"tiny": Source("tiny", folder=folder)}, settings) as address:
        with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port), 30) as silent:
            assert silent.recv(1) == b""
        stack = ExitStack()
        assert answered(stack.enter_context(connected(address, files[0]))).status == 200
        start = time.monotonic()
    with stack:
        assert time.monotonic() - start < http_service.DRAIN_SECONDS / 2


def test_connections_without_a_handshake_keep_nobody_out(
    folder: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST", 20)
    settings = Settings(certificate=Certificate(*files))
    with http_service.serving({"tiny": Source("tiny", folder=folder)}, settings) as address, ExitStack() as stack:
        place, start = (urlsplit(address).hostname, urlsplit(address).port), time.monotonic()
        with connected(address, files[0]) as first:
            assert answered(first).status == 200
            silent = [stack.enter_context(socket.create_connection(place, 30)) for _ in range(60)]
            with connected(address, files[0]) as last:
                assert answered(last).status == 200
        for line in silent[:35]:
            line.settimeout(connections.HEAD_SECONDS / 2)
            with suppress(ConnectionResetError):
                assert line.recv(1) == b"", "the oldest made room"
        assert time.monotonic() - start < connections.HEAD_SECONDS / 2
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)


def test_a_service_whose_clients_all_wait_says_so_after_the_handshake(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST", 16)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(5)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    server = http_service.http_server(slow, Certificate(*files), lifespan="off")
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        lines = [stack.enter_context(connected(address, files[0])) for _ in range(16)]
        for line in lines:
            line.request("GET", "/")
        time.sleep(1)
        with connected(address, files[0]) as one_more:
            one_more.request("GET", "/")
            answer = one_more.getresponse()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert {line.getresponse().status for line in lines} == {204}
        server.should_exit = True
        thread.join()


def test_wrong_files_are_a_sentence_before_anything_starts(tmp_path: Path) -> None:
    file, key = certificates.written(tmp_path / "one")
    other, other_key = certificates.written(tmp_path / "other", b"passphrase")
    for names, why in (
        ((tmp_path / "no.pem", key), "no.pem: the certificate cannot be read"),
        ((key, key), "key.pem: the file holds no certificate in PEM; name one that does with --tls-certificate"),
        ((file, None), "certificate.pem: the file holds no private key in PEM; name one that does with --tls-key"),
        ((other, key), "the private key in .* belongs to another certificate"),
        ((other, other_key), r"without a passphrase: `\(umask 077; openssl pkey -in (.*key.pem) -out \1.plain\)`"),
    ):
        with pytest.raises(InputError, match=why):
            http_service.certificate(*names)
    with pytest.raises(UsageError, match="--tls-key: name the certificate too, with --tls-certificate"):
        http_service.certificate(None, key)
    key.chmod(0o644)
    ended = commands.bertline(f"serve tiny={tmp_path} --tls-certificate {tmp_path}/no.pem --tls-key {key}").require(1)
    assert "no.pem: the certificate cannot be read (No such file or directory)" in ended.err
    assert f"key.pem: other users may read the private key; run `chmod 600 {key}`" in ended.err


def test_one_file_may_hold_both(tmp_path: Path) -> None:
    file, key = certificates.written(tmp_path)
    both = tmp_path / "both.pem"
    both.touch(0o600)
    both.write_bytes(file.read_bytes() + key.read_bytes())
    assert Certificate(both).pem() == both.read_bytes()


def test_replicas_have_it_in_front_where_haproxy_is(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with ray_proxy.settings("127.0.0.1", port, Certificate(*files)), proxied.place() as place:
        config = proxied.written(place, port, [free_port()])
        with proxied.running(config, port):
            with connected(f"https://127.0.0.1:{port}", files[0]) as connection:
                answer = answered(connection)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert haproxy.BIND not in os.environ
    monkeypatch.setenv(ray_proxy.ENABLED, "0")
    why = r"--tls-certificate: Ray Serve's own proxy has no TLS, .*; leave it out, and put a proxy with TLS in front"
    with pytest.raises(UsageError, match=why), deployment.started("127.0.0.1", port, Certificate(*files)):
        pass
