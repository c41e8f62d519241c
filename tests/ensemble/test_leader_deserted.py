"""
A leader is cut off from both followers, which elect another one at once; the holder stays connected to the old one.

For as long as the old leader believes that it leads, it answers reads and pings, and takes the holder's session back
after each reconnect. None of that may make the holder's grant last.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.support.ensemble import Ensemble
from tests.support.faults import Background
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock
from zkcoord.testing.checks import assert_sound
from zkcoord.testing.history import History, Kind

SESSIONS_S = (4.0, 6.0, 15.0)

#: What the new leader may take to be there, and then to expire a session, on top of the session time. ZooKeeper gives a
#: leader ten ticks of 2 s to find its followers, and an election that goes wrong once is begun anew after that.
ELECTION_S = 50.0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_holder_on_a_leader_that_was_deserted_sees_its_loss_first(slow_ensemble: Ensemble) -> None:
    slow_ensemble.wait_until_serving()
    leader = slow_ensemble.leader()
    others = ",".join(member.hosts for member in slow_ensemble.followers())
    history = History()

    def lose(session_s: float, reconnects: bool, is_cut: Callable[[], bool]) -> float:
        """Returns the margin."""
        path = f"/deserted-{session_s:g}-{reconnects}"
        with ExitStack() as cleanup:
            proxy = cleanup.enter_context(FaultProxy("127.0.0.1", leader.client_port))
            other = cleanup.enter_context(Coordinator(others))
            mine = Coordinator(proxy.hosts, session_timeout=session_s)
            cleanup.callback(mine.close, timeout=0.5)  # nothing answers it any more
            grant = history.acquire(ZkLock(path, client=mine, owner="holder"), "holder", timeout=10.0)
            ready.append(path)
            wait_until(is_cut, timeout=40.0 + ELECTION_S)
            losing = Background(lambda: history.await_loss(grant, "holder", 2 * session_s + ELECTION_S))
            taking = Background(
                lambda: history.acquire(
                    ZkLock(path, client=other, owner="rival"), "rival", timeout=2 * session_s + ELECTION_S
                ),
            )
            while reconnects and not taking.is_done:
                taking.wait(0.5)
                proxy.drop_connections()
            second = taking.result(2 * session_s + ELECTION_S + 10.0)
            history.look(grant, "holder")
            assert losing.result(), "no loss was seen"
            history.release(second, "rival")
        lost = [one.at for one in history.events if one.path == path and one.kind is Kind.LOST]
        rival_ok = (path, "rival", Kind.OK)
        granted_at = min(one.at for one in history.events if (one.path, one.client, one.kind) == rival_ok)
        return granted_at - min(lost, default=float("inf"))

    ready: list[str] = []
    cut: list[bool] = []
    running = {
        (session_s, reconnects): Background(
            lambda session_s=session_s, reconnects=reconnects: lose(session_s, reconnects, lambda: bool(cut))  # type: ignore[misc]
        )
        for session_s in SESSIONS_S
        for reconnects in (False, True)
    }
    wait_until(
        lambda: len(ready) == len(running) or any(one.is_done for one in running.values()), timeout=40.0
    )
    with slow_ensemble.deserted(leader):
        cut.append(True)
        try:
            margins = {
                case: one.result(2 * max(SESSIONS_S) + ELECTION_S + 20.0) for case, one in running.items()
            }
        except BaseException:
            print(slow_ensemble.report())
            raise

    for (session_s, reconnects), margin_s in margins.items():
        how = "reconnecting all the time" if reconnects else "left alone"
        print(f"T = {session_s:g} s, {how}: LOST {margin_s:.2f} s before the second grant")
    assert_sound(history.events)
    assert all(margin_s > 0 for margin_s in margins.values())
    slow_ensemble.wait_until_serving()
