"""The lock's purpose in one test: many processes and threads share a counter that is not atomic by itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import ROOT

pytestmark = pytest.mark.servers("embedded", "real")

PROCESSES, THREADS, INCREMENTS = 4, 8, 50


def test_no_increment_is_lost_and_tokens_grow_in_the_order_of_grants(
    zk: KazooClient, hosts: str, root: str
) -> None:
    zk.create(f"{root}/counter", b"0", makepath=True)
    command = [
        sys.executable,
        "-m",
        "tests.support.counter_worker",
        hosts,
        root,
        str(THREADS),
        str(INCREMENTS),
    ]
    workers = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    written: list[tuple[int, int]] = []
    try:
        for worker in workers:
            out, err = worker.communicate(timeout=110)
            assert (0, "") == (worker.returncode, err)
            written += json.loads(out)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()

    total = PROCESSES * THREADS * INCREMENTS
    assert b"%d" % total == zk.get(f"{root}/counter")[0]
    written.sort()
    assert list(range(1, total + 1)) == [value for value, _ in written]
    tokens = [token for _, token in written]
    assert sorted(set(tokens)) == tokens
    assert [] == zk.get_children(f"{root}/lock")
