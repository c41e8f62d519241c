"""
An ensemble in virtual time: the real engine behind servers with delayed copies.

`Quorum` is the leader with its majority: it alone orders writes, and tracks sessions. Clients talk to a `Server`, which
answers reads and pings from its own copy, forwards writes, syncs and connects, and tells the quorum every half tick
which sessions it has heard from; only that, and a connect, touches a session. All of that travels on one stream in
each direction, which may stall or break: then the server goes on answering reads for a while, as a real follower does.

Source: ZooKeeper 3.8, ``Learner``, ``LearnerHandler``, ``FollowerZooKeeperServer``, ``CommitProcessor``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from tests.support.simulated.virtual import Scheduler, Stream
from zkcoord.server.codes import NOTIFICATION_XID, Code, Op, OperationError
from zkcoord.server.engine import Connection, ServerEngine, Settings
from zkcoord.server.outputs import Output
from zkcoord.server.prepare import WRITES
from zkcoord.server.records import NullablePathRequest, PathResponse, PathVersionRequest, WatcherEvent
from zkcoord.server.replica import Reading, Replica, write_record
from zkcoord.server.requests import Record, Request, encode_reply
from zkcoord.server.transactions import EndSession, OpenSession, Result, Transaction

#: A follower that has not heard from its leader for so many ticks gives up and closes its clients' connections.
SYNC_LIMIT_TICKS = 5

#: Ctimes are on a clock that began with the Unix epoch.
EPOCH_S = 1_700_000_000.0


class Peer(Protocol):
    """The client's end of a connection. Everything arrives in order."""

    def accepted(self, session: int, timeout_ms: int, password: bytes) -> None: ...

    def received(self, frame: bytes) -> None: ...

    def closed(self) -> None: ...


class Wire:
    """One client connection to one server, from the server's side."""

    def __init__(self, server: Server, number: int, peer: Peer, random: Random) -> None:
        self.server = server
        self.peer = peer
        self.link = Connection(number, "10.0.0.1", 0)
        self.up = Stream(server.scheduler, random)
        self.down = Stream(server.scheduler, random)
        self.is_open = True
        #: Requests that must wait for a write before them, and the writes themselves as their xid.
        self.queue: deque[int | Request] = deque()
        self.answers: dict[int, tuple[int, int, Record | None]] = {}

    def reply(self, xid: int, error: int, record: Record | None) -> None:
        self.send(xid, self.server.replica.tree.last_zxid, error, record)

    def send(self, xid: int, zxid: int, error: int, record: Record | None) -> None:
        payload = encode_reply(xid, zxid, error, record)
        self.down.send(lambda: self.peer.received(payload))


