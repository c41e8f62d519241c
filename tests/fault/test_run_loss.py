"""A command under ``zkcoord run`` is dead, with all its processes, before anybody else can hold the lost lock."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cli
from tests.support.processes import FAMILY, is_alive
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock
from zkcoord.cli import exit_codes
from zkcoord.server import EmbeddedServer

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="finds grandchildren by Linux's means"
)

#: Long enough to be told from noise, short enough to be waited for; the server's ticks fit it.
SESSION_S = 3.0


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server with short ticks."""
    with EmbeddedServer(tick_time=0.75) as embedded:
        yield embedded


@pytest.fixture
def link(server: EmbeddedServer) -> Iterator[FaultProxy]:
    """What stands between `run` and the server."""
    with FaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.mark.parametrize("how", ["black hole", "paused"])
def test_all_processes_are_dead_before_the_next_holder_starts(
    server: EmbeddedServer, link: FaultProxy, tmp_path: Path, how: str
) -> None:
    pids = tmp_path / "pids"
    process = cli.start(
        link.hosts,
        "run",
        "--session-timeout",
        str(SESSION_S),
        "/l",
        "--",
        sys.executable,
        "-c",
        FAMILY,
        str(pids),
    )
    with Coordinator(server.hosts, session_timeout=SESSION_S) as coordinator:
        wait_until(lambda: pids.exists() and 3 == len(pids.read_text().splitlines()))
        family = [int(pid) for pid in pids.read_text().splitlines()]
        assert all(map(is_alive, family))

        if how == "paused":
            process.send_signal(signal.SIGSTOP)
        else:
            link.black_hole()
        grant = ZkLock("/l", client=coordinator).acquire(timeout=60.0)
        alive = [pid for pid in family if is_alive(pid)]

        assert [] == alive
        assert grant.release()
    os.kill(process.pid, signal.SIGCONT)
    code, _out, err = cli.finish(process)
    assert exit_codes.LOST == code
    assert "Traceback" not in err


def test_short_trouble_does_not_disturb_the_command(
    server: EmbeddedServer, link: FaultProxy, tmp_path: Path
) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    script = f"echo x > {ready}; while [ ! -e {go} ]; do sleep 0.02; done; exit 4"
    process = cli.start(link.hosts, "run", "--session-timeout", "20", "/l", "--", "sh", "-c", script)
    wait_until(ready.exists)

    link.drop_connections()
    link.wait_for_connections(1)
    go.touch()

    assert (4, "", "") == cli.finish(process)


def test_expired_session_kills_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    process = cli.start(server.hosts, "run", "/l", "--", sys.executable, "-c", FAMILY, str(pids))
    wait_until(lambda: pids.exists() and 3 == len(pids.read_text().splitlines()))

    for session in server.sessions():
        server.expire(session)

    code, _out, err = cli.finish(process)
    assert exit_codes.LOST == code
    assert not any(is_alive(int(pid)) for pid in pids.read_text().splitlines())
    assert "lost /l" in err
