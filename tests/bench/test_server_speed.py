"""
What the embedded server costs: start, speed beside a real server, memory.

The limits are those of its issue; each figure is the best of a few runs, because the machine has other things to do.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from kazoo.client import KazooClient

from tests.support.zookeeper import Server, four_letter
from zkcoord.server import EmbeddedServer

START_S = 0.3
EXISTS_PER_S = 3000
ZNODES = 100_000
ZNODES_MB = 60
ROUNDS = 5
REQUESTS = 3000

MEASURE_MEMORY = """
import gc, sys
from zkcoord.server import EmbeddedServer
from tests.support.zk_raw import RawClient, create
from zkcoord.server.codes import Op

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

with EmbeddedServer() as server, RawClient(server.hosts) as client:
    before = resident()
    count = int(sys.argv[1])
    for start in range(0, count, 1000):
        client.call(Op.CREATE, create(f"/p{start:07}"))
        for number in range(1, 1000):
            client.send(Op.CREATE, create(f"/p{start:07}/n{number:07}", b"0123456789"))
        for number in range(1, 1000):
            assert client.receive(Op.CREATE).error == 0
    gc.collect()
    print(resident() - before)
"""


def test_first_answer_comes_at_once() -> None:
    def measure() -> float:
        began = time.perf_counter()
        with EmbeddedServer() as server:
            assert four_letter("127.0.0.1", server.port, "ruok") == "imok"
            return time.perf_counter() - began

    took_s = min(measure() for _ in range(ROUNDS))
    print(f"start to first answer: {took_s * 1000:.1f} ms")
    assert took_s <= START_S


def test_round_trips_beside_a_real_server(zookeeper: Server) -> None:
    real_rate, embedded_rate = 0.0, 0.0
    with EmbeddedServer() as server:
        for _ in range(ROUNDS):  # in turns, so that both meet the same noise
            real_rate = max(real_rate, _exists_per_s(zookeeper.hosts))
            embedded_rate = max(embedded_rate, _exists_per_s(server.hosts))
    print(
        f"exists from kazoo: real {real_rate:.0f}/s, embedded {embedded_rate:.0f}/s,"
        f" ratio {embedded_rate / real_rate:.2f}"
    )
    assert embedded_rate >= EXISTS_PER_S


def _exists_per_s(hosts: str) -> float:
    client = KazooClient(hosts, timeout=30.0)  # a machine with other things to do may stall for seconds
    client.start(20)
    try:
        for _ in range(REQUESTS // 10):
            client.exists("/")
        began = time.perf_counter()
        for _ in range(REQUESTS):
            client.exists("/")
        return REQUESTS / (time.perf_counter() - began)
    finally:
        client.stop()
        client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_many_znodes() -> None:
    command = [sys.executable, "-c", MEASURE_MEMORY, str(ZNODES)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout
    used_mb = int(output) / 1e6
    print(f"{ZNODES} znodes: {used_mb:.1f} MB")
    assert used_mb <= ZNODES_MB
