"""`LeaderElection`: terms, hand-overs, what observers see, and wrong use."""

from __future__ import annotations

import logging
import threading
import warnings
from itertools import islice

import pytest
from kazoo.client import KazooClient

from recipes import Leader, LeaderElection, Term
from tests.conformance.conftest import MakeCoordinator
from tests.support.faults import end_session, members
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AlreadyHeldError,
    ConfigError,
    Coordinator,
    GrantLostError,
    QueueConflictError,
    ZkSemaphore,
)

pytestmark = pytest.mark.servers("embedded", "real")

DIALECTS = ["curator", "curator-latch"]


def until_lost(term: Term) -> None:
    term.lost.wait(PATIENCE_S)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_candidates_lead_one_after_the_other_with_growing_tokens(
    make_coordinator: MakeCoordinator, path: str, dialect: str
) -> None:
    first, second = (
        LeaderElection(path, client=make_coordinator(), name=name, dialect=dialect) for name in "ab"
    )
    stopped: list[bool] = []

    def lead() -> Term:
        with second.lead() as term:
            stopped.append(second.stop(0))
        return term

    assert first.leader() is None
    with first.lead(timeout=5.0) as term:
        waiting = in_thread(lead)
        wait_until(lambda: ["a", "b"] == [member.label for member in first.candidates()])
        term.check()
        assert not term.lost.is_set()
        leader = second.leader()
        assert leader is not None
        assert ("a", term.token, None) == (leader.name, leader.token, leader.value)
        assert not waiting.done()
    assert term.lost.is_set()
    assert waiting.result(PATIENCE_S).token > term.token
    assert [False] == stopped  # its body was still running


