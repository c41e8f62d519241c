"""
The sockets around a `ServerEngine`: one thread, one selector, all connections.

Everything that touches the engine runs on that thread; other threads get there through :meth:`Transport.call`.

What a client can make us keep is bounded: a frame is at most ``max_frame_bytes`` long, no more is read while one is
held back by a fault or while a client does not take its answers, and a client that lets too many answers pile up is
cut off.
"""

import logging
import os
import selectors
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from zkcoord.server.engine import ServerEngine
from zkcoord.server.faults import Action, FaultPlan, Rule, describe, describe_connect
from zkcoord.server.four_letter import WORD_BYTES, Facts, answer
from zkcoord.server.link import Link
from zkcoord.server.outputs import Close, Output
from zkcoord.server.requests import Request, decode_connect, decode_request
from zkcoord.server.wire import MalformedError

log = logging.getLogger("zkcoord.server")

_running: "weakref.WeakSet[Transport]" = weakref.WeakSet()

T = TypeVar("T")

RECEIVE_BYTES = 65536
LENGTH = struct.Struct(">i")
BACKLOG = 1024
# The real server drops connections that have not asked for a session by then (sessionlessCnxnTimeout).
SESSIONLESS_S = 10.0
# Answer no more requests of a client that has this much unread; cut it off at the second figure (events come unasked).
OUTPUT_PAUSE_BYTES = 4 * 1024 * 1024
OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
# Reset instead of an orderly end: what a refused connection looks like from outside.
RESET = struct.pack("ii", 1, 0)


