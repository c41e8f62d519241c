"""`AsyncZkLock`: the exclusive lock, for asyncio."""

from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.security import ACL

from zkcoord._aio.base import AsyncLock
from zkcoord._spec import exclusive_spec, with_on_lost
from zkcoord.coordinator import Coordinator


class AsyncZkLock(AsyncLock):
    """
    An exclusive lock: at most one owner holds a path at a time, in the order of asking.

    A lock object describes; the `AsyncGrant` that an acquire returns is what one holds. The object may be shared
    between tasks and made at module level; without ``client=`` it finds its process's default coordinator at each
    use, so it works in forked workers too. Locks are re-entrant per owner, also through another object for the same
    path.

    Use it as ``async with AsyncZkLock("/locks/orders", timeout=5.0) as grant:``; leaving the body raises
    `GrantLostError` when the grant was lost while it ran.

    Args:
        path: the lock's directory; its missing ancestors are made, as containers where the server has them. Put nothing
            else into it. Encode names that come from data with `zkcoord.quote`.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator (see `zkcoord.configure`).
        timeout: seconds that an acquire waits by default; None = for ever, 0 = one try.
        reentrant: False makes an acquire by the owner that holds it raise `AlreadyHeldError` instead of re-entering.
        owner: a name for the owner, instead of the running task, so that a hold can travel between tasks.
        label: shown to operators beside host, process and task.
        dialect: the layout of the members: "curator" (default; Java's ``InterProcessMutex`` and ``LeaderSelector``),
            "curator-latch" (``LeaderLatch``) or "kazoo" (kazoo's ``Lock`` and ``AsyncWriteLock``).
        acl: for the member and for directories made here; None = the coordinator's.
        max_hold: seconds after which a hold is lost (reason "max_hold") and its member deleted, whatever its owner
            does; counted from the first of its grants. None = never.
        on_lost: what is done to the body of an ``async with`` whose grant is lost: "cancel" (default) cancels its task,
            and `GrantLostError` comes out of the ``async with``; "signal" leaves it to `AsyncGrant.lost`, `check` and
            `on_lost`.

    Raises:
        ConfigError: an argument is wrong.

    Source: the lock recipe of ZooKeeper's "Recipes and Solutions"; what is promised, and what it assumes, is in
    ``docs/concepts/session-loss.md``.
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
        spec = exclusive_spec(
            path,
            timeout=timeout,
            reentrant=reentrant,
            owner=owner,
            label=label,
            dialect=dialect,
            acl=acl,
            max_hold=max_hold,
        )
        super().__init__(with_on_lost(spec, on_lost), client)
