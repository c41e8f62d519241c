"""
A TCP proxy that understands ZooKeeper's framing, to break connections at exactly the wrong moment.

Every frame is a 4-byte length and a body. A client's first frame is the connect request; later ones start with xid and
opcode. The server's first frame answers the connect; later ones start with xid, zxid and error (watch events: xid -1).

Theory: one thread runs a selector loop and owns all state. Public methods hand a function to that thread and wait until
it has run, so that when ``cut()`` returns the connections *are* closed. A frame goes through three stages in each
direction: bytes read → whole frames with the time they are due (delay) → rules and the peer's socket. Rules are looked
at in the last stage, in order, hence a held frame holds all frames behind it, as TCP would.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Self, TypeVar

_T = TypeVar("_T")

CALL_TIMEOUT_S = 10.0
UPSTREAM_CONNECT_TIMEOUT_S = 5.0
NOTIFICATION_XID = -1
LENGTH = struct.Struct(">i")
XID_OPCODE = struct.Struct(">ii")
#: Where a reply's error stands: behind length, xid and zxid.
ERROR_AT = 16
UNKNOWN_ERROR = LENGTH.pack(-999)


class Op(IntEnum):
    """Opcodes of client requests."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    CLOSE_SESSION = -11


class Hold:
    """Requests (or replies) of one opcode, kept back until ``release()`` or ``cut()``; ``wait()`` awaits the first."""

    def __init__(self, proxy: FaultProxy, opcode: int, is_reply: bool, skip: int = 0, path: str = "") -> None:
        self.opcode = opcode
        self.is_reply = is_reply
        self.skip = skip
        self.path = path
        self.is_open = True
        self._proxy = proxy
        self._seen = threading.Event()

    def is_set(self) -> bool:
        """Whether such a frame has arrived."""
        return self._seen.is_set()

    def wait(self, timeout: float = CALL_TIMEOUT_S) -> bool:
        """Wait until such a frame has arrived, at most ``timeout`` seconds; False when none did."""
        return self._seen.wait(timeout)

    def release(self) -> None:
        """Let held frames go on; later ones are no longer held."""
        self._proxy._end_hold(self, cut=False)

    def cut(self) -> None:
        """Close the connections whose frames are held, without passing these on; later frames are no longer held."""
        self._proxy._end_hold(self, cut=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass
class Rule:
    """
    A fault for ``left`` requests of an opcode, behind the next ``skip``.

    Attributes:
        path: only requests that name exactly this path, a multi in any of its parts; "" = all.
        struck: how many connections it has closed.
    """

    opcode: int
    left: int
    skip: int = 0
    path: str = ""
    struck: int = 0

    def is_for(self, opcode: int, frame: bytes) -> bool:
        """Whether this request is meant, or counts among those to skip."""
        return self.opcode == opcode and names(frame, self.path)


@dataclass(eq=False)
class _Pipe:
    """One direction of one connection."""

    source: socket.socket
    is_reply: bool
    received: bytearray = field(default_factory=bytearray)
    frames: deque[tuple[float, bytes]] = field(default_factory=deque)
    outgoing: bytearray = field(default_factory=bytearray)  # on its way to the other side
    passed: int = 0  # frames
    is_head_counted: bool = False
    is_raw: bool = False  # a four-letter word: no frames
    is_ended: bool = False  # the source closed its side
    held_by: Hold | None = None
    has_swallowed: bool = False


@dataclass(eq=False)
class _Link:
    """A client's connection and ours to the server for it (None until made, for one accepted into a black hole)."""

    client: socket.socket
    server: socket.socket | None
    up: _Pipe
    down: _Pipe | None = None
    opcodes: dict[int, int] = field(default_factory=dict)
    dropped_xids: dict[int, Rule] = field(default_factory=dict)
    is_open: bool = True


class FaultProxy:
    """
    A proxy from a free loopback port to ``target_host:target_port``. A context manager; passes everything at first.

    All methods may be called from any thread and return when their effect is in force.
    """

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._calls: deque[Callable[[], None]] = deque()
        self._links: list[_Link] = []
        self._listener: socket.socket | None = None
        self._reserved: socket.socket | None = None
        self._black_hole_up = False
        self._black_hole_down = False
        self._delay_up = 0.0
        self._delay_down = 0.0
        self._drop_rules: list[Rule] = []
        self._cut_rules: list[Rule] = []
        self._corrupt_rules: list[Rule] = []
        self._holds: list[Hold] = []
        self._counted = threading.Condition()
        self._requests: Counter[int] = Counter()
        self._answers: Counter[int] = Counter()
        self._notifications = 0
        self._accepted = 0
        self._port = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        """The connection string for clients, ``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> Self:
        """Listen, and pass everything."""
        reserved = self._reserve()
        self._port = reserved.getsockname()[1]
        self._listen(reserved)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._thread.start()
        return self

    def close(self) -> None:
        """Close everything and end the thread. May be called twice."""
        if self._thread.is_alive():
            self._call(self._shut_down)
            self._thread.join(CALL_TIMEOUT_S)
            assert not self._thread.is_alive(), "the proxy's thread did not end"
            # Only now: the call that ended the loop may still have been about to wake it.
            self._wake_receiver.close()
            self._wake_sender.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- faults ------------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Close all connections and refuse new ones until ``restore()``."""
        self._call(self._do_cut)

    def drop_connections(self) -> None:
        """Close all connections; new ones are welcome."""
        self._call(self._close_links)

    def black_hole(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Keep connections open and accept new ones, but pass nothing (in the given directions) until ``restore()``."""

        def begin() -> None:
            self._black_hole_up, self._black_hole_down = to_server, to_client
            for link in self._links:
                for pipe in (link.up, link.down):
                    if pipe is not None and self._is_black_holed(pipe) and (pipe.frames or pipe.outgoing):
                        pipe.has_swallowed = True  # delayed or half-written frames are in it too

        self._call(begin)

    def restore(self, *, deliver: bool = False) -> None:
        """
        End ``cut`` or ``black_hole``.

        Args:
            deliver: False closes the connections that a black hole swallowed bytes of, and those it accepted; True
                passes the bytes on late, which makes of the black hole a stall.
        """
        self._call(lambda: self._do_restore(deliver))

    def delay(self, *, to_server: float = 0.0, to_client: float = 0.0) -> None:
        """Pass frames that arrive from now on this many seconds late, in order; 0 ends it."""

        def begin() -> None:
            self._delay_up, self._delay_down = to_server, to_client

        self._call(begin)

    def drop_reply(self, opcode: int, count: int = 1, *, skip: int = 0, path: str = "") -> Rule:
        """
        Pass the next ``count`` such requests, close the connection in place of their reply: applied, reply lost.

        ``skip`` lets that many go by first, ``path`` means only those that name this path, here and below.
        """
        rule = Rule(opcode, count, skip, path)
        self._call(lambda: self._drop_rules.append(rule))
        return rule

    def cut_before(self, opcode: int, count: int = 1, *, skip: int = 0, path: str = "") -> Rule:
        """Close the connection when such a request arrives, the next ``count`` times: not applied."""
        rule = Rule(opcode, count, skip, path)
        self._call(lambda: self._cut_rules.append(rule))
        return rule

    def corrupt_reply(self, opcode: int, count: int = 1) -> None:
        """Pass the next ``count`` such requests, but have their replies say an error that no client knows."""
        self._call(lambda: self._corrupt_rules.append(Rule(opcode, count)))

    def hold(self, opcode: int, skip: int = 0, path: str = "") -> Hold:
        """Keep such requests (and all behind them on their connection) from the server until the hold is released."""
        return self._begin_hold(Hold(self, opcode, is_reply=False, skip=skip, path=path))

    def hold_reply(self, opcode: int) -> Hold:
        """Pass such requests, but keep their replies (and all behind them) from the client until released."""
        return self._begin_hold(Hold(self, opcode, is_reply=True))

    def clear(self) -> None:
        """Forget rules, holds (held frames go on) and delays that are still in force."""

        def forget() -> None:
            self._drop_rules.clear()
            self._cut_rules.clear()
            self._corrupt_rules.clear()
            self._delay_up = self._delay_down = 0.0
            for hold in list(self._holds):
                self._do_end_hold(hold, cut=False)

        self._call(forget)

    # --- what was seen -----------------------------------------------------------------------------------------------

    @property
    def requests(self) -> Counter[int]:
        """A copy of the number of requests seen, by opcode (held and cut ones included)."""
        with self._counted:
            return Counter(self._requests)

    @property
    def answers(self) -> Counter[int]:
        """A copy of the number of replies passed to clients, by opcode: the server has done these."""
        with self._counted:
            return Counter(self._answers)

    @property
    def notifications(self) -> int:
        """Number of watch events passed to clients."""
        with self._counted:
            return self._notifications

    @property
    def accepted(self) -> int:
        """Number of connections accepted since the start."""
        with self._counted:
            return self._accepted

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return self._call(lambda: len(self._links))

    def reset_counts(self) -> None:
        """Start counting from zero."""
        with self._counted:
            self._requests.clear()
            self._answers.clear()
            self._notifications = self._accepted = 0

    def wait_for_requests(self, opcode: int, count: int = 1, timeout: float = CALL_TIMEOUT_S) -> bool:
        """Wait until ``count`` requests of an opcode have been seen since the last reset; False when they were not."""
        with self._counted:
            return self._counted.wait_for(lambda: self._requests[opcode] >= count, timeout)

    def wait_for_answers(self, opcode: int, count: int = 1, timeout: float = CALL_TIMEOUT_S) -> bool:
        """Wait until ``count`` requests of an opcode have been answered since the last reset; False when not."""
        with self._counted:
            return self._counted.wait_for(lambda: self._answers[opcode] >= count, timeout)

    def wait_for_connections(self, count: int = 1, timeout: float = CALL_TIMEOUT_S) -> bool:
        """Wait until ``count`` connections have been accepted (since the last reset); False when they were not."""
        with self._counted:
            return self._counted.wait_for(lambda: self._accepted >= count, timeout)

    # --- calls into the loop -----------------------------------------------------------------------------------------

    def _call(self, function: Callable[[], _T]) -> _T:
        if not self._thread.is_alive():
            raise RuntimeError("the proxy is not running: use it as a context manager, or call start()")
        done = threading.Event()
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(function())
            except BaseException as error:  # handed to the caller below
                errors.append(error)
            finally:
                done.set()

        self._calls.append(run)
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            # The loop has plenty of wake-ups to read already, or it was awake and our call was the last it has run.
            pass
        if not done.wait(CALL_TIMEOUT_S):
            raise RuntimeError("the proxy's thread did not answer")
        if errors:
            raise errors[0]
        return results[0]

    def _begin_hold(self, hold: Hold) -> Hold:
        self._call(lambda: self._holds.append(hold))
        return hold

    def _end_hold(self, hold: Hold, *, cut: bool) -> None:
        if hold.is_open and self._thread.is_alive():
            self._call(lambda: self._do_end_hold(hold, cut=cut))

    # --- the loop: everything below runs in the proxy's thread -------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closing:
            for key, events in self._selector.select(self._pause_s()):
                if key.fileobj is self._wake_receiver:
                    self._drain_wakeups()
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._on_socket(key.data, key.fileobj, events)  # type: ignore[arg-type]  # always a socket
            while self._calls:
                self._calls.popleft()()
            for link in list(self._links):
                self._advance(link)
        self._selector.close()

    def _pause_s(self) -> float | None:
        links = [link for link in self._links if link.server is not None]
        pipes = [pipe for link in links for pipe in (link.up, link.down) if pipe and not self._is_stuck(pipe)]
        due = [pipe.frames[0][0] for pipe in pipes if pipe.frames]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _drain_wakeups(self) -> None:
        try:
            while self._wake_receiver.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _is_stuck(self, pipe: _Pipe) -> bool:
        return pipe.held_by is not None or self._is_black_holed(pipe)

    def _is_black_holed(self, pipe: _Pipe) -> bool:
        return self._black_hole_down if pipe.is_reply else self._black_hole_up

    # connections

    def _reserve(self) -> socket.socket:
        """Bind our port without listening: connects are refused, and nobody else gets the port."""
        reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", self._port))
        reserved.setblocking(False)
        return reserved

    def _listen(self, reserved: socket.socket) -> None:
        reserved.listen(512)
        self._listener = reserved
        self._selector.register(reserved, selectors.EVENT_READ)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(client, None, _Pipe(client, is_reply=False))
        self._links.append(link)
        self._selector.register(client, selectors.EVENT_READ, link)
        if self._black_hole_up or self._black_hole_down:
            link.up.has_swallowed = True
        else:
            self._connect_upstream(link)
        with self._counted:
            self._accepted += 1
            self._counted.notify_all()

    def _connect_upstream(self, link: _Link) -> None:
        try:
            server = socket.create_connection(self._target, UPSTREAM_CONNECT_TIMEOUT_S)
        except OSError:
            self._close_link(link)
            return
        server.setblocking(False)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.server, link.down = server, _Pipe(server, is_reply=True, is_raw=link.up.is_raw)
        self._selector.register(server, selectors.EVENT_READ, link)

    def _close_link(self, link: _Link) -> None:
        if not link.is_open:
            return
        link.is_open = False
        self._links.remove(link)
        for end in (link.client, link.server):
            if end is not None:
                self._unregister(end)
                _close_socket(end)

    def _close_links(self) -> None:
        for link in list(self._links):
            self._close_link(link)

    def _unregister(self, end: socket.socket) -> None:
        try:
            self._selector.unregister(end)
        except KeyError:
            pass  # its source had ended and nothing was left to write

    def _do_cut(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            _close_socket(self._listener)
            self._listener = None
            self._reserved = self._reserve()
        self._close_links()

    def _do_restore(self, deliver: bool) -> None:
        self._black_hole_up = self._black_hole_down = False
        for link in list(self._links):
            swallowed = link.up.has_swallowed or (link.down is not None and link.down.has_swallowed)
            if swallowed and not deliver:
                self._close_link(link)
                continue
            link.up.has_swallowed = False
            if link.down is not None:
                link.down.has_swallowed = False
            elif link.server is None:
                self._connect_upstream(link)
        if self._reserved is not None:
            self._listen(self._reserved)
            self._reserved = None

    def _shut_down(self) -> None:
        self._is_closing = True
        self._close_links()
        for end in (self._listener, self._reserved):
            if end is not None:
                self._unregister(end)
                _close_socket(end)

    # bytes

    def _on_socket(self, link: _Link, end: socket.socket, events: int) -> None:
        if not link.is_open:
            return  # closed earlier in this very round
        if events & selectors.EVENT_READ:
            pipe = link.up if end is link.client else link.down
            assert pipe is not None
            self._read(link, pipe)

    def _read(self, link: _Link, pipe: _Pipe) -> None:
        try:
            data = pipe.source.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            pipe.received += data
            self._split_frames(pipe)
            if link.down is not None:
                link.down.is_raw = link.up.is_raw
        else:
            pipe.is_ended = True  # told to the other side only when all before it has passed
        if self._is_black_holed(pipe):
            pipe.has_swallowed = True

    def _split_frames(self, pipe: _Pipe) -> None:
        due = time.monotonic() + (self._delay_down if pipe.is_reply else self._delay_up)
        buffer = pipe.received
        if not pipe.is_reply and not pipe.passed and not pipe.frames and bytes(buffer[:4]).isalpha():
            pipe.is_raw = True  # as a length, four letters would be more than a gigabyte
        if pipe.is_raw:
            pipe.frames.append((due, bytes(buffer)))
            buffer.clear()
        while len(buffer) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            pipe.frames.append((due, bytes(buffer[:end])))
            del buffer[:end]

    def _advance(self, link: _Link) -> None:
        """Take one link as far as rules, delays and the sockets allow."""
        for pipe in (link.up, link.down):
            if link.down is not None and pipe is not None and link.is_open:
                self._advance_pipe(link, pipe)
        if link.is_open:
            self._watch(link)

    def _advance_pipe(self, link: _Link, pipe: _Pipe) -> None:
        may_pass = self._may_pass_reply if pipe.is_reply else self._may_pass_request
        while pipe.frames and not self._is_stuck(pipe) and pipe.frames[0][0] <= time.monotonic():
            if not may_pass(link, pipe):
                return  # held, or the link was closed
            pipe.outgoing += pipe.frames.popleft()[1]
            pipe.passed += 1
            pipe.is_head_counted = False
        self._write(link, pipe)
        is_drained = not pipe.frames and not pipe.outgoing and not self._is_stuck(pipe)
        if pipe.is_ended and is_drained and (pipe.is_reply or not pipe.is_raw):
            self._close_link(link)  # a four-letter client may close its side first and still await the answer

    def _write(self, link: _Link, pipe: _Pipe) -> None:
        target = link.client if pipe.is_reply else link.server
        if not pipe.outgoing or target is None or self._is_black_holed(pipe) or not link.is_open:
            return
        try:
            sent = target.send(pipe.outgoing)
        except BlockingIOError:
            return
        except OSError:
            self._close_link(link)
            return
        del pipe.outgoing[:sent]

    def _watch(self, link: _Link) -> None:
        """Tell the selector what each end waits for."""
        for end, incoming, outgoing in ((link.client, link.up, link.down), (link.server, link.down, link.up)):
            if end is None or incoming is None:
                continue
            wants_write = outgoing is not None and outgoing.outgoing and not self._is_black_holed(outgoing)
            events = (0 if incoming.is_ended else selectors.EVENT_READ) | (
                selectors.EVENT_WRITE if wants_write else 0
            )
            known = self._selector.get_map().get(end)
            if known is not None and known.events == events:
                continue
            if known is not None:
                self._selector.unregister(end)
            if events:
                self._selector.register(end, events, link)

    # rules

    def _may_pass_request(self, link: _Link, pipe: _Pipe) -> bool:
        if pipe.is_raw or not pipe.passed:
            return True
        xid, opcode = XID_OPCODE.unpack_from(pipe.frames[0][1], LENGTH.size)
        if not pipe.is_head_counted:  # a held request is looked at again when it is released
            pipe.is_head_counted = True
            with self._counted:
                self._requests[opcode] += 1
                self._counted.notify_all()
        if self._is_held(pipe, opcode):
            return False
        frame = pipe.frames[0][1]
        if rule := _take(self._cut_rules, opcode, frame):
            rule.struck += 1
            self._close_link(link)
            return False
        link.opcodes[xid] = opcode
        if rule := _take(self._drop_rules, opcode, frame):
            link.dropped_xids[xid] = rule
        return True

    def _may_pass_reply(self, link: _Link, pipe: _Pipe) -> bool:
        if pipe.is_raw or not pipe.passed:
            return True
        (xid,) = LENGTH.unpack_from(pipe.frames[0][1], LENGTH.size)
        if xid == NOTIFICATION_XID:
            with self._counted:
                self._notifications += 1
            return True
        if self._is_held(pipe, link.opcodes.get(xid)):
            return False
        if xid in link.dropped_xids:
            link.dropped_xids[xid].struck += 1
            self._close_link(link)
            return False
        if _take(self._corrupt_rules, link.opcodes.get(xid, 0), b""):
            due, frame = pipe.frames[0]
            pipe.frames[0] = (due, frame[:ERROR_AT] + UNKNOWN_ERROR + frame[ERROR_AT + len(UNKNOWN_ERROR) :])
        with self._counted:
            self._answers[link.opcodes.get(xid, 0)] += 1
            self._counted.notify_all()
        if xid > 0:  # negative ones (ping, auth, watches) are used again
            link.opcodes.pop(xid, None)
        return True

    def _is_held(self, pipe: _Pipe, opcode: int | None) -> bool:
        for hold in self._holds:
            is_meant = hold.opcode == opcode and hold.is_reply == pipe.is_reply
            if is_meant and names(pipe.frames[0][1], hold.path):
                if hold.skip:
                    hold.skip -= 1
                    continue
                pipe.held_by = hold
                hold._seen.set()
                return True
        return False

    def _do_end_hold(self, hold: Hold, *, cut: bool) -> None:
        if not hold.is_open:
            return
        hold.is_open = False
        self._holds.remove(hold)
        for link in list(self._links):
            for pipe in (link.up, link.down):
                if pipe is not None and pipe.held_by is hold:
                    pipe.held_by = None
                    if cut:
                        self._close_link(link)


def names(frame: bytes, path: str) -> bool:
    """Whether a request names a path in any of its records, or none is asked for."""
    text = path.encode()
    return not text or LENGTH.pack(len(text)) + text in frame


def _take(rules: list[Rule], opcode: int, frame: bytes) -> Rule | None:
    for rule in rules:
        if rule.is_for(opcode, frame) and rule.left > 0:
            if rule.skip:
                rule.skip -= 1
                continue
            rule.left -= 1
            return rule
    return None


def _close_socket(end: socket.socket) -> None:
    # shutdown first: a forked child may have a copy of the socket, which would keep the connection open.
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