class Transport:
    """
    Serves an engine on a listening socket, from ``start`` to ``stop``.

    Args:
        engine: used only on the transport's thread from now on.
        listener: bound, not yet listening; closed by ``stop``.
        now: the engine's clock.
        plan: faults; changed only through ``call``.
        max_frame_bytes: ``jute.maxbuffer``.
    """

    def __init__(
        self,
        engine: ServerEngine,
        listener: socket.socket,
        now: Callable[[], float],
        plan: FaultPlan,
        max_frame_bytes: int,
    ) -> None:
        self._engine = engine
        self._listener = listener
        self._now = now
        self._plan = plan
        self._max_frame_bytes = max_frame_bytes
        self._facts = Facts(listener.getsockname()[1], max_frame_bytes)
        self._links: dict[int, Link] = {}
        self._newcomers: deque[Link] = deque()
        self._held: dict[int, Link] = {}
        self._dirty: dict[int, Link] = {}
        self._next_number = 1
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._calls: deque[Callable[[], None]] = deque()
        self._gate = threading.Lock()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="embedded-zookeeper", daemon=True)

    def start(self) -> None:
        """Listen, and serve on a thread of its own."""
        self._listener.listen(BACKLOG)
        for sock in (self._listener, self._wake_in, self._wake_out):
            sock.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        _running.add(self)
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and end the thread. Blocks until it has ended."""
        with self._gate:
            if self._is_stopping:
                return
            self._is_stopping = True
        self._wake()
        self._thread.join()

    def call(self, function: Callable[[], T]) -> T:
        """
        Run something on the transport's thread and return its result; what it raises is raised here.

        Safety: any thread. Blocks until it has run.
        """
        if threading.current_thread() is self._thread:
            return function()
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # handed to the caller, whatever it is
                future.set_exception(error)

        with self._gate:
            if self._is_stopping:
                raise RuntimeError("the embedded server is not running: call start() first")
            self._calls.append(run)
        self._wake()
        return future.result()

    def deliver(self, outputs: list[Output], mute: int | None = None) -> None:
        """
        Put outputs into the outboxes; they are sent at the end of the turn.

        Args:
            outputs: from the engine.
            mute: a connection that gets nothing of it.

        Safety: the transport's thread only.
        """
        for output in outputs:
            link = self._links.get(output.connection)
            if link is None or link.is_closing:
                continue
            self._dirty[link.number] = link
            if isinstance(output, Close):
                link.is_closing = True
            elif link.number != mute:
                link.outbox += link.encode(output)
                if len(link.outbox) > OUTPUT_LIMIT_BYTES:
                    self._abort(link, "it does not read its answers")

    def refresh_faults(self) -> None:
        """Look at all connections again after the rules changed. Safety: the transport's thread only."""
        for link in list(self._links.values()):
            link.is_silenced = self._plan.silences(self._session_of(link))
            if link.stalled_by is not None and link.stalled_by not in self._plan.rules:
                link.stalled_by = None
                self._pump(link)
            self._dirty[link.number] = link

    def abandon(self) -> None:
        """
        Let go of everything in a forked child: the server is the parent's.

        Without it, clients would not notice that the parent closed their connections while the child lives.
        """
        self._gate = threading.Lock()  # the parent's may have been held at that moment
        self._is_stopping = True
        self._selector.close()  # closes only our reference: the parent's registrations stay
        for sock in (
            self._listener,
            self._wake_in,
            self._wake_out,
            *[link.sock for link in self._links.values()],
        ):
            sock.close()

    # --- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._turn()
        except Exception:
            log.exception("server.failed")
        finally:
            with self._gate:
                self._is_stopping = True
            while self._calls:
                self._calls.popleft()()
            for link in list(self._links.values()):
                self._forget(link)
            for sock in (self._listener, self._wake_in, self._wake_out):
                sock.close()
            self._selector.close()
            _running.discard(self)

    def _turn(self) -> None:
        for key, mask in self._selector.select(self._patience()):
            if key.data is None:
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._answer_calls()
                continue
            link: Link = key.data
            if mask & selectors.EVENT_READ and link.number in self._links:
                self._guard(link, self._receive)
            if mask & selectors.EVENT_WRITE:
                self._dirty[link.number] = link
        self._pass_time()
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for link in dirty.values():
                if link.number in self._links:
                    self._send(link)

    def _patience(self) -> float | None:
        """Seconds until something is due; None when nothing is."""
        now = self._now()
        due = [self._engine.next_deadline()]
        if self._newcomers:
            due.append(self._newcomers[0].opened_at + SESSIONLESS_S)
        due += [link.held_until for link in self._held.values()]
        earliest = min((time_ for time_ in due if time_ is not None), default=None)
        return None if earliest is None else max(0.0, earliest - now)

    def _pass_time(self) -> None:
        now = self._now()
        deadline = self._engine.next_deadline()
        if deadline is not None and deadline <= now:
            self.deliver(self._engine.tick(now))
        while self._newcomers and (
            self._newcomers[0].is_connected or self._newcomers[0].opened_at + SESSIONLESS_S <= now
        ):
            late = self._newcomers.popleft()
            if not late.is_connected and late.number in self._links:
                self._abort(late, "it asked for no session")
        for link in list(self._held.values()):
            if link.held_until is not None and link.held_until <= now:
                link.held_until, link.judged = None, True
                del self._held[link.number]
                self._guard(link, self._pump)

    def _guard(self, link: Link, step: Callable[[Link], None]) -> None:
        """Run a step for one connection; whatever goes wrong in it ends that connection only."""
        try:
            step(link)
        except MalformedError as error:
            self._abort(link, str(error))
        except OSError as error:
            self._abort(link, error.strerror or type(error).__name__)
        except Exception:
            log.exception("connection.failed")
            self._abort(link, "an error in the server")

    def _wake(self) -> None:
        try:
            self._wake_out.send(b"!")
        except OSError:  # full: it will wake anyway; closed: it has ended
            pass

    def _answer_calls(self) -> None:
        try:
            self._wake_in.recv(RECEIVE_BYTES)
        except BlockingIOError:
            pass
        while self._calls:
            self._calls.popleft()()

    # --- connections -----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except OSError:  # gone again, or no descriptors left: the next turn tries again
            return
        if self._plan.rules and self._plan.refuses():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = self._now()
        link = Link(self._next_number, sock, now)
        self._next_number += 1
        self._links[link.number] = link
        self._newcomers.append(link)
        link.is_silenced = self._plan.silences(0)
        self._engine.open(link.number, address[0], now)
        self._facts.ports[link.number] = address[1]
        self._selector.register(sock, link.mask, link)

    def _abort(self, link: Link, reason: str) -> None:
        log.debug("connection.aborted connection=%d reason=%r", link.number, reason)
        self._forget(link)

    def _forget(self, link: Link) -> None:
        if self._links.pop(link.number, None) is None:
            return
        self._held.pop(link.number, None)
        self._facts.ports.pop(link.number, None)
        self._engine.close(link.number)
        if link.mask:
            self._selector.unregister(link.sock)
        link.sock.close()

    def _session_of(self, link: Link) -> int:
        connection = self._engine.connections.get(link.number)
        return connection.session_id if connection else 0

    # --- in --------------------------------------------------------------------------------------------------------

    def _receive(self, link: Link) -> None:
        try:
            data = link.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._forget(link)
            return
        link.inbox += data
        self._pump(link)

    def _pump(self, link: Link) -> None:
        """Handle the requests that have arrived whole."""
        inbox = link.inbox
        while len(inbox) >= LENGTH.size and not link.is_held and not link.is_closing:
            if not link.is_connected and self._four_letter(link, bytes(inbox[:WORD_BYTES])):
                return
            length: int = LENGTH.unpack_from(inbox)[0]
            if not 0 <= length <= self._max_frame_bytes:
                raise MalformedError(f"a frame of {length} bytes")
            end = LENGTH.size + length
            if len(inbox) < end:
                break
            # A held frame stays in front of the inbox.
            if self._take(link, bytes(inbox[LENGTH.size : end])):
                del inbox[:end]
            if link.number not in self._links:
                return
            if len(link.outbox) > OUTPUT_PAUSE_BYTES:  # a few bytes of request can ask for megabytes
                link.is_paused = True
                break
        self._dirty[link.number] = link

    def _take(self, link: Link, payload: bytes) -> bool:
        """Handle one frame; False when it has to wait."""
        if not link.is_connected:
            return self._take_connect(link, payload)
        request = decode_request(payload)
        rule = None
        if self._plan.rules and not link.judged:
            rule = self._plan.decide(describe(self._session_of(link), request.op, request.body))
        link.judged = False
        if rule is not None and not self._strike(link, rule, request):
            return rule.action not in (Action.DELAY, Action.STALL)
        outputs = self._engine.handle(link.number, request, self._now())
        is_cut = rule is not None and rule.action is Action.CUT_AFTER
        self.deliver(outputs, mute=link.number if is_cut else None)
        if is_cut:
            self._cut(link)
        return True

    def _take_connect(self, link: Link, payload: bytes) -> bool:
        request, is_modern = decode_connect(payload)
        rule = None
        if self._plan.rules and not link.judged:
            rule = self._plan.decide(describe_connect(request.session_id))
        link.judged = False
        if rule is not None and not self._strike(link, rule, None, request.session_id):
            return rule.action not in (Action.DELAY, Action.STALL)
        link.is_connected, link.is_modern = True, is_modern
        is_cut = rule is not None and rule.action is Action.CUT_AFTER
        outputs = self._engine.connect(link.number, request, self._now())
        self.deliver(outputs, mute=link.number if is_cut else None)
        if is_cut:
            self._cut(link)
        link.is_silenced = self._plan.silences(self._session_of(link))
        return True

    def _strike(self, link: Link, rule: Rule, request: Request | None, session: int = 0) -> bool:
        """Do what a rule says before the request is handled; False when it is not to be handled now."""
        match rule.action:
            case Action.DELAY:
                link.held_until = self._now() + rule.delay
                self._held[link.number] = link
            case Action.STALL:
                link.stalled_by = rule
            case Action.CUT_BEFORE:
                self._cut(link)
            case Action.EXPIRE:
                session = session or self._session_of(link)
                self.deliver(self._engine.expire(session, self._now()))
                return request is None  # a connect request learns of it from its answer
            case Action.SLICE:
                link.slice_bytes = rule.slice_bytes
                return True
            case _:
                return True
        return False

    def _cut(self, link: Link) -> None:
        """Close after what was answered before; the engine forgets the connection now."""
        self._engine.close(link.number)
        link.is_closing = True
        self._dirty[link.number] = link

    def _four_letter(self, link: Link, word: bytes) -> bool:
        text = answer(word, self._engine, self._facts, self._now())
        if text is None:
            return False
        link.outbox += text.encode()
        self._cut(link)
        return True

    # --- out -------------------------------------------------------------------------------------------------------

    def _send(self, link: Link) -> None:
        if link.is_closing and link.is_mute:
            link.outbox.clear()  # silence to the end
        if not link.is_mute:
            try:
                link.drain()
            except BlockingIOError:
                pass
            except OSError as error:
                self._abort(link, error.strerror or type(error).__name__)
                return
        if link.is_closing and not link.outbox:
            self._forget(link)
            return
        if link.is_paused and len(link.outbox) < OUTPUT_PAUSE_BYTES:
            link.is_paused = False
            self._guard(link, self._pump)
            return  # and back here, since it is dirty again
        mask = 0
        if not (link.is_closing or link.is_held or link.is_paused):
            mask |= selectors.EVENT_READ
        if link.outbox and not link.is_mute:
            mask |= selectors.EVENT_WRITE
        link.watch(self._selector, mask)


def _abandon_all() -> None:
    for transport in list(_running):
        transport.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
