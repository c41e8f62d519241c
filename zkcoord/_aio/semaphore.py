"""`AsyncZkSemaphore`: at most so many at a time, for asyncio."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError
from kazoo.protocol.serialization import GetChildren, GetData, SetData
from kazoo.protocol.serialization import Sync as SyncRequest
from kazoo.security import ACL

from zkcoord._aio.base import AsyncLock
from zkcoord._aio.driver import call, session_of, wait_connected
from zkcoord._aio.grants import AsyncGrant
from zkcoord._arguments import seconds
from zkcoord._core.limits import decode_limit, encode_limit
from zkcoord._core.queue import free_permits
from zkcoord._refusals import refused
from zkcoord._session import clock
from zkcoord._session.identity import Owner, alone, current_task_owner
from zkcoord._session.requests import LinkLostError
from zkcoord._session.wire import full_path
from zkcoord._spec import DEFAULT, Default, check_permits, semaphore_spec, unreachable, with_on_lost
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConfigError, ConnectionLostError


class AsyncZkSemaphore(AsyncLock):
    """
    A pool of permits: the permits of all holders together never exceed the limit.

    The limit is recorded on the server, so that all users of a path agree on it. Everybody queues in the order of
    asking, whatever the number of permits asked for, so nobody starves. An acquire takes all its permits at once or
    none. A semaphore does not re-enter: each acquire is a member of its own.

    A grant's token names it; it is no fencing token, since several hold at a time.

    Args:
        path: the semaphore's directory; a persistent node whose data hold the limit. Nothing else belongs into it, and
            nobody but an operator ever deletes it.
        permits: the limit. Recorded by whoever comes first; None takes what is recorded.
        client, timeout, owner, label, acl, max_hold, on_lost: as for `AsyncZkLock`.

    Raises:
        ConfigError: an argument is wrong.

    Source: ``docs/concepts/queue-rules.md``.
    """

    def __init__(
        self,
        path: str,
        *,
        permits: int | None,
        client: Coordinator | KazooClient | None = None,
        timeout: float | None = None,
        owner: str | None = None,
        label: str | None = None,
        acl: Sequence[ACL] | None = None,
        max_hold: float | None = None,
        on_lost: str = "cancel",
    ) -> None:
        spec = semaphore_spec(
            path, permits, timeout=timeout, owner=owner, label=label, acl=acl, max_hold=max_hold
        )
        super().__init__(with_on_lost(spec, on_lost), client)

    async def acquire(self, *, timeout: float | Default | None = DEFAULT, permits: int = 1) -> AsyncGrant:
        """
        Wait for `permits` permits, all at once, and return the grant.

        Raises:
            LimitMismatchError: the recorded limit is not the one given to the constructor.
            ConfigError: more permits than the limit, or no limit is recorded and none was given.
            AcquireTimeoutError, AcquireCancelledError, QueueConflictError, SequenceExhaustedError,
                ConnectionLostError, ForeignProcessError: as for `AsyncZkLock.acquire`.
        """
        return await self._of(permits)._wait(timeout, [])

    async def try_acquire(self, *, timeout: float = 0.0, permits: int = 1) -> AsyncGrant | None:
        """
        Return the grant, or None when those ahead leave too few permits.

        Raises:
            As `acquire` and `AsyncZkLock.try_acquire`.
        """
        return await self._of(permits)._try(timeout)

    async def available(self, *, timeout: float = 10.0) -> int:
        """
        Return how many permits nobody holds now. Waiters are not counted; they come first all the same.

        Args:
            timeout: most seconds for everything, connecting included; more than 0.

        Raises:
            ConnectionLostError: no answer in time.
            ConfigError: no limit is recorded and none was given, or the directory has data of somebody else, or these
                credentials may not read it.
        """
        children, limit = await self._read(timeout)
        return free_permits(children, limit)

    async def resize(self, permits: int, *, timeout: float = 10.0) -> None:
        """
        Record another limit. Growth wakes waiters; a shrink takes nothing back from those who hold.

        Objects made with the old number raise `LimitMismatchError` from then on; ``permits=None`` follows the record.
        Nothing tells holders that a shrunken limit leaves no room for from waiters: `queue`, `available`, `revoke` and
        `break_holder` take them for waiters until enough have left. To end them, do so before the shrink.

        Args:
            permits: the new limit.
            timeout: most seconds for everything, connecting included; more than 0.

        Raises:
            ConnectionLostError: no answer in time; it may have been recorded.
            ConfigError: not a number from 1 to 2147483647, or the semaphore does not exist yet, or the directory has
                data of somebody else, or these credentials may not write it.
        """
        limit = check_permits("permits", permits)
        ask, path = await self._asking(timeout)
        while True:
            answer = await ask(GetData(path, None))
            if answer is None:
                raise ConfigError(f"{self.path} does not exist yet: its first acquire records the limit")
            self._check_record(answer[0])
            try:
                await ask(SetData(path, encode_limit(limit), answer[1].version), is_confirmed=True)
            except BadVersionError:
                continue
            return

    async def _wait(self, timeout: float | Default | None, into: list[AsyncGrant]) -> AsyncGrant:
        return await self._of(1)._wait(timeout, into)

    def _of(self, permits: int) -> "_Weighted":
        weight = check_permits("permits", permits)
        limit = self._spec.rule.limit
        if limit is not None and weight > limit:
            raise ConfigError(f"permits={weight} can never be granted by {self.path}, which has {limit}")
        return _Weighted(self, weight)

    async def _read(self, timeout: float) -> tuple[list[str], int]:
        ask, path = await self._asking(timeout)
        await ask(SyncRequest(path))
        answer = await ask(GetData(path, None))
        limit = self._check_record(answer[0]) if answer else None
        limit = limit or self._spec.rule.limit
        if limit is None:
            raise ConfigError(f"no limit is recorded at {self.path}: give permits= to the semaphore")
        return await ask(GetChildren(path, None)) or [], limit

    def _check_record(self, data: bytes) -> int | None:
        limit = decode_limit(data)
        if limit == 0:
            raise ConfigError(f"{self.path} has data of somebody else: it cannot be a semaphore's directory")
        return limit

    async def _asking(self, timeout: float) -> tuple[Callable[..., Awaitable[Any]], str]:
        """Return how to ask the server under one deadline, and where; an answer is None without the directory."""
        give_up = clock.now() + seconds("timeout", timeout, is_positive=True)
        coordinator = self._coordinator()
        session = await session_of(coordinator)
        await wait_connected(session, give_up)

        async def ask(request: Any, *, is_confirmed: bool = False) -> Any:
            try:
                return await call(session, request, give_up, is_confirmed=is_confirmed)
            except NoNodeError:
                return None
            except LinkLostError as error:
                raise ConnectionLostError(unreachable(coordinator), error.maybe_applied) from error
            except NoAuthError as error:
                raise refused(self.path, error, coordinator) from error

        return ask, full_path(session.client, self.path)


class _Weighted(AsyncLock):
    """One acquire of a semaphore: its permits in the name, an owner of its own, cancelled with the semaphore."""

    def __init__(self, semaphore: AsyncZkSemaphore, weight: int) -> None:
        spec = semaphore._spec
        super().__init__(replace(spec, rule=replace(spec.rule, weight=weight)), semaphore._client)
        self._waiting = semaphore._waiting

    def _owner(self) -> Owner:
        return alone(current_task_owner(self._spec.owner))
