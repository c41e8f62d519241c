"""What happens where no ensemble can be had, and how margins are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ensemble.conftest import started
from tests.support import margins
from tests.support.cut_scenarios import Outcome


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    for name in ("JAVA_HOME", "ZKCOORD_TEST_HOSTS", "ZKCOORD_REQUIRE_REAL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def start() -> None:
    with started(tick_time_ms=500, sync_limit=4):
        raise AssertionError("nothing can have started")


def test_nothing_installed_is_a_skip_that_says_so(nothing_installed: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match="needs an installed ZooKeeper"):
        start()


def test_nothing_installed_is_a_failure_where_a_real_one_is_required(
    nothing_installed: pytest.MonkeyPatch,
) -> None:
    nothing_installed.setenv("ZKCOORD_REQUIRE_REAL", "1")
    with pytest.raises(pytest.fail.Exception, match="ZKCOORD_REQUIRE_REAL is set"):
        start()


def test_servers_of_somebody_else_are_real_but_not_ours_to_kill(
    nothing_installed: pytest.MonkeyPatch,
) -> None:
    nothing_installed.setenv("ZKCOORD_REQUIRE_REAL", "1")
    nothing_installed.setenv("ZKCOORD_TEST_HOSTS", "127.0.0.1:1")
    with pytest.raises(pytest.skip.Exception, match="needs an installed ZooKeeper"):
        start()


def test_margins_are_kept_over_batches_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "margins"
    monkeypatch.setenv(margins.VARIABLE, str(file))
    margins.keep([Outcome("any moment", 4.0, 1.5, False, 0.1), Outcome("any moment", 4.0, 0.5, False, 0.1)])
    margins.keep([Outcome("any moment", 4.0, 9.0, True, 0.1), Outcome("after idling", 15.0, 9.0, True, 0.1)])

    lines = [line.split() for line in margins.table(margins.load(file)).splitlines()]

    assert ["4", "any", "moment", "3", "1", "0.50", "1.00"] == lines[1]
    assert ["15", "after", "idling", "1", "1", "–", "–"] == lines[2]


def test_margins_are_not_kept_outside_a_full_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(margins.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    margins.keep([Outcome("any moment", 4.0, 1.5, False, 0.1)])
    assert [] == list(tmp_path.iterdir())
