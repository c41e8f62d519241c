"""
Servers are killed, restarted and stopped while processes contend for a lock, and histories are checked.

Whatever happens, no two hold at a time by their own deadlines, tokens grow, every call ends in time, the lock is
granted again once a quorum is back, and no member is left behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from tests.support.contention import ACQUIRE_S, Contention
from tests.support.ensemble import Ensemble
from tests.support.faults import ROOM_S, members
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock
from zkcoord.testing.checks import assert_sound, completion, progress
from zkcoord.testing.history import Event, History, Kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SESSION_S = 4.0

#: After a quorum is back: a session that died with its holder, and a few rounds of reconnecting.
PROGRESS_S = SESSION_S + 3.0


@contextmanager
def contention(ensemble: Ensemble, path: str) -> Iterator[Contention]:
    """Contend for a lock in the body; judge the history when it is over."""
    ensemble.wait_until_serving()
    with Contention(ensemble.hosts, path, SESSION_S) as contending:
        try:
            yield contending
            ensemble.wait_until_serving()
        except BaseException:
            print(ensemble.report())
            ensemble.revive()  # for the tests that follow
            raise
    events = contending.history.events
    print(
        f"\n{path}: {len(contending.grants)} grants, {contending.losses} of them lost, {len(events)} events"
    )
    assert_sound(events)
    assert [] == completion(events)
    assert [] == late_acquires(events)
    with client_of(ensemble) as client:
        wait_until(lambda: not members(client, path))


@contextmanager
def client_of(ensemble: Ensemble) -> Iterator[KazooClient]:
    client = KazooClient(ensemble.hosts, timeout=10.0)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def late_acquires(events: tuple[Event, ...]) -> list[float]:
    """How long those acquires took that ended too late for their deadline."""
    began: dict[str, float] = {}
    late = []
    for event in events:
        if event.call == "acquire" and event.kind is Kind.INVOKE:
            began[event.client] = event.at
        elif event.call == "acquire" and event.at - began[event.client] > ACQUIRE_S + ROOM_S:
            late.append(event.at - began[event.client])
    return late


def let_pass(seconds: float) -> None:
    """How long the fault lasts."""
    threading.Event().wait(seconds)


def test_leader_is_killed(quick_ensemble: Ensemble) -> None:
    with contention(quick_ensemble, "/leader-killed") as contending:
        contending.wait_for_grants(20)
        leader = quick_ensemble.leader()
        others = [member for member in quick_ensemble.members if member is not leader]

        leader.kill()
        healed_at = quick_ensemble.wait_until_serving(others)

        contending.wait_for_grants(20, after=healed_at)
        quick_ensemble.start_members([leader])
        contending.wait_for_grants(20, after=quick_ensemble.wait_until_serving())
    assert [] == progress(contending.history.events, healed_at, PROGRESS_S)


def test_followers_are_restarted_one_after_the_other(quick_ensemble: Ensemble) -> None:
    with contention(quick_ensemble, "/follower-restarted") as contending:
        moments = []
        for follower in quick_ensemble.followers():
            contending.wait_for_grants(10)
            follower.kill()
            moments.append(time.monotonic())
            contending.wait_for_grants(10, after=moments[-1])  # the other two are a quorum
            quick_ensemble.start_members([follower])
            moments.append(quick_ensemble.wait_until_serving())
            contending.wait_for_grants(10, after=moments[-1])
    assert [] == [
        broken for moment in moments for broken in progress(contending.history.events, moment, PROGRESS_S)
    ]


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_quorum_is_lost_and_regained(quick_ensemble: Ensemble, how: str) -> None:
    """
    The followers are killed, or stopped until the leader has given up.

    When all three are stopped and go on, ZooKeeper 3.8.0 may stay with its leader, and never commit anything again.
    """
    path = f"/quorum-{how}"
    with contention(quick_ensemble, path) as contending:
        contending.wait_for_grants(20)
        leader = quick_ensemble.leader()
        history, lock_path = History(), f"{path}-held"
        with (
            Coordinator(leader.hosts, session_timeout=SESSION_S) as mine,
            Coordinator(quick_ensemble.hosts, session_timeout=SESSION_S) as other,
        ):
            grant = history.acquire(ZkLock(lock_path, client=mine, owner="holder"), "holder", timeout=10.0)
            victims = quick_ensemble.followers()
            for member in victims:
                member.kill() if how == "killed" else member.pause()
            broken_at = time.monotonic()
            assert history.await_loss(grant, "holder", SESSION_S + ROOM_S)  # by its own deadline
            let_pass(broken_at + 1.5 * SESSION_S - time.monotonic())
            without = [one for one in contending.grants if one.at > broken_at + ROOM_S]
            if how == "killed":
                quick_ensemble.start_members(victims)
            else:
                for member in victims:
                    member.resume()
            healed_at = quick_ensemble.wait_until_serving()

            second = history.acquire(
                ZkLock(lock_path, client=other, owner="rival"), "rival", timeout=PROGRESS_S + 10.0
            )
            assert not history.look(grant, "holder")
            history.release(second, "rival")
        contending.wait_for_grants(20, after=healed_at)
    assert [] == without
    assert_sound(history.events)
    assert [] == progress(contending.history.events, healed_at, PROGRESS_S)


def test_leader_is_stopped_and_goes_on(quick_ensemble: Ensemble) -> None:
    with contention(quick_ensemble, "/leader-stopped") as contending:
        contending.wait_for_grants(20)
        leader = quick_ensemble.leader()
        others = [member for member in quick_ensemble.members if member is not leader]

        with leader.paused():
            paused_at = time.monotonic()
            healed_at = quick_ensemble.wait_until_serving(others)
            contending.wait_for_grants(20, after=healed_at)
            let_pass(paused_at + 1.5 * SESSION_S - time.monotonic())

        contending.wait_for_grants(20, after=quick_ensemble.wait_until_serving())
    assert [] == progress(contending.history.events, healed_at, PROGRESS_S)
