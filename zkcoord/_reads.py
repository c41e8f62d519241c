"""
Bounded, pipelined reading of a tree: requests ahead of the answers, one deadline, directories in order of path.

Nothing here creates, changes or watches anything.
"""

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord._core.limits import decode_limit
from zkcoord._members import Stat, ordered
from zkcoord.errors import ConfigError, ConnectionLostError

#: Requests in flight: enough to hide the round trips of a big tree, few enough that others on the same client
#: (an application's own, with its own limit of 128) do not queue behind them.
WINDOW = 100

#: A walk and the reading of what it found go on at the same time, with half of them each.
_HALF = WINDOW // 2

#: ZooKeeper's own subtree: quotas and configuration, no locks.
_SYSTEM = "/zookeeper"

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


@dataclass(frozen=True, slots=True)
class Told:
    """
    Who is told what while a tree is read; both run in the reading thread.

    Attributes:
        progress: called now and then with (directories listed, directories known so far).
        unreadable: called with each path that may not be listed.
    """

    progress: Callable[[int, int], object] | None = None
    unreadable: Callable[[str], object] | None = None


class Deadline:
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


class Hidden:
    """Stands in for the stat of a member that may not be seen."""

    czxid = 0
    ctime = 0
    ephemeralOwner = 0


def join(path: str, name: str) -> str:
    """Return the path of a child."""
    return f"/{name}" if path == "/" else f"{path}/{name}"


def walk(
    client: QueueClient, root: str, deadline: Deadline, told: Told
) -> Iterator[tuple[str, list[str]] | None]:
    """
    List every directory with members, from the root down; members are not descended into.

    Yields:
        (path, names of all its children), in the order of paths, taken segment by segment. One is given as soon as
        nothing before it can come any more. None now and then, when there is nothing to give.
    """
    pending: list[tuple[tuple[str, ...], str]] = [(_key(root), root)]
    flight: deque[tuple[tuple[str, ...], str, Pending[list[str]]]] = deque()
    found: list[tuple[tuple[str, ...], str, list[str]]] = []
    known, done = 1, 0
    while pending or flight:
        while pending and len(flight) < _HALF:
            key, path = heapq.heappop(pending)
            flight.append((key, path, client.get_children_async(path)))
        key, path, answer = flight.popleft()
        children = _children(path, answer, deadline, told)
        members = ordered(children)
        for name in children:
            below = join(path, name)
            if name not in members and below != _SYSTEM:
                heapq.heappush(pending, ((*key, name), below))
                known += 1
        done += 1
        if told.progress is not None:
            told.progress(done, known)
        if members:
            heapq.heappush(found, (key, path, children))
        if found:
            open_keys = [entry[0] for entry in flight]
            if pending:
                open_keys.append(pending[0][0])
            first = min(open_keys, default=None)
            while found and (first is None or found[0][0] < first):
                _, path, children = heapq.heappop(found)
                yield path, children
        yield None


def _key(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/")) if path != "/" else ()


def _children(path: str, answer: Pending[list[str]], deadline: Deadline, told: Told) -> list[str]:
    try:
        return deadline.answer(answer)
    except NoNodeError:
        return []
    except NoAuthError:
        if told.unreadable is not None:
            told.unreadable(path)
        return []


def read_members(
    client: QueueClient, wanted: Iterable[tuple[str, str]], deadline: Deadline
) -> dict[tuple[str, str], tuple[bytes, Stat]]:
    """Read data and stat of members, given as (path, name); those that are gone are left out."""
    found: dict[tuple[str, str], tuple[bytes, Stat]] = {}
    secret: list[tuple[str, str]] = []
    for key, answer in windowed(deque(wanted), lambda key: client.get_async(join(*key))):
        try:
            found[key] = deadline.answer(answer)
        except NoNodeError:
            continue
        except NoAuthError:
            secret.append(key)
    # Before ZooKeeper 3.8.4 and 3.9.2 a stat needs no permission; after that such a member stays unknown.
    for key, stat_answer in windowed(deque(secret), lambda key: client.exists_async(join(*key))):
        try:
            stat = deadline.answer(stat_answer)
        except NoAuthError:
            stat = Hidden()
        if stat is not None:
            found[key] = (b"", stat)
    return found


def read_limits(client: QueueClient, paths: Iterable[str], deadline: Deadline) -> dict[str, int | None]:
    """Read the recorded limits of semaphores; None where there is none, or none to be read."""
    answers = windowed(deque(paths), client.get_async)
    return {path: limit_of(answer, deadline) for path, answer in answers}


def limit_of(answer: Pending[tuple[bytes, Stat]], deadline: Deadline) -> int | None:
    """Wait for a semaphore's directory, and return its limit."""
    try:
        return decode_limit(deadline.answer(answer)[0]) or None
    except (NoNodeError, NoAuthError):
        return None


def windowed(pending: deque[_K], send: Callable[[_K], Pending[_T]]) -> Iterator[tuple[_K, Pending[_T]]]:
    """
    Send a request for each key, at most half a `WINDOW` ahead of the answers, and yield (key, answer to come) in
    order.

    A session's answers arrive in the order of its requests, so the oldest is the one to wait for.
    """
    flight: deque[tuple[_K, Pending[_T]]] = deque()
    while pending or flight:
        while pending and len(flight) < _HALF:
            key = pending.popleft()
            flight.append((key, send(key)))
        yield flight.popleft()
