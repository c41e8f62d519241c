"""Thousands of tasks that wait in one process, over one session: what they cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from kazoo.client import KazooClient

#: In the everyday run; ``python -m tests.full tasks`` has ten thousand.
TASKS = int(os.environ.get("ZKCOORD_TASKS", "1000"))

#: Longest that the loop may be blocked; the everyday run leaves room for a machine that has other things to do.
BLOCKED_S = 0.05 if TASKS >= 10_000 else 0.1

MEMBER = "_c_00000000-0000-4000-8000-000000000000-lock-0000000000"


@pytest.mark.timeout(60 + TASKS // 20)
def test_many_tasks_wait_without_threads_or_much_memory_or_blocking_the_loop(
    hosts: str, zk: KazooClient, root: str
) -> None:
    ahead = [f"{root}/{number}/{MEMBER}" for number in range(TASKS)]
    zk.ensure_path(root)
    for path in ahead:
        zk.create_async(path.rpartition("/")[0])
    for made in [zk.create_async(path, ephemeral=True) for path in ahead]:
        made.get(30)
    command = [sys.executable, "-W", "error", "-m", "tests.fault.many_tasks", hosts, root, str(TASKS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert "waiting\n" == process.stdout.readline()
            for deleted in [zk.delete_async(path) for path in ahead]:
                deleted.get(30)
            result = process.stdout.readline()
            assert result, f"it ended with {process.wait()} and said on stderr what was wrong"
        finally:
            process.kill()
    found = json.loads(result)
    print(found)
    assert (TASKS, 0) == (found["granted"], found["threads"])
    assert found["bytes"] <= 15_000
    assert found["blocked_s"] <= BLOCKED_S
