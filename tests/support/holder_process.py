"""
A holder in a process of its own, to be stopped with SIGSTOP. ``holder_process.py HOSTS PATH SESSION_S CLIENT``.

Its history goes to stdout. It confirms its grant all the time, until it finds that it has slept; then once more, after
which heartbeats are all that is sent. It ends when it is killed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.faults import is_verified
from tests.support.waiting import wait_until
from zkcoord import Coordinator, Grant, GrantLostError, ZkLock
from zkcoord.testing.history import History, Kind, stdout_history

#: How often it confirms, in seconds; a longer gap than `SLEPT_S` was a pause.
EVERY_S = 0.05
SLEPT_S = 1.0

ROOT = Path(__file__).parents[2]


def main() -> None:
    hosts, path, session_s, client = sys.argv[1:]
    history = stdout_history()
    with Coordinator(hosts, session_timeout=float(session_s)) as coordinator:
        grant = history.acquire(ZkLock(path, client=coordinator), client, timeout=20.0)
        confirm_until(grant, Sleeper().has_slept)
        confirm_until(grant, lambda: True)
        history.look(grant, client)
        history.note("confirmed")
        history.await_loss(grant, client, 120.0)
        threading.Event().wait()


class Sleeper:
    """Notices that the process has slept: two looks lie too far apart. It stays with that, once seen."""

    def __init__(self) -> None:
        self._looked_at = time.monotonic()
        self._longest_s = 0.0

    def has_slept(self) -> bool:
        now = time.monotonic()
        self._longest_s = max(self._longest_s, now - self._looked_at)
        self._looked_at = now
        return self._longest_s > SLEPT_S


def confirm_until(grant: Grant, is_enough: Callable[[], bool]) -> None:
    """Confirm a grant again and again, at least once; return when that is enough, or the grant is lost."""
    try:
        while True:
            is_confirmed = is_verified(grant)
            if is_enough() and is_confirmed:
                return
            threading.Event().wait(EVERY_S)
    except GrantLostError:
        return


class HolderProcess:
    """The parent's side: starts it, takes in what it writes down, stops and wakes it. A context manager."""

    def __init__(self, hosts: str, path: str, session_s: float, client: str) -> None:
        self.history = History()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.holder_process", hosts, path, str(session_s), client],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        lines = self._process.stdout
        self._reader = threading.Thread(target=lambda: self.history.read(lines), daemon=True)
        self._reader.start()

    def wait_for(self, kind: Kind, call: str | None = None, timeout: float = 60.0) -> None:
        """Wait until it has written such an event down."""
        wait_until(
            lambda: any(event.kind is kind and call in (None, event.call) for event in self.history.events),
            timeout,
        )

    def pause(self, until: float) -> None:
        """Stop it up to a moment of the monotonic clock."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            threading.Event().wait(max(0.0, until - time.monotonic()))
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10.0)
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    main()
