"""``zkcoord run`` on a follower that is cut off: its whole command is dead before anybody else can hold the lock."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import cli
from tests.support.ensemble import Ensemble
from tests.support.processes import FAMILY, is_alive
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock
from zkcoord.cli import exit_codes

SESSION_S = 6.0

#: What the leader takes beyond the session time to let somebody else in.
TICKS_S = 10.0


@pytest.mark.slow
def test_command_is_dead_before_another_clients_acquire_returns(
    slow_ensemble: Ensemble, tmp_path: Path
) -> None:
    slow_ensemble.wait_until_serving()
    follower, leader = slow_ensemble.followers()[0], slow_ensemble.leader()
    pids = tmp_path / "pids"
    command = [sys.executable, "-c", FAMILY, str(pids)]
    process = cli.start(
        follower.hosts, "run", "--session-timeout", f"{SESSION_S:g}", "/run-cut-off", "--", *command
    )
    try:
        wait_until(lambda: pids.exists() and 3 == len(pids.read_text().splitlines()))
        family = [int(pid) for pid in pids.read_text().splitlines()]
        with Coordinator(leader.hosts) as other, slow_ensemble.cut_off(follower):
            grant = ZkLock("/run-cut-off", client=other).acquire(timeout=2 * SESSION_S + TICKS_S)
            alive = [pid for pid in family if is_alive(pid)]
            grant.release()
            code, _out, err = cli.finish(process)
    finally:
        process.kill()
        process.wait()

    assert [] == alive
    assert exit_codes.LOST == code
    assert "did not confirm in time that /run-cut-off is still held" in err
    slow_ensemble.wait_until_serving()
