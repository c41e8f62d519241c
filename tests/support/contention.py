"""
Processes that contend for one lock without end, and write down what they do.

``contention.py HOSTS PATH SESSION_S NAME``: one session, two threads. A hold is short, but goes on for as long as it is
uncertain. The process stops when its stdin ends, and then gives back what it holds.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import Coordinator, ZkCoordError, ZkLock
from zkcoord.testing.history import Event, History, Kind, stdout_history

PROCESSES, THREADS = 3, 2

#: An acquire gives up after this many seconds, so that a stop is seen soon.
ACQUIRE_S = 3.0

#: Holds last a random time up to `HOLD_S` seconds, one in `LONG_ONES` a second, and are looked at every `LOOK_S`.
HOLD_S, LONG_ONES, LONG_S, LOOK_S = 0.06, 20, 1.0, 0.005

ROOT = Path(__file__).parents[2]


def main() -> None:
    hosts, path, session_s, name = sys.argv[1:]
    history, stop = stdout_history(), threading.Event()
    with Coordinator(hosts, session_timeout=float(session_s)) as coordinator:
        lock = ZkLock(path, client=coordinator)

        def contend(client: str) -> None:
            chance = random.Random(client)
            while not stop.is_set():
                try:
                    grant = history.acquire(lock, client, timeout=ACQUIRE_S)
                except ZkCoordError:
                    continue
                hold_s = LONG_S if chance.randrange(LONG_ONES) == 0 else chance.uniform(0.0, HOLD_S)
                give_up = time.monotonic() + hold_s
                while history.look(grant, client) and (
                    time.monotonic() < give_up or grant.status == "UNCERTAIN"
                ):
                    threading.Event().wait(LOOK_S)
                history.release(grant, client)

        running = [in_thread(contend, f"{name}-{number}") for number in range(THREADS)]
        sys.stdin.read()
        stop.set()
        for one in running:
            one.result(60.0)


class Contention:
    """The parent's side. A context manager: leaving it stops the processes and waits for them."""

    def __init__(self, hosts: str, path: str, session_s: float) -> None:
        self.history = History()
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.contention", hosts, path, str(session_s), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a lost grant is logged there
                text=True,
                cwd=ROOT,
            )
            for name in (f"process-{number}" for number in range(PROCESSES))
        ]
        self._readers = [in_thread(self.history.read, process.stdout) for process in self._processes]

    @property
    def grants(self) -> list[Event]:
        """The grants so far."""
        return [one for one in self.history.events if one.kind is Kind.OK and one.call == "acquire"]

    @property
    def losses(self) -> int:
        """How many grants were found lost so far."""
        return len({one.token for one in self.history.events if one.kind is Kind.LOST})

    def wait_for_grants(self, count: int, after: float = 0.0, timeout: float = PATIENCE_S) -> None:
        """Wait until that many grants have been made since a moment."""
        wait_until(lambda: sum(one.at > after for one in self.grants) >= count, timeout)

    def __enter__(self) -> Self:
        try:
            for number in range(PROCESSES):
                mine = f"process-{number}-"
                wait_until(lambda mine=mine: any(one.client.startswith(mine) for one in self.grants), 30.0)  # type: ignore[misc]
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for process in self._processes:
                assert process.stdin is not None
                process.stdin.close()
            for reader in self._readers:
                reader.result(60.0)
            codes = [process.wait(10.0) for process in self._processes]
        finally:
            self._kill()
        if kind is None:
            assert [0] * PROCESSES == codes

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


if __name__ == "__main__":
    main()
