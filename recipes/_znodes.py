"""
Plain reads and writes of znodes for the recipes: bounded by a deadline, with zkcoord's errors.

Reads go on over broken connections until the deadline. Writes do not: one whose reply was lost raises
`ConnectionLostError` with ``maybe_applied=True``, and the recipe knows whether it may be sent again.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import WatchedEvent, ZnodeStat

from zkcoord import ConfigError, ConnectionLostError, Coordinator, QueueConflictError, ZkCoordError, ZkLock

T = TypeVar("T")

#: Data and stat of a node; None when there is none.
Found = tuple[bytes, ZnodeStat] | None

#: ``client=`` of every recipe, as of every lock.
Client = Coordinator | KazooClient | None

#: Most bytes of a value: ZooKeeper's packet limit is 1 MiB (``jute.maxbuffer``), path, ACL and the rest included.
MAX_VALUE_BYTES = 1_000_000

#: Seconds for a call of a recipe that has no timeout of its own.
DEFAULT_TIMEOUT_S = 10.0

#: First and longest pause between two tries, before jitter: a round trip, and what a person does not notice.
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.5

#: No answer came.
LINK_LOST = (ConnectionLoss, SessionExpiredError, SessionMovedError, KazooTimeoutError)


def check_path(path: object) -> str:
    """Return a path in its one spelling; `ConfigError` when ZooKeeper would refuse it."""
    return ZkLock(path).path  # type: ignore[arg-type]  # checked there


def check_timeout(timeout: object) -> float | None:
    """Return the absolute deadline of a call that begins now; None = never."""
    return None if timeout is None else time.monotonic() + check_seconds("timeout", timeout)


def check_seconds(name: str, value: object) -> float:
    """Return a duration; `ConfigError` when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**31:
        raise ConfigError(f"{name} must be a number of seconds from 0, not {value!r:.80}")
    return float(value)


