"""`Grant`: the capability that an acquire returns, for threads."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kazoo.exceptions import KazooException

from zkcoord._core.grant import Status
from zkcoord._grants import BaseGrant
from zkcoord._session import clock, kazoo_private
from zkcoord._session.fenced import Operations
from zkcoord._session.hold import Hold
from zkcoord._session.requests import LinkLostError
from zkcoord._session.session import Session
from zkcoord._spec import AcquireCall, timeout_s
from zkcoord._sync.driver import Signal, call


class LostSignal:
    """The loss of a grant as something to look at and to wait for. Computed at each look; it never goes back."""

    __slots__ = ("_grant",)

    def __init__(self, grant: "Grant") -> None:
        self._grant = grant

    def is_set(self) -> bool:
        """Whether the grant is lost. False while it is held, and after its release."""
        return self._grant.status is Status.LOST

    def wait(self, timeout: float | None = None) -> bool:
        """
        Sleep until the grant is lost or released, at most `timeout` seconds; whether it is lost.

        The loss is seen at the latest when the deadline passes, without any help from the network.
        """
        limit = timeout_s("timeout", timeout)
        self._grant._hold.wait_lost(limit)
        return self.is_set()


class Transaction(Operations):
    """
    Writes that only commit while the grant is held. A context manager: leaving it without an error commits.

    Attributes:
        results: one result per operation, in order; empty before the commit.
    """

    def __init__(self, grant: "Grant", timeout: float | None) -> None:
        super().__init__(grant._session.client, grant._hold, grant._coordinator.acl)
        self._grant = grant
        self._timeout_s = timeout_s("timeout", timeout)
        self.results: tuple[Any, ...] = ()

    def __enter__(self) -> Self:
        self._grant.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()

    def commit(self) -> tuple[Any, ...]:
        """
        Send it, and return the results; done by leaving the context manager.

        Raises:
            GrantLostError: the grant was lost; nothing was applied.
            TransactionError: an operation was refused; nothing was applied.
            ConnectionLostError: no answer came; it may have been applied.
        """
        self._grant.check()
        answers = self._grant._ask(self.request(), self._timeout_s, is_confirmed=True)
        self.results = self.take(answers)
        return self.results


class Grant(BaseGrant):
    """
    One acquire's claim on a lock. Returned by `acquire`; never made by hand.

    Re-entrant acquires of one owner return one Grant each over a shared hold; the hold ends when the last of them is
    released, in any order. A Grant dropped without release stays held, and warns.

    Attributes:
        path: the lock's path.
        name: our member's name in the lock's directory.
        token: the fencing token: the transaction id (czxid) that created the member. Strictly larger than that of every
            earlier exclusive grant of this path; re-entries share it. Hand it to whatever the lock protects, and let it
            refuse smaller ones.

    Safety: every method may be called from any thread. In a forked child they raise `ForeignProcessError`.
    """

    def __init__(self, ask: AcquireCall, session: Session, hold: Hold, into: list["Grant"]) -> None:
        super().__init__(ask, session, hold)
        into.append(self)

    def __enter__(self) -> Self:
        try:
            self.check()
            return self
        except BaseException:  # no body will run, nor anybody leave it
            self._session.guard.unfinished.append(self._drop)
            self._drop()
            self._session.guard.finished(self._drop)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            leave(self, error)
        except BaseException:
            self._session.guard.unfinished.append(self._drop)
            self._drop()
            self._session.guard.finished(self._drop)
            raise

    @property
    def lost(self) -> LostSignal:
        """The loss, to look at (`is_set`) and to wait for (`wait`)."""
        return LostSignal(self)

    def verify(self, timeout: float | None = None) -> None:
        """
        Ask the ensemble whether it is held: one round trip, answered only by a leader with a quorum.

        Args:
            timeout: most seconds to wait; None waits as long as the grant lasts by its own deadline.

        Raises:
            GrantLostError: it is lost.
            NotHeldError: this grant was released.
            ConnectionLostError: no answer came in time; the grant may still be held.
            ConfigError: the member's acl does not let these credentials look at it.
            QueueConflictError: members of another lock library, which do not see ours, are in the queue.
        """
        limit_s = timeout_s("timeout", timeout)
        self.check()
        members = self._look_at_members()
        self._check_members(self._ask(members, limit_s, is_confirmed=True, is_repeatable=True))
        for directory, name, request in self._look_at_queues():
            self._check_queue(directory, name, self._ask(request, limit_s, is_repeatable=True))
        self.check()

    def on_lost(self, callback: Callable[["Grant", str], object]) -> Callable[[], None]:
        """
        Have ``callback(grant, reason)`` called once if the grant is lost; at once if it is lost already.

        It runs on a thread of zkcoord's, never on kazoo's; what it raises is logged. `reason` is one of those listed at
        `GrantLostError`.

        Returns:
            A function that takes the callback back.

        Raises:
            ConfigError: `callback` cannot be called.
        """
        return self._run_when_lost(callback, self._session.callbacks.run)

    def on_revoke(self, callback: Callable[["Grant"], object]) -> Callable[[], None]:
        """
        Have ``callback(grant)`` called once when somebody asks for the lock back (`revoke`, Curator's ``Revoker``).

        At once if that was the case already. Nothing else happens: the callback decides, for example by releasing the
        grant. Without one, a request is only logged. It runs on a thread of zkcoord's; what it raises is logged.

        Returns:
            A function that takes the callback back.

        Raises:
            ConfigError: `callback` cannot be called.
        """
        return self._run_when_revoked(callback, self._session.callbacks.run)

    def transaction(self, timeout: float | None = None) -> Transaction:
        """
        Begin writes to ZooKeeper that only commit while this grant is held.

        Args:
            timeout: most seconds to wait for the commit; None waits as long as the grant lasts by its own deadline.
        """
        self._check_process()
        return Transaction(self, timeout)

    def release(self) -> bool:
        """
        Give the grant back. The hold ends with its last grant, and the member is deleted.

        Waits for the server at most the coordinator's ``release_timeout``; the delete then goes on in the background
        until it is done or the session has ended. Never raises for a lost grant.

        Returns:
            True when this call ended it; False when it was released or lost already, its deleted member included.

        Raises:
            ForeignProcessError: called in a forked child.
        """
        self._check_process()
        if not self._claim:
            return False
        done = Signal()
        was_there: list[bool] = []

        def deleted(is_first: bool) -> None:
            was_there.append(is_first)
            done.set()

        try:
            self._was_lost = self._hold.loss() is not None  # those who want to know may be still to be told
            last = self._coordinator.registry.leave(self._claim)
            if last is None:
                return self._hold.loss() is None
            if not self._session.release(last, deleted):
                return False
        except BaseException:
            # Should an interrupt strike in it, the guard does it.
            self._session.guard.unfinished.append(self._drop)
            self._drop()
            self._session.guard.finished(self._drop)
            raise
        if not kazoo_private.is_kazoo_thread(self._session.client, threading.current_thread()):
            done.wait(clock.now() + self._coordinator.release_timeout)  # there the answer could not arrive
        self._was_deleted = was_there == [False]
        return not self._was_deleted

    def _ask(
        self, request: Any, limit_s: float | None, *, is_confirmed: bool = False, is_repeatable: bool = False
    ) -> Any:
        """Ask the server something about this grant, at most until its deadline."""
        give_up_at = float("inf") if limit_s is None else clock.now() + limit_s
        try:
            return self._call(request, give_up_at, is_confirmed, is_repeatable)
        except (LinkLostError, KazooException) as error:
            raise self._unanswered(error, request) from error

    def _call(self, request: Any, give_up_at: float, is_confirmed: bool, is_repeatable: bool) -> Any:
        """Send once there is a connection; again where that does no harm."""
        while True:
            give_up = min(self._hold.deadline, give_up_at)
            try:
                return call(self._session, request, give_up, is_confirmed=is_confirmed)
            except LinkLostError as error:
                left_s = give_up - clock.now()
                is_final = error.maybe_applied and not is_repeatable
                if is_final or left_s <= 0 or not self._session.wait_connected(left_s):
                    raise


def leave(grant: Grant, error: BaseException | None) -> None:
    """
    End a ``with`` body: release, and say if the grant was lost under it.

    The body's own error propagates, with what else went wrong as a note.

    Raises:
        GrantLostError: the body ended well, but the grant had been lost.
    """
    reason = grant._hold.loss()
    if error is None:
        grant.release()
        grant._raise_loss(reason)
        return
    try:
        grant.release()
    except Exception as failure:
        error.add_note(f"releasing {grant.path} failed as well: {failure!r}")
    grant._note_loss(error, reason)
