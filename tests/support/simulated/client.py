"""
A client process in virtual time: the real session, guard, janitor and runner on a stand-in for kazoo.

`SimulatedKazoo` is what `zkcoord._session.kazoo_private` sees of a KazooClient. It serialises requests and answers with
kazoo's own code, connects to servers of a `followers.Quorum`, and comes back after a broken connection as kazoo does.
A process may be paused: then nothing of it runs, while its clock goes on.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import EXCEPTIONS, ConnectionLoss
from kazoo.protocol.serialization import Exists, GetData
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent

from tests.support.simulated.followers import Quorum, Wire
from tests.support.simulated.virtual import Scheduler
from zkcoord._session.session import Session
from zkcoord.server.requests import decode_request

_LONG_HEADER = struct.Struct(">iqi")
_PING_XID = -2


class Process:
    """
    One process: its clock, and whether it runs.

    Args:
        scheduler: the true time.
        drift: by how much its clock is faster; 0.001 is a millisecond in a second.
        offset_s: what its clock shows at the beginning.
    """

    def __init__(self, scheduler: Scheduler, drift: float, offset_s: float) -> None:
        self.scheduler = scheduler
        self._rate = 1.0 + drift
        self._offset_s = offset_s
        self._paused_until = 0.0
        self._held_back: deque[Callable[[], object]] = deque()

    def clock(self) -> float:
        """What its clock shows now; it goes on while the process is paused."""
        return self._offset_s + self.scheduler.now * self._rate

    def true_time(self, local: float) -> float:
        """When its clock shows this."""
        return (local - self._offset_s) / self._rate

    def run(self, act: Callable[[], object]) -> None:
        """Do something in this process: now, or when it is no longer paused, in order."""
        if self._held_back or self.scheduler.now < self._paused_until:
            self._held_back.append(act)
        else:
            act()

    def after(self, delay_s: float, act: Callable[[], object]) -> None:
        """Do something in this process later."""
        self.scheduler.after(delay_s, lambda: self.run(act))

    def pause(self, length_s: float) -> None:
        """Let nothing run for a while."""
        self._paused_until = max(self._paused_until, self.scheduler.now + length_s)
        self.scheduler.at(self._paused_until, self._resume)

    def _resume(self) -> None:
        while self._held_back and self.scheduler.now >= self._paused_until:
            self._held_back.popleft()()


class SimulatedSession(Session):
    """The real session, whose guard's thread is the scheduler."""

    process: Process

    def _start_thread(self) -> None:
        self._kick()

    def _kick(self) -> None:
        self.plan(self._now())

    def plan(self, local: float) -> None:
        """Have the guard look at that moment, unless it is to look earlier."""
        planned = getattr(self, "_planned", None)
        if planned is not None and planned <= local:
            return
        self._planned: float | None = local

        def turn() -> None:
            if self._planned == local:
                self._planned = None
                self.plan(max(self.turn(), self._now() + 1e-4))

        self.process.scheduler.at(self.process.true_time(local), lambda: self.process.run(turn))


