"""
The guard: keeps a session's proof of life fresh, and tells when it runs out.

While the session owns members it sends a *check-only multi* on one of them, in turn, every h = T/8: nobody but a leader
with a quorum answers that (a read or a ping is answered by a follower that is cut off, a ``sync`` by a leader that is).
While it owns none, a cheap read every T/4 keeps one old answer at hand, so that the first grant after an idle time has
its proof. Both take the place of kazoo's pings, so the guard also notices a server that has gone silent.

`tick` decides and sends, given the time; a thread calls it when it says. Nothing here blocks.
"""

import contextlib
import heapq
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import CheckVersion, Exists, SetData, Transaction

from zkcoord._core.grant import LossReason
from zkcoord._core.lease import Lease, heartbeat_s
from zkcoord._core.messages import Node
from zkcoord._session import kazoo_private
from zkcoord._session.hold import Hold
from zkcoord._session.janitor import Janitor
from zkcoord._session.log import get_logger
from zkcoord._session.loops import Wards
from zkcoord._session.requests import Requests
from zkcoord._session.watches import Subscription, Watches
from zkcoord._session.wire import full_path

log = get_logger("session")

#: A hold this old gets a watch on its own member. Shorter ones are gone before anybody could delete it by hand.
OWN_WATCH_AFTER_S = 0.05

#: Most own watches armed, and most holds stamped, in one go; then `tick` lets go of the lock, for which releases wait,
#: and goes on a moment later. A reconnect finds all holds unwatched.
_AT_ONCE = 100
_PAUSE_S = 0.001

#: What a revocation request writes into a member's data (Curator's ``Revoker``).
REVOKE = b"__REVOKE__"

#: Longest sleep between two looks while nothing is planned.
_IDLE_S = 1.0

#: Least time between two heartbeats, whatever asks for them.
_MIN_BEAT_GAP_S = 0.05

OnGone = Callable[[], object]


