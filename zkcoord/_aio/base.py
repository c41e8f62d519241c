"""What every lock for asyncio does: acquire, try, show its queue, and be a context manager."""

import asyncio
import uuid
import weakref
from types import TracebackType

from kazoo.client import KazooClient

from zkcoord import queues
from zkcoord._aio import operators
from zkcoord._aio.driver import acquire, session_of, wait_connected
from zkcoord._aio.grants import AsyncGrant, leave
from zkcoord._arguments import seconds
from zkcoord._core.names import Rule
from zkcoord._core.queue import find_conflicts
from zkcoord._default import default_coordinator
from zkcoord._session import clock
from zkcoord._session.identity import Owner, current_task_owner
from zkcoord._session.loops import off_loop
from zkcoord._session.session import Waiting
from zkcoord._spec import DEFAULT, AcquireCall, Default, Spec, timeout_s, unreachable
from zkcoord.coordinator import Coordinator, coordinator_for
from zkcoord.errors import (
    AcquireTimeoutError,
    ConfigError,
    ConnectionLostError,
    NotHeldError,
    QueueConflictError,
)

#: Least time for the reads of `queue`, whatever the connecting has left.
_LAST_LOOK_S = 0.1


class AsyncLock:
    """
    The common part of the locks; see `AsyncZkLock`. Not made by itself.

    Args:
        spec: the checked arguments.
        client: as the user gave it.
    """

    def __init__(self, spec: Spec, client: Coordinator | KazooClient | None) -> None:
        self._spec = spec
        self._client = client
        if client is not None:
            coordinator_for(client)
        self._waiting: set[Waiting] = set()
        self._entered: list[tuple[str, AsyncGrant, weakref.ref[asyncio.Task[object]]]] = []
        self._was_busy = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.path}>"

    @property
    def path(self) -> str:
        """The lock's path, in its one spelling."""
        return self._spec.path

    async def acquire(self, *, timeout: float | Default | None = DEFAULT) -> AsyncGrant:
        """
        Wait for the lock and return the grant.

        Args:
            timeout: seconds for everything, connecting included; DEFAULT = the constructor's, None = for ever,
                0 = one try.

        Raises:
            AcquireTimeoutError: the time ran out; who is in the way is in its fields.
            AcquireCancelledError: the coordinator was closed.
            AlreadyHeldError: this owner holds it and the lock is not reentrant, or holds it through another client.
            QueueConflictError: the directory has members of another lock library or kind.
            SequenceExhaustedError: the directory's counter is nearly used up.
            ConnectionLostError: one try (``timeout=0``) got no answer, or the client has ended meanwhile.
            ConfigError: the coordinator is closed, the client stopped, or its credentials do not suffice.
            ForeignProcessError: the coordinator was made by this process's parent.

        On the server: nothing of ours remains after an error, as soon as the connection is back; cancellation and any
        other exception included.
        """
        return await self._wait(timeout, [])

    async def _wait(self, timeout: float | Default | None, into: list[AsyncGrant]) -> AsyncGrant:
        limit_s = self._spec.timeout_s if isinstance(timeout, Default) else timeout_s("timeout", timeout)
        grant = await self._acquire(limit_s, into, is_none_if_busy=False)
        assert grant is not None
        return grant

    async def try_acquire(self, *, timeout: float = 0.0) -> AsyncGrant | None:
        """
        Return the grant, or None when somebody is ahead.

        Args:
            timeout: seconds to wait for those ahead; 0 = one look. It takes its place in the queue like everybody else
                and never overtakes.

        Raises:
            ConnectionLostError: not connected, or no answer within `timeout` (for 0: a third of the session timeout, at
                most 1 s). None only ever means busy.
            AcquireCancelledError, AlreadyHeldError, QueueConflictError, SequenceExhaustedError, ConfigError,
                ForeignProcessError: as for `acquire`.
        """
        return await self._try(timeout)

    async def _try(self, timeout: float) -> AsyncGrant | None:
        limit_s = timeout_s("timeout", timeout)
        try:
            grant = await self._acquire(limit_s, [], is_none_if_busy=True)
        except AcquireTimeoutError as error:
            if error.position is None:
                raise ConnectionLostError(str(error)) from error
            grant = None
        self._was_busy = grant is None
        return grant

    async def queue(self, *, timeout: float = 10.0) -> tuple[queues.Member, ...]:
        """
        Return holders and waiters, oldest first; empty when there are none.

        Args:
            timeout: most seconds for everything, connecting included; more than 0.

        Raises:
            ConfigError: `timeout` is wrong, or these credentials may not list the path.
            ConnectionLostError: no answer in time.
            QueueConflictError: the directory has members of another lock library or kind.
        """
        give_up = clock.now() + seconds("timeout", timeout, is_positive=True)
        client = await _connected_client(self._coordinator(), give_up)
        places = self._spec.places

        def read() -> tuple[queues.Member, ...]:
            return tuple(
                member for path, rule in places for member in _read_queue(client, path, rule, give_up)
            )

        return await off_loop(read)

    async def revoke(
        self, *, token: int | None = None, wait: float = 0.0, then_break: bool = False, timeout: float = 10.0
    ) -> bool:
        """
        Ask those who hold this path to give it up; for operators.

        A holder with `AsyncGrant.on_revoke` is told within a round trip, a Curator client that made its lock revocable
        too. All others ignore it.

        Args:
            token: only the holder with this token, as `queue` shows it; None = all holders.
            wait: seconds to wait until they are gone.
            then_break: delete the members of those who still hold after that, as `break_holder` does.
            timeout: most seconds for the requests, besides `wait`; more than 0.

        Returns:
            Whether none of them holds any more.

        Raises:
            ConfigError: an argument is wrong, or these credentials may not write the member.
            ConnectionLostError: no answer in time; some may have been asked.
            QueueConflictError: as for `queue`.
        """
        wait_s = seconds("wait", wait)
        limit_s = seconds("timeout", timeout, is_positive=True)
        coordinator = self._coordinator()
        holders = await self._holders(token, limit_s)
        give_up = clock.now() + limit_s
        left = [holder for holder in holders if await operators.ask_back(coordinator, holder, give_up)]
        until = clock.now() + wait_s
        left = [holder for holder in left if not await operators.wait_gone(coordinator, holder, until)]
        if not then_break:
            return not left
        give_up = clock.now() + limit_s
        for holder in left:
            await operators.break_member(coordinator, holder, give_up)
        return True

    async def break_holder(self, token: int, *, timeout: float = 10.0) -> bool:
        """
        Delete the member of the holder with this token; for operators. It is logged with what the member said.

        The holder is told within a round trip, which may be after somebody else was granted the path: whatever the lock
        protects must check the fencing token.

        Args:
            token: as `queue` shows it, so that nobody else is hit who holds by now.
            timeout: most seconds for everything; more than 0.

        Returns:
            False when nobody holds with this token.

        Raises:
            ConfigError: an argument is wrong, or these credentials may not delete the member.
            ConnectionLostError: no answer in time; it may have been deleted.
            QueueConflictError: as for `queue`.
        """
        give_up = clock.now() + seconds("timeout", timeout, is_positive=True)
        if isinstance(token, bool) or not isinstance(token, int):
            raise ConfigError(f"token must be an int, not {type(token).__name__}")
        coordinator = self._coordinator()
        broken = [
            await operators.break_member(coordinator, holder, give_up)
            for holder in await self._holders(token, timeout)
        ]
        return any(broken)

    async def _holders(self, token: int | None, timeout: float) -> list[queues.Member]:
        return [
            member
            for member in await self.queue(timeout=timeout)
            if member.holds and token in (None, member.token)
        ]

    async def __aenter__(self) -> AsyncGrant:
        grant = await self._enter()
        grant._enter()
        return grant

    async def _enter(self) -> AsyncGrant:
        """Enter, without cancelling anybody yet."""
        into: list[AsyncGrant] = []
        try:
            task = asyncio.current_task()
            assert task is not None
            await self._wait(DEFAULT, into)
            self._entered.append((self._owner_key(), into[0], weakref.ref(task)))
            return into[0]
        except BaseException:
            # An interrupt may strike when the grant is there already; the body will not run, nor anybody give it back.
            # Twice, so that a second one inside the first try leaves nothing behind either.
            try:
                self._drop(into)
            except BaseException:
                self._drop(into)
                raise
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        into: list[AsyncGrant] = []
        try:
            into.append(self._entered_here(is_thrown_away=isinstance(error, GeneratorExit)))
            await leave(into[0], error)
            self._drop(into)
        except BaseException:
            try:
                self._drop(into or self._find_entered())
            except BaseException:
                self._drop(into or self._find_entered())
                raise
            raise

    def _entered_here(self, *, is_thrown_away: bool) -> AsyncGrant:
        """
        Return this owner's newest grant of a `with`; another owner's only if it is the one open one there is.

        A coroutine that is thrown away may be so while another task runs, or none. Then the grant of a task that is no
        more comes first.
        """
        grants = self._find_thrown_away() if is_thrown_away else []
        grants = grants or self._find_entered()
        if grants:
            return grants[0]
        count = len(self._entered)
        why = (
            f"this task entered no `async with`, and {count} grants are open: leave it where it was entered, or name"
            " the owner with owner="
            if count
            else "no `async with` of this lock is open"
        )
        raise NotHeldError(self.path, why)

    def _find_entered(self) -> list[AsyncGrant]:
        try:
            key = self._owner_key()
        except ConfigError:  # no task is running: the coroutine is thrown away
            key = ""
        entries = tuple(self._entered)
        own = [grant for entered, grant, _ in reversed(entries) if entered == key]
        return own[:1] or [grant for _, grant, _ in entries if len(entries) == 1]

    def _find_thrown_away(self) -> list[AsyncGrant]:
        entries = tuple(self._entered)
        return [grant for _, grant, task in reversed(entries) if (found := task()) is None or found.done()]

    def _drop(self, grants: list[AsyncGrant]) -> None:
        """Take grants off, and give back those that an interrupt has kept from it. May be called again."""
        for grant in grants:
            grant._drop()
            for entry in tuple(self._entered):
                if entry[1] is grant:
                    self._entered.remove(entry)

    async def _acquire(
        self,
        limit_s: float | None,
        into: list[AsyncGrant],
        *,
        is_none_if_busy: bool,
        is_upgrade: bool = False,
    ) -> AsyncGrant | None:
        """Acquire, and put the grant `into` a list as soon as it exists."""
        coordinator = self._coordinator()
        session = await session_of(coordinator)
        ask = AcquireCall(
            coordinator,
            session,
            self._spec,
            self._owner(),
            limit_s,
            _new_uuid,
            self._waiting,
            list_first=limit_s == 0 and self._was_busy,
            is_none_if_busy=is_none_if_busy,
            is_upgrade=is_upgrade,
        )
        is_closed = asyncio.get_running_loop().is_closed
        session.guard.wards.add(is_closed, ask.undo)  # should the loop never run this task again
        try:
            hold = await acquire(ask, session)
            return None if hold is None else AsyncGrant(ask, session, hold, into)
        except BaseException:
            # Cancellation too. Should an interrupt strike in it, the guard does it again.
            session.guard.unfinished.append(ask.undo)
            ask.undo()
            session.guard.finished(ask.undo)
            raise
        finally:
            session.guard.wards.remove(is_closed, ask.undo)

    def _owner(self) -> Owner:
        return current_task_owner(self._spec.owner)

    def _owner_key(self) -> str:
        return current_task_owner(self._spec.owner).key

    def _coordinator(self) -> Coordinator:
        return default_coordinator() if self._client is None else coordinator_for(self._client)


def _new_uuid() -> str:
    return str(uuid.uuid4())


async def _connected_client(coordinator: Coordinator, give_up: float) -> KazooClient:
    if not await wait_connected(await session_of(coordinator), give_up):
        raise ConnectionLostError(unreachable(coordinator))
    return coordinator.client


def _read_queue(client: KazooClient, path: str, rule: Rule, give_up: float) -> tuple[queues.Member, ...]:
    # At least a moment: a connection that came in the last instant still gets an answer or a proper error.
    members = queues.read_queue(client, path, timeout=max(_LAST_LOOK_S, give_up - clock.now()))
    conflicts = find_conflicts((member.name for member in members), rule)
    if conflicts:
        raise QueueConflictError(path, conflicts)
    return members
