"""The demo's wrapper: one line, ZKCOORD_HOSTS, the command's exit code, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.run_with_zookeeper import EXIT_UNAVAILABLE, EXIT_USAGE
from tests.support.zookeeper import Server

REPOSITORY = Path(__file__).resolve().parents[2]
WRAPPER = [sys.executable, "-m", "tests.support.run_with_zookeeper"]
SHOW_HOSTS = "import os, sys; print(os.environ['ZKCOORD_HOSTS'], flush=True)"
WAIT_FOR_INPUT = f"{SHOW_HOSTS}; sys.stdin.read()"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WRAPPER, *arguments],
        env={**os.environ, **environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_command_gets_the_hosts_and_its_exit_code_is_returned(zookeeper: Server) -> None:
    done = run("--", sys.executable, "-c", f"{SHOW_HOSTS}; sys.exit(7)")

    said, hosts = done.stdout.splitlines()
    assert 7 == done.returncode
    assert said.startswith("zkcoord: using ")
    assert hosts in said


def test_missing_command_is_wrong_use() -> None:
    assert EXIT_USAGE == run("--").returncode
    assert EXIT_USAGE == run().returncode


def test_unreachable_server_is_reported_in_one_line() -> None:
    done = run("--", "true", ZKCOORD_TEST_HOSTS="127.0.0.1:1")

    assert EXIT_UNAVAILABLE == done.returncode
    assert 1 == len(done.stderr.splitlines())


def test_termination_ends_command_and_server(zookeeper: Server) -> None:
    with subprocess.Popen(
        [*WRAPPER, "--", sys.executable, "-c", WAIT_FOR_INPUT],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        port = int(process.stdout.readline().strip().rpartition(":")[2])

        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    assert 128 + signal.SIGTERM == code
    if "ZKCOORD_TEST_HOSTS" not in os.environ:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), 5)