class Server:
    """One server that clients connect to."""

    def __init__(self, quorum: Quorum, name: str, random: Random) -> None:
        self.scheduler = quorum.scheduler
        self.name = name
        self.replica = Replica()
        self.up = Stream(self.scheduler, random)
        self.down = Stream(self.scheduler, random)
        self.wires: dict[int, Wire] = {}
        self.is_serving = True
        self.is_deserted = False
        self._quorum = quorum
        self._random = random
        self._heard: set[int] = set()
        self._phase = random.uniform(0.0, quorum.tick_s / 2)
        self._is_reporting = False
        self._outage = 0

    # --- clients

    def open(self, peer: Peer, random: Random) -> Wire | None:
        """Accept a connection; None when the server does not serve."""
        if not self.is_serving:
            return None
        wire = Wire(self, self._quorum.next_number(), peer, random)
        self.wires[wire.link.number] = wire
        return wire

    def connect(
        self, wire: Wire, last_zxid: int, timeout_ms: int, session: int, password: bytes | None
    ) -> None:
        """A Connect has arrived."""
        if not wire.is_open:
            return
        if last_zxid > self.replica.tree.last_zxid:
            self.drop(wire)
            return
        if self.is_deserted:
            if session:  # as far as it knows, all is well
                self.accept(wire, session, timeout_ms, password or b"")
            return
        self._forward(lambda: self._quorum.connect(self, wire, timeout_ms, session, password))

    def accept(self, wire: Wire, session: int, timeout_ms: int, password: bytes) -> None:
        """The quorum has answered a Connect; session 0 says that it is gone."""
        if wire.is_open:
            wire.link.session_id, wire.link.timeout_ms = session, timeout_ms
            wire.down.send(lambda: wire.peer.accepted(session, timeout_ms, password))
            if not session:
                self.drop(wire)

    def receive(self, wire: Wire, request: Request) -> None:
        """A request has arrived."""
        if not wire.is_open:
            return
        self._hear(wire.link.session_id)
        if self.is_deserted and request.op == Op.SYNC and not wire.queue:
            wire.reply(request.xid, Code.OK, PathResponse("/"))
            return
        if request.op in WRITES or request.op in (Op.CLOSE_SESSION, Op.SYNC):
            wire.queue.append(request.xid)
            self._forward(lambda: self._quorum.receive(self, wire, request))
        elif wire.queue:
            wire.queue.append(request)
        else:
            self._read(wire, request)

    def drop(self, wire: Wire) -> None:
        """Close a connection, after what was sent on it."""
        if wire.is_open:
            wire.is_open = False
            del self.wires[wire.link.number]
            self.replica.watches.remove_watcher(wire.link.number)
            wire.down.send(wire.peer.closed)

    def hang_up(self, wire: Wire) -> None:
        """The client has closed a connection; what is on its way is lost."""
        wire.up.cut()
        wire.down.cut()
        if wire.is_open:
            wire.is_open = False
            del self.wires[wire.link.number]
            self.replica.watches.remove_watcher(wire.link.number)

    def _read(self, wire: Wire, request: Request) -> None:
        reading = Reading(wire.link.number, wire.link.session_id, wire.link.auth)
        try:
            record, error = self.replica.read(request.op, request.body, reading), int(Code.OK)
        except OperationError as failure:
            record, error = None, failure.code
        wire.reply(request.xid, error, record)

    # --- the quorum

    def _forward(self, act: Callable[[], object]) -> None:
        if not self.is_deserted:
            self.up.send(act)

    def _hear(self, session: int) -> None:
        self._heard.add(session)
        if not self._is_reporting:
            self._is_reporting = True
            half = self._quorum.tick_s / 2
            beats = (self.scheduler.now - self._phase) // half + 1
            self.scheduler.at(self._phase + beats * half, self._report)

    def _report(self) -> None:
        """The answer to the leader's ping."""
        heard, self._heard, self._is_reporting = self._heard, set(), False
        self._forward(lambda: self._quorum.touch(heard))

    def apply(self, transaction: Transaction, asker: tuple[Wire, int] | None) -> None:
        """The next commit has arrived; out of its turn only while, or right after, this server was away."""
        if self.is_deserted or transaction.zxid != self.replica.tree.last_zxid + 1:
            return
        result, events = self.replica.apply(transaction)
        for watcher, type_, path, _ in events:
            self.wires[watcher].send(NOTIFICATION_XID, -1, 0, WatcherEvent(type_, 3, path))
        if asker is not None:
            wire, xid = asker
            self.answer(wire, xid, transaction.zxid, result.error, write_record(result))
        if isinstance(transaction.change, EndSession):
            for wire in list(self.wires.values()):
                if wire.link.session_id == transaction.session:
                    self.drop(wire)

    def answer(self, wire: Wire, xid: int, zxid: int, error: int, record: Record | None) -> None:
        """Answer a write or sync, and the reads that had to wait for it."""
        if not wire.is_open:
            return
        wire.answers[xid] = zxid, error, record
        while wire.queue:
            head = wire.queue[0]
            if isinstance(head, Request):
                self._read(wire, head)
            elif head in wire.answers:
                wire.send(head, *wire.answers.pop(head))
            else:
                return
            wire.queue.popleft()

    # --- faults

    def cut_off(self, length_s: float) -> None:
        """Stall the link to the leader; past the sync limit the server gives up until the link is back."""
        until = self.scheduler.now + length_s
        self.up.stall(until)
        self.down.stall(until)
        limit_s = SYNC_LIMIT_TICKS * self._quorum.tick_s
        if length_s > limit_s:
            self.scheduler.after(limit_s, lambda: self.stop(until))

    def desert(self, until: float) -> None:
        """
        It was the leader, and the others have elected a new one without it.

        Until the sync limit it takes sessions back, answers reads and syncs, and commits nothing.
        """
        self._outage += 1
        outage = self._outage
        self.up.cut()
        self.down.cut()
        self.is_deserted = True

        def find_out() -> None:
            if outage == self._outage:
                self.stop(until)

        self.scheduler.after(SYNC_LIMIT_TICKS * self._quorum.tick_s, find_out)

    def stop(self, until: float) -> None:
        """Close all connections and serve nobody until then; what was on its way to or from the leader is lost."""
        self._outage += 1
        outage = self._outage
        self.is_serving = self.is_deserted = False
        self.up.cut()
        self.down.cut()
        self._heard.clear()
        for wire in list(self.wires.values()):
            self.drop(wire)

        def resume() -> None:
            if outage == self._outage:
                self.is_serving = True
                for transaction in self._quorum.log[self.replica.tree.last_zxid :]:
                    self.apply(transaction, None)

        self.scheduler.at(until, resume)


