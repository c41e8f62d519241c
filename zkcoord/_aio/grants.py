"""`AsyncGrant`: the capability that an acquire returns, for asyncio."""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kazoo.exceptions import KazooException

from zkcoord._aio.driver import Signal, call, wait_connected
from zkcoord._aio.scope import Scope
from zkcoord._core.grant import Status
from zkcoord._grants import BaseGrant, give_back
from zkcoord._session import clock
from zkcoord._session.fenced import Operations
from zkcoord._session.hold import Hold
from zkcoord._session.log import get_logger
from zkcoord._session.loops import tell
from zkcoord._session.requests import LinkLostError
from zkcoord._session.session import Session
from zkcoord._spec import AcquireCall, timeout_s
from zkcoord.errors import ConfigError

log = get_logger("callbacks")


class AsyncLostSignal:
    """The loss of a grant as something to look at and to wait for. Computed at each look; it never goes back."""

    __slots__ = ("_grant",)

    def __init__(self, grant: "AsyncGrant") -> None:
        self._grant = grant

    def is_set(self) -> bool:
        """Whether the grant is lost. False while it is held, and after its release."""
        return self._grant.status is Status.LOST

    async def wait(self, timeout: float | None = None) -> bool:
        """
        Sleep until the grant is lost or released, at most `timeout` seconds; whether it is lost.

        The loss is seen at the latest when the deadline passes, without any help from the network.
        """
        limit = timeout_s("timeout", timeout)
        hold = self._grant._hold
        give_up = float("inf") if limit is None else clock.now() + limit
        over = Signal()
        undo = hold.on_over(over.set)
        try:
            while not await over.wait(min(hold.deadline, give_up)):  # the deadline moves on meanwhile
                if clock.now() >= min(hold.deadline, give_up):
                    break
        finally:
            undo()
        return self.is_set()


class AsyncTransaction(Operations):
    """
    Writes that only commit while the grant is held. A context manager: leaving it without an error commits.

    Attributes:
        results: one result per operation, in order; empty before the commit.
    """

    def __init__(self, grant: "AsyncGrant", timeout: float | None) -> None:
        super().__init__(grant._session.client, grant._hold, grant._coordinator.acl)
        self._grant = grant
        self._timeout_s = timeout_s("timeout", timeout)
        self.results: tuple[Any, ...] = ()

    async def __aenter__(self) -> Self:
        self._grant.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.commit()

    async def commit(self) -> tuple[Any, ...]:
        """
        Send it, and return the results; done by leaving the context manager.

        Raises:
            GrantLostError: the grant was lost; nothing was applied.
            TransactionError: an operation was refused; nothing was applied.
            ConnectionLostError: no answer came; it may have been applied.
        """
        self._grant.check()
        answers = await self._grant._ask(self.request(), self._timeout_s, is_confirmed=True)
        self.results = self.take(answers)
        return self.results


