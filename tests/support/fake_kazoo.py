"""A stand-in for a KazooClient, for what sends requests: keeps what is sent, and the test gives the answers."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent


class FakeClock:
    """Time that moves when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class FakeWakeUp:
    """The socket that wakes kazoo's connection thread: counts, and may be full."""

    def __init__(self) -> None:
        self.count = 0
        self.is_full = False

    def send(self, data: bytes, flags: int = 0) -> int:
        if self.is_full and flags:
            raise BlockingIOError
        self.count += 1
        return len(data)


class FakeKazoo:
    """
    Only what `zkcoord._session.kazoo_private` reads of a client.

    `queue` holds (request, sink) as kazoo's own does; `take` moves the oldest to `pending`, as the connection thread
    does when it writes it; answers go to what is pending, or waiting to be written, in order.
    """

    def __init__(self, chroot: str = "") -> None:
        self.chroot = chroot
        self.wake_up = FakeWakeUp()
        self._queue: deque[tuple[Any, Any]] = deque()
        self._live = threading.Event()
        self._live.set()
        self._data_watchers: dict[str, set[Any]] = {}
        self._connection = SimpleNamespace(_write_sock=self.wake_up, _socket=None)
        self.pending: deque[tuple[Any, Any]] = deque()

    @property
    def sent(self) -> list[Any]:
        """The requests without an answer, oldest first."""
        return [request for request, _ in (*self.pending, *self._queue)]

    def take(self) -> None:
        """Write the oldest request that waits for it."""
        self.pending.append(self._queue.popleft())

    def answer(self, value: Any = None) -> Any:
        """Answer the oldest request, or refuse it if `value` is an error; returns the request."""
        if not self.pending:
            self.take()
        request, sink = self.pending.popleft()
        if isinstance(value, BaseException):
            sink.set_exception(value)
            return request
        if isinstance(request, GetData) and request.watcher is not None:
            self._data_watchers.setdefault(request.path, set()).add(request.watcher)
        sink.set(value)
        return request

    def fire(self, path: str, is_deleted: bool) -> None:
        """Deliver a watch event."""
        kind = EventType.DELETED if is_deleted else EventType.CHANGED
        for watcher in self._data_watchers.pop(path, set()):
            watcher(WatchedEvent(kind, KeeperState.CONNECTED, path))

    def lose_pending(self) -> None:
        """What kazoo does first when a connection breaks."""
        self._live.clear()
        while self.pending or self._queue:
            self.answer(ConnectionLoss())

    def reconnected(self) -> None:
        """What kazoo does before it tells anybody of a new connection."""
        self._live.set()
