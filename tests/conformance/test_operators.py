"""Holds with a longest time, asking holders to give up, and breaking them; for every kind."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import MakeCoordinator
from tests.conformance.test_every_kind import KINDS, Make, is_clean, kind, make
from tests.support.faults import members
from tests.support.proxy import FaultProxy
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    ConfigError,
    Coordinator,
    Grant,
    GrantLostError,
    NotHeldError,
    Status,
    ZkLock,
    ZkReadWriteLock,
    ZkSemaphore,
)

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio", real=True)]

__all__ = ["KINDS", "kind", "make"]


# --- max_hold


def test_a_hold_ends_with_its_longest_time(
    make: Make, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = make(coordinator, max_hold=0.3)
    reasons: list[str] = []
    began = time.monotonic()
    grant = lock.acquire()
    grant.on_lost(lambda grant, reason: reasons.append(reason))
    assert grant.remaining() <= 0.3
    grant.check()
    assert grant.lost.wait(PATIENCE_S)
    assert 0.25 < time.monotonic() - began < 2.0
    with pytest.raises(GrantLostError) as caught:
        grant.check()
    assert "max_hold" == caught.value.reason
    wait_until(lambda: is_clean(zk, path))
    wait_until(lambda: ["max_hold"] == reasons)
    with lock as again:
        assert again.token > grant.token


def test_a_loss_is_told_also_when_the_grant_is_released_right_after_it(
    coordinator: Coordinator, path: str
) -> None:
    grant = ZkLock(path, client=coordinator, max_hold=0.1).acquire()
    reasons: list[str] = []
    # Whoever sleeps in `lost.wait` may be faster than those who are still to be told.
    grant._hold.on_lost(lambda reason: grant.release() and None)
    grant.on_lost(lambda grant, reason: reasons.append(reason))
    wait_until(lambda: ["max_hold"] == reasons)


def test_a_hold_released_in_time_is_none_of_its_business(
    make: Make, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    with make(coordinator, max_hold=30.0) as grant:
        assert grant.remaining() <= 30.0
    assert is_clean(zk, path)


def test_the_longest_time_counts_from_the_first_grant_and_from_the_grant_not_the_asking(
    make_coordinator: MakeCoordinator, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator, max_hold=5.0)
    other = ZkLock(path, client=make_coordinator(), owner="other").acquire()
    waiting = in_thread(lambda: (grant := lock.acquire(), grant.remaining(), grant.release()))
    wait_until(lambda: len(members(zk, path)) == 2)
    time.sleep(0.2)
    other.release()
    assert waiting.result(PATIENCE_S)[1] > 4.9
    with lock as outer:
        time.sleep(0.1)
        with lock as inner:
            assert abs(outer.remaining() - inner.remaining()) < 0.05
            assert inner.remaining() < 4.95


def test_the_member_of_a_hold_that_ended_while_disconnected_is_deleted_afterwards(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=make_coordinator(proxy.hosts), max_hold=0.5).acquire()
    proxy.cut()
    assert grant.lost.wait(PATIENCE_S)
    with pytest.raises(GrantLostError, match="max_hold"):
        grant.check()
    assert [grant.name] == members(zk, path)
    proxy.restore()
    wait_until(lambda: [] == members(zk, path))


@pytest.mark.parametrize("wrong", [0, -1, "1", True, float("nan"), float("inf")])
def test_a_longest_time_must_be_a_positive_number(
    make: Make, coordinator: Coordinator, wrong: object
) -> None:
    with pytest.raises(ConfigError, match="max_hold"):
        make(coordinator, max_hold=wrong)


# --- revoke


def test_a_holder_that_listens_gives_up(
    make: Make, coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    grant = make(coordinator).acquire()
    told: list[Grant] = []
    grant.on_revoke(lambda grant: (told.append(grant), grant.release()))

    assert make(make_coordinator()).revoke(wait=PATIENCE_S)

    assert [grant] == told
    wait_until(lambda: is_clean(zk, path))
    assert Status.RELEASED is grant.status


def test_a_holder_that_does_not_listen_keeps_it_and_can_be_broken_after_a_time(
    make: Make,
    coordinator: Coordinator,
    make_coordinator: MakeCoordinator,
    zk: KazooClient,
    path: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grant = make(coordinator, label="stubborn").acquire()
    operator = make(make_coordinator())
    with caplog.at_level(logging.WARNING, "zkcoord"):
        assert not operator.revoke(wait=0.1)
        wait_until(lambda: "grant.revocation_requested" in caplog.text)
        assert Status.HELD is grant.status
        grant.verify()
        assert operator.revoke(wait=0.1, then_break=True)
        assert grant.lost.wait(PATIENCE_S)
    assert "holder.broken" in caplog.text
    with pytest.raises(GrantLostError, match="revoked"):
        grant.check()
    wait_until(lambda: is_clean(zk, path))


def test_nobody_to_ask_is_no_error(make: Make, coordinator: Coordinator) -> None:
    assert make(coordinator).revoke()


def test_one_holder_among_several_can_be_asked(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, path: str
) -> None:
    pool = ZkSemaphore(path, permits=3, client=coordinator)
    grants = [pool.acquire() for _ in range(3)]
    told: list[Grant] = []
    for grant in grants:
        grant.on_revoke(lambda grant: (told.append(grant), grant.release()))
    operator = ZkSemaphore(path, permits=None, client=make_coordinator())
    assert operator.revoke(token=grants[1].token, wait=PATIENCE_S)
    assert [grants[1]] == told
    assert operator.revoke(wait=PATIENCE_S)
    assert set(grants) == set(told)


def test_waiters_are_not_asked(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator)
    reader = rw.read.acquire()
    writer = in_thread(rw.write.acquire)
    wait_until(lambda: len(members(zk, path)) == 2)
    reader.on_revoke(lambda grant: grant.release())
    assert ZkReadWriteLock(path, client=make_coordinator()).read.revoke(wait=PATIENCE_S)
    grant = writer.result(PATIENCE_S)
    assert b"__REVOKE__" != zk.get(f"{path}/{grant.name}")[0]
    grant.release()


def test_a_request_from_before_is_told_to_who_asks_later_and_each_grant_is_told(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    outer, inner = lock.acquire(), lock.acquire()
    both = threading.Barrier(3)
    outer.on_revoke(lambda grant: both.wait(PATIENCE_S))
    ZkLock(path, client=make_coordinator()).revoke()
    inner.on_revoke(lambda grant: both.wait(PATIENCE_S))
    both.wait(PATIENCE_S)
    taken_back = []
    outer.on_revoke(taken_back.append)
    wait_until(lambda: taken_back)
    outer.release()
    inner.release()
    with pytest.raises(ConfigError):
        inner.on_revoke("no function")  # type: ignore[arg-type]


# --- break


def test_the_holder_with_the_token_is_broken_and_told(
    make: Make, coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    lock = make(coordinator)
    grant = lock.acquire()
    operator = make(make_coordinator())
    assert not operator.break_holder(grant.token + 1)
    assert not operator.break_holder(grant.token - 1)
    grant.verify()
    assert operator.break_holder(grant.token)
    assert grant.lost.wait(PATIENCE_S)
    with pytest.raises(GrantLostError, match="deleted"):
        grant.check()
    wait_until(lambda: is_clean(zk, path))
    assert not operator.break_holder(grant.token)
    with lock as again:
        assert not operator.break_holder(grant.token)
        again.verify()


def test_a_waiter_is_no_holder(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    with lock:
        waiting = in_thread(lock.acquire)
        wait_until(lambda: len(members(zk, path)) == 2)
        waiter = lock.queue()[1]
        assert not ZkLock(path, client=make_coordinator()).break_holder(waiter.token)
    grant = waiting.result(PATIENCE_S)
    assert waiter.token == grant.token
    grant.release()
    with pytest.raises(NotHeldError):
        grant.check()


@pytest.mark.parametrize("wrong", ["1", None, True, 1.0])
def test_a_token_must_be_a_number(coordinator: Coordinator, path: str, wrong: object) -> None:
    with pytest.raises(ConfigError, match="token"):
        ZkLock(path, client=coordinator).break_holder(wrong)  # type: ignore[arg-type]
