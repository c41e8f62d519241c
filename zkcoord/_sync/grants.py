"""`Grant`: the capability that an acquire returns, for threads."""

import os
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import CheckVersion, GetChildren
from kazoo.protocol.serialization import Transaction as TransactionRequest

from zkcoord._arguments import seconds
from zkcoord._core.grant import LossReason, Status
from zkcoord._core.queue import conflicts_of
from zkcoord._session import clock, kazoo_private, process
from zkcoord._session.fenced import Operations, fence_error, first_refusal
from zkcoord._session.hold import Hold
from zkcoord._session.requests import LinkLostError
from zkcoord._session.session import Session
from zkcoord._session.wire import USUAL_REQUEST_BYTES
from zkcoord._spec import AcquireCall, timeout_s
from zkcoord._sync.driver import Signal, call
from zkcoord.errors import ConfigError, ConnectionLostError, GrantLostError, NotHeldError, QueueConflictError


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


class Grant:
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
        # While the list is empty the grant is released; until it is complete, there is nothing to warn of.
        self._claim: list[Hold] = []
        self.path = ask.spec.title
        self.name = next(node.name for node in hold.nodes if node.directory == ask.spec.path)
        self.token = hold.token
        self._coordinator = ask.coordinator
        self._session = session
        self._spec = ask.spec
        self._hold = hold
        self._pid = os.getpid()
        self._was_lost = False
        self._was_deleted = False  # by somebody else, and found so only by our own delete
        self._claim = ask.counted
        into.append(self)

    def __repr__(self) -> str:
        return f"<Grant {self.path} token={self.token} {self.status.value}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            f"a Grant cannot be pickled or copied, since its hold belongs to this process: hand over its token"
            f" ({self.token}) as a fence, or acquire {self.path} where it is needed"
        )

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

    def __del__(self) -> None:
        is_begun = "_claim" in self.__dict__  # not when Ctrl-C struck at the entry of the constructor
        if is_begun and not self.is_released and self._pid == os.getpid() and self._hold.loss() is None:
            warnings.warn(
                f"{self!r} was dropped without release() and stays held", ResourceWarning, stacklevel=2
            )

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing token of each path; one entry except for a multi-lock, whose tokens are all the same."""
        return {path: self.token for path, _ in self._spec.places}

    @property
    def status(self) -> Status:
        """What the grant is worth now: ``HELD``, ``UNCERTAIN``, ``LOST`` or ``RELEASED``. Local, no I/O."""
        self._check_process()
        return Status.RELEASED if self.is_released else self._hold.status()

    @property
    def is_released(self) -> bool:
        """Whether this grant was given back."""
        return not self._claim

    @property
    def loss_reason(self) -> str | None:
        """Why the grant is lost, one of the reasons listed at `GrantLostError`; None while it is not. Local, no I/O."""
        self._check_process()
        reason = self._hold.loss()
        return None if self.is_released or reason is None else reason.value

    @property
    def lost(self) -> LostSignal:
        """The loss, to look at (`is_set`) and to wait for (`wait`)."""
        return LostSignal(self)

    def remaining(self) -> float:
        """Seconds for which it is surely held, if nothing is heard any more; 0 when it is not. Local, no I/O."""
        self._check_process()
        return 0.0 if self.is_released else self._hold.remaining()

    def check(self, min_remaining: float = 0.0) -> None:
        """
        Return if it is surely held, for at least `min_remaining` more seconds. Local, no I/O.

        Raises:
            GrantLostError: lost, or less is left.
            NotHeldError: this grant was released.
        """
        wanted_s = seconds("min_remaining", min_remaining)
        self._check_process()
        if self.is_released:
            raise NotHeldError(self.path, "this grant was released")
        reason = self._hold.loss()
        if reason is not None:
            raise self._lost_error(reason)
        left_s = self._hold.remaining()
        if left_s < wanted_s:
            raise GrantLostError(
                self.path,
                self.token,
                LossReason.DEADLINE.value,
                f"surely for {left_s:.2f} s only, and {wanted_s:.2f} s were asked for; a longer session timeout gives"
                " more",
                is_still_held=True,
            )

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
        rules = dict(self._spec.places)
        nodes = self._hold.nodes
        check = TransactionRequest([CheckVersion(self._full(node.path), -1) for node in nodes])
        answers = self._ask(check, limit_s, is_confirmed=True, is_repeatable=True)
        refused = first_refusal(answers)
        if refused is not None:
            raise fence_error(self._hold, refused) from refused
        for node in nodes:
            if node.directory not in rules:
                continue  # held by a multi-lock, of which this grant is one path
            children = self._ask(GetChildren(self._full(node.directory), None), limit_s, is_repeatable=True)
            conflicts = conflicts_of(children, node.name, rules[node.directory])
            if conflicts:
                raise QueueConflictError(node.directory, conflicts)
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
        if not callable(callback):
            raise ConfigError(f"callback must be callable, not {type(callback).__name__}")
        self._check_process()

        def lost(reason: LossReason) -> None:
            if not self.is_released or self._was_lost:
                self._session.callbacks.run(lambda: callback(self, reason.value))

        return self._hold.on_lost(lost)

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
        if not callable(callback):
            raise ConfigError(f"callback must be callable, not {type(callback).__name__}")
        self._check_process()

        def asked() -> None:
            if not self.is_released:
                self._session.callbacks.run(lambda: callback(self))

        return self._hold.on_revoke(asked)

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
            self._session.guard.unfinished.append(
                self._drop
            )  # should an interrupt strike in it, the guard does it
            self._drop()
            self._session.guard.finished(self._drop)
            raise
        if not kazoo_private.is_kazoo_thread(self._session.client, threading.current_thread()):
            done.wait(clock.now() + self._coordinator.release_timeout)  # there the answer could not arrive
        self._was_deleted = was_there == [False]
        return not self._was_deleted

    def _drop(self) -> None:
        """Give it back, if that is still to be done, without waiting. For zkcoord itself; may be called again."""
        if self._pid != os.getpid():
            return
        self._coordinator.registry.leave(self._claim)
        if not self._hold.grants:
            self._coordinator.registry.forget(self._hold)
            self._session.release(self._hold)

    def _check_process(self) -> None:
        process.check(self._pid, f"this Grant of {self.path}")

    def _lost_error(self, reason: LossReason) -> GrantLostError:
        return GrantLostError(self.path, self.token, reason.value)

    def _full(self, path: str) -> str:
        return (self._session.client.chroot or "") + path

    def _ask(
        self, request: Any, limit_s: float | None, *, is_confirmed: bool = False, is_repeatable: bool = False
    ) -> Any:
        """Ask the server something about this grant, at most until its deadline."""
        give_up_at = float("inf") if limit_s is None else clock.now() + limit_s
        try:
            return self._call(request, give_up_at, is_confirmed, is_repeatable)
        except LinkLostError as error:
            self.check()
            size = len(request.serialize()) if error.maybe_applied else 0
            if size >= USUAL_REQUEST_BYTES:
                raise ConfigError(
                    f"the connection broke under one request of {size} bytes; servers take {USUAL_REQUEST_BYTES}"
                    " unless jute.maxbuffer says otherwise, and hang up without a word: write less at a time"
                ) from error
            raise ConnectionLostError(
                f"no answer about {self.path} in time; the grant itself is {self.status.value} for"
                f" {self.remaining():.2f} s more",
                maybe_applied=error.maybe_applied,
            ) from error
        except KazooException as error:
            raise ConnectionLostError(f"the server refused to answer about {self.path}: {error!r}") from error

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
        if reason is None and grant._was_deleted:
            reason = LossReason.DELETED
        if reason is not None:
            raise grant._lost_error(reason)
        return
    try:
        grant.release()
    except Exception as failure:
        error.add_note(f"releasing {grant.path} failed as well: {failure!r}")
    if reason is None and grant._was_deleted:
        reason = LossReason.DELETED
    if reason is not None:
        error.add_note(f"the grant of {grant.path} (token {grant.token}) was lost meanwhile: {reason.value}")
