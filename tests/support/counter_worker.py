"""
One process of the counter test: threads that read, add one and write back, under a lock.

The znode's write is unconditional, so two holders at once would lose an increment. Prints one JSON list per process:
``[value written, token]`` for each increment. ``python counter_worker.py HOSTS ROOT THREADS INCREMENTS``.
"""

from __future__ import annotations

import json
import sys

from kazoo.client import KazooClient

from tests.support.waiting import in_thread
from zkcoord import Coordinator, ZkLock


def main() -> None:
    hosts, root, threads, increments = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    client = KazooClient(hosts, timeout=10.0)
    client.start(timeout=30)
    written: list[tuple[int, int]] = []
    with Coordinator(hosts) as coordinator:
        lock = ZkLock(f"{root}/lock", client=coordinator, timeout=100.0)

        def work() -> None:
            for _ in range(increments):
                with lock as grant:
                    value = int(client.get(f"{root}/counter")[0]) + 1
                    client.set(f"{root}/counter", b"%d" % value)
                    written.append((value, grant.token))

        for done in [in_thread(work) for _ in range(threads)]:
            done.result(110.0)
    client.stop()
    client.close()
    print(json.dumps(written))


if __name__ == "__main__":
    main()
