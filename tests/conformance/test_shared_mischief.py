"""Read/write locks, semaphores and multi-locks while operators delete, resize and connections break in the middle."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import MakeCoordinator
from tests.support.faults import members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import AcquireTimeoutError, ConfigError, Coordinator, ZkLock, ZkMultiLock, ZkSemaphore

pytestmark = pytest.mark.servers("embedded", "real")


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


# --- multi-lock


def test_a_multi_lock_whose_member_was_deleted_while_it_waited_elsewhere_is_not_granted(
    make_coordinator: MakeCoordinator, zk: KazooClient, root: str
) -> None:
    first, second = f"{root}/a", f"{root}/b"
    client = make_coordinator()
    other = ZkLock(first, client=make_coordinator())
    busy = ZkLock(second, client=make_coordinator()).acquire()
    waiting = in_thread(ZkMultiLock([first, second], client=client).acquire)
    queued(zk, second, 2)
    queued(zk, first, 1)
    zk.delete(f"{first}/{members(zk, first)[0]}")
    with other.acquire(timeout=PATIENCE_S) as grant:  # by the book: nobody else is in the queue
        busy.release()
        queued(zk, first, 2)  # it has queued again, on both paths
        assert not waiting.done()
        grant.verify()
    waiting.result(PATIENCE_S).release()


# --- semaphore


def test_a_shrink_while_an_acquire_looks_lets_nobody_in_by_the_old_limit(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=3, client=make_coordinator())
    held = [pool.acquire() for _ in range(3)]
    looking = ZkSemaphore(path, permits=None, client=make_coordinator(proxy.hosts))
    assert 0 == looking.available()
    with proxy.hold(Op.GET_CHILDREN) as hold:
        waiting = in_thread(lambda: looking.acquire(timeout=PATIENCE_S))
        assert hold.wait()
        queued(zk, path, 4)
        pool.resize(1)
        held.pop().release()
    wait_until(lambda: proxy.requests[Op.GET_DATA] >= 2)
    with pytest.raises(AcquireTimeoutError):
        looking.acquire(timeout=0.3)
    assert not waiting.done()
    for grant in held:
        grant.release()
    waiting.result(PATIENCE_S).release()


@pytest.mark.parametrize("permits", [2, None])
def test_a_directory_deleted_under_a_waiter_is_made_again_without_a_storm_of_requests(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str, permits: int | None
) -> None:
    holder = ZkSemaphore(path, permits=2, client=make_coordinator())
    held = holder.acquire(permits=2)
    pool = ZkSemaphore(path, permits=permits, client=make_coordinator(proxy.hosts))
    waiting = in_thread(pool.acquire)
    queued(zk, path, 2)
    before = proxy.requests[Op.GET_DATA] + proxy.requests[Op.GET_CHILDREN]
    everything = zk.transaction()
    for name in members(zk, path):
        everything.delete(f"{path}/{name}")
    everything.delete(path)
    everything.commit()
    if permits is None:  # the record went along: there is nothing to go by
        with pytest.raises(ConfigError, match="no limit is recorded"):
            waiting.result(PATIENCE_S)
    else:
        waiting.result(PATIENCE_S).release()
        assert (b'{"v":1,"permits":2}', []) == (zk.get(path)[0], members(zk, path))
    assert proxy.requests[Op.GET_DATA] + proxy.requests[Op.GET_CHILDREN] - before < 20
    assert held.lost.wait(PATIENCE_S)


@pytest.mark.parametrize("weight", [999_999_999, 1_000_000_000, 2**31 - 1])
def test_the_largest_weights_are_granted_and_counted(
    coordinator: Coordinator, path: str, weight: int
) -> None:
    pool = ZkSemaphore(path, permits=2**31 - 1, client=coordinator)
    with pool.acquire(permits=weight) as grant:
        assert f"-permit{weight}-" in grant.name
        assert 2**31 - 1 - weight == pool.available()
        assert None is pool.try_acquire(permits=2**31 - weight)
        assert [True] == [member.holds for member in pool.queue()]