class Guard:
    """
    The guard of one session after the other on one client. Thread-safe.

    Args:
        client: whose session it is.
        clock: the lease's clock.
        requests: where to send.
        watches: for the watch on a hold's own member.
        janitor: gets the members of holds that were lost while their session lives on.
        tick_s: the ensemble's tickTime in seconds, if the user stated it.
        kick: wakes the thread that calls `tick`.
    """

    def __init__(
        self,
        client: KazooClient,
        clock: Callable[[], float],
        requests: Requests,
        watches: Watches,
        janitor: Janitor,
        *,
        tick_s: float | None,
        kick: Callable[[], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._requests = requests
        self._watches = watches
        self._janitor = janitor
        self._tick_s = tick_s
        self._kick = kick
        self._lock = threading.RLock()
        self.session: int | None = None
        self.timeout_s: float | None = None
        self._lease = Lease(1.0)
        self._members: OrderedDict[str, OnGone] = OrderedDict()
        self._holds: dict[Hold, list[Subscription]] = {}
        self._unwatched: deque[Hold] = deque()
        self._unstamped: deque[Hold] = deque()
        self._bounded: list[
            tuple[float, int, Hold]
        ] = []  # a heap: those with a max_hold, by when it ends them
        self._confirming: list[Callable[[], None]] = []
        self._beat_sent = float("-inf")
        self._is_beating = False
        self._wakes_at = float("-inf")
        self._swept = float("-inf")
        #: Clean-ups that a user's thread has begun, and takes off when they are done. What stays here for a heartbeat
        #: was interrupted. Whoever begins one appends it first of all, in one call that Ctrl-C cannot divide.
        self.unfinished: deque[Callable[[], object]] = deque()
        #: What is left to do for event loops that are closed with locks in their tasks' hands.
        self.wards = Wards()
        self._queued: object = None
        self._suspects: set[Callable[[], object]] = set()

    # --- the session

    @property
    def lease(self) -> Lease:
        """The proof for the current session; holds keep it."""
        return self._lease

    @property
    def heartbeat_s(self) -> float:
        """``h`` of the current session, in seconds."""
        return heartbeat_s(self.timeout_s or 1.0)

    def now(self) -> float:
        """The lease's clock."""
        return self._clock()

    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._requests.is_up

    def late_after(self) -> float:
        """The moment from which the next confirmation is late: two heartbeats after the last."""
        return self._lease.confirmed_sent + 2 * self.heartbeat_s

    def connected(self, session: int, timeout_s: float, sent: float | None) -> None:
        """Begin a connection; with another session id than before, the old session and all it owned is over."""
        with self._lock:
            is_new = session != self.session
        if is_new:
            self.session_ended(LossReason.EXPIRED)
        elif self._clock() >= self._lease.deadline:
            self._lapse()  # the session lives, but who looked before this moment has seen its grants lost
        with self._lock:
            if is_new:
                self.session, self.timeout_s = session, timeout_s
                self._lease = Lease(timeout_s, self._tick_s)
            self._lease.connected(sent)
            self._beat_sent = float("-inf")
            # The connection took the watches along; looking again also finds what was deleted meanwhile.
            self._unwatched = deque(self._holds)

    def disconnected(self) -> None:
        """The connection is gone; the session may live on."""
        with self._lock:
            self._confirming.clear()
            self._is_beating = False
            for subscriptions in self._holds.values():
                subscriptions.clear()

    def session_ended(self, reason: LossReason) -> None:
        """The server, or the user, has ended the session: everything it owned is lost."""
        with self._lock:
            holds = list(self._holds)
            self._members.clear()
            self.session = None
        for hold in holds:
            hold.lose(reason)

    def answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        """Take the proof of one answer in. On kazoo's connection thread."""
        if self._holds and arrived >= self._lease.deadline:
            self._lapse()  # it comes too late for them; who looked in between has seen them lost
        ready: list[Callable[[], None]] = []
        with self._lock:
            self._lease.answered(sent, arrived, is_confirmed)
            if self._confirming:
                if self._is_fresh(arrived):
                    ready, self._confirming = self._confirming, []
                else:
                    self._kick()
        for callback in ready:
            callback()

    # --- members and holds

    def track(self, path: str, on_gone: OnGone) -> None:
        """Keep the session alive for a member of ours, waiting or holding; `on_gone` if it is found missing."""
        with self._lock:
            self._members[path] = on_gone

    def untrack(self, path: str) -> None:
        """Forget a member."""
        with self._lock:
            self._members.pop(path, None)

    def holds(self, name: str) -> bool:
        """Whether a live hold has a member of that name."""
        with self._lock:
            holds = list(self._holds)
        return any(node.name == name and hold.loss() is None for hold in holds for node in hold.nodes)

    def confirm(self, on_confirmed: Callable[[], None]) -> None:
        """Call back once the lease has at least ``h`` left: now, or after as many heartbeats as that takes."""
        with self._lock:
            if not self._is_fresh(self._clock()):
                self._confirming.append(on_confirmed)
                self._kick()
                return
        on_confirmed()

    def add(self, hold: Hold) -> None:
        """Watch over a new hold; before its grant is handed out."""
        with self._lock:
            self._holds[hold] = []
            for node in hold.nodes:
                self._members[node.path] = lambda: hold.lose(LossReason.DELETED)
            self._unwatched.append(hold)
            if hold.stamp is not None:
                self._unstamped.append(hold)
            if hold.until < float("inf"):
                heapq.heappush(self._bounded, (hold.until, id(hold), hold))
            if self._wakes_at > min(hold.granted_at + OWN_WATCH_AFTER_S, hold.until):
                self._wakes_at = float("-inf")
                self._kick()
        if hold.session != self.session:
            hold.lose(LossReason.EXPIRED)

    def ended(self, hold: Hold, on_deleted: Callable[[bool], None] | None = None) -> None:
        """
        A hold is over: its members go, so that none stays in others' way.

        The hold is forgotten last. Should an interrupt strike before, `tick` does all of this again.
        """
        with self._lock:
            subscriptions = self._holds.get(hold, [])
            for node in hold.nodes:
                self._members.pop(node.path, None)
        for subscription in subscriptions:
            self._watches.release(subscription)

        def deleted(was_there: bool) -> None:
            # `_sweep` may have come in between, and then its delete was the one.
            hold.is_deleted_by_us = hold.is_deleted_by_us or was_there
            if on_deleted is not None:
                on_deleted(hold.is_deleted_by_us)

        reason = hold.loss()
        is_gone = reason in (LossReason.DELETED, LossReason.REVOKED) and len(hold.nodes) == 1
        if hold.session == self.session and not is_gone:
            first, *others = hold.nodes
            for node in others:
                self._janitor.delete(node)
            self._janitor.delete(first, deleted)
        elif on_deleted is not None:
            on_deleted(True)  # they went with their session
        with self._lock:
            self._holds.pop(hold, None)

    def _sweep(self) -> None:
        """Finish what an interrupt in a user's thread has left half done."""
        with self._lock:
            unfinished = [hold for hold in self._holds if hold.is_over]
        for hold in unfinished:
            self.ended(hold)
        begun = set(self.unfinished)
        for clean_up in begun & self._suspects:  # at the first look it may be under way
            clean_up()
            self.finished(clean_up)
        self._suspects = begun
        stuck, self._queued = self._queued, kazoo_private.next_request(self._client)
        if stuck is not None and stuck is self._queued:
            # Ctrl-C has come between a request and its wake-up byte, and all behind it would be one byte late for ever.
            kazoo_private.wake(self._client)
        self._janitor.sweep()

    def finished(self, clean_up: Callable[[], object]) -> None:
        """Take a clean-up off that is done, unless that was done already."""
        with contextlib.suppress(ValueError):
            self.unfinished.remove(clean_up)

    def lose_all(self, reason: LossReason) -> list[Hold]:
        """End every hold, as on close; returns them."""
        with self._lock:
            holds = list(self._holds)
        return [hold for hold in holds if hold.lose(reason)]

    # --- time

    def tick(self, now: float) -> float:
        """Do what is due at `now`; return when to look again."""
        self._requests.pump()
        if self._holds and now >= self._lease.deadline:
            self._lapse()
        abandoned = self.wards.sweep()
        if abandoned:
            log.warning("loop.closed", abandoned=abandoned)
        bounded = self._end_bounded(now)
        if now >= self._swept + self.heartbeat_s:
            self._swept = now
            self._sweep()
        with self._lock:
            due = min(now + _IDLE_S, now + self.heartbeat_s, bounded)
            if self._holds:
                due = min(due, self._lease.deadline)
            if self._requests.is_up and self.timeout_s is not None:
                due = min(due, self._check_silence(now), self._arm_watches(now), self._keep_fresh(now))
                due = min(due, self._stamp(now))
            self._wakes_at = due
            return due

    def _end_bounded(self, now: float) -> float:
        """End the holds whose max_hold is over at `now`; return when the next one's is."""
        while True:
            with self._lock:
                while self._bounded and self._bounded[0][2] not in self._holds:
                    heapq.heappop(self._bounded)
                if not self._bounded or self._bounded[0][0] > now:
                    return self._bounded[0][0] if self._bounded else float("inf")
                _, _, hold = heapq.heappop(self._bounded)
            hold.loss(now)

    def _lapse(self) -> None:
        self.lose_all(LossReason.DEADLINE)

    def _check_silence(self, now: float) -> float:
        """Break a connection whose server has not answered for 2/3 of the session time, as kazoo itself would."""
        assert self.timeout_s is not None
        oldest = self._requests.oldest_sent()
        if oldest is None:
            return float("inf")
        patience = self.timeout_s * 2 / 3
        if now - oldest >= patience:
            log.info("connection.silent", for_s=round(now - oldest, 3))
            kazoo_private.drop_connection(self._client)
            return now + _IDLE_S
        return oldest + patience

    def _keep_fresh(self, now: float) -> float:
        """Send the heartbeat, or the idle read, that is due; return when the next one is."""
        assert self.timeout_s is not None
        if not self._members:
            due = self._requests.last_sent + self.timeout_s / 4
            if now < due:
                return due
            self._requests.submit(Exists(full_path(self._client, "/"), None), lambda value, error: None)
            return now + self.timeout_s / 4
        due = self._beat_sent + self.heartbeat_s
        if self._confirming:
            due = max(self._lease.next_proof() or now, self._beat_sent + _MIN_BEAT_GAP_S)
        if now >= due and not self._is_beating:
            self._beat(now)
            due = now + self.heartbeat_s
        return max(due, now + _MIN_BEAT_GAP_S)

    def _beat(self, now: float) -> None:
        path, on_gone = next(iter(self._members.items()))
        self._members.move_to_end(path)
        self._beat_sent = now
        self._is_beating = True

        def answered(results: list[Any] | None, error: Exception | None) -> None:
            self._is_beating = False
            if isinstance(error or (results and results[0]), NoNodeError):
                with self._lock:
                    is_ours = self._members.get(path) is on_gone
                    if is_ours:  # at once, in case that an interrupt has left it here for nobody
                        del self._members[path]
                        # It confirmed nothing: the next member's turn.
                        self._beat_sent = float("-inf")
                        self._kick()
                if is_ours:
                    on_gone()
            elif isinstance(results and results[0], NoAuthError):
                log.warning(
                    "heartbeat.refused", path=path, hint="the member's acl must give READ to its owner"
                )
            elif error is not None:
                log.debug("heartbeat.failed", error=repr(error))

        check = Transaction([CheckVersion(full_path(self._client, path), -1)])
        self._requests.submit(check, answered, is_confirmed=True, is_urgent=True)

    def _is_fresh(self, now: float) -> bool:
        return self._requests.is_up and self._lease.deadline - now >= self.heartbeat_s

    # --- own members

    def _arm_watches(self, now: float) -> float:
        for _ in range(_AT_ONCE):
            if not self._unwatched:
                return float("inf")
            hold = self._unwatched[0]
            if hold not in self._holds:
                self._unwatched.popleft()
            elif hold.granted_at + OWN_WATCH_AFTER_S <= now:
                self._unwatched.popleft()
                for node in hold.nodes:
                    self._watch(hold, node)
            else:
                return hold.granted_at + OWN_WATCH_AFTER_S
        return now + _PAUSE_S

    def _stamp(self, now: float) -> float:
        """Write since when a hold is held, once, if it outlives a heartbeat. Never over somebody else's write."""
        for _ in range(_AT_ONCE):
            if not self._unstamped or self._unstamped[0].granted_at + self.heartbeat_s > now:
                return float("inf")
            hold = self._unstamped.popleft()
            if hold in self._holds and hold.stamp is not None:
                path = full_path(self._client, hold.nodes[0].path)
                self._requests.submit(SetData(path, hold.stamp, 0), lambda value, error: None)
        return now + _PAUSE_S

    def _watch(self, hold: Hold, node: Node) -> None:
        """Look at a hold's own member and leave a watch, which catches a delete or a revocation within a round trip."""

        def looked(answer: tuple[bytes, Any] | None, error: Exception | None) -> None:
            if answer is not None:
                if answer[0] == REVOKE:
                    hold.revoke()
            elif error is None:
                hold.lose(LossReason.DELETED)

        def fired(is_deleted: bool) -> None:
            if is_deleted:
                hold.lose(LossReason.DELETED)
                return
            with self._lock:
                if hold in self._holds:
                    self._watch(hold, node)

        subscription = self._watches.get(node.path, looked, fired)
        subscriptions = self._holds.get(hold)
        if subscriptions is None:
            self._watches.release(subscription)
        else:
            subscriptions.append(subscription)
