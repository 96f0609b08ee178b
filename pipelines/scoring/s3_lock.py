"""The lock of a job in S3, the object _lock: its writer's name, written again every few seconds.

An object outlives the process that wrote it, so a lock that was not written for LEASE_SECONDS may be taken. All is by
conditional writes (If-None-Match, If-Match) and by the clock of S3; no clock of a machine decides anything.
"""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipelines.core.errors import BeingWrittenError, InputError
from pipelines.core.progress import say
from pipelines.core.s3_objects import Objects, ObjectState

LEASE_SECONDS = 30
BEATS = 4  # in the time of a lease
FREE = b""  # the content of a lock that nobody holds


class Lock:
    """The lock at a key of a bucket, for one process."""

    def __init__(self, objects: Objects, key: str, folder: str) -> None:
        self.objects, self.key, self.folder = objects, key, folder
        self.owner, self._beats = uuid.uuid4().hex.encode(), 0
        self._state: ObjectState | None = None
        self._ended = threading.Event()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the lock during the block. Raises InputError while another process holds it."""
        self._take()
        beating = threading.Thread(target=self._beat, daemon=True)
        beating.start()
        try:
            yield
        finally:
            self._ended.set()
            beating.join()
            with suppress(InputError):  # S3 does not answer; the lock ends by itself
                self._write(FREE)

    def require(self) -> None:
        """Raise InputError if another process has taken the lock, because this one did not write it for too long."""
        content = self.objects.read(self.key)
        if not content or not content[0].startswith(self.owner):
            raise InputError(f"{self.folder}: another process has taken its job over; this one ends")

    def is_held(self) -> bool:
        """Return whether a process holds the lock, as far as S3 knows."""
        content = self.objects.read(self.key)
        return content is not None and content[0] != FREE and content[1].age_seconds <= LEASE_SECONDS

    def _take(self) -> None:
        """Wait until the lock is free, or its writer is late."""
        first = ""
        while True:
            content = self.objects.read(self.key)
            if not content or content[0] == FREE or content[1].age_seconds > LEASE_SECONDS:
                self._state = content[1] if content else None
                if self._write(self._mark()):
                    return
                continue
            if first and content[1].etag != first:
                raise BeingWrittenError(self.folder)
            if not first:
                first = content[1].etag
                say(f"{self.folder}: another process had its lock; it is taken if {LEASE_SECONDS} s pass without it")
            time.sleep(LEASE_SECONDS / BEATS / 2)

    def _beat(self) -> None:
        while not self._ended.wait(LEASE_SECONDS / BEATS):
            with suppress(InputError):  # S3 does not answer; whoever publishes looks for itself
                self._write(self._mark())

    def _mark(self) -> bytes:
        """The owner's name, in a content that was never written before, so that each writing has another ETag."""
        self._beats += 1
        return self.owner + b" %d" % self._beats

    def _write(self, content: bytes) -> bool:
        """Write the lock; False if another process has written it since this one did."""
        etag = self.objects.put(self.key, content, "", self._state)
        if etag:
            self._state = ObjectState(etag, "", 0.0)
            return True
        now = self.objects.read(self.key)
        if now and now[0] == content:  # it was written, and the answer was lost
            self._state = now[1]
            return True
        return False