def check_count(name: str, value: object, highest: int = 2**31 - 1, lowest: int = 1) -> int:
    """Return a number of things; `ConfigError` when it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ConfigError(f"{name} must be an integer from {lowest} to {highest}, not {value!r:.80}")
    return value


def check_value(name: str, value: bytes) -> bytes:
    """Refuse data that no server takes, before it ends the connection."""
    if len(value) > MAX_VALUE_BYTES:
        raise ConfigError(f"{name} has {len(value)} bytes; ZooKeeper takes {MAX_VALUE_BYTES} at most")
    return value


def left(give_up: float | None) -> float | None:
    """Return the seconds that are left until a deadline."""
    return None if give_up is None else max(0.0, give_up - time.monotonic())


def is_over(give_up: float | None) -> bool:
    """Whether a deadline has passed."""
    return give_up is not None and time.monotonic() >= give_up


def pause_s(tries: int, longest_s: float = _LONGEST_PAUSE_S, first_s: float = _FIRST_PAUSE_S) -> float:
    """Return how long to pause after so many tries (from 1): twice as long each time, jittered, bounded."""
    return min(longest_s, first_s * 2.0 ** min(tries - 1, 30)) * random.uniform(0.5, 1.0)


def pause(tries: int, give_up: float | None) -> None:
    """Sleep before the next try, not beyond the deadline."""
    limit_s = left(give_up)
    time.sleep(pause_s(tries) if limit_s is None else min(pause_s(tries), limit_s))


class Record:
    """
    A recipe's JSON in a znode's data: ``{"v":1,"recipe":NAME,…}``.

    It tells whose path it is: data of somebody else is refused, not overwritten.
    """

    def __init__(self, path: str, recipe: str) -> None:
        self.path = path
        self.recipe = recipe

    def encode(self, **fields: object) -> bytes:
        """Return the data for some fields."""
        text = json.dumps(
            {"v": 1, "recipe": self.recipe, **fields}, separators=(",", ":"), ensure_ascii=False
        )
        return text.encode("utf-8", "surrogatepass")

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """
        Return the fields; None for empty data, as a directory made by a lock has.

        Raises:
            QueueConflictError: data of another recipe or library.
        """
        if not data:
            return None
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or (fields.get("v"), fields.get("recipe")) != (1, self.recipe):
            raise self.conflict("(data of another recipe)")
        return fields

    def found(self, found: Found) -> dict[str, Any] | None:
        """
        Return the fields of a node that was read; None when there is none, or nothing in it yet.

        Raises:
            QueueConflictError: data, or children without any data, of another recipe or library.
        """
        if found is None:
            return None
        fields = self.decode(found[0])
        if fields is None and found[1].numChildren:
            raise self.conflict("(children of another recipe or lock)")
        return fields

    def conflict(self, *children: str) -> QueueConflictError:
        """Return the error for a path that somebody else uses."""
        return QueueConflictError(self.path, children)


class Znodes:
    """
    Reads and writes through a recipe's client, below its chroot.

    Args:
        client: as the user gave it; looked up at each use, so that a forked child finds its own.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        if client is not None:
            Coordinator.of(client)

    def coordinator(self) -> Coordinator:
        """Return the coordinator."""
        return Coordinator.of(self.client)

    def get(
        self,
        path: str,
        give_up: float | None,
        watch: Callable[[WatchedEvent], object] | None = None,
        *,
        is_fresh: bool = True,
    ) -> Found:
        """Return a node's data and stat, None when there is none; `watch` is armed only on one that exists."""
        return self._read(path, give_up, lambda client: client.get_async(path, watch=watch), is_fresh)

    def exists(
        self, path: str, give_up: float | None, watch: Callable[[WatchedEvent], object]
    ) -> ZnodeStat | None:
        """Return a node's stat, None when there is none; `watch` is armed in both cases."""
        return self._read(path, give_up, lambda client: client.exists_async(path, watch=watch), True)

    def children(
        self, path: str, give_up: float | None, watch: Callable[[WatchedEvent], object] | None = None
    ) -> list[str] | None:
        """Return a node's children in any order, None when it does not exist."""
        return self._read(path, give_up, lambda client: client.get_children_async(path, watch=watch), True)

    def create(self, path: str, value: bytes, give_up: float | None) -> bool:
        """Create a persistent node and what is missing above it; False when it exists."""
        acl = self.coordinator().acl

        def send(client: KazooClient) -> IAsyncResult[str]:
            return client.create_async(path, value, acl=acl, makepath=True)

        try:
            self._write(path, give_up, send)
        except NodeExistsError:
            return False
        return True

    def set(self, path: str, value: bytes, version: int, give_up: float | None) -> int | None:
        """Write if the node has that version; returns the new one, or None when it has another or is gone."""
        try:
            stat = self._write(path, give_up, lambda client: client.set_async(path, value, version))
        except (BadVersionError, NoNodeError):
            return None
        return int(stat.version)

    def delete(self, path: str, version: int, give_up: float | None) -> bool | None:
        """Delete if the node has that version (-1: any); False when it has another, None when it is gone."""
        try:
            self._write(path, give_up, lambda client: client.delete_async(path, version))
        except BadVersionError:
            return False
        except NoNodeError:
            return None
        return True

    def _read(
        self,
        path: str,
        give_up: float | None,
        send: Callable[[KazooClient], IAsyncResult[T]],
        is_fresh: bool,
    ) -> T | None:
        tries = 0
        while True:
            client = self.coordinator().connect(left(give_up))
            try:
                # One behind the other on one connection: the read sees at least what was committed when we asked.
                synced = client.sync_async(path) if is_fresh else None
                answer = send(client)
                if synced is not None:
                    synced.get(timeout=left(give_up))
                return answer.get(timeout=left(give_up))
            except NoNodeError:
                return None
            except LINK_LOST as error:
                if is_over(give_up):
                    raise lost(path, error) from error
            except KazooException as error:
                raise refused(path, error) from error
            tries += 1
            pause(tries, give_up)

    def _write(self, path: str, give_up: float | None, send: Callable[[KazooClient], IAsyncResult[T]]) -> T:
        client = self.coordinator().connect(left(give_up))
        try:
            return send(client).get(timeout=left(give_up))
        except LINK_LOST as error:
            raise lost(path, error, is_write=True) from error
        except (BadVersionError, NoNodeError, NodeExistsError):
            raise
        except KazooException as error:
            raise refused(path, error) from error


def lost(path: str, error: Exception, *, is_write: bool = False) -> ConnectionLostError:
    """Return the error for a request without an answer."""
    may = "; the write may have been applied" if is_write else ""
    return ConnectionLostError(f"no answer about {path} in time ({error!r}){may}", maybe_applied=is_write)


def refused(path: str, error: KazooException) -> ZkCoordError:
    """Return the error for a request that the server refused."""
    if isinstance(error, NoAuthError):
        return ConfigError(f"these credentials may not do that with {path}: give auth=, or mend its ACL")
    return ZkCoordError(f"the server refused a request on {path}: {error!r}")


class Wake:
    """
    An alarm that watches ring: one function for all of them, so that arming again adds nothing to kazoo's tables.

    Clear it, arm the watches with `ring` while reading, decide by what was read, then `wait`.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self.clear = self._event.clear
        self.wait = self._event.wait

    def ring(self, event: object = None) -> None:
        """Wake whoever waits. For kazoo's thread: it does nothing else."""
        self._event.set()