def test_a_candidate_that_waits_in_vain_leaves_the_queue(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    with LeaderElection(path, client=make_coordinator()).lead():
        other = LeaderElection(path, client=make_coordinator())
        for timeout in (0, 0.1):
            with pytest.raises(AcquireTimeoutError), other.lead(timeout=timeout):
                pass
        wait_until(lambda: 1 == len(members(zk, path)))


def test_resignation_sets_lost_first_and_lets_the_next_one_lead(
    make_coordinator: MakeCoordinator, path: str
) -> None:
    first, second = (LeaderElection(path, client=make_coordinator(), name=name) for name in "ab")
    with first.lead() as term:
        assert term.resign()
        assert term.lost.is_set()
        with second.lead(timeout=5.0) as next_term:
            assert next_term.token > term.token
        assert not term.resign()


def test_run_queues_again_after_a_return_an_error_and_a_loss(
    coordinator: Coordinator, hosts: str, zk: KazooClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    election = LeaderElection(path, client=coordinator)
    terms: list[int] = []
    inside = threading.Semaphore()

    def work(term: Term) -> None:
        assert inside.acquire(blocking=False), "two at once"
        terms.append(term.token)
        try:
            if len(terms) == 2:
                raise LookupError("a mistake")
            if len(terms) == 3:
                end_session(coordinator.client, hosts)
                assert term.lost.wait(PATIENCE_S)
            if len(terms) == 4:
                zk.delete(f"{path}/{members(zk, path)[0]}")
                assert term.lost.wait(PATIENCE_S)
            if len(terms) == 5:
                assert election.stop() is False
                assert term.lost.is_set()
        finally:
            inside.release()

    with caplog.at_level(logging.ERROR, "recipes"):
        in_thread(election.run, work).result(3 * PATIENCE_S)
    assert 5 == len(terms)
    assert terms == sorted(set(terms))
    assert "a mistake" in caplog.text
    assert election.stop()
    wait_until(lambda: [] == members(zk, path))


def test_stop_ends_a_waiting_and_a_leading_candidate_and_is_final(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    leading, waiting = (LeaderElection(path, client=make_coordinator()) for _ in "ab")
    started = threading.Event()

    def work(term: Term) -> None:
        started.set()
        until_lost(term)

    leads = in_thread(leading.run, work)
    assert started.wait(PATIENCE_S)
    waits = in_thread(waiting.run, until_lost)
    wait_until(lambda: 2 == len(members(zk, path)))
    assert waiting.stop()
    waits.result(0.5)
    wait_until(lambda: 1 == len(members(zk, path)))
    assert leading.stop()
    leads.result(0.5)
    leading.run(until_lost)  # at once
    with pytest.raises(AcquireCancelledError), leading.lead():
        pass
    assert leading.leader() is None


def test_a_function_that_ignores_its_loss_is_reported_and_not_started_again(
    coordinator: Coordinator, hosts: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    election = LeaderElection(path, client=coordinator, grace=0.05)
    started, go_on = threading.Event(), threading.Event()
    terms: list[Term] = []

    def work(term: Term) -> None:
        terms.append(term)
        started.set()
        if len(terms) == 1:
            go_on.wait(PATIENCE_S)
        else:
            election.stop()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        running = in_thread(election.run, work)
        assert started.wait(PATIENCE_S)
        end_session(coordinator.client, hosts)
        wait_until(lambda: [one for one in warned if "must return when term.lost is set" in str(one.message)])
    assert "election.overdue" in caplog.text
    assert not election.stop(0.1)  # bounded
    assert 1 == len(terms)
    assert terms[0].lost.is_set()
    go_on.set()
    running.result(PATIENCE_S)
    assert 1 == len(terms)


def test_what_a_leader_proclaims_ends_with_its_term(make_coordinator: MakeCoordinator, path: str) -> None:
    first, second = (LeaderElection(path, client=make_coordinator(), name=name) for name in "ab")
    with first.lead() as term:
        term.proclaim("http://a:1")
        term.proclaim("http://a:2")
        leader = second.leader()
        assert leader is not None
        assert "http://a:2" == leader.value
        with pytest.raises(ConfigError, match="1000000 at most"):
            term.proclaim("x" * 1_000_001)
        with pytest.raises(ConfigError, match="must be str"):
            term.proclaim(b"x")  # type: ignore[arg-type]
        term.check()
    with pytest.raises(Exception, match="released"):
        term.proclaim("too late")
    with second.lead() as later:
        leader = first.leader()
        assert leader is not None
        assert (later.token, None) == (leader.token, leader.value)


def test_observe_yields_the_leader_at_once_and_each_change(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    watcher = LeaderElection(path, client=make_coordinator())
    seen: list[Leader | None] = []
    watching = in_thread(lambda: [seen.append(leader) for leader in watcher.observe()])
    wait_until(lambda: [None] == seen)
    elections = [LeaderElection(path, client=make_coordinator(), name=name) for name in "ab"]
    for election in elections:
        with election.lead() as term:
            wait_until(lambda: seen[-1] is not None and seen[-1].token == term.token)
            term.proclaim("here")
            wait_until(lambda: seen[-1] is not None and "here" == seen[-1].value)
        wait_until(lambda: seen[-1] is None)
    zk.delete(path)
    with elections[0].lead() as term:  # behind a directory that is gone
        wait_until(lambda: seen[-1] is not None and seen[-1].token == term.token)
    assert watcher.stop()
    watching.result(PATIENCE_S)


def test_observe_never_misses_the_latest_while_terms_come_and_go(
    make_coordinator: MakeCoordinator, path: str
) -> None:
    watcher = LeaderElection(path, client=make_coordinator())
    other = LeaderElection(path, client=make_coordinator())
    for _ in range(20):
        with other.lead():
            pass
    with other.lead() as last:
        tokens = (leader.token for leader in watcher.observe() if leader is not None)
        assert last.token == next(tokens)
    latest: list[int] = []
    seen = in_thread(lambda: next(token for token in tokens if latest and token >= latest[0]))
    for _ in range(50):
        with other.lead():
            pass
    with other.lead() as last:
        latest.append(last.token)
        assert other.leader() == watcher.leader()
        last.proclaim("done")
        assert last.token == seen.result(PATIENCE_S)


def test_observe_goes_on_after_the_observers_session_has_ended(
    make_coordinator: MakeCoordinator, hosts: str, path: str
) -> None:
    observer = make_coordinator()
    leaders = LeaderElection(path, client=observer).observe()
    other = LeaderElection(path, client=make_coordinator())
    assert next(leaders) is None
    end_session(observer.connect(), hosts)
    with other.lead() as term:
        found = next(leaders)
        assert found is not None
        assert term.token == found.token
    assert [None] == list(islice(leaders, 1))


def test_one_object_is_one_candidate(coordinator: Coordinator, path: str) -> None:
    election = LeaderElection(path, client=coordinator)
    with election.lead():
        with pytest.raises(AlreadyHeldError, match="one LeaderElection for each"), election.lead():
            pass
        with pytest.raises(AlreadyHeldError, match="one LeaderElection for each"):
            election.run(until_lost)
    with (
        election.lead(timeout=5.0),
        pytest.raises(AcquireTimeoutError),
    ):  # another object is another candidate
        LeaderElection(path, client=coordinator).lead(timeout=0).__enter__()


def test_leaving_a_lost_term_says_so(coordinator: Coordinator, hosts: str, path: str) -> None:
    def lead() -> None:
        with LeaderElection(path, client=coordinator).lead() as term:
            end_session(coordinator.client, hosts)
            assert term.lost.wait(PATIENCE_S)
            assert 0 == term.remaining()

    with pytest.raises(GrantLostError):
        lead()


def test_wrong_use(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    with pytest.raises(ConfigError, match="dialect"):
        LeaderElection(path, client=coordinator, dialect="kazoo")
    with pytest.raises(ConfigError, match="grace"):
        LeaderElection(path, client=coordinator, grace=-1)
    with pytest.raises(ConfigError, match="callable"):
        LeaderElection(path, client=coordinator).run(None)  # type: ignore[arg-type]
    with ZkSemaphore(path, permits=2, client=coordinator):
        election = LeaderElection(path, client=coordinator)
        for use in (lambda: election.run(until_lost), lambda: election.lead().__enter__(), election.leader):
            with pytest.raises(QueueConflictError):
                use()