class AsyncGrant(BaseGrant):
    """
    One acquire's claim on a lock. Returned by `acquire`; never made by hand.

    Re-entrant acquires of one owner return one AsyncGrant each over a shared hold; the hold ends when the last of them
    is released, in any order. An AsyncGrant dropped without release stays held, and warns. When its loop is closed it
    is released within a heartbeat.

    Attributes:
        path: the lock's path.
        name: our member's name in the lock's directory.
        token: the fencing token: the transaction id (czxid) that created the member. Strictly larger than that of every
            earlier exclusive grant of this path; re-entries share it. Hand it to whatever the lock protects, and let it
            refuse smaller ones.

    Safety: every method may be called from any task. In a forked child they raise `ForeignProcessError`.
    """

    def __init__(self, ask: AcquireCall, session: Session, hold: Hold, into: list["AsyncGrant"]) -> None:
        super().__init__(ask, session, hold)
        self._loop = asyncio.get_running_loop()
        self._scopes: list[Scope] = []
        # Without a reference to the grant itself, which may be dropped, and then says so.
        self._ward = functools.partial(give_back, ask.coordinator.registry, session, self._claim, hold)
        session.guard.wards.add(self._loop.is_closed, self._ward)
        into.append(self)

    async def __aenter__(self) -> Self:
        try:
            self.check()
            self._enter()
            return self
        except BaseException:  # no body will run, nor anybody leave it
            self._session.guard.unfinished.append(self._drop)
            self._drop()
            self._session.guard.finished(self._drop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await leave(self, error)
        except BaseException:
            self._session.guard.unfinished.append(self._drop)
            self._drop()
            self._session.guard.finished(self._drop)
            raise

    @property
    def lost(self) -> AsyncLostSignal:
        """The loss, to look at (`is_set`) and to wait for (`wait`)."""
        return AsyncLostSignal(self)

    async def verify(self, timeout: float | None = None) -> None:
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
        self._check_members(await self._ask(members, limit_s, is_confirmed=True, is_repeatable=True))
        for directory, name, request in self._look_at_queues():
            self._check_queue(directory, name, await self._ask(request, limit_s, is_repeatable=True))
        self.check()

    def on_lost(self, callback: Callable[["AsyncGrant", str], object]) -> Callable[[], None]:
        """
        Have ``callback(grant, reason)`` called once if the grant is lost; at once if it is lost already.

        It runs on the grant's loop, as a plain function; what it raises is logged. `reason` is one of those listed at
        `GrantLostError`.

        Returns:
            A function that takes the callback back.

        Raises:
            ConfigError: `callback` cannot be called, or is a coroutine function.
        """
        return self._run_when_lost(callback, self._runner_of(callback))

    def on_revoke(self, callback: Callable[["AsyncGrant"], object]) -> Callable[[], None]:
        """
        Have ``callback(grant)`` called once when somebody asks for the lock back (`revoke`, Curator's ``Revoker``).

        At once if that was the case already. Nothing else happens: the callback decides, for example by releasing the
        grant. Without one, a request is only logged. It runs on the grant's loop, as a plain function; what it raises
        is logged.

        Returns:
            A function that takes the callback back.

        Raises:
            ConfigError: `callback` cannot be called, or is a coroutine function.
        """
        return self._run_when_revoked(callback, self._runner_of(callback))

    def transaction(self, timeout: float | None = None) -> AsyncTransaction:
        """
        Begin writes to ZooKeeper that only commit while this grant is held.

        Args:
            timeout: most seconds to wait for the commit; None waits as long as the grant lasts by its own deadline.
        """
        self._check_process()
        return AsyncTransaction(self, timeout)

    async def release(self) -> bool:
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
            self._session.guard.wards.remove(self._loop.is_closed, self._ward)
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
        await done.wait(clock.now() + self._coordinator.release_timeout)
        self._was_deleted = was_there == [False]
        return not self._was_deleted

    def _drop(self) -> None:
        if self._pid != os.getpid():
            return
        super()._drop()
        self._session.guard.wards.remove(self._loop.is_closed, self._ward)

    def _enter(self) -> None:
        """Begin an ``async with`` body."""
        if self._spec.cancels:
            self._scopes.append(Scope(self))

    def _runner_of(self, callback: object) -> Callable[[Callable[[], object]], object]:
        if inspect.iscoroutinefunction(callback):
            raise ConfigError("callback must be a plain function: let it start a task, or wait for `lost`")
        return lambda run: tell(self._loop, _run, run)

    async def _ask(
        self, request: Any, limit_s: float | None, *, is_confirmed: bool = False, is_repeatable: bool = False
    ) -> Any:
        """Ask the server something about this grant, at most until its deadline."""
        give_up_at = float("inf") if limit_s is None else clock.now() + limit_s
        try:
            return await self._call(request, give_up_at, is_confirmed, is_repeatable)
        except (LinkLostError, KazooException) as error:
            raise self._unanswered(error, request) from error

    async def _call(self, request: Any, give_up_at: float, is_confirmed: bool, is_repeatable: bool) -> Any:
        """Send once there is a connection; again where that does no harm."""
        while True:
            give_up = min(self._hold.deadline, give_up_at)
            try:
                return await call(self._session, request, give_up, is_confirmed=is_confirmed)
            except LinkLostError as error:
                is_final = error.maybe_applied and not is_repeatable
                if is_final or clock.now() >= give_up or not await wait_connected(self._session, give_up):
                    raise


async def leave(grant: AsyncGrant, error: BaseException | None) -> None:
    """
    End an ``async with`` body: release, and say if the grant was lost under it.

    The body's own error propagates, with what else went wrong as a note; a cancellation that was only ours is none.

    Raises:
        GrantLostError: the body ended well, or by our cancellation, but the grant had been lost.
    """
    is_ours = bool(grant._scopes) and grant._scopes.pop().close(error)
    reason = grant._hold.loss()
    if isinstance(error, GeneratorExit):
        grant._drop()  # the coroutine is thrown away, maybe without a loop: it must not wait any more
    elif error is None or is_ours:
        await grant.release()
        grant._raise_loss(reason, error)
        return
    else:
        try:
            await grant.release()
        except Exception as failure:
            error.add_note(f"releasing {grant.path} failed as well: {failure!r}")
    grant._note_loss(error, reason)


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        log.exception("callback.failed", callback=repr(callback))
