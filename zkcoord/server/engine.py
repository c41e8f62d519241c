"""
The server without its sockets: requests and the time go in, replies and watch events come out.

Nothing here reads a clock, draws a random number, waits or talks to anybody, so a driver may be a socket server, or
a simulation with a clock of its own. A request passes through these stages:

    handle ──► session alive? ──► read  ──► Replica.read ─────────────────────────► Reply
                              └─► write ──► propose ──► Transaction ──► commit ───► events, then Reply

``propose`` changes nothing but the number of the next transaction; ``commit`` applies. A simulation of an ensemble
calls the two itself and gives the transaction to further replicas.

Source: ZooKeeper 3.8, ``ZooKeeperServer``, ``PrepRequestProcessor.pRequest``, ``FinalRequestProcessor``.
"""

from dataclasses import dataclass, field

from zkcoord.server.acl import authenticate, may
from zkcoord.server.codes import PING_XID, Code, Op, OperationError, Perm
from zkcoord.server.outputs import Accepted, Close, Notification, Output, Reply
from zkcoord.server.prepare import WRITES, Asker, prepare, prepare_reap
from zkcoord.server.records import AuthPacket, ConnectRequest, ConnectResponse, Id, SaslResponse
from zkcoord.server.replica import READS, Reading, Replica, write_record
from zkcoord.server.requests import Record, Request
from zkcoord.server.sessions import NO_PASSWORD, SessionTracker
from zkcoord.server.transactions import Change, EndSession, Failed, OpenSession, Result, Transaction
from zkcoord.server.watches import WatchEvent

