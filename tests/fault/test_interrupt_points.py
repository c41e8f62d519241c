"""
Ctrl-C at every single moment of an acquire and release, one after the other, and a second one while that is undone.

Python looks for signals when a function begins, when a call of C code returns and when a loop goes round; a profile
function is called at the first two of these, so one that raises strikes exactly where Ctrl-C can. Left out are the
moments that Python gives no way to guard, in `unguarded` (``with lock:`` has none but the very end of its body).
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.fault.unguarded import UNGUARDED, is_finalizing
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock, ZkMultiLock, ZkReadWriteLock, hold_until_commit, locked
from zkcoord._sync.base import Lock
from zkcoord.server import EmbeddedServer

#: More moments than any of the bodies has; reaching it means that something loops.
MANY = 5_000


@pytest.fixture(scope="module")
def coordinator() -> Iterator[Coordinator]:
    with (
        EmbeddedServer(tick_time=0.25, container_check_interval=3600.0) as server,
        Coordinator(server.hosts, session_timeout=1.0, tick_time=0.25) as coordinator,
    ):
        yield coordinator


class Strike:
    """Interrupts this thread at the n-th moment from here, and once more at the m-th call of a function after that."""

    def __init__(self, first: int, second: int = 0) -> None:
        self._left = first
        self._second = second
        self.struck: list[str] = []

    def run(self, body: Callable[[], object]) -> bool:
        """Whether it struck."""
        gc.disable()  # whose callbacks are not ours, and whose errors Python only reports
        sys.setprofile(self._first_event)
        try:
            body()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
            sys.setprofile(None)
            gc.enable()
        return False

    def _first_event(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "c_return") or self._is_spared(frame, event):
            return
        self._left -= 1
        if not self._left:
            self.struck.append(moment(frame, event, arg))
            if self._second:
                sys.settrace(self._call)
            raise KeyboardInterrupt

    def _call(self, frame: FrameType, event: str, arg: Any) -> None:
        if self._is_spared(frame, event):
            return
        self._second -= 1
        if not self._second:
            self.struck.append(moment(frame, event, arg))
            raise KeyboardInterrupt

    def _is_spared(self, frame: FrameType, event: str) -> bool:
        code = frame.f_code
        return (
            is_finalizing(frame)
            or code.co_name in ("run", "<genexpr>")
            or (event == "call" and code in UNGUARDED)
        )


def moment(frame: FrameType, event: str, arg: Any) -> str:
    code = frame.f_code
    what = getattr(arg, "__qualname__", "") if event == "c_return" else "begins"
    return f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_qualname} {what}"


def enter(lock: Lock) -> None:
    with lock:
        pass


def enter_twice(lock: Lock) -> None:
    with lock, lock:
        pass


def enter_grant(lock: Lock) -> None:
    with lock.acquire(timeout=5.0):
        pass


def call_locked(lock: Lock) -> None:
    @locked(lock.path, lock=lambda path, **more: lock)
    def work() -> None:
        pass

    work()


def commit(lock: Lock) -> None:
    with hold_until_commit(lock, Connection()):
        pass


class Connection:
    """Enough of a database connection."""

    def commit(self) -> None:
        pass

    def rollback(self) -> None:
        pass


def plain(coordinator: Coordinator, path: str) -> Lock:
    return ZkLock(path, client=coordinator, timeout=5.0)


def downgrade(coordinator: Coordinator, path: str) -> Lock:
    return ZkReadWriteLock(path, client=coordinator, timeout=5.0).read


def multi(coordinator: Coordinator, path: str) -> Lock:
    return ZkMultiLock([f"{path}/a", f"{path}/b"], client=coordinator, timeout=5.0)


CASES = {
    "with": (plain, enter),
    "re-entry": (plain, enter_twice),
    "grant": (plain, enter_grant),
    "read": (downgrade, enter),
    "multi": (multi, enter),
    "locked": (plain, call_locked),
    "commit": (plain, commit),
}


def left_behind(coordinator: Coordinator, struck: dict[str, Strike]) -> dict[str, list[str]]:
    """What is left of whom, by when it was struck."""
    tracked = [path.rpartition("/")[0] for path in coordinator.session().guard._members]
    registered = [path for path, _, _ in coordinator.registry._slots]
    zk = coordinator.client
    members = [root for root in struck if zk.get_children(root)]
    begun = [str(clean_up) for clean_up in coordinator.session().guard.unfinished]
    left = {
        f"{path} {struck[path].struck}": sorted(
            kind
            for kind, paths in (("tracked", tracked), ("registered", registered), ("member", members))
            if path in paths
        )
        for path in {*tracked, *registered, *members}
    }
    return left | {clean_up: ["begun"] for clean_up in begun}


def strikes(twice: bool) -> Iterator[Strike]:
    if not twice:
        yield from (Strike(first) for first in range(1, MANY))
    else:
        # Every first moment, and after each one of the calls that undo it; over all of them, each is struck.
        yield from (Strike(first, first % 23 + 1) for first in range(1, MANY))


# A grant that is thrown away while the guard has yet to give it back says so.
@pytest.mark.filterwarnings("ignore:.* was dropped without release:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.* was never entered:ResourceWarning")
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_at_each_moment_leaves_nothing(coordinator: Coordinator, name: str, twice: bool) -> None:
    make, body = CASES[name]
    root = f"/interrupts/{name}-{twice}"
    struck: dict[str, Strike] = {}
    for number, strike in zip(itertools.count(), strikes(twice), strict=False):
        path = f"{root}/{number}"
        lock = make(coordinator, path)
        with lock:  # makes the directories, which are not the matter here
            pass
        struck |= {path: strike} if name != "multi" else {f"{path}/a": strike, f"{path}/b": strike}
        if not strike.run(lambda lock=lock: body(lock)):
            break
    print(f"{name}: {number} moments, {sum(len(strike.struck) for strike in struck.values())} interrupts")
    assert number > 100
    with suppress(AssertionError):
        wait_until(lambda: not left_behind(coordinator, struck), timeout=5.0)
    assert {} == left_behind(coordinator, struck)
