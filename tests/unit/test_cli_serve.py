"""``zkcoord serve`` as a user runs it: its first line, its end, what it refuses."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.zk_raw import RawClient, path_watch
from zkcoord.cli import exit_codes
from zkcoord.server import EmbeddedServer
from zkcoord.server.codes import Code, Op

COMMAND = [sys.executable, "-m", "zkcoord.cli", "serve"]
END_S = 20


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(how: signal.Signals) -> None:
    command = [*COMMAND, "--port", "0", "--tick-time", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            banner = process.stdout.readline()
            assert "for development and tests; in memory" in banner
            hosts = banner.removeprefix("embedded ZooKeeper on ").split(",")[0]
            with RawClient(hosts) as client:
                assert 2000 == client.response.timeout_ms  # 20 ticks
                assert Code.OK == client.call(Op.EXISTS, path_watch("/")).error
            process.send_signal(how)
            assert exit_codes.OK == process.wait(END_S)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "0.0.0.0"], "allow_remote"),
        (["--host", "nowhere.invalid"], "allow_remote"),
        (["--tick-time", "0"], "tick-time"),
        (["--port", "99999"], "port"),
    ],
)
def test_it_refuses(arguments: list[str], text: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=END_S)

    assert exit_codes.USAGE == done.returncode
    assert text in done.stderr


def test_taken_port_is_told() -> None:
    with EmbeddedServer() as server:
        done = subprocess.run(
            [*COMMAND, "--port", str(server.port)], capture_output=True, text=True, timeout=END_S
        )

    assert exit_codes.USAGE == done.returncode
    assert f"cannot listen on 127.0.0.1 port {server.port}" in done.stderr


def test_help_says_what_it_is_for() -> None:
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, timeout=END_S)

    assert "For development and tests; in memory." in " ".join(done.stdout.split())
