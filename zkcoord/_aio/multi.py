"""`AsyncZkMultiLock`: several locks as one, without deadlock, for asyncio."""

from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.security import ACL

from zkcoord._aio.base import AsyncLock
from zkcoord._aio.semaphore import AsyncZkSemaphore
from zkcoord._core.names import EXCLUSIVE, Rule
from zkcoord._core.paths import normalize
from zkcoord._spec import multi_spec, with_on_lost
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConfigError


class AsyncZkMultiLock(AsyncLock):
    """
    Several locks acquired as one: all or nothing, under one deadline.

    Its members are created in one transaction, so all multi-locks stand in the same order in every queue they share,
    and no set of them can wait for each other in a circle, whatever the order of the arguments. Members of single locks
    queue among them as usual; whoever holds a single lock while waiting for a multi-lock can still build a deadlock.

    All of an owner's paths held as one re-enter; some of them held, or held one by one, is an `AlreadyHeldError`.
    ``grant.token`` is the token of every one of its paths.

    Args:
        locks: paths (exclusive locks), or lock objects: `AsyncZkLock`, ``AsyncZkReadWriteLock(…).read`` or ``.write``;
            in any mix, of one dialect.
        client, timeout, reentrant, owner, label, acl, max_hold, on_lost: as for `AsyncZkLock`; those of the lock
            objects do not count.

    Raises:
        ConfigError: an argument is wrong, a path is named twice, or nothing is named.

    Source: ``docs/concepts/queue-rules.md``.
    """

    def __init__(
        self,
        locks: Sequence[str | AsyncLock],
        *,
        client: Coordinator | KazooClient | None = None,
        timeout: float | None = None,
        reentrant: bool = True,
        owner: str | None = None,
        label: str | None = None,
        acl: Sequence[ACL] | None = None,
        max_hold: float | None = None,
        on_lost: str = "cancel",
    ) -> None:
        if isinstance(locks, str | bytes) or not isinstance(locks, Sequence):
            raise ConfigError(f"locks must be a list of paths and lock objects, not {type(locks).__name__}")
        spec = multi_spec(
            [_place(lock) for lock in locks],
            timeout=timeout,
            reentrant=reentrant,
            owner=owner,
            label=label,
            acl=acl,
            max_hold=max_hold,
        )
        super().__init__(with_on_lost(spec, on_lost), client)

    @property
    def path(self) -> str:
        """All paths, for people."""
        return self._spec.title

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, in the order of the arguments."""
        return tuple(path for path, _ in self._spec.places)


def _place(lock: object) -> tuple[str, Rule]:
    if isinstance(lock, str):
        return normalize(lock, "locks"), EXCLUSIVE["curator"]
    if not isinstance(lock, AsyncLock) or isinstance(lock, AsyncZkMultiLock | AsyncZkSemaphore):
        raise ConfigError(f"locks must hold paths and lock objects, not {type(lock).__name__}")
    return lock._spec.path, lock._spec.rule
