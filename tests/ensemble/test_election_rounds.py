"""
Ten candidates and what happens to their leader, on three real servers: see `tests.recipes.stage`.

The candidates in threads stay with one server each, which is cut off together with them.
``ZKCOORD_ELECTION_ROUNDS_REAL`` sets how many rounds; ``python -m tests.full election-ensemble`` plays the full count.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from tests.recipes.stage import Cut, Stage, play
from tests.support.ensemble import Ensemble
from tests.support.faults import end_session
from zkcoord import Coordinator, Member

ROUNDS = int(os.environ.get("ZKCOORD_ELECTION_ROUNDS_REAL", "5"))


class EnsemblePlace:
    """Three servers, with ticks of half a second."""

    session_s = 2.0

    def __init__(self, ensemble: Ensemble) -> None:
        self.hosts = ensemble.hosts
        self._ensemble = ensemble
        self._servers = [*ensemble.followers(), ensemble.leader()]

    def hosts_of(self, number: int) -> str:
        return self._servers[number % 3].hosts

    def expire(self, member: Member, coordinator: Coordinator) -> None:
        end_session(coordinator.client, self._ensemble.leader().hosts)

    def cut_off(self, member: Member) -> Cut | None:
        name, _, number = str(member.label).partition("-")
        server = self._servers[int(number) % 3]
        if name != "thread" or server.mode() != "follower":
            return None
        stack = ExitStack()
        stack.enter_context(self._ensemble.cut_off(server))
        return Cut(stack.close, 10)

    def expire_at_next_look(self, member: Member) -> bool:
        return False


@pytest.mark.slow
@pytest.mark.timeout(180 + 15 * ROUNDS)
def test_one_leader_at_a_time_whatever_happens_to_it(quick_ensemble: Ensemble) -> None:
    quick_ensemble.wait_until_serving()
    stage = Stage(EnsemblePlace(quick_ensemble), seed=int(os.environ.get("ZKCOORD_FULL_DONE", "0")))
    try:
        play(stage, ROUNDS)
    except BaseException:
        print(quick_ensemble.report())
        raise
    quick_ensemble.wait_until_serving()
