"""uvicorn behind TLS, whose handshakes have limits too: in time, and in number together with all connections."""

import asyncio
import socket
import ssl

import uvicorn

from pipelines.serving import connections
from pipelines.serving.connections import Connection

CLOSE_SECONDS = 1.0  # for a client to end TLS, when the service has closed its connection
AGAIN_SECONDS = 0.1  # until it accepts again, after it could not


class EncryptedServer(uvicorn.Server):
    """uvicorn behind TLS. uvicorn itself limits neither the time for a handshake nor for the end of TLS."""

    def __init__(self, config: uvicorn.Config, context: ssl.SSLContext) -> None:
        super().__init__(config)
        self.context = context
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at the sockets, which are bound."""
        await super().startup(sockets=[])
        for listener in sockets or ():
            listener.listen(self.config.backlog)
            listener.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listener)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting:
            task.cancel()
        await super().shutdown(sockets)

    def connection(self) -> Connection:
        return Connection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # too many files are open, or the client has left
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                Handshake(self, accepted)


class Handshake:
    """A connection before the end of its handshake. It counts as one, and the oldest silent one makes room."""

    def __init__(self, server: EncryptedServer, accepted: socket.socket) -> None:
        self.state, self._accepted = server.server_state, accepted
        self._connection = server.connection()
        self._connection.opened = self._leave
        self._has_begun = False
        self.state.connections.add(self)  # type: ignore[arg-type]
        # without a place, the connection asks again after its handshake, and says so
        self._connection.has_place = connections.has_room(self.state)
        connections.waiting(self.state)[self] = None
        self._task = asyncio.create_task(self._open(server.context))
        self._task.add_done_callback(self._ended)

    def close(self) -> None:
        """Close the connection, unless its handshake has just ended."""
        if self._connection.transport is None:
            self._leave()
            self._task.cancel()

    shutdown = close  # uvicorn calls it at its end

    async def _open(self, context: ssl.SSLContext) -> None:
        self._has_begun = True
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection,
                self._accepted,
                ssl=context,
                ssl_handshake_timeout=connections.HEAD_SECONDS,
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
        except OSError:  # no TLS, a client that has left, or one that is too slow
            return

    def _leave(self) -> None:
        self.state.connections.discard(self)  # type: ignore[arg-type]
        connections.waiting(self.state).pop(self, None)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._leave()
        if not self._has_begun:
            self._accepted.close()
