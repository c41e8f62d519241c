"""Somebody else touches our node: the holder is told at once, a waiter queues again."""

from __future__ import annotations

import threading
import time

import pytest
from kazoo.client import KazooClient

from tests.fault.conftest import SESSION_S
from tests.support.faults import ROOM_S, Background, add_member, is_verified, members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import wait_until
from zkcoord import Coordinator, GrantLostError, ZkLock

pytestmark = pytest.mark.fronts("threads", "asyncio")

#: A hold that is older than this has a watch on its own node.
SETTLED_S = 0.05


def wait_watched(proxy: FaultProxy, seen: int) -> None:
    """Wait until a settled hold has asked for its own node and has its answer."""
    assert proxy.wait_for_answers(Op.GET_DATA, seen + 1)


def second_member(zk: KazooClient, path: str, other_than: str) -> str | None:
    """The member in second place, unless it is still the one that was there before."""
    names = members(zk, path)
    return names[1] if len(names) == 2 and names[1] != other_than else None


def test_holder_is_told_of_its_deleted_node_within_a_round_trip(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    told: list[tuple[float, str]] = []
    lock = ZkLock(f"{root}/lock", client=proxied)
    seen = proxy.answers[Op.GET_DATA]
    grant = lock.acquire(timeout=10.0)
    grant.on_lost(lambda grant, reason: told.append((time.monotonic(), reason)))
    began = time.monotonic()
    wait_watched(proxy, seen)
    assert time.monotonic() - began <= SETTLED_S + ROOM_S

    deleted_at = time.monotonic()
    zk.delete(f"{lock.path}/{grant.name}")

    assert grant.lost.wait(ROOM_S)
    wait_until(lambda: told)
    assert told[0][0] - deleted_at <= ROOM_S
    assert ["deleted"] == [reason for _, reason in told]
    with pytest.raises(GrantLostError) as lost:
        grant.check()
    assert "deleted" == lost.value.reason
    assert not grant.release()
    with lock.acquire(timeout=5.0) as again:
        assert again.token > grant.token


def test_holder_whose_node_goes_before_it_has_a_watch_is_told_when_it_gets_one(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    with proxy.hold(Op.GET_DATA) as hold:
        grant = lock.acquire(timeout=10.0)
        assert hold.wait()
        zk.delete(f"{lock.path}/{grant.name}")
    assert grant.lost.wait(ROOM_S)


def test_holder_learns_after_a_reconnect_that_its_node_went_meanwhile(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    seen = proxy.answers[Op.GET_DATA]
    grant = lock.acquire(timeout=10.0)
    wait_watched(proxy, seen)
    proxy.cut()
    zk.delete(f"{lock.path}/{grant.name}")
    assert grant.status != "LOST"

    proxy.restore()

    assert grant.lost.wait(SESSION_S / 3)
    with pytest.raises(GrantLostError, match="deleted"):
        grant.check()


def test_watch_on_the_own_node_survives_reconnects_and_other_writes(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    seen = proxy.answers[Op.GET_DATA]
    grant = lock.acquire(timeout=10.0)
    wait_watched(proxy, seen)
    for _ in range(3):
        seen = proxy.answers[Op.GET_DATA]
        proxy.drop_connections()
        wait_watched(proxy, seen)
    for number in range(5):
        seen = proxy.answers[Op.GET_DATA]
        zk.set(f"{lock.path}/{grant.name}", b"an operator's note %d" % number)
        wait_watched(proxy, seen)
    assert not grant.lost.is_set()

    zk.delete(f"{lock.path}/{grant.name}")

    assert grant.lost.wait(ROOM_S)


def test_heartbeat_finds_a_deleted_node_without_any_watch(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    """The watch is the quick way; a hold must not depend on it."""
    lock = ZkLock(f"{root}/lock", client=proxied)
    seen = proxy.answers[Op.GET_DATA]
    grant = lock.acquire(timeout=10.0)
    wait_watched(proxy, seen)
    proxy.black_hole(to_server=False)
    zk.delete(f"{lock.path}/{grant.name}")  # its notification is swallowed

    proxy.restore()  # and so is the connection

    assert grant.lost.wait(SESSION_S / 3)


def test_revocation_request_does_not_lose_the_grant(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    seen = proxy.answers[Op.GET_DATA]
    with lock.acquire(timeout=10.0) as grant:
        wait_watched(proxy, seen)
        seen = proxy.answers[Op.GET_DATA]
        zk.set(f"{lock.path}/{grant.name}", b"__REVOKE__")
        wait_watched(proxy, seen)
        grant.verify(timeout=5.0)
        assert "HELD" == grant.status
        assert b"__REVOKE__" == zk.get(f"{lock.path}/{grant.name}")[0]


@pytest.mark.parametrize("times", [1, 3])
def test_waiter_whose_node_is_deleted_queues_again(
    direct: Coordinator, zk: KazooClient, root: str, times: int
) -> None:
    lock = ZkLock(f"{root}/lock", client=direct)
    ahead = add_member(zk, lock.path)
    acquiring = Background(lambda: lock.acquire(timeout=30.0))
    name = ""
    for _ in range(times):
        name = wait_until(lambda before=name: second_member(zk, lock.path, before))
        zk.delete(f"{lock.path}/{name}")
    wait_until(lambda: second_member(zk, lock.path, name))

    zk.delete(ahead)

    with acquiring.result() as grant:
        assert [grant.name] == members(zk, lock.path)
        assert is_verified(grant)


def test_waiter_and_the_one_ahead_deleted_together(direct: Coordinator, zk: KazooClient, root: str) -> None:
    lock = ZkLock(f"{root}/lock", client=direct)
    for _ in range(20):
        ahead = add_member(zk, lock.path)
        acquiring = Background(lambda: lock.acquire(timeout=30.0))
        wait_until(lambda: len(members(zk, lock.path)) == 2)
        name = members(zk, lock.path)[1]
        transaction = zk.transaction()
        transaction.delete(ahead)
        transaction.delete(f"{lock.path}/{name}")
        transaction.commit()

        with acquiring.result() as grant:
            assert grant.name != name
            assert [grant.name] == members(zk, lock.path)


def test_nodes_deleted_at_random_never_give_two_verified_holders(
    direct: Coordinator, zk: KazooClient, root: str
) -> None:
    """An operator who deletes members all the time: everybody gets on, and the loss is told to whom it hits."""
    path = f"{root}/lock"
    is_over = threading.Event()

    def work() -> int:
        lost = 0
        lock = ZkLock(path, client=direct)
        for _ in range(15):
            grant = lock.acquire(timeout=30.0)
            try:
                grant.verify(timeout=5.0)
            except GrantLostError:
                lost += 1
            grant.release()
        return lost

    def vandalise() -> None:
        while not is_over.wait(0.01):
            for name in members(zk, path)[:2]:
                if zk.exists(f"{path}/{name}"):
                    zk.delete_async(f"{path}/{name}").wait()

    vandal = Background(vandalise)
    workers = [Background(work) for _ in range(4)]
    for worker in workers:
        worker.result(60.0)
    is_over.set()
    vandal.result()
    wait_until(lambda: [] == members(zk, path))


def test_leaving_a_with_whose_member_was_deleted_says_so_though_nothing_had_told_it(
    direct: Coordinator, zk: KazooClient, root: str
) -> None:
    """Nobody has watched the member yet; its own delete finds that it is gone."""
    lock = ZkLock(f"{root}/lock", client=direct)

    def work() -> None:
        with lock as grant:
            zk.delete(f"{lock.path}/{grant.name}")

    with pytest.raises(GrantLostError) as lost:
        work()

    assert "deleted" == lost.value.reason


def test_error_of_a_body_whose_member_was_deleted_gets_a_note(
    direct: Coordinator, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=direct)

    def work() -> None:
        with lock as grant:
            zk.delete(f"{lock.path}/{grant.name}")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as failed:
        work()

    assert "was lost meanwhile: deleted" in "".join(failed.value.__notes__)


def test_release_of_a_deleted_member_is_false_and_raises_nothing(
    direct: Coordinator, zk: KazooClient, root: str
) -> None:
    grant = ZkLock(f"{root}/lock", client=direct).acquire(timeout=5.0)
    zk.delete(f"{grant.path}/{grant.name}")

    assert not grant.release()
