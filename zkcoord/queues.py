"""
Reads queues for people and for the command line: who holds a lock, who waits, which locks there are.

Nothing here creates, changes or watches anything. Every read begins with a ``sync``, so that it shows at
least what had been decided when it began; members come and go while it runs, so the answer is a description,
never a licence to act.
"""

import time
from collections.abc import Callable, Iterator

from kazoo.exceptions import NoAuthError, NoNodeError

from zkcoord._core.names import ParsedName
from zkcoord._core.paths import normalize
from zkcoord._members import LockView, Member, Stat, holding, member, ordered, printable
from zkcoord._reads import (
    WINDOW,
    Deadline,
    QueueClient,
    Told,
    limit_of,
    read_limits,
    read_members,
    walk,
)
from zkcoord.errors import ConfigError

__all__ = [
    "LockView",
    "Member",
    "QueueClient",
    "Told",
    "find_locks",
    "iter_contended",
    "iter_locks",
    "printable",
    "read_queue",
]

#: How often members that vanished between the listing and the look at them are made up for by looking at the
#: next.
_ROUNDS = 5

#: Longest time for which found locks are kept back to have their holders read together.
_BATCH_S = 0.25


def read_queue(client: QueueClient, path: str, *, timeout: float = 10.0) -> tuple[Member, ...]:
    """
    Read one lock's queue.

    Args:
        client: a started KazooClient; only read with.
        path: the lock's path.
        timeout: seconds for the whole call, more than 0.

    Returns:
        Holders and waiters, oldest first; empty when nobody is there or the path does not exist. A member
        whose data may not be read is described by what its stat and name say.

    Raises:
        ConfigError: a bad path or timeout, or the server does not let these credentials list the path.
        ConnectionLostError: no answer in time, or the session ended.

    Safety: any thread; blocks for up to `timeout`. Not from kazoo's own callbacks.
    """
    deadline = Deadline(timeout)
    path = normalize(path)
    client.sync_async(path)
    listing, parent = client.get_children_async(path), client.get_async(path)
    try:
        names = ordered(deadline.answer(listing))
    except NoNodeError:
        return ()
    except NoAuthError as error:
        raise ConfigError(f"the server does not let these credentials list {path}: add auth data") from error
    limit = limit_of(parent, deadline) if _has_permits(names) else None
    found = read_members(client, [(path, name) for name in names], deadline)
    return _queue(path, names, found, limit)


def find_locks(
    client: QueueClient,
    root: str = "/",
    *,
    timeout: float = 60.0,
    progress: Callable[[int, int], object] | None = None,
    unreadable: Callable[[str], object] | None = None,
) -> tuple[LockView, ...]:
    """
    Find every lock in a part of the tree; :func:`iter_locks` gives them one by one.

    Args:
        client: a started KazooClient; only read with.
        root: where to begin; "/" = everything under the client's chroot.
        timeout: seconds for the whole call, more than 0.
        progress: called now and then with (directories listed, directories known so far).
        unreadable: called with each path that may not be listed; None = they are passed over.

    Returns:
        In order of path, segment by segment; one view for each dialect on it. Empty when the root does not exist.

    Raises:
        ConfigError: a bad root or timeout.
        ConnectionLostError: no answer in time, or the session ended.

    Safety: any thread; blocks for up to `timeout`; at most 100 requests are in flight. Callbacks run in this
    thread.
    """
    return tuple(iter_locks(client, root, timeout=timeout, told=Told(progress, unreadable)))


def iter_locks(
    client: QueueClient, root: str = "/", *, timeout: float = 60.0, told: Told | None = None
) -> Iterator[LockView]:
    """
    Give every lock in a part of the tree, whichever library made it, while the tree is still being read.

    Any directory with a member of some lock library is a lock. All directories are listed (``/zookeeper`` and
    members themselves excepted); of the members the holders alone are read, so a thousand waiters cost nothing.

    Args:
        client, root, timeout: as for :func:`find_locks`.
        told: who is told of progress, and of what may not be read.

    Yields:
        In order of path; memory stays bounded, however many there are.

    Raises:
        As :func:`find_locks`, when that is found out.
    """
    deadline = Deadline(timeout)
    for queues in _batches(client, root, deadline, told or Told()):
        limits = read_limits(
            client, [path for path, names in queues.items() if _has_permits(names)], deadline
        )
        holders = _find_holders(client, queues, limits, deadline)
        for path, names in queues.items():
            yield from _views(path, names, holders[path])