# The real server's defaults: minSessionTimeout, maxSessionTimeout, znode.container.checkIntervalMs.
MIN_SESSION_TICKS = 2
MAX_SESSION_TICKS = 20
CONTAINER_CHECK_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What one server is told.

    Attributes:
        tick_time: seconds; session timeouts are negotiated in ticks, and sessions expire at their ends.
        min_session_timeout: seconds; default 2 ticks.
        max_session_timeout: seconds; default 20 ticks.
        container_check_interval: seconds between looks for empty containers and old TTL nodes.
        has_ttl_nodes: whether createTTL works (``extendedTypesEnabled``, off in a real server by default).
        name: tells servers of one ensemble apart, for sessions that move between them.
    """

    tick_time: float = 2.0
    min_session_timeout: float | None = None
    max_session_timeout: float | None = None
    container_check_interval: float = CONTAINER_CHECK_INTERVAL_S
    has_ttl_nodes: bool = True
    name: str = ""

    @property
    def tick_ms(self) -> int:
        return max(1, round(self.tick_time * 1000))

    @property
    def min_timeout_ms(self) -> int:
        if self.min_session_timeout is None:
            return MIN_SESSION_TICKS * self.tick_ms
        return round(self.min_session_timeout * 1000)

    @property
    def max_timeout_ms(self) -> int:
        if self.max_session_timeout is None:
            return MAX_SESSION_TICKS * self.tick_ms
        return round(self.max_session_timeout * 1000)


@dataclass(slots=True)
class Connection:
    """
    What is known of one client connection.

    Attributes:
        number: the driver's name for it; also the watcher in the watch tables.
        address: the client's, without the port.
        session_id: 0 until connected.
        timeout_ms: negotiated.
        auth: the ids it has proved.
        last_op: the latest operation, with its xid and the zxid of its reply, for four-letter words.
    """

    number: int
    address: str
    opened_ms: int
    session_id: int = 0
    timeout_ms: int = 0
    auth: list[Id] = field(default_factory=list)
    received: int = 0
    sent: int = 0
    last_op: int = 0
    last_xid: int = 0
    last_zxid: int = 0
    last_reply_ms: int = 0


class ServerEngine:
    """
    One ZooKeeper server's logic.

    Args:
        now: seconds, on a clock that never goes back and starts at the Unix epoch, since it also becomes the ctime
            and mtime of nodes. Every later ``now`` is on the same clock.
        settings: see there.
        first_session_id: sessions count up from it. Positive.
        secret: at most 64 random bytes, of which session passwords are made.

    Next: for every connection ``open``, then ``connect`` with its first frame, then ``handle`` for each request, and
    ``close`` when it is lost; ``tick`` at ``next_deadline``.
    """

    def __init__(self, now: float, settings: Settings, *, first_session_id: int, secret: bytes) -> None:
        self.settings = settings
        self.replica = Replica()
        self.sessions = SessionTracker(settings.tick_ms, first_session_id, secret)
        self.connections: dict[int, Connection] = {}
        self.started_ms = int(now * 1000)
        self.received = self.sent = 0
        self._next_check_ms = self.started_ms + int(settings.container_check_interval * 1000)
        self._by_session: dict[int, int] = {}

    # --- connections -----------------------------------------------------------------------------------------------

    def open(self, connection: int, address: str, now: float) -> None:
        """A client connected; its first frame is still to come."""
        self.connections[connection] = Connection(
            connection, address, int(now * 1000), auth=[Id("ip", address)]
        )

    def close(self, connection: int) -> None:
        """A connection was lost. Its watches are gone; its session lives on until it expires."""
        gone = self.connections.pop(connection, None)
        if gone is None:
            return
        self.replica.watches.remove_watcher(connection)
        if self._by_session.get(gone.session_id) == connection:
            del self._by_session[gone.session_id]

    def connect(self, connection: int, request: ConnectRequest, now: float) -> list[Output]:
        """Open a session, or take an existing one over from its old connection."""
        link = self.connections[connection]
        self._count(link)
        if request.last_zxid_seen > self.replica.tree.last_zxid:
            return self._drop(connection)  # we would show this client an older state than it has seen
        wanted_ms = max(self.settings.min_timeout_ms, request.timeout_ms)
        link.timeout_ms = min(self.settings.max_timeout_ms, wanted_ms)
        if request.session_id == 0:
            link.session_id = self.sessions.take_id()
            self.sessions.open(link.session_id, link.timeout_ms, self.settings.name, int(now * 1000))
            self._by_session[link.session_id] = connection
            self.commit(self._transaction(link.session_id, OpenSession(link.timeout_ms), now))
            return [self._accept(link)]
        return self._reconnect(link, request, now)

    def _reconnect(self, link: Connection, request: ConnectRequest, now: float) -> list[Output]:
        outputs: list[Output] = []
        # The old connection goes even when the password turns out to be wrong: so does the real server.
        old = self._by_session.get(request.session_id)
        if old is not None:
            outputs += self._drop(old)
        is_ours = self.sessions.is_password(request.session_id, request.password)
        if is_ours and self.sessions.touch(request.session_id, link.timeout_ms, int(now * 1000)):
            link.session_id = request.session_id
            self.sessions.move(request.session_id, self.settings.name)
            self._by_session[request.session_id] = link.number
            return [*outputs, self._accept(link)]
        refusal = Accepted(link.number, ConnectResponse(0, 0, 0, NO_PASSWORD))
        return [*outputs, refusal, *self._drop(link.number)]

    def _accept(self, link: Connection) -> Accepted:
        link.sent += 1
        self.sent += 1
        password = self.sessions.password(link.session_id)
        return Accepted(link.number, ConnectResponse(0, link.timeout_ms, link.session_id, password))

    def _drop(self, connection: int) -> list[Output]:
        self.close(connection)
        return [Close(connection)]

    # --- requests --------------------------------------------------------------------------------------------------

    def handle(self, connection: int, request: Request, now: float) -> list[Output]:
        """
        Handle one request.

        Returns:
            Events and replies, for this and for other connections, in the order in which to send them.
        """
        link = self.connections.get(connection)
        if link is None:
            return []
        self._count(link)
        link.last_op, link.last_xid = request.op, request.xid
        if request.op == Op.AUTH:
            return self._authenticate(link, request)
        if request.op == Op.SASL:
            # Without a SASL set-up the real server says "fine" with no token, and no id is gained.
            return [self._reply(link, request.xid, 0, Code.OK, SaslResponse(None))]
        is_write = request.op in WRITES or request.op == Op.CLOSE_SESSION
        if not is_write and request.op not in READS:
            refusal = self._reply(link, request.xid, -1, Code.UNIMPLEMENTED)
            return [refusal, *self._drop(connection)]
        link.last_reply_ms = int(now * 1000)
        if not self.sessions.touch(link.session_id, link.timeout_ms, link.last_reply_ms):
            return []
        try:
            self.sessions.check(link.session_id, self.settings.name)
        except OperationError:
            return self._drop(connection)  # the client must find out where its session is now
        if is_write:
            return self._write(link, request, now)
        return self._read(link, request)

    def _read(self, link: Connection, request: Request) -> list[Output]:
        reading = Reading(link.number, link.session_id, link.auth)
        try:
            record = self.replica.read(request.op, request.body, reading)
            error = Code.OK
        except OperationError as failure:
            record, error = None, failure.code
        xid = PING_XID if request.op == Op.PING else request.xid
        outputs = self._notify(reading.events)
        outputs.append(self._reply(link, xid, self.replica.tree.last_zxid, error, record))
        return outputs

    def _write(self, link: Connection, request: Request, now: float) -> list[Output]:
        transaction = self.propose(link, request, now)
        result, outputs = self.commit(transaction)
        # The real server falls over its own answer to a check outside a multi, and sends none.
        if request.op != Op.CHECK or result.error:
            record = write_record(result)
            outputs.append(self._reply(link, request.xid, transaction.zxid, result.error, record))
        if request.op == Op.CLOSE_SESSION:
            self.sessions.end(link.session_id)
            outputs += self._drop(link.number)
        return outputs

    def propose(self, link: Connection, request: Request, now: float) -> Transaction:
        """Check a write and give it a place in the total order. Next: ``commit``, before anything else is proposed."""
        if request.op == Op.CLOSE_SESSION:
            return self._transaction(link.session_id, EndSession(), now)
        if request.op == Op.CREATE_TTL and request.body is not None and not self.settings.has_ttl_nodes:
            return self._transaction(link.session_id, Failed(Code.UNIMPLEMENTED), now)
        asker = Asker(link.session_id, link.auth)
        change = prepare(self.replica.tree, request.op, request.body, asker)
        return self._transaction(link.session_id, change, now)

    def commit(self, transaction: Transaction) -> tuple[Result, list[Output]]:
        """Apply a transaction here; the outputs are watch events."""
        result, events = self.replica.apply(transaction)
        return result, self._notify(events)

    def _transaction(self, session_id: int, change: Change, now: float) -> Transaction:
        return Transaction(self.replica.tree.last_zxid + 1, session_id, int(now * 1000), change)

    def _authenticate(self, link: Connection, request: Request) -> list[Output]:
        assert isinstance(request.body, AuthPacket)
        try:
            id_ = authenticate(request.body.scheme, request.body.auth, link.address)
        except OperationError as error:
            refusal = self._reply(link, request.xid, 0, error.code)
            return [refusal, *self._drop(link.number)]
        if id_ not in link.auth:
            link.auth.append(id_)
        return [self._reply(link, request.xid, 0, Code.OK)]

    # --- time ------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Output]:
        """Expire sessions, and reap containers and TTL nodes, as far as they are due."""
        now_ms = int(now * 1000)
        outputs: list[Output] = []
        for session_id in self.sessions.due(now_ms):
            outputs += self.expire(session_id, now)
        if now_ms >= self._next_check_ms:
            interval_ms = max(1, int(self.settings.container_check_interval * 1000))
            self._next_check_ms += ((now_ms - self._next_check_ms) // interval_ms + 1) * interval_ms
            for path in list(self.replica.tree.reapable(now_ms)):
                change = prepare_reap(self.replica.tree, path)
                outputs += self.commit(self._transaction(0, change, now))[1]
        return outputs

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do next, on the clock of ``now``; None when nothing is waiting."""
        tree = self.replica.tree
        due_ms = [self.sessions.next_due_ms()]
        if tree.containers or tree.ttl_nodes:
            due_ms.append(self._next_check_ms)
        return min((due / 1000 for due in due_ms if due is not None), default=None)

    def expire(self, session_id: int, now: float) -> list[Output]:
        """End a session as if its time were up: its ephemeral nodes go, its connection is closed without a word."""
        if session_id not in self.sessions.sessions:
            return []
        self.sessions.end(session_id)
        connection = self._by_session.get(session_id)
        outputs = self.commit(self._transaction(session_id, EndSession(), now))[1]
        if connection is not None:
            outputs = [output for output in outputs if output.connection != connection]
            outputs += self._drop(connection)
        return outputs

    # --- outputs ---------------------------------------------------------------------------------------------------

    def _count(self, link: Connection) -> None:
        link.received += 1
        self.received += 1

    def _reply(
        self, link: Connection, xid: int, zxid: int, error: int, record: Record | None = None
    ) -> Reply:
        link.sent += 1
        self.sent += 1
        link.last_zxid = zxid
        return Reply(link.number, xid, zxid, error, record)

    def _notify(self, events: list[WatchEvent]) -> list[Output]:
        outputs: list[Output] = []
        for watcher, type_, path, acl in events:
            link = self.connections[watcher]
            if not may(acl, Perm.READ, link.auth):
                continue  # since CVE-2024-23944 nobody hears of nodes that he may not read
            self.sent += 1
            link.sent += 1
            outputs.append(Notification(watcher, type_, path))
        return outputs
