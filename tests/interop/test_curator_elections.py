"""`recipes.LeaderElection` and Curator's LeaderLatch and LeaderSelector take turns at leading on one path."""

from __future__ import annotations

import threading

import pytest
from kazoo.client import KazooClient

from recipes import LeaderElection, Term
from tests.interop.conftest import Peer
from tests.support.faults import members
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import Coordinator

DIALECTS = {"latch": "curator-latch", "selector": "curator"}


@pytest.mark.parametrize("kind", DIALECTS)
def test_java_and_we_lead_one_after_the_other(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    election = LeaderElection(path, client=coordinator, name="from Python", dialect=DIALECTS[kind])
    leading, leave = threading.Event(), threading.Event()

    def lead(term: Term) -> None:
        term.proclaim("http://python:80")
        leading.set()
        assert leave.wait(PATIENCE_S)

    assert "true" == peer.tell("acquire", kind, path, 10_000)
    campaign = in_thread(election.run, lead)
    wait_until(lambda: 2 == len(members(zk, path)))
    assert not leading.is_set()
    leader = election.leader()
    assert leader is not None
    assert (peer.name, None) == (leader.name, leader.value)
    assert [peer.name, "from Python"] == [candidate.label for candidate in election.candidates()]

    peer.tell("release", kind, path)
    assert leading.wait(PATIENCE_S)
    leader = election.leader()
    assert leader is not None
    assert ("from Python", "http://python:80") == (leader.name, leader.value)
    theirs = peer.start("acquire", kind, path, 30_000)
    wait_until(lambda: 2 == len(members(zk, path)))
    assert not theirs.done()

    leave.set()
    assert "true" == theirs.result(PATIENCE_S)
    assert election.stop()
    campaign.result(PATIENCE_S)
    peer.tell("release", kind, path)
