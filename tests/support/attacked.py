"""A running service under attack, its protocols, and answers read from sockets."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from flows.local.http_service import wait_for
from pipelines.core.ports import free_port
from tests.support import compressed, forked, raw_http, tiny
from tests.support.raw_http import Answer

SECRET = "秘密の文"
TENSOR = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [SECRET]}


class Protocol(NamedTuple):
    path: str
    body: dict[str, Any]
    invalid: int  # the status of an invalid request
    shape: Callable[[Any], str]  # the sentence of an error, taken out of exactly its shape


def error_of(*keys: str) -> Callable[[Any], str]:
    """A function that returns the last of exactly these keys of an error's body."""

    def sentence(body: Any) -> str:
        assert list(body) == list(keys)
        return body[keys[-1]]

    return sentence


def openai(body: Any) -> str:
    assert list(body["error"]) == ["message", "type", "param", "code"]
    return body["error"]["message"]


PROTOCOLS = {
    "plain": Protocol("/predict/single", {"rows": [{"text": SECRET}]}, 422, error_of("detail")),
    "Hugging Face": Protocol("/hf/single", {"inputs": SECRET}, 422, error_of("error")),
    "MLflow": Protocol(
        "/invocations/single", {"dataframe_records": [{"text": SECRET}]}, 400, error_of("error_code", "message")
    ),
    "v2": Protocol("/v2/models/single/infer", {"inputs": [TENSOR]}, 400, error_of("error")),
    "OpenAI": Protocol("/v1/embeddings", {"input": SECRET, "model": "encoder"}, 422, openai),
}


class Service:
    """The command `bertline serve` in a process of its own."""

    def __init__(self, process: forked.Forked, port: int) -> None:
        self.process, self.port, self.address = process, port, f"http://127.0.0.1:{port}"
        self.memory = psutil.Process(process.pid).memory_info
        self.first = self.answers()

    def answers(self) -> dict[str, Answer]:
        """The answers to a right request of each protocol, but for their headers."""
        answers = {}
        for name, protocol in PROTOCOLS.items():
            answer = raw_http.post(self.address, protocol.path, raw_http.encoded(protocol.body))
            assert answer.status == 200, answer
            answers[name] = answer._replace(headers={})
        return answers

    def connect(self, stack: ExitStack) -> socket.socket:
        return stack.enter_context(socket.create_connection(("127.0.0.1", self.port), 60))

    def exchange(self, *parts: bytes) -> Answer | None:
        """Send bytes; returns the first answer, or None if the connection was closed without one."""
        with ExitStack() as stack:
            line = self.connect(stack)
            with suppress(OSError):
                for part in parts:
                    line.sendall(part)
            return read(line)


def read(line: socket.socket) -> Answer | None:
    """One answer with a Content-Length from a connection."""
    text = b""
    with suppress(OSError):
        while b"\r\n\r\n" not in text and (part := line.recv(65536)):
            text += part
    if b"\r\n\r\n" not in text:
        return None
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    with suppress(OSError):
        while len(body) < int(headers["content-length"]) and (part := line.recv(65536)):
            body += part
    return Answer(int(first.split()[1]), headers, body)


@contextmanager
def running(place: Path) -> Iterator[Service]:
    """A service with the models `single` and `encoder`, made in a folder."""
    port = free_port()
    single = compressed.teacher("bert", "single", place / "single")
    encoder = tiny.encoder(place / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BERTLINE_QUIET", raising=False)
        words = ["serve", f"single={single}", f"encoder={encoder}", "--port", str(port), "--log-format", "json"]
        with forked.started("flows.cli", *words) as process:
            process.until(lambda: "Ctrl-C" in process.printed())
            wait_for(f"http://127.0.0.1:{port}/health", 60)
            yield Service(process, port)


def check_unharmed(service: Service) -> None:
    """Check that it gives the same bits as before, and that its log has no text and no trace of an error."""
    assert service.answers() == service.first
    assert service.process.poll() is None
    log = service.process.said()
    assert SECRET not in log
    assert "Traceback" not in log
    assert "a request failed" not in log


def check(protocol: Protocol, answer: Answer | None, *statuses: int) -> None:
    """An answer has one of the statuses, and one sentence in the protocol's shape, without a text of the request."""
    assert answer
    assert answer.status in statuses, answer
    sentence = protocol.shape(answer.json())
    assert 0 < len(sentence) < 300
    assert "\n" not in sentence
    assert SECRET not in sentence