def iter_contended(
    client: QueueClient, root: str = "/", *, timeout: float = 60.0, told: Told | None = None
) -> Iterator[tuple[tuple[Member, ...], int | None]]:
    """
    Give the queue of every lock under a path at which more than one member stands.

    Args:
        client, root, timeout, told: as for :func:`iter_locks`.

    Yields:
        (members, oldest first; the limit of a semaphore, else None).

    Raises:
        As :func:`find_locks`, when that is found out.
    """
    deadline = Deadline(timeout)
    for queues in _batches(client, root, deadline, told or Told()):
        contended = {path: names for path, names in queues.items() if len(names) > 1}
        limits = read_limits(
            client, [path for path, names in contended.items() if _has_permits(names)], deadline
        )
        wanted = [(path, name) for path, names in contended.items() for name in names]
        found = read_members(client, wanted, deadline)
        for path, names in contended.items():
            yield _queue(path, names, found, limits.get(path)), limits.get(path)


def _batches(
    client: QueueClient, root: str, deadline: Deadline, told: Told
) -> Iterator[dict[str, dict[str, ParsedName]]]:
    """Gather the queues under a path, as {path: {name: taken apart}}, into batches that are read together."""
    root = "/" if root.strip("/") == "" and root else normalize(root, "root")
    client.sync_async(root)
    batch: dict[str, dict[str, ParsedName]] = {}
    began = float("-inf")  # the very first is given at once
    for listed in walk(client, root, deadline, told):
        if listed is not None:
            batch[listed[0]] = ordered(listed[1])
        if batch and (len(batch) >= WINDOW or time.monotonic() - began > _BATCH_S):
            yield batch
            batch, began = {}, time.monotonic()
    if batch:
        yield batch


def _queue(
    path: str,
    names: dict[str, ParsedName],
    found: dict[tuple[str, str], tuple[bytes, Stat]],
    limit: int | None,
) -> tuple[Member, ...]:
    # Who was gone at the second look holds nothing: its place has passed to those behind it.
    names = {name: parsed for name, parsed in names.items() if (path, name) in found}
    holders = holding(names, limit)
    return tuple(
        member(path, name, parsed, name in holders, *found[path, name]) for name, parsed in names.items()
    )


def _views(
    path: str, names: dict[str, ParsedName], holders: dict[str, tuple[bytes, Stat]]
) -> Iterator[LockView]:
    """Make one view for each dialect on a path."""
    for dialect in dict.fromkeys(parsed.dialect for parsed in names.values()):
        held = tuple(
            member(path, name, names[name], True, *holders[name])
            for name in names
            if name in holders and names[name].dialect == dialect
        )
        total = sum(parsed.dialect == dialect for parsed in names.values())
        yield LockView(path, dialect, held, total - len(held))


def _find_holders(
    client: QueueClient,
    queues: dict[str, dict[str, ParsedName]],
    limits: dict[str, int | None],
    deadline: Deadline,
) -> dict[str, dict[str, tuple[bytes, Stat]]]:
    """
    Read the holders of all queues. Members found gone are dropped from `queues`, and the next in line is
    read.

    After `_ROUNDS` of that the queue moves faster than we look; it is shown without a holder.
    """
    holders: dict[str, dict[str, tuple[bytes, Stat]]] = {path: {} for path in queues}
    for _ in range(_ROUNDS):
        wanted = [
            (path, name)
            for path, names in queues.items()
            for name in holding(names, limits.get(path))
            if name not in holders[path]
        ]
        if not wanted:
            break
        found = read_members(client, wanted, deadline)
        for path, name in wanted:
            if (path, name) in found:
                holders[path][name] = found[path, name]
            else:
                del queues[path][name]
    return holders


def _has_permits(names: dict[str, ParsedName]) -> bool:
    return any(parsed.kind == "permit" for parsed in names.values())