class _Leader(ServerEngine):
    """The engine, and a list of what it has committed."""

    log: list[Transaction]

    def commit(self, transaction: Transaction) -> tuple[Result, list[Output]]:
        self.log.append(transaction)
        return super().commit(transaction)


class Quorum:
    """
    The leader and its majority.

    Args:
        scheduler: the time.
        tick_s: tickTime.
        servers: how many clients may connect to.
        random: decides on delays.
    """

    def __init__(self, scheduler: Scheduler, tick_s: float, servers: int, random: Random) -> None:
        self.scheduler = scheduler
        self.tick_s = tick_s
        self._offset = random.uniform(0.0, tick_s)  # where in a tick the clock begins
        settings = Settings(tick_time=tick_s, container_check_interval=6 * tick_s)
        self.engine = _Leader(self._clock(), settings, first_session_id=1, secret=b"secret")
        self.engine.log = []
        self._sent = 0
        self._numbers = 0
        self._due: float | None = None
        self.servers = [Server(self, f"server-{i}", Random(random.random())) for i in range(servers)]

    @property
    def log(self) -> list[Transaction]:
        """Every transaction, the one of zxid n at n - 1."""
        return self.engine.log

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _clock(self) -> float:
        return EPOCH_S + self._offset + self.scheduler.now

    def _commit(self, transaction: Transaction) -> None:
        self.engine.commit(transaction)

    def _spread(self, server: Server | None = None, asker: tuple[Wire, int] | None = None) -> None:
        """Send new commits to everybody; whoever forwarded the newest is told who asked."""
        log, first = self.engine.log, self._sent
        self._sent = len(log)
        for transaction in log[first:]:
            is_newest = transaction is log[-1]
            for each in self.servers:
                whose = asker if is_newest and each is server else None
                each.down.send(
                    lambda each=each, transaction=transaction, whose=whose: each.apply(transaction, whose)
                )
        self._plan_tick()

    def _plan_tick(self) -> None:
        due = self.engine.next_deadline()
        if due is not None and (self._due is None or due < self._due):
            self._due = due
            self.scheduler.at(due - EPOCH_S - self._offset + 1e-4, lambda: self._tick(due))

    def _tick(self, due: float) -> None:
        if due == self._due:
            self._due = None
            self.engine.tick(self._clock())
            self._spread()

    # --- what servers forward

    def connect(
        self, server: Server, wire: Wire, timeout_ms: int, session: int, password: bytes | None
    ) -> None:
        """Open a session, or let one move here."""
        sessions, settings = self.engine.sessions, self.engine.settings
        timeout_ms = min(settings.max_timeout_ms, max(settings.min_timeout_ms, timeout_ms))
        now_ms = int(self._clock() * 1000)
        if session == 0:
            session = sessions.take_id()
            sessions.open(session, timeout_ms, server.name, now_ms)
            self._commit(self._transaction(session, OpenSession(timeout_ms)))
            self._spread()
        elif sessions.is_password(session, password) and sessions.touch(session, timeout_ms, now_ms):
            sessions.move(session, server.name)
        else:
            session = timeout_ms = 0
        self._plan_tick()
        secret = sessions.password(session)
        server.down.send(lambda: server.accept(wire, session, timeout_ms, secret))

    def receive(self, server: Server, wire: Wire, request: Request) -> None:
        """Order a write, or answer a sync."""
        session = wire.link.session_id
        try:
            self.engine.sessions.check(session, server.name)
        except OperationError:
            server.down.send(lambda: server.drop(wire))
            return
        if request.op == Op.SYNC:
            body = request.body
            record = PathResponse(body.path) if isinstance(body, NullablePathRequest) else None
            zxid = len(self.log)
            server.down.send(lambda: server.answer(wire, request.xid, zxid, Code.OK, record))
            return
        self._commit(self.engine.propose(wire.link, request, self._clock()))
        if request.op == Op.CLOSE_SESSION:
            self.engine.sessions.end(session)
        self._spread(server, (wire, request.xid))

    def touch(self, heard: set[int]) -> None:
        """A server has heard from these sessions."""
        now_ms = int(self._clock() * 1000)
        for session in heard:
            known = self.engine.sessions.sessions.get(session)
            if known is not None:
                self.engine.sessions.touch(session, known.timeout_ms, now_ms)

    def _transaction(self, session: int, change: OpenSession | EndSession) -> Transaction:
        return Transaction(len(self.log) + 1, session, int(self._clock() * 1000), change)

    # --- faults

    def end_session(self, session: int) -> None:
        """End a session from outside, at once."""
        self.engine.expire(session, self._clock())
        self._spread()

    def delete(self, path: str) -> bool:
        """An operator deletes a node; False when there is none."""
        node = self.engine.replica.tree.find(path)
        if node is None or node.children:
            return False
        request = Request(1, Op.DELETE, PathVersionRequest(path, -1))
        self._commit(self.engine.propose(Connection(0, "10.0.0.9", 0), request, self._clock()))
        self._spread()
        return True

    def elect(self, length_s: float, deserted: Server | None = None) -> None:
        """
        The leader is lost: nobody serves for a while, and its successor gives every session its whole time.

        Args:
            length_s: how long it takes.
            deserted: that was the leader, and does not know of it.
        """
        until = self.scheduler.now + length_s
        for server in self.servers:
            if server is not deserted:
                server.stop(until)
        self._due = float("-inf")  # nothing expires meanwhile

        def serve() -> None:
            self._due = None
            self.touch(set(self.engine.sessions.sessions))
            self._plan_tick()

        self.scheduler.at(until - 1e-6, serve)

    def paths(self) -> list[str]:
        """All nodes, for checks."""
        found, stack = [], ["/"]
        while stack:
            path = stack.pop()
            node = self.engine.replica.tree.find(path)
            for name in (node.children or ()) if node else ():
                child = f"{path.rstrip('/')}/{name}"
                found.append(child)
                stack.append(child)
        return found

    def watched(self) -> list[str]:
        """Paths that anybody watches, for checks."""
        return [path for server in self.servers for path in server.replica.watches.data.by_path]
