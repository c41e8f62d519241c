"""`AsyncZkReadWriteLock`: readers share, a writer is alone, for asyncio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kazoo.client import KazooClient
from kazoo.security import ACL

from zkcoord._aio.base import AsyncLock
from zkcoord._aio.grants import AsyncGrant
from zkcoord._spec import read_write_specs, with_on_lost
from zkcoord.coordinator import Coordinator
from zkcoord.errors import NotHeldError


class AsyncReadLock(AsyncLock):
    """The read side; `AsyncZkReadWriteLock.read`."""


class AsyncWriteLock(AsyncLock):
    """The write side; `AsyncZkReadWriteLock.write`."""

    async def _upgrade(self) -> AsyncGrant | None:
        held = self._coordinator().registry.find
        owner = self._owner_key()
        if (
            held((self.path, self._spec.sibling or "", owner)) is None
            and held(self._spec.keys(owner)[0]) is None
        ):
            raise NotHeldError(self.path, "this owner holds no read grant to upgrade")
        return await self._acquire(0.0, [], is_none_if_busy=True, is_upgrade=True)


class AsyncZkReadWriteLock:
    """
    A lock with two sides: any number of readers share it, a writer holds it alone.

    Everybody queues in the order of asking. A reader waits for the writers ahead of it, a writer for everybody ahead;
    so neither side starves the other, and a queued writer is not overtaken by later readers.

    `read` and `write` are locks like `AsyncZkLock`: both re-enter, both work in ``async with``. An owner that holds the
    write lock may take the read lock as well and then release the write lock (downgrade); nobody gets in between. The
    other way round is a deadlock of two readers who both want it, so it raises `UpgradeError` at once; `try_upgrade` is
    the safe form.

    A write grant's token is a fencing token as of an exclusive lock. A read grant's token tells nothing about the order
    of readers among themselves; that of a read grant taken under a write grant is the writer's.

    Args:
        path: the lock's directory; nothing else belongs into it, a `AsyncZkLock` neither.
        client, timeout, reentrant, owner, label, acl, max_hold, on_lost: as for `AsyncZkLock`.
        dialect: "curator" (default; Java's ``InterProcessReadWriteLock`` from Curator 5.5 on) or "kazoo" (kazoo's
            ``AsyncReadLock`` and ``AsyncWriteLock``).

    Raises:
        ConfigError: an argument is wrong.

    Source: the shared locks of ZooKeeper's "Recipes and Solutions"; Curator's ``InterProcessReadWriteLock``.
    """

    def __init__(
        self,
        path: str,
        *,
        client: Coordinator | KazooClient | None = None,
        timeout: float | None = None,
        reentrant: bool = True,
        owner: str | None = None,
        label: str | None = None,
        dialect: str = "curator",
        acl: Sequence[ACL] | None = None,
        max_hold: float | None = None,
        on_lost: str = "cancel",
    ) -> None:
        read, write = read_write_specs(
            path,
            timeout=timeout,
            reentrant=reentrant,
            owner=owner,
            label=label,
            dialect=dialect,
            acl=acl,
            max_hold=max_hold,
        )
        self.read = AsyncReadLock(with_on_lost(read, on_lost), client)
        self.write = AsyncWriteLock(with_on_lost(write, on_lost), client)

    if not TYPE_CHECKING:  # to a type checker it would make every name one of ours

        def __getattr__(self, name):
            if name.startswith("_") or not hasattr(AsyncLock, name):
                raise AttributeError(f"'AsyncZkReadWriteLock' object has no attribute {name!r}")
            raise AttributeError(
                f"an AsyncZkReadWriteLock has two sides, and no {name}() itself: call .read.{name}() or .write.{name}()"
            )

    def __repr__(self) -> str:
        return f"<AsyncZkReadWriteLock {self.path}>"

    @property
    def path(self) -> str:
        """The lock's path, in its one spelling."""
        return self.read.path

    async def try_upgrade(self) -> AsyncGrant | None:
        """
        Return a write grant beside the read grant that this owner holds, or None.

        It succeeds only when the owner is the sole reader and nobody waits. Otherwise nothing changes: the read grant
        stays, no place in the queue is taken, and whoever waits keeps the right to go first.

        Raises:
            NotHeldError: this owner does not hold the read lock.
            GrantLostError: the read grant turned out to be lost.
            ConnectionLostError: no answer within a third of the session timeout, at most 1 s.
        """
        return await self.write._upgrade()