class SimulatedKazoo:
    """
    A client.

    Args:
        process: whose.
        quorum: what it connects to.
        timeout_s: the session time it asks for.
        random: decides on servers, delays and back-off.
    """

    def __init__(self, process: Process, quorum: Quorum, timeout_s: float, random: Random) -> None:
        self.process = process
        self.quorum = quorum
        self.chroot = ""
        self._random = random
        self._timeout_s = timeout_s
        self._queue: deque[tuple[Any, Any]] = deque()
        self._live = threading.Event()
        self._stopped = threading.Event()
        self._data_watchers: dict[str, set[Any]] = {}
        self._session_id: int | None = None
        self._password: bytes | None = None
        self._state = KeeperState.CLOSED
        self._pending: deque[tuple[int, Any, Any]] = deque()
        self._listeners: list[Callable[[str], object]] = []
        self._xid = 0
        self._last_zxid = 0
        self._wire: Wire | None = None
        self._is_pumping = False
        self._tries = 0
        self.on_connected: Callable[[], object] = lambda: None
        self._connection = SimpleNamespace(
            _write_sock=self, _socket=None, _connect=lambda *host: (0.0, 0.0), _connection_routine=None
        )
        self.handler = SimpleNamespace(_workers=())
        self.session = SimulatedSession.__new__(SimulatedSession)
        self.session.process = process
        SimulatedSession.__init__(self.session, self, "simulated", now=process.clock)  # type: ignore[arg-type]
        self._connect()

    # --- what zkcoord calls

    def add_listener(self, listener: Callable[[str], object]) -> None:
        self._listeners.append(listener)

    def send(self, data: bytes, flags: int = 0) -> int:
        """The byte that wakes the connection thread."""
        if not self._is_pumping:
            self._is_pumping = True
            self.process.after(1e-5, self._pump)
        return len(data)

    def drop(self) -> None:
        """The guard has found the server silent."""
        if self._wire is not None:
            self.process.after(0.0, self._disconnected)

    @property
    def server(self) -> Any:
        """The server it is connected to, or None."""
        return self._wire.server if self._wire is not None else None

    # --- connecting

    def _connect(self) -> None:
        self._tries += 1
        tried = self._tries
        server = self._random.choice(self.quorum.servers)
        sent = self.process.clock()
        wire = server.open(_End(self, sent), self._random)
        if wire is None:
            self.process.after(self._backoff_s(), self._connect)
            return
        self._wire = wire
        wire.peer.wire = wire
        session, password = self._session_id or 0, self._password
        last_zxid = self._last_zxid
        wire.up.send(lambda: server.connect(wire, last_zxid, int(self._timeout_s * 1000), session, password))

        def give_up() -> None:
            if tried == self._tries and not self._live.is_set() and self._wire is wire:
                self._disconnected()

        self.process.after(max(0.5, self._timeout_s / 8), give_up)

    def _backoff_s(self) -> float:
        return self._random.uniform(0.01, min(1.0, self._timeout_s / 20))

    def accepted(self, sent: float, session: int, timeout_ms: int, password: bytes) -> None:
        if not session:
            self._session_id = self._password = None
            self._state = KeeperState.EXPIRED_SESSION
            self._tell(KazooState.LOST)
            return  # and the server hangs up
        self._session_id, self._password = session, password
        self._state = KeeperState.CONNECTED
        self._live.set()
        self.session._on_connect(sent, timeout_ms / 1000)
        self.send(b"\0")
        self.on_connected()

    def _tell(self, state: str) -> None:
        for listener in tuple(self._listeners):
            listener(state)

    def disconnected(self, wire: Wire) -> None:
        """The server has closed a connection."""
        if wire is self._wire:
            self._disconnected()

    def _disconnected(self) -> None:
        wire, self._wire = self._wire, None
        if wire is None:
            return
        wire.server.hang_up(wire)
        was_live = self._live.is_set()
        self._live.clear()
        lost = [sink for _, _, sink in self._pending] + [sink for _, sink in self._queue]
        self._pending.clear()
        self._queue.clear()
        for sink in lost:
            sink.set_exception(ConnectionLoss())
        self._data_watchers.clear()
        if was_live:
            self._state = KeeperState.CONNECTING
            self._tell(KazooState.SUSPENDED)
        self.process.after(self._backoff_s(), self._connect)

    # --- requests

    def _pump(self) -> None:
        self._is_pumping = False
        wire = self._wire
        if wire is None or not self._live.is_set():
            return
        while self._queue:
            request, sink = self._queue.popleft()
            self._xid += 1
            self._pending.append((self._xid, request, sink))
            payload = struct.pack(">ii", self._xid, request.type) + bytes(request.serialize())
            decoded = decode_request(payload)
            wire.up.send(lambda decoded=decoded: wire.server.receive(wire, decoded))

    def received(self, frame: bytes) -> None:
        xid, zxid, code = _LONG_HEADER.unpack_from(frame, 4)
        body = frame[20:]
        if xid == -1:
            self._notified(body)
            return
        if zxid > 0:
            self._last_zxid = zxid
        sent_xid, request, sink = self._pending.popleft()
        assert sent_xid == xid
        if code and not (isinstance(request, Exists) and code == -101):
            sink.set_exception(EXCEPTIONS[code]())
            return
        value = None if code else request.deserialize(body, 0)
        if isinstance(request, GetData) and request.watcher is not None:
            self._data_watchers.setdefault(request.path, set()).add(request.watcher)
        sink.set(value)

    def _notified(self, body: bytes) -> None:
        kind, _, length = struct.unpack_from(">iii", body)
        path = body[12 : 12 + length].decode()
        event = WatchedEvent({2: EventType.DELETED, 3: EventType.CHANGED}.get(kind, "other"), "", path)
        # kazoo tells watchers on another thread than that of the answers.
        for watcher in self._data_watchers.pop(path, ()):
            self.process.after(self._random.choice((0.0, 0.0, 0.002)), lambda watcher=watcher: watcher(event))


class _End:
    """Our end of one connection."""

    wire: Wire

    def __init__(self, client: SimulatedKazoo, sent: float) -> None:
        self._client = client
        self._sent = sent

    def accepted(self, session: int, timeout_ms: int, password: bytes) -> None:
        self._run(lambda: self._client.accepted(self._sent, session, timeout_ms, password))

    def received(self, frame: bytes) -> None:
        self._run(lambda: self._client.received(frame))

    def closed(self) -> None:
        self._run(lambda: self._client.disconnected(self.wire))

    def _run(self, act: Callable[[], object]) -> None:
        def guarded() -> None:
            if self._client._wire is self.wire:
                act()

        self._client.process.run(guarded)
