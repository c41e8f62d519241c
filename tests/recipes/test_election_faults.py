"""A candidate whose connection breaks at any request, or whose session ends, leads again and leaves nothing."""

from __future__ import annotations

import threading

import pytest
from kazoo.client import KazooClient

from recipes import LeaderElection, Term
from tests.support.faults import add_member, members
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import Coordinator
from zkcoord.server import EmbeddedServer

PATH = "/election"
SESSION_S = 2.0


class Campaign:
    """One candidate that leads again and again, each time until it is told to leave, or has lost."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.coordinator = Coordinator(server.hosts, session_timeout=SESSION_S)
        self.election = LeaderElection(PATH, client=self.coordinator, name="it")
        self.terms: list[Term] = []
        self.leave = threading.Event()
        self.running = in_thread(self.election.run, self.lead)

    def lead(self, term: Term) -> None:
        assert all(earlier.lost.is_set() for earlier in self.terms)
        self.terms.append(term)
        while not term.lost.wait(0.005) and not self.leave.is_set():
            pass
        self.leave.clear()

    def close(self) -> None:
        try:
            assert self.election.stop(PATIENCE_S)
            self.running.result(PATIENCE_S)
        finally:
            self.coordinator.close()


@pytest.fixture
def zk(server: EmbeddedServer):
    client = KazooClient(server.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def campaign(server: EmbeddedServer):
    made = Campaign(server)
    yield made
    made.close()


@pytest.mark.parametrize(
    "operation", ["create2", "createContainer", "getChildren", "delete", "multi", "getData"]
)
@pytest.mark.parametrize("fault", ["cut_before", "cut_after", "expire"])
def test_candidate_gets_over_a_break_at_each_request(
    server: EmbeddedServer, zk: KazooClient, operation: str, fault: str
) -> None:
    struck = getattr(server.faults, fault)(operation=operation)
    campaign = Campaign(server)
    try:
        for term in (1, 2, 3):
            wait_until(lambda term=term: len(campaign.terms) >= term)
            campaign.leave.set()
        wait_until(lambda: struck.hits)
        count = len(campaign.terms)
        campaign.leave.set()
        wait_until(lambda: len(campaign.terms) > count and not campaign.terms[-1].lost.is_set())
    finally:
        campaign.close()

    tokens = [term.token for term in campaign.terms]
    assert sorted(set(tokens)) == tokens
    wait_until(lambda: [] == members(zk, PATH))


@pytest.mark.parametrize("state", ["waiting", "leading", "between"])
def test_candidate_gets_over_the_end_of_its_session(
    server: EmbeddedServer, zk: KazooClient, campaign: Campaign, state: str
) -> None:
    wait_until(lambda: campaign.terms)
    if state == "waiting":
        ahead = add_member(zk, PATH)
        campaign.leave.set()
        wait_until(lambda: 2 == len(members(zk, PATH)) and campaign.terms[0].lost.is_set())
    count = len(campaign.terms)
    if state == "between":
        campaign.leave.set()

    assert campaign.coordinator.session_id is not None
    server.expire(campaign.coordinator.session_id)

    if state == "waiting":
        zk.delete(ahead)
    wait_until(lambda: len(campaign.terms) > count)
    wait_until(lambda: not campaign.terms[-1].lost.is_set())
    assert 1 == len(members(zk, PATH))
