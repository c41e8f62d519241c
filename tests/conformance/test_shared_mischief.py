"""Read/write locks, semaphores and multi-locks while operators delete, resize and connections break in the middle."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from tests.conformance.conftest import MakeCoordinator
from tests.support.faults import end_session, members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireTimeoutError,
    ConfigError,
    Coordinator,
    GrantLostError,
    ZkLock,
    ZkMultiLock,
    ZkReadWriteLock,
    ZkSemaphore,
)

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio", slow=True)]


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


# --- multi-lock


def test_a_multi_lock_whose_member_was_deleted_while_it_waited_elsewhere_is_not_granted(
    make_coordinator: MakeCoordinator, zk: KazooClient, root: str
) -> None:
    first, second = f"{root}/a", f"{root}/b"
    client = make_coordinator()
    other = ZkLock(first, client=make_coordinator(), owner="another")
    busy = ZkLock(second, client=make_coordinator()).acquire()
    waiting = in_thread(ZkMultiLock([first, second], client=client).acquire)
    queued(zk, second, 2)
    queued(zk, first, 1)
    next_one = in_thread(other.acquire)
    queued(zk, first, 2)
    zk.delete(f"{first}/{members(zk, first)[0]}")
    with next_one.result(PATIENCE_S) as grant:
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


def test_the_limit_stays_also_where_a_lock_had_made_the_directory(reaping_hosts: str) -> None:
    with Coordinator(reaping_hosts) as coordinator:
        zk = coordinator.client
        gone = ZkLock("/gone", client=coordinator)
        for lock in (gone, ZkLock("/pool", client=coordinator)):
            lock.acquire().release()  # leaves a container, which is removed when it has been empty for a while
        pool = ZkSemaphore("/pool", permits=4, client=coordinator)
        with pool:
            assert 3 == pool.available()
        pool.resize(2)
        gone.acquire().release()
        wait_until(lambda: zk.exists("/gone") is None)  # the reaper has been here since
        assert 2 == ZkSemaphore("/pool", permits=None, client=coordinator).available()


def test_an_empty_directory_keeps_its_acl_when_it_gets_the_limit(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    acl = [make_digest_acl("somebody", "else", all=True), *OPEN_ACL_UNSAFE]
    zk.create(path, b"", acl=acl, makepath=True)
    ZkSemaphore(path, permits=4, client=coordinator).acquire().release()
    assert (b'{"v":1,"permits":4}', acl) == (zk.get(path)[0], zk.get_acls(path)[0])


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_directory_that_cannot_be_replaced_gets_the_limit_as_it_is(
    coordinator: Coordinator, zk: KazooClient, path: str, is_shared: bool
) -> None:
    if is_shared:
        zk.ensure_path(f"{path}/config")
    else:
        zk.ensure_path(path)
        zk.set_acls(path.rpartition("/")[0], [make_acl("world", "anyone", read=True, admin=True)])
    made = zk.exists(path).czxid
    try:
        ZkSemaphore(path, permits=4, client=coordinator).acquire(timeout=PATIENCE_S).release()
        data, stat = zk.get(path)
        assert (b'{"v":1,"permits":4}', made) == (data, stat.czxid)
    finally:
        zk.set_acls(path.rpartition("/")[0], OPEN_ACL_UNSAFE)


@pytest.mark.parametrize("turn", range(4))
def test_who_is_first_records_the_limit_in_an_empty_directory_and_nobody_holds_too_much(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str, turn: int
) -> None:
    zk.ensure_path(path)
    pools = [ZkSemaphore(path, permits=2, client=make_coordinator()) for _ in range(4)]
    taking = [in_thread(pool.acquire) for pool in pools]
    queued(zk, path, 4)
    for _ in pools:
        wait_until(lambda: sum(each.done() for each in taking) == min(2, len(taking)))
        done = next(each for each in taking if each.done())
        taking.remove(done)
        done.result().release()
    assert (b'{"v":1,"permits":2}', []) == (zk.get(path)[0], members(zk, path))


def test_the_oldest_holds_whatever_the_limit_shrinks_to(coordinator: Coordinator, path: str) -> None:
    pool = ZkSemaphore(path, permits=4, client=coordinator)
    held = [pool.acquire(permits=2), pool.acquire(permits=2)]
    pool.resize(1)
    follower = ZkSemaphore(path, permits=None, client=coordinator)
    assert 0 == follower.available()
    assert [True, False] == [member.holds for member in follower.queue()]
    for grant in held:
        assert follower.break_holder(grant.token)
        assert grant.lost.wait(PATIENCE_S)
    assert 1 == follower.available()


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


# --- read/write lock


def test_a_reader_beside_a_write_grant_that_another_thread_releases_reads_all_the_same(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator, owner="job")
    for _ in range(50):
        write = rw.write.acquire()
        reading = in_thread(lambda: rw.read.acquire(timeout=PATIENCE_S))
        write.release()
        with reading.result(PATIENCE_S) as read:
            read.verify()
    assert [] == members(zk, path)


def test_a_session_that_ends_takes_a_downgraded_reader_along(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, hosts: str, zk: KazooClient, path: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator)
    with rw.write.acquire():
        read = rw.read.acquire()
    waiting = in_thread(ZkReadWriteLock(path, client=make_coordinator()).write.acquire)
    queued(zk, path, 2)
    end_session(coordinator.client, hosts)
    write = waiting.result(PATIENCE_S)
    assert read.lost.wait(PATIENCE_S)
    assert write.token > read.token
    write.release()
    with rw.read.acquire(timeout=PATIENCE_S) as again:
        assert again.token > write.token


def test_a_reader_beside_a_write_grant_whose_session_has_ended_is_told_which_grant_was_lost(
    coordinator: Coordinator, hosts: str, path: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator, owner="job")
    write = rw.write.acquire()
    end_session(coordinator.client, hosts)
    reading = in_thread(lambda: rw.read.acquire(timeout=PATIENCE_S))
    error = reading.exception(PATIENCE_S)
    if error is None:  # the loss was known already, and this is a reader like any other
        assert reading.result().token > write.token
        reading.result().release()
    else:
        assert isinstance(error, GrantLostError)
        assert write.token == error.token
    assert write.lost.wait(PATIENCE_S)


@pytest.mark.parametrize("deleted", ["read", "write"])
def test_an_upgraded_grant_stands_and_falls_alone(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str, deleted: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator)
    read = rw.read.acquire()
    write = rw.try_upgrade()
    assert write is not None
    lost, kept = (read, write) if deleted == "read" else (write, read)
    zk.delete(f"{path}/{lost.name}")
    assert lost.lost.wait(PATIENCE_S)
    kept.verify()
    assert None is ZkReadWriteLock(path, client=make_coordinator()).write.try_acquire()
    kept.release()
    queued(zk, path, 0)
