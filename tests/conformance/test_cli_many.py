"""
``zkcoord locks`` on a big tree: how long it takes, and how much memory.

``ZKCOORD_LISTED_LOCKS`` sets how many locks of three members each; ``python -m tests.full listing`` takes 10,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from kazoo.client import KazooClient

from tests.conformance.test_cli_options import many_locks
from tests.support import cli
from zkcoord.server import EmbeddedServer

LOCKS = int(os.environ.get("ZKCOORD_LISTED_LOCKS", "1000"))

#: What is promised for 10,000 locks, and what a Python process takes to start.
WITHIN_S, START_S = 5.0, 1.0
MEMORY_BYTES = 150 * 1024 * 1024

#: Starts the command, and writes what the kernel has counted when it has ended.
MEASURED = """\
import os, subprocess, sys
process = subprocess.Popen([sys.executable, "-m", "zkcoord.cli", *sys.argv[1:]])
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss * 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts memory as Linux does")
@pytest.mark.timeout(60 + LOCKS / 20)
def test_many_locks_are_listed_in_time() -> None:
    with EmbeddedServer() as server:
        client = KazooClient(server.hosts, timeout=40.0)
        client.start()
        try:
            many_locks(client, "/app", LOCKS)
            measure(server.hosts)
        finally:
            client.stop()
            client.close()


def measure(hosts: str) -> None:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURED, "locks", "/app", "-o", "plain", "--timeout", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cli.environment(hosts),
    )
    assert process.stdout is not None
    process.stdout.readline()  # headings
    first = process.stdout.readline()
    first_s = time.monotonic() - began
    rest, err = process.communicate(timeout=60)
    took_s = time.monotonic() - began

    print(f"\n{LOCKS:,} locks: the first row after {first_s:.2f} s, all after {took_s:.2f} s")
    print(f"at most {int(err) / 2**20:.0f} MiB")
    assert (0, LOCKS) == (process.returncode, len([first, *rest.splitlines()]))
    assert took_s <= WITHIN_S + START_S
    assert int(err) <= MEMORY_BYTES
