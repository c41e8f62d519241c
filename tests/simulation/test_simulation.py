"""
The real session, guard, janitor, runner and contender, in virtual time, under whatever a seed comes up with.

A failing seed is shrunk and printed as a schedule. ``python -m tests.full simulation --count N`` plays any number of
them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from tests.simulation.weaker_rules import WEAKER
from tests.support.simulated.draw import draw_worst
from tests.support.simulated.run import explain, fault_of, first_fault, plan_of, run
from tests.support.simulated.world import play
from zkcoord._session import guard

#: As many as CI has time for; the same ones in each run, so that a red run is the fault of the change.
COUNT = int(os.environ.get("ZKCOORD_SIMULATION_SEEDS", "20000"))
FIRST = int(os.environ.get("ZKCOORD_FULL_DONE", "0"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(900)
def test_no_schedule_breaks_a_promise() -> None:
    for _, failing in run(FIRST, COUNT):
        for seed in failing:
            pytest.fail(explain(plan_of(seed)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", WEAKER, ids=lambda rule: rule.__name__)
def test_every_weaker_deadline_rule_is_found_unsafe(rule: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "Lease", rule)

    seed = first_fault(iter(range(5_000)), draw_worst)

    assert seed is not None
    fault = fault_of(draw_worst(seed))
    assert fault is not None
    assert "all hold /a" in fault


def test_a_failing_schedule_is_shrunk_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "Lease", WEAKER[0])
    seed = first_fault(iter(range(5_000)), draw_worst)
    assert seed is not None

    text = explain(draw_worst(seed))

    assert f"seed {seed}" in text
    assert "all hold /a" in text.splitlines()[0]
    assert "*** cut_server_off client 0" in text
    assert text.count("Round(") == 2  # the one that waits does so once
    assert text.count("Disturbance(") <= 2


def test_schedules_are_the_same_each_time() -> None:
    for seed in range(30):
        assert play(plan_of(seed)).log == play(plan_of(seed)).log


def test_schedules_are_worth_playing() -> None:
    """Most have grants and disturbances that struck, and grants are lost in many."""
    worlds = [play(plan_of(seed)) for seed in range(300)]

    assert sum(world.grants for world in worlds) > 900
    assert sum("***" in "".join(world.log) for world in worlds) > 200
    assert sum("lost (deadline)" in "".join(world.log) for world in worlds) > 60
