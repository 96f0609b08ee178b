"""A server of this machine that answers its paths of health alone, as `bertline serve` or another program would."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from tests.support import certificates

OURS = {"/health": b'{"status":"ok"}', "/v2/health/live": b'{"live":true}'}


@contextmanager
def answered(body: bytes | None = None, certificate_folder: Path | None = None) -> Iterator[int]:
    """The port of such a server, with TLS if a folder for its certificate is named."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in OURS else 404)
            self.end_headers()
            self.wfile.write(OURS.get(self.path, b"") if body is None else body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate_folder:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificates.written(certificate_folder))
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
