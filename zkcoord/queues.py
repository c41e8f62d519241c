"""
Reads queues for people and for the command line: who holds a lock, who waits, which locks there are.

Nothing here creates, changes or watches anything. Every read begins with a ``sync``, so that it shows at
least what had been decided when it began; members come and go while it runs, so the answer is a description,
never a licence to act.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord._core.limits import decode_limit
from zkcoord._core.names import ParsedName
from zkcoord._core.paths import normalize
from zkcoord._members import LockView, Member, Stat, holding, member, ordered, printable
from zkcoord.errors import ConfigError, ConnectionLostError

__all__ = ["LockView", "Member", "QueueClient", "find_locks", "printable", "read_queue"]

#: Requests in flight: enough to hide the round trips of a big tree, few enough that others on the same client
#: (an application's own, with its own limit of 128) do not queue behind them.
WINDOW = 100

#: ZooKeeper's own subtree: quotas and configuration, no locks.
_SYSTEM = "/zookeeper"

#: How often members that vanished between the listing and the look at them are made up for by looking at the
#: next.
_ROUNDS = 5

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_K = TypeVar("_K")


class Pending(Protocol[_T_co]):
    """An answer to come (kazoo's ``IAsyncResult``)."""

    def get(self, block: bool = ..., timeout: float | None = ...) -> _T_co: ...


class QueueClient(Protocol):
    """What is needed of a ``kazoo.client.KazooClient``; public kazoo names only."""

    def sync_async(self, path: str) -> Pending[str]: ...
    def exists_async(self, path: str) -> Pending[Stat | None]: ...
    def get_async(self, path: str) -> Pending[tuple[bytes, Stat]]: ...
    def get_children_async(self, path: str) -> Pending[list[str]]: ...


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
    deadline = _Deadline(timeout)
    path = normalize(path)
    client.sync_async(path)
    listing, parent = client.get_children_async(path), client.get_async(path)
    try:
        names = ordered(deadline.answer(listing))
    except NoNodeError:
        return ()
    except NoAuthError as error:
        raise ConfigError(f"the server does not let these credentials list {path}: add auth data") from error
    limit = _limit(parent, deadline) if _has_permits(names) else None
    found = _read(client, [(path, name) for name in names], deadline)
    # Who was gone at the second look holds nothing: its place has passed to those behind it.
    names = {name: parsed for name, parsed in names.items() if (path, name) in found}
    holders = holding(names, limit)
    return tuple(
        member(path, name, parsed, name in holders, *found[path, name]) for name, parsed in names.items()
    )


def find_locks(
    client: QueueClient,
    root: str = "/",
    *,
    timeout: float = 60.0,
    progress: Callable[[int, int], object] | None = None,
    unreadable: Callable[[str], object] | None = None,
) -> tuple[LockView, ...]:
    """
    Find every lock in a part of the tree, whichever library made it.

    Any directory with a member of some lock library is a lock. All directories are listed (``/zookeeper`` and
    members themselves excepted); then the holders alone are read, so a thousand waiters cost nothing.

    Args:
        client: a started KazooClient; only read with.
        root: where to begin; "/" = everything under the client's chroot.
        timeout: seconds for the whole call, more than 0.
        progress: called now and then with (directories listed, directories known so far).
        unreadable: called with each path that may not be listed; None = they are passed over.

    Returns:
        In order of path; one view for each dialect on it. Empty when the root does not exist.

    Raises:
        ConfigError: a bad root or timeout.
        ConnectionLostError: no answer in time, or the session ended.

    Safety: any thread; blocks for up to `timeout`; at most 100 requests are in flight. Callbacks run in this
    thread.
    """
    deadline = _Deadline(timeout)
    root = "/" if root.strip("/") == "" and root else normalize(root, "root")
    client.sync_async(root)
    queues: dict[str, dict[str, ParsedName]] = {}
    for path, children in _walk(client, root, deadline, progress, unreadable):
        for name, parsed in ordered(children).items():
            queues.setdefault(path, {})[name] = parsed
    limits = _limits(client, [path for path, names in queues.items() if _has_permits(names)], deadline)
    holders = _find_holders(client, queues, limits, deadline)
    views = []
    for path, names in sorted(queues.items()):
        for dialect in dict.fromkeys(parsed.dialect for parsed in names.values()):
            held = tuple(
                member(path, name, names[name], True, *answer)
                for name, answer in ((name, holders[path][name]) for name in names if name in holders[path])
                if names[name].dialect == dialect
            )
            total = sum(parsed.dialect == dialect for parsed in names.values())
            views.append(LockView(path, dialect, held, total - len(held)))
    return tuple(views)


def _walk(
    client: QueueClient,
    root: str,
    deadline: "_Deadline",
    progress: Callable[[int, int], object] | None,
    unreadable: Callable[[str], object] | None,
) -> Iterator[tuple[str, list[str]]]:
    """List every directory from the root down; members are not descended into."""
    pending = deque([root])
    known, done = 1, 0
    for path, answer in _windowed(pending, client.get_children_async):
        try:
            children = deadline.answer(answer)
        except NoNodeError:
            children = []
        except NoAuthError:
            children = []
            if unreadable is not None:
                unreadable(path)
        members = ordered(children)
        below = [_join(path, name) for name in children if name not in members]
        below = [child for child in below if child != _SYSTEM]
        pending.extend(below)
        known, done = known + len(below), done + 1
        if progress is not None:
            progress(done, known)
        yield path, list(members)


def _find_holders(
    client: QueueClient,
    queues: dict[str, dict[str, ParsedName]],
    limits: dict[str, int | None],
    deadline: "_Deadline",
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
        found = _read(client, wanted, deadline)
        for path, name in wanted:
            if (path, name) in found:
                holders[path][name] = found[path, name]
            else:
                del queues[path][name]
    return holders


def _read(
    client: QueueClient, wanted: list[tuple[str, str]], deadline: "_Deadline"
) -> dict[tuple[str, str], tuple[bytes, Stat]]:
    """Read data and stat of members, given as (path, name); those that are gone are left out."""
    found: dict[tuple[str, str], tuple[bytes, Stat]] = {}
    secret: list[tuple[str, str]] = []
    for key, answer in _windowed(deque(wanted), lambda key: client.get_async(_join(*key))):
        try:
            found[key] = deadline.answer(answer)
        except NoNodeError:
            continue
        except NoAuthError:
            secret.append(key)
    # Before ZooKeeper 3.8.4 and 3.9.2 a stat needs no permission; after that such a member stays unknown.
    for key, stat_answer in _windowed(deque(secret), lambda key: client.exists_async(_join(*key))):
        try:
            stat = deadline.answer(stat_answer)
        except NoAuthError:
            stat = _Hidden()
        if stat is not None:
            found[key] = (b"", stat)
    return found


def _limits(client: QueueClient, paths: list[str], deadline: "_Deadline") -> dict[str, int | None]:
    answers = _windowed(deque(paths), client.get_async)
    return {path: _limit(answer, deadline) for path, answer in answers}


def _limit(answer: Pending[tuple[bytes, Stat]], deadline: "_Deadline") -> int | None:
    try:
        return decode_limit(deadline.answer(answer)[0]) or None
    except (NoNodeError, NoAuthError):
        return None


def _windowed(pending: deque[_K], send: Callable[[_K], Pending[_T]]) -> Iterator[tuple[_K, Pending[_T]]]:
    """
    Send a request for each key, at most `WINDOW` ahead of the answers, and yield (key, answer to come) in
    order.

    A session's answers arrive in the order of its requests, so the oldest is the one to wait for. `pending`
    may grow meanwhile.
    """
    flight: deque[tuple[_K, Pending[_T]]] = deque()
    while pending or flight:
        while pending and len(flight) < WINDOW:
            key = pending.popleft()
            flight.append((key, send(key)))
        yield flight.popleft()


def _has_permits(names: dict[str, ParsedName]) -> bool:
    return any(parsed.kind == "permit" for parsed in names.values())


def _join(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


class _Hidden:
    """Stands in for the stat of a member that may not be seen."""

    czxid = 0
    ctime = 0
    ephemeralOwner = 0


class _Deadline:
    """One absolute deadline for all answers of a call."""

    def __init__(self, timeout: float) -> None:
        if not (math.isfinite(timeout) and timeout > 0):
            raise ConfigError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        self._timeout = timeout
        self._at = time.monotonic() + timeout

    def answer(self, pending: Pending[_T]) -> _T:
        """
        Wait for an answer.

        Raises:
            NoNodeError, NoAuthError: the server's, as they are: what they mean is the caller's to say.
            ConnectionLostError: for everything else.
        """
        try:
            return pending.get(timeout=max(0.0, self._at - time.monotonic()))
        except (NoNodeError, NoAuthError):
            raise
        except KazooTimeoutError as error:
            raise ConnectionLostError(
                f"the answers did not all come within {self._timeout:g} s: give a longer timeout,"
                " or a smaller part of the tree"
            ) from error
        except KazooException as error:
            why = str(error) or type(error).__name__
            raise ConnectionLostError(f"the connection broke while reading ({why}): try again") from error
