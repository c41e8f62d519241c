"""
Many tasks of one process that wait at once, and what that costs: ``python -m tests.fault.many_tasks HOSTS ROOT COUNT``.

There is somebody ahead on each path, ``ROOT/0`` and so on. When all wait, it writes a line; when all have been granted
and have released their locks, a line of JSON. A process of its own, for its memory to be its own.

Python's cyclic garbage collector is off: a full collection stops everything while it looks at every object there is,
and with ten thousand tasks, whatever they wait for, that takes some tenths of a second. The result says how long.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from zkcoord import AsyncZkLock, Coordinator

#: Started at a time; the next ones when these are in their queues.
BATCH = 200

BEAT_S = 0.002

PAGE_BYTES = 4096


def memory_bytes() -> int:
    """Return this process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def not_running_s() -> float:
    """Return for how long threads of this process were ready to run while the machine, or its host, ran others."""
    delay_ns = 0
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it may have ended meanwhile
            delay_ns += int((thread / "schedstat").read_text().split()[1])
    stolen = int(Path("/proc/stat").read_text().split()[8])
    return delay_ns / 1e9 + stolen / os.sysconf("SC_CLK_TCK")


def collection_s() -> float:
    """Return how long the garbage collector stops everything."""
    began = time.monotonic()
    gc.collect()
    return time.monotonic() - began


class Watchdog:
    """Says for how long the loop did not run what was due, without and with what the machine took for others."""

    def __init__(self) -> None:
        self.blocked_s = 0.0
        self.late_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Count what was before against nobody."""
        self._at, self._others_s = time.monotonic(), not_running_s()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self.begin()
            await asyncio.sleep(BEAT_S)
            late_s = time.monotonic() - self._at - BEAT_S
            self.late_s = max(self.late_s, late_s)
            self.blocked_s = max(self.blocked_s, late_s - (not_running_s() - self._others_s))


async def main(hosts: str, root: str, count: int) -> dict[str, float]:
    """Have `count` tasks wait, and return what it took."""
    granted = 0

    async def wait(number: int) -> None:
        nonlocal granted
        async with AsyncZkLock(f"{root}/{number}", client=coordinator):
            granted += 1

    async with Coordinator(hosts, session_timeout=30.0) as coordinator:
        async with AsyncZkLock(f"{root}/warm-up", client=coordinator):
            pass
        session, watchdog = coordinator.session(), Watchdog()
        watching = asyncio.create_task(watchdog.run())
        before, threads = memory_bytes(), threading.active_count()
        began = time.monotonic()
        tasks = []
        for first in range(0, count, BATCH):
            tasks += [asyncio.create_task(wait(number)) for number in range(first, min(count, first + BATCH))]
            while len(session.watches) < len(tasks) or session.requests.oldest_sent() is not None:
                await asyncio.sleep(BEAT_S)
        queued_s = time.monotonic() - began
        pause_s = collection_s()
        each_bytes = (memory_bytes() - before) / count
        more_threads = threading.active_count() - threads
        watchdog.begin()
        print("waiting", flush=True)
        began = time.monotonic()
        await asyncio.gather(*tasks)
        granted_s = time.monotonic() - began
        assert not watching.done()
        watching.cancel()
        return {
            "granted": granted,
            "threads": more_threads,
            "bytes": round(each_bytes),
            "blocked_s": round(watchdog.blocked_s, 4),
            "late_s": round(watchdog.late_s, 4),
            "collection_s": round(pause_s, 4),
            "queued_s": round(queued_s, 2),
            "granted_s": round(granted_s, 2),
        }


if __name__ == "__main__":
    gc.disable()
    hosts, root, count = sys.argv[1:]
    print(json.dumps(asyncio.run(main(hosts, root, int(count)))), flush=True)
