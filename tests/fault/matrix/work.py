"""What a victim does: the public calls under test, each timed against its bound; and what it still has in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient

from tests.support.faults import is_verified
from tests.support.fronts import of_threads
from tests.support.waiting import wait_until
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    Coordinator,
    Grant,
    GrantLostError,
    ZkLock,
    ZkMultiLock,
    ZkSemaphore,
)

SESSION_S = 2.0
RELEASE_S = 1.0
CLOSE_S = 2.0
CONNECT_S = 15.0

Lock = ZkLock | ZkMultiLock | ZkSemaphore


@dataclass(frozen=True)
class Outcome:
    """
    What came of a call.

    Attributes:
        word: as in the table, or what went wrong.
        began: the moment, on the monotonic clock, which all processes share.
        took_s: how long it took.
        limit_s: its bound.
        name: the member's name, if there is a grant.
        session: the client's session at the end.
    """

    word: str
    began: float
    took_s: float
    limit_s: float
    name: str = ""
    session: int | None = None


@dataclass(frozen=True)
class Look:
    """
    What the victim knows at a moment.

    Attributes:
        status: the grant's status, then its `remaining`; "" when there is none.
        is_settled: connected, and no request is under way.
        in_use: everything that should be gone in the end, by name; only what is there.
    """

    session: int | None
    password: str
    is_connected: bool
    is_settled: bool
    watches: int
    status: str
    remaining_s: float
    in_use: dict[str, int]


def directories(root: str, kind: str) -> list[str]:
    """Return the lock's directories."""
    return [f"{root}/lock", f"{root}/second"] if kind == "multi" else [f"{root}/lock"]


def make_lock(kind: str, root: str, coordinator: Coordinator, locks: dict[str, Any]) -> Lock:
    """
    Make a lock of that kind; whatever it is, only one of the test's members ahead stands in its way.

    Args:
        kind: as in the table.
        root: of the test.
        coordinator: the victim's.
        locks: those of the front end under test, by their names; see `tests.support.fronts`.
    """
    paths = directories(root, kind)
    made: Lock
    if kind == "multi":
        made = locks["ZkMultiLock"](paths, client=coordinator, timeout=CONNECT_S)
    elif kind == "semaphore":
        made = locks["ZkSemaphore"](paths[0], permits=1, client=coordinator, timeout=CONNECT_S)
    elif kind == "lock":
        made = locks["ZkLock"](paths[0], client=coordinator, timeout=CONNECT_S)
    else:
        both = locks["ZkReadWriteLock"](paths[0], client=coordinator, timeout=CONNECT_S)
        made = both.read if kind == "read" else both.write
    return made


class Work:
    """One victim: a coordinator, a lock, a grant. Calls that wait may run while others look, cancel or leave."""

    def __init__(self, locks: dict[str, Any] | None = None) -> None:
        self._locks = of_threads() if locks is None else locks
        self.grant: Grant | None = None
        self.is_armed = False  # whether Ctrl-C means the call

    def start(self, kind: str, root: str, hosts: str, is_borrowed: bool, is_cold: bool) -> None:
        """Make coordinator and lock; connect, unless it is to be cold."""
        self.grant = None
        self._root = root
        self._kazoo: KazooClient | None = None
        if is_borrowed:
            self._kazoo = KazooClient(hosts, timeout=SESSION_S)
            self._kazoo.start(timeout=CONNECT_S)
            self._coordinator = Coordinator(kazoo=self._kazoo, release_timeout=RELEASE_S)
        else:
            self._coordinator = Coordinator(hosts, session_timeout=SESSION_S, release_timeout=RELEASE_S)
        self._lock = make_lock(kind, root, self._coordinator, self._locks)
        if not is_cold and not is_borrowed:
            ZkLock(f"{root}-warm-up", client=self._coordinator).acquire(timeout=CONNECT_S).release()

    def acquire(self, timeout: float) -> Outcome:
        """Acquire, and keep the grant."""

        def acquire() -> str:
            self.grant = self._lock.acquire(timeout=timeout)
            return "granted"

        return self._timed(acquire, timeout)

    def hold(self) -> Outcome:
        """Enter a ``with``, and stay in it until the lock is lost, or until `leave`."""

        def hold() -> str:
            with self._lock as grant:
                self.grant = grant
                grant.lost.wait()
            return "held"

        return self._timed(hold, float("inf"))

    def leave(self) -> str:
        """Have a quorum confirm the grant, then release it: `hold` goes on. Returns what was wrong, if anything."""
        assert self.grant is not None
        grant = self.grant
        wait_until(lambda: is_verified(grant))  # the connection may be just about to break
        return "" if grant.release() else "its release says that it was lost"

    def release(self) -> Outcome:
        """Release the grant."""
        assert self.grant is not None
        grant = self.grant
        return self._timed(lambda: str(grant.release()).lower(), RELEASE_S)

    def cancel(self) -> None:
        self._lock.cancel()

    def close(self) -> Outcome:
        """Close the coordinator."""
        outcome = self._timed(lambda: self._coordinator.close(timeout=CLOSE_S) or "closed", CLOSE_S)
        self.grant = None
        if self._kazoo is not None:
            self._kazoo.stop()
            self._kazoo.close()
        return outcome

    def threads(self) -> int:
        """Return how many threads of this coordinator there are."""
        prefix = f"zkcoord-{id(self._coordinator) & 0xFFFF:04x}"
        routine = self._coordinator.client._connection._connection_routine
        ours = [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]
        return len(ours) + (routine is not None and routine.is_alive())

    def look(self) -> Look:
        """Look at everything, without asking the server."""
        coordinator, grant = self._coordinator, self.grant
        session = coordinator._session
        identity = coordinator.client.client_id
        if session is None:
            return Look(None, "", False, False, 0, "", 0.0, {})
        tables = coordinator.client._data_watchers
        in_use = {
            "members tracked": len(session.guard._members),
            "holds": len(session.guard._holds),
            "watches": len(session.watches),
            "deletes": len(session.janitor),
            "claims": len(coordinator.registry),
            "waiting": len(session._waiting),
            "watchers of kazoo": sum(map(len, tables.copy().values())),
        }
        remaining_s = (
            grant.remaining() if grant else 0.0
        )  # first: it must not seem longer than the status is true
        return Look(
            session.guard.session,
            identity[1].hex() if identity and identity[1] else "",
            session.requests.is_up,
            session.requests.is_up and session.requests.oldest_sent() is None,
            len(session.watches),
            grant.status.value if grant else "",
            remaining_s,
            {name: count for name, count in in_use.items() if count},
        )

    def _timed(self, call: Callable[[], str], limit_s: float) -> Outcome:
        began = time.monotonic()
        try:
            try:
                self.is_armed = True
                word = call()
            finally:
                self.is_armed = False
        except KeyboardInterrupt:
            word = "ctrl-c"
        except AcquireTimeoutError:
            word = "timeout"
        except AcquireCancelledError:
            word = "cancelled"
        except GrantLostError as error:
            word = error.reason
        except Exception as error:
            word = repr(error)
        took_s = time.monotonic() - began
        self.is_armed = False
        name = self.grant.name if self.grant and word == "granted" else ""
        return Outcome(word, began, took_s, limit_s, name, self._coordinator.session_id)
