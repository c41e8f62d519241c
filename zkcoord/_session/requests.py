"""
Bounded sending. The only way to the server for everything that matters.

A request goes to kazoo only while the connection is up, and never more than a window of them unanswered; the rest waits
here, in order, where it can be taken back. None ever crosses to another connection: what was under way when one broke
is settled as lost before the next begins. So "no answer" always means "on this connection", and nothing is replayed.
"""

import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    NotReadOnlyCallError,
    SessionExpiredError,
    SessionMovedError,
)

from zkcoord._session import kazoo_private
from zkcoord._session.log import get_logger

log = get_logger("session")

#: Most requests of ours unanswered at once; see `kazoo_private.MAX_QUEUED` for why there is a limit at all.
WINDOW = 128

#: kazoo's ways of saying that no answer will come, and the two answers by which a server says that this connection is
#: not the place to ask (the session has moved on, or the server has lost its quorum); it closes it then. Everything
#: else is the server's word on the request.
_NO_ANSWER = (
    ConnectionLoss,
    SessionExpiredError,
    ConnectionClosedError,
    AuthFailedError,
    SessionMovedError,
    NotReadOnlyCallError,
)


class LinkLostError(Exception):
    """
    The connection broke before the answer, or there was none.

    Attributes:
        maybe_applied: False when the request was certainly never sent.
    """

    def __init__(self, maybe_applied: bool) -> None:
        super().__init__("connection lost" if maybe_applied else "not connected")
        self.maybe_applied = maybe_applied


#: Called exactly once with the value, or with an error; on kazoo's connection thread, or in `submit` itself.
Done = Callable[[Any, Exception | None], None]


class Call:
    """One request under way; kazoo reports its answer here."""

    __slots__ = ("_done", "_requests", "is_confirmed", "request", "sent")

    def __init__(self, requests: "Requests", request: Any, done: Done, is_confirmed: bool) -> None:
        self._requests = requests
        self._done = done
        self.request = request
        self.is_confirmed = is_confirmed
        self.sent = 0.0

    def set(self, value: Any) -> None:
        """kazoo's word: the answer."""
        self._requests.settle(self, value, None)

    def set_exception(self, error: BaseException) -> None:
        """kazoo's word: the server's error, or that the connection is gone."""
        self._requests.settle(self, None, error)

    def finish(self, value: Any, error: Exception | None) -> None:
        """Tell whoever asked. What they do with it must not harm kazoo's connection thread."""
        try:
            self._done(value, error)
        except Exception:
            log.exception("request.callback_failed", request=type(self.request).__name__)


class Requests:
    """
    Sends for one kazoo client. Thread-safe; never blocks.

    Args:
        client: where to send.
        clock: the lease's clock.
        on_answer: told of every answer from the server, before its request's own callback: sent, arrived, and whether
            only a leader with a quorum could have given it. Runs on the connection thread.
        wake_later: told when there was no room for the byte that wakes kazoo's thread: to be tried again.
    """

    def __init__(
        self,
        client: KazooClient,
        clock: Callable[[], float],
        on_answer: Callable[[float, float, bool], None],
        wake_later: Callable[[], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._on_answer = on_answer
        self._wake_later = wake_later
        self._lock = threading.Lock()
        self._is_up = False
        self._outstanding: dict[Call, None] = {}
        self._backlog: dict[Call, None] = {}
        self.last_sent = float("-inf")

    @property
    def is_up(self) -> bool:
        """Whether requests are accepted now. kazoo knows of a broken connection a moment before its listeners do."""
        return self._is_up and kazoo_private.is_live(self._client)

    def oldest_sent(self) -> float | None:
        """Return when the oldest unanswered request was sent; None if all are answered."""
        with self._lock:
            first = next(iter(self._outstanding), None)
            return first.sent if first else None

    def submit(
        self, request: Any, done: Done, *, is_confirmed: bool = False, is_urgent: bool = False
    ) -> Call:
        """
        Send a request, or queue it behind the window.

        Args:
            request: one of kazoo's request records, with full paths.
            done: called exactly once; it must not block. With `LinkLostError` when no answer can come.
            is_confirmed: a success can only come from a leader with a quorum.
            is_urgent: goes ahead of what waits for the window (heartbeats).
        """
        call = Call(self, request, done, is_confirmed)
        with self._lock:
            accepted = self.is_up
            if accepted:
                if is_urgent or (not self._backlog and self._has_room()):
                    self._send(call)
                else:
                    self._backlog[call] = None
        if not accepted:
            call.finish(None, LinkLostError(maybe_applied=False))
        return call

    def is_pending(self, call: Call) -> bool:
        """Whether a request is under way: sent and not answered, or waiting for the window."""
        with self._lock:
            return call in self._outstanding or call in self._backlog

    def cancel(self, call: Call) -> bool:
        """Take a request back; True if it was never sent and never will be. Its callback is not called then."""
        with self._lock:
            if call in self._backlog:
                del self._backlog[call]
                return True
            return False

    def settle(self, call: Call, value: Any, error: BaseException | None) -> None:
        """Take an answer in; late ones of a connection that is gone are dropped."""
        arrived = self._clock()
        with self._lock:
            if call not in self._outstanding:
                return
            del self._outstanding[call]
            self._pump()
        if isinstance(error, _NO_ANSWER):
            call.finish(None, LinkLostError(maybe_applied=True))
            return
        self._on_answer(call.sent, arrived, call.is_confirmed and error is None and not _is_refused(value))
        call.finish(value, error if error is None or isinstance(error, Exception) else LinkLostError(True))

    def pump(self) -> None:
        """Send what waits, as far as there is room; needed when only other users of the client made room."""
        with self._lock:
            self._pump()

    def up(self) -> None:
        """Accept requests: a connection is there."""
        with self._lock:
            self._is_up = True

    def down(self) -> None:
        """Settle everything as lost: the connection is gone. On the connection thread."""
        self._settle_all(is_purged=True)

    def close(self) -> None:
        """
        Settle everything as lost, and accept nothing more; from any thread.

        What kazoo's queue has goes out still: taking it back there would race with the connection thread.
        """
        self._settle_all(is_purged=False)

    def _settle_all(self, *, is_purged: bool) -> None:
        with self._lock:
            self._is_up = False
            sent, unsent = list(self._outstanding), list(self._backlog)
            self._outstanding.clear()
            self._backlog.clear()
            if is_purged:
                kazoo_private.purge(self._client, sent)
        for call in sent:
            call.finish(None, LinkLostError(maybe_applied=True))
        for call in unsent:
            call.finish(None, LinkLostError(maybe_applied=False))

    def _pump(self) -> None:
        while self._backlog and self._is_up and self._has_room():
            waiting = next(iter(self._backlog))
            del self._backlog[waiting]
            self._send(waiting)

    def _has_room(self) -> bool:
        queued = kazoo_private.queue_length(self._client)
        return len(self._outstanding) < WINDOW and queued < kazoo_private.MAX_QUEUED

    def _send(self, call: Call) -> None:
        call.sent = self.last_sent = self._clock()
        self._outstanding[call] = None
        if not kazoo_private.enqueue(self._client, call.request, call):
            self._wake_later()


def _is_refused(value: Any) -> bool:
    """Whether a multi was refused: kazoo then answers with a list that holds errors."""
    return isinstance(value, list) and any(isinstance(result, Exception) for result in value)
