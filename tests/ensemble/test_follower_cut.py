"""
A follower is cut off from the leader, and the holder stays connected to it: reads and pings are answered as ever.

The holder's grant must be LOST before the leader can expire its session and let somebody else in. Margins are printed.
"""

from __future__ import annotations

import os
import random
import threading
import time
from statistics import median

import pytest

from tests.support import margins
from tests.support.cut_scenarios import MAY_BE_EARLY, Round
from tests.support.ensemble import Ensemble
from tests.support.faults import Background
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock
from zkcoord.testing.checks import assert_sound, completion
from zkcoord.testing.history import History

SESSIONS_S = (4.0, 6.0, 15.0)

#: Cuts; each serves all session times.
RUNS = int(os.environ.get("ZKCOORD_ENSEMBLE_RUNS", "2"))

#: What the longest lead-up takes (a wait of 3 T), and the time from one cut to the next, of the other follower: by then
#: the first is healed and the next lead-up with it can begin.
LEAD_S = 3 * max(SESSIONS_S) + 4.0
PERIOD_S = 36.0

#: The leader looks for expired sessions once a tick: where in the tick the cut falls is left to chance.
TICK_S = 2.0

#: Seconds of a quiet run.
QUIET_S = float(os.environ.get("ZKCOORD_QUIET_S", "10"))


@pytest.mark.slow
@pytest.mark.timeout(LEAD_S + RUNS * PERIOD_S + 120)
def test_holder_on_a_follower_that_is_cut_off_sees_its_loss_first(slow_ensemble: Ensemble) -> None:
    slow_ensemble.wait_until_serving()
    followers, start = slow_ensemble.followers(), time.monotonic()

    def moment(number: int) -> float:
        return start + LEAD_S + number * PERIOD_S + random.uniform(0.0, TICK_S)

    rounds = [
        Round(slow_ensemble, followers[number % 2], moment(number), f"/cut-{number}", SESSIONS_S)
        for number in range(RUNS)
    ]
    one_at_a_time = threading.Lock()

    def begin(this: Round) -> Background:
        threading.Event().wait(max(0.0, this.at - LEAD_S - time.monotonic()))
        return Background(lambda: this.run(one_at_a_time), name=this.root)

    running = [begin(this) for this in rounds]
    wait_until(
        lambda: all(one.is_done for one in running), LEAD_S + PERIOD_S + 90.0
    )  # also if one has failed
    outcomes = [outcome for one in running for outcome in one.result()]

    print("\n" + margins.table(outcomes))
    print(
        f"from the last step to the cut: {median(outcome.age_s for outcome in outcomes):.3f} s in the median"
    )
    margins.keep(outcomes)
    for this in rounds:
        assert_sound(this.history.events)
        assert [] == completion(this.history.events)
    assert [] == [outcome for outcome in outcomes if outcome.margin_s <= 0]
    assert [] == [one for one in outcomes if one.is_early and one.scenario not in MAY_BE_EARLY]
    assert any(not one.is_early for one in outcomes if one.scenario in MAY_BE_EARLY)


@pytest.mark.slow
@pytest.mark.timeout(QUIET_S + 120)
def test_no_grant_is_lost_while_nothing_happens(slow_ensemble: Ensemble) -> None:
    slow_ensemble.wait_until_serving()
    history = History()
    holders = [(member, session_s) for member in slow_ensemble.members for session_s in SESSIONS_S]
    coordinators = [Coordinator(member.hosts, session_timeout=session_s) for member, session_s in holders]
    try:
        grants = {
            f"holder-{number}": history.acquire(
                ZkLock(f"/quiet/{number}", client=coordinator), f"holder-{number}", timeout=10.0
            )
            for number, coordinator in enumerate(coordinators)
        }
        told: list[object] = []
        for grant in grants.values():
            grant.on_lost(lambda grant, reason: told.append((grant, reason)))
        give_up, statuses = time.monotonic() + QUIET_S, set()
        while time.monotonic() < give_up:
            statuses |= {grant.status for grant in grants.values()}
            assert all(history.look(grant, client) for client, grant in grants.items())
            threading.Event().wait(0.02)
        for client, grant in grants.items():
            grant.verify(timeout=5.0)
            assert history.release(grant, client)
    finally:
        for coordinator in coordinators:
            coordinator.close()
    print(f"\n{QUIET_S:g} s, {len(history.events)} looks, seen: {sorted(statuses)}")
    assert [] == told
    assert_sound(history.events)
