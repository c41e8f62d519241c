"""
One process of the demo: threads that draw order numbers. Started by ``zkcoord demo``, not by people.

It gets a ``Job`` as JSON in its only argument, prints one JSON object a line ("ready", "order", "holding",
"error",
"done"), begins when a line comes on stdin, and ends at once when stdin closes, so that it never outlives the demo.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord import Coordinator, ZkLock
from zkcoord.cli.connect import connected
from zkcoord.cli.demo_process import Job
from zkcoord.cli.options import Settings
from zkcoord.errors import ZkCoordError

#: Seconds for a turn: far more than all the others can take, the expiry of a killed holder's session
#: included.
_TURN_S = 120.0

#: Seconds for one request; a local server answers within milliseconds.
_REQUEST_S = 10.0

#: Seconds the victim waits for its end before it gives up on being killed.
_VICTIM_S = 60.0


class _Worker:
    """The threads of one process, around one session: lock and counter see the same server, in the same order."""

    def __init__(self, job: Job, client: KazooClient, coordinator: Coordinator | None) -> None:
        self._job = job
        self._client = client
        self._coordinator = coordinator
        self._counter = f"{job.root}/counter"
        self._print = threading.Lock()

    def report(self, event: str, **fields: object) -> None:
        """Print one line for the parent."""
        line = json.dumps({"event": event, **fields})
        with self._print:
            print(line, flush=True)

    def run_threads(self) -> None:
        """Draw everything; return when all threads ended."""
        threads = [
            threading.Thread(target=self._run_thread, args=(index, count), name=f"desk-{index}", daemon=True)
            for index, count in enumerate(self._job.counts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_thread(self, thread: int, count: int) -> None:
        holds_at = self._job.hold_after if thread == 0 else None
        try:
            for index in range(count):
                with self._turn() as (token, wait_s):
                    value = self._read()
                    if index == holds_at:
                        self.report("holding", token=token, thread=thread)
                        threading.Event().wait(_VICTIM_S)
                        raise KazooTimeoutError("nobody killed the victim")
                    self._write(value + 1)
                    number = f"{datetime.now():%Y%m%d%H%M%S}{value + 1:06}"
                    # Inside the turn: once it is given away, nothing of it can be lost with this process.
                    self.report(
                        "order", number=number, value=value + 1, token=token, wait_s=wait_s, thread=thread
                    )
        except (ZkCoordError, KazooException, KazooTimeoutError) as error:
            self.report("error", message=f"{type(error).__name__}: {error}", thread=thread)

    @contextmanager
    def _turn(self) -> Iterator[tuple[int | None, float]]:
        if self._coordinator is None:
            yield None, 0.0
            return
        began = time.monotonic()
        lock = ZkLock(
            f"{self._job.root}/lock",
            client=self._coordinator,
            timeout=_TURN_S,
            label=f"order desk {self._job.worker}",
        )
        with lock as grant:
            yield grant.token, time.monotonic() - began

    def _read(self) -> int:
        data, _stat = self._client.get_async(self._counter).get(timeout=_REQUEST_S)
        return int(data)

    def _write(self, value: int) -> None:
        # Unconditional on purpose: a version check would make the counter atomic by itself.
        self._client.set_async(self._counter, b"%d" % value, -1).get(timeout=_REQUEST_S)


def _end_with_parent() -> None:
    while sys.stdin.readline():
        pass
    os._exit(1)


def main() -> int:
    """Do the job in ``sys.argv[1]``; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends us
    job = Job.load(sys.argv[1])
    with connected(Settings(job.hosts, timeout=_REQUEST_S), session_timeout=job.session_timeout) as client:
        coordinator = Coordinator(kazoo=client) if job.with_lock else None
        worker = _Worker(job, client, coordinator)
        worker.report("ready")
        sys.stdin.readline()
        threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
        worker.run_threads()
        if coordinator is not None:
            coordinator.close()
        worker.report("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
