"""
One hold: what an owner has between the grant and its release or loss.

All grants of one owner on one path share it. Whether it is still held is computed at every look, from the session's
lease and from what has ended it; the ending itself happens once and is told to whoever waits for it.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from zkcoord._core.grant import HoldState, LossReason, Status, loss_at, status
from zkcoord._core.lease import Lease
from zkcoord._core.messages import Node
from zkcoord._session.log import get_logger

log = get_logger("grant")


#: Where the registry keeps a hold: path, marker, and the owner's key.
Key = tuple[str, str, str]


class Watchman(Protocol):
    """What a hold needs of its session's guard."""

    def now(self) -> float: ...

    def late_after(self) -> float: ...

    def is_connected(self) -> bool: ...

    def ended(self, hold: "Hold", on_deleted: Callable[[bool], None] | None = None) -> None: ...


class Hold:
    """
    A granted contender's members. Thread-safe.

    Args:
        path: the lock's path, for messages.
        nodes: the members, one per place.
        lease: the lease of the session that owns them.
        watchman: the guard of that session.
        token: the fencing token; None = the first member's czxid.
        stamp: data for the first member that say since when it holds, worth writing when it waited for long.
        max_hold_s: seconds after which it is lost whatever happens; None = never.
    """

    def __init__(
        self,
        path: str,
        nodes: tuple[Node, ...],
        lease: Lease,
        watchman: Watchman,
        *,
        token: int | None = None,
        stamp: bytes | None = None,
        max_hold_s: float | None = None,
    ) -> None:
        self.path = path
        self.nodes = nodes
        self.token = nodes[0].czxid if token is None else token
        self.session = nodes[0].session
        self.granted_at = watchman.now()
        self.until = float("inf") if max_hold_s is None else self.granted_at + max_hold_s
        self.grants = 0
        self.keys: tuple[Key, ...] = ()
        self.stamp = stamp
        self._lease = lease
        self._watchman = watchman
        self._state = HoldState()
        # Entered itself, never by the condition, whose Python code an interrupt could leave with the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._on_lost: dict[object, Callable[[LossReason], None]] = {}
        self._on_revoke: dict[object, Callable[[], None]] = {}
        self._on_over: dict[object, Callable[[], None]] = {}
        self._is_asked = False
        #: Whether a delete of ours, not somebody else's, has removed its first member.
        self.is_deleted_by_us = False

    @property
    def deadline(self) -> float:
        """Until when it is surely ours, if nothing more is heard of the session."""
        return min(self._lease.deadline, self.until)

    def remaining(self) -> float:
        """Seconds for which it is surely ours; 0 when it is over."""
        if self._state.is_over:
            return 0.0
        return max(0.0, self.deadline - self._watchman.now())

    def status(self) -> Status:
        """What it is worth now. A deadline seen as passed ends it for good."""
        now = self._watchman.now()
        if self.loss(now) is not None:
            return Status.LOST
        return status(
            self._state, self.deadline, now, self._watchman.is_connected(), self._watchman.late_after()
        )

    def loss(self, now: float | None = None) -> LossReason | None:
        """Why it is lost; None while it is held or when it was released."""
        moment = self._watchman.now() if now is None else now
        reason = loss_at(self._state, self._lease.deadline, moment, self.until)
        if reason is not None:
            self.lose(reason)
        return self._state.lost

    def lose(self, reason: LossReason) -> bool:
        """End it as lost and tell everybody; False if it was over already."""
        with self._lock:
            if self._is_asked and reason is LossReason.DELETED:
                reason = LossReason.REVOKED
            if not self._state.lose(reason):
                return False
            self._on_revoke.clear()
            callbacks = list(self._on_lost.values())
            self._on_lost.clear()
            over = list(self._on_over.values())
            self._on_over.clear()
            self._changed.notify_all()
        level = (
            logging.INFO if reason is LossReason.CLOSED else logging.WARNING
        )  # closing is what the user asked for
        log.log(level, "grant.lost", path=self.path, token=self.token, reason=reason.value)
        self._watchman.ended(self)
        for callback in callbacks:
            callback(reason)
        for told in over:
            told()
        return True

    @property
    def is_over(self) -> bool:
        """Whether it was released or lost; its members are being removed then."""
        return self._state.is_over

    def release(self, on_deleted: Callable[[bool], None] | None = None) -> bool:
        """
        End it as released, and have its members deleted.

        Args:
            on_deleted: told once, when True is returned; with False if somebody else had deleted its first member.

        Returns:
            False if it was over already, or its deadline has passed.
        """
        if self.loss() is not None:
            return False
        with self._lock:
            if not self._state.release():
                return False
            self._on_lost.clear()
            self._on_revoke.clear()
            over = list(self._on_over.values())
            self._on_over.clear()
            self._changed.notify_all()
        held_s = self._watchman.now() - self.granted_at
        log.debug("release.done", path=self.path, token=self.token, held_s=round(held_s, 6))
        self._watchman.ended(self, on_deleted)
        for told in over:
            told()
        return True

    def wait_lost(self, timeout_s: float | None) -> bool:
        """Wait until it is lost, or released, or the time is up; whether it is lost."""
        give_up = None if timeout_s is None else self._watchman.now() + timeout_s
        with self._lock:
            while not self._state.is_over:
                now = self._watchman.now()
                left = self.deadline - now if give_up is None else min(self.deadline, give_up) - now
                if left <= 0:
                    break
                self._changed.wait(left)
        return self.loss() is not None

    def on_over(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` told once when it is released or lost; at once if it is. Returns how to undo it."""
        key = object()
        self.loss()
        with self._lock:
            is_over = self._state.is_over
            if not is_over:
                self._on_over[key] = callback
        if is_over:
            callback()
        return lambda: self._on_over.pop(key, None) and None

    def on_lost(self, callback: Callable[[LossReason], None]) -> Callable[[], None]:
        """Have `callback` told once, by whoever notices; at once if it is lost already. Returns how to undo it."""
        key = object()
        reason = self.loss()
        with self._lock:
            if self._state.lost is None:
                if not self._state.is_released:
                    self._on_lost[key] = callback
                reason = None
            else:
                reason = self._state.lost
        if reason is not None:
            callback(reason)
        return lambda: self._on_lost.pop(key, None) and None

    def revoke(self) -> None:
        """Somebody asks for it back: tell whoever wants to know, once. It stays held until its owner acts."""
        with self._lock:
            if self._is_asked or self._state.is_over:
                return
            self._is_asked = True
            callbacks = list(self._on_revoke.values())
        log.warning("grant.revocation_requested", path=self.path, token=self.token)
        for callback in callbacks:
            callback()

    def on_revoke(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` told once when somebody asks for it back; at once if that was. Returns how to undo it."""
        key = object()
        with self._lock:
            is_asked = self._is_asked and not self._state.is_over
            if not self._state.is_over:
                self._on_revoke[key] = callback
        if is_asked:
            callback()
        return lambda: self._on_revoke.pop(key, None) and None
