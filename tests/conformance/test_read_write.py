"""`ZkReadWriteLock` on both servers: sharing, order, downgrade and upgrade, beside kazoo's own locks too."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.lock import ReadLock as KazooReadLock
from kazoo.recipe.lock import WriteLock as KazooWriteLock

from tests.conformance.conftest import MakeCoordinator
from tests.conftest import MakeClient
from tests.support.faults import members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireTimeoutError,
    AlreadyHeldError,
    Coordinator,
    GrantLostError,
    NotHeldError,
    QueueConflictError,
    Status,
    UpgradeError,
    ZkLock,
    ZkMultiLock,
    ZkReadWriteLock,
)

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio")]


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


@pytest.fixture(params=["curator", "kazoo"])
def dialect(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def rw(coordinator: Coordinator, path: str, dialect: str) -> ZkReadWriteLock:
    """A lock whose owner is the calling thread."""
    return ZkReadWriteLock(path, client=coordinator, dialect=dialect)


@pytest.mark.fronts("threads")
def test_asking_the_whole_lock_says_which_sides_there_are(rw: ZkReadWriteLock) -> None:
    whole: Any = rw
    for name in ("acquire", "try_acquire", "queue", "revoke"):
        with pytest.raises(AttributeError, match=rf"call \.read\.{name}\(\) or \.write\.{name}\(\)"):
            getattr(whole, name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = whole.nonsense
    assert not hasattr(whole, "__enter__")


# --- sharing and order


def test_readers_share_and_keep_a_writer_out(rw: ZkReadWriteLock, zk: KazooClient, path: str) -> None:
    grants = [in_thread(rw.read.acquire).result(PATIENCE_S) for _ in range(3)]
    assert None is in_thread(rw.write.try_acquire).result(PATIENCE_S)
    writer = in_thread(rw.write.acquire)
    queued(zk, path, 4)
    for grant in grants:
        assert not writer.done()
        grant.release()
    writer.result(PATIENCE_S).release()
    assert [] == members(zk, path)


def test_readers_behind_a_writer_wake_together_when_it_leaves_and_not_before(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    grant = rw.write.acquire()
    together = threading.Barrier(4)

    def read() -> bool:
        with rw.read:
            together.wait(PATIENCE_S)  # only passes when all four hold at once
            return True

    reading = [in_thread(read) for _ in range(4)]
    queued(zk, path, 5)
    assert not any(each.done() for each in reading)
    assert 0 == together.n_waiting
    grant.release()
    assert [True] * 4 == [each.result(PATIENCE_S) for each in reading]


def test_a_queued_writer_is_not_overtaken_by_later_readers(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    first = rw.read.acquire()
    order: list[str] = []

    def write() -> None:
        with rw.write:
            order.append("write")

    def read() -> None:
        with rw.read:
            order.append("read")

    writing = in_thread(write)
    queued(zk, path, 2)
    assert None is in_thread(rw.read.try_acquire).result(PATIENCE_S)
    wait_until(lambda: len(members(zk, path)) == 2)
    reading = in_thread(read)
    queued(zk, path, 3)
    first.release()
    writing.result(PATIENCE_S)
    reading.result(PATIENCE_S)
    assert ["write", "read"] == order


def test_writers_fences_rise_across_readers(rw: ZkReadWriteLock) -> None:
    tokens = []
    for _ in range(3):
        with rw.write as grant:
            tokens.append(grant.token)
        with rw.read:
            pass
    assert sorted(set(tokens)) == tokens


# --- re-entry


def test_both_sides_re_enter(rw: ZkReadWriteLock, zk: KazooClient, path: str) -> None:
    for side in (rw.read, rw.write):
        with side as outer, side as inner:
            assert (outer.token, outer.name) == (inner.token, inner.name)
            assert 1 == len(members(zk, path))
        assert [] == members(zk, path)


def test_not_reentrant_sides_raise_at_once(coordinator: Coordinator, path: str) -> None:
    rw = ZkReadWriteLock(path, client=coordinator, reentrant=False)
    for side in (rw.read, rw.write):
        with side, pytest.raises(AlreadyHeldError):
            side.acquire()


def test_a_writer_that_reads_too_still_re_enters_its_write_side(rw: ZkReadWriteLock) -> None:
    with rw.write as outer, rw.read, rw.write as inner, rw.read:
        assert outer.token == inner.token


# --- downgrade


def test_downgrade_keeps_the_place_and_the_token(
    rw: ZkReadWriteLock, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    writer = rw.write.acquire()
    next_writer = in_thread(rw.write.acquire)
    queued(zk, path, 2)

    reader = rw.read.acquire(timeout=PATIENCE_S)

    assert writer.token == reader.token
    assert writer.name[-10:] == reader.name[-10:]
    stat = zk.exists(f"{path}/{reader.name}")
    assert coordinator.session_id == stat.ephemeralOwner
    writer.release()
    assert 2 == len(members(zk, path))
    assert None is in_thread(rw.write.try_acquire).result(PATIENCE_S)
    assert not next_writer.done()
    reader.verify()
    reader.release()
    next_writer.result(PATIENCE_S).release()
    assert [] == members(zk, path)


def test_downgraded_reader_shares_with_the_readers_right_behind(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    writer = rw.write.acquire()
    other = in_thread(rw.read.acquire)
    queued(zk, path, 2)
    with rw.read:
        assert not other.done()
        writer.release()
        other.result(PATIENCE_S).release()


def test_the_read_grant_may_also_be_released_first(rw: ZkReadWriteLock, zk: KazooClient, path: str) -> None:
    writer = rw.write.acquire()
    rw.read.acquire().release()
    assert [writer.name] == members(zk, path)
    assert Status.HELD is writer.status
    with rw.read as again:
        assert writer.token == again.token
    writer.release()


def test_names_of_a_downgrade_are_curators(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    """As Curator 5.9 leaves them, in its own transcript: the writer's suffix, a new uuid, not sequential."""
    rw = ZkReadWriteLock(path, client=coordinator)
    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    with rw.write, rw.read:
        names = sorted(members(zk, path), key=lambda name: name[-18:])
        assert re.fullmatch(f"_c_{uuid}-__READ__0000000000", names[0])
        assert re.fullmatch(f"_c_{uuid}-__WRIT__0000000000", names[1])
        assert names[0][:39] != names[1][:39]
    with rw.write as grant:
        assert "0000000002" == grant.name[-10:]  # the reader has drawn a number that it did not use


def test_downgrade_whose_answer_is_lost_is_found_again(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str
) -> None:
    rw = ZkReadWriteLock(path, client=make_coordinator(proxy.hosts))
    for fault in (proxy.drop_reply, proxy.cut_before):
        with rw.write as writer:
            fault(Op.CREATE2)
            with rw.read.acquire(timeout=PATIENCE_S) as reader:
                assert writer.token == reader.token
                wait_until(lambda: len(members(zk, path)) == 2)
        assert [] == members(zk, path)


def test_downgrade_of_a_writer_that_was_deleted_is_no_grant(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    writer = rw.write.acquire()
    zk.delete(f"{path}/{writer.name}")
    # Either zkcoord knows of the loss already, and this is a reader like any other; or it finds out now.
    with contextlib.suppress(GrantLostError), rw.read.acquire(timeout=PATIENCE_S) as grant:
        assert grant.token > writer.token
    assert writer.lost.wait(PATIENCE_S)
    wait_until(lambda: [] == members(zk, path))  # an acquire that is refused does not wait for its delete


# --- upgrade


def test_a_reader_that_asks_for_the_write_lock_gets_an_error_at_once(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    with rw.read as reader:
        for attempt in (rw.write.acquire, rw.write.try_acquire):
            with pytest.raises(UpgradeError):
                attempt()
        assert [reader.name] == members(zk, path)
        assert Status.HELD is reader.status
    with rw.write:
        pass


def test_a_sole_reader_upgrades_and_keeps_reading(rw: ZkReadWriteLock, zk: KazooClient, path: str) -> None:
    reader = rw.read.acquire()
    writer = rw.try_upgrade()
    assert writer is not None
    assert writer.token > reader.token
    assert 2 == len(members(zk, path))
    assert None is in_thread(rw.read.try_acquire).result(PATIENCE_S)
    again = rw.try_upgrade()
    assert again is not None
    again.release()
    reader.release()
    assert None is in_thread(rw.read.try_acquire).result(PATIENCE_S)
    writer.verify()
    writer.release()
    assert [] == members(zk, path)


def test_an_upgrade_is_given_back_before_the_read_grant(rw: ZkReadWriteLock) -> None:
    with rw.read as reader:
        writer = rw.try_upgrade()
        assert writer is not None
        writer.release()
        assert Status.HELD is reader.status
        in_thread(rw.read.acquire).result(PATIENCE_S).release()


def test_two_readers_cannot_upgrade_and_nothing_changes(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    other = in_thread(rw.read.acquire).result(PATIENCE_S)
    reader = rw.read.acquire()
    before = members(zk, path)
    for _ in range(3):
        assert None is rw.try_upgrade()
        wait_until(lambda: before == members(zk, path))
    assert (Status.HELD, Status.HELD) == (reader.status, other.status)
    other.release()
    writer = rw.try_upgrade()
    assert writer is not None
    writer.release()
    reader.release()


def test_a_waiting_writer_goes_first(rw: ZkReadWriteLock, zk: KazooClient, path: str) -> None:
    reader = rw.read.acquire()
    writer = in_thread(rw.write.acquire)
    queued(zk, path, 2)
    before = members(zk, path)
    assert None is rw.try_upgrade()
    wait_until(lambda: before == members(zk, path))
    assert not writer.done()
    reader.release()
    writer.result(PATIENCE_S).release()


def test_upgrade_without_a_read_grant_is_an_error(rw: ZkReadWriteLock) -> None:
    with pytest.raises(NotHeldError):
        rw.try_upgrade()


# --- beside others of zkcoord's own


def test_a_plain_lock_on_the_path_is_a_conflict_for_both(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=make_coordinator())
    rw = ZkReadWriteLock(path, client=make_coordinator())
    with lock as grant:
        for side in (rw.read, rw.write):
            with pytest.raises(QueueConflictError) as caught:
                side.acquire()
            assert (grant.name,) == caught.value.children
        wait_until(lambda: [grant.name] == members(zk, path))
    with rw.read, pytest.raises(QueueConflictError):
        lock.acquire()


def test_a_write_side_held_in_a_multi_lock_downgrades_on_its_own_path(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator)
    multi = ZkMultiLock([f"{path}-first", rw.write], client=coordinator)
    grant = multi.acquire()
    with rw.read as reader:
        assert grant.token == reader.token
        grant.release()
        assert [reader.name] == members(zk, path)
        with pytest.raises(AlreadyHeldError):
            multi.acquire()
    assert [] == members(zk, path)


def test_a_plain_kazoo_lock_does_not_wait_for_its_own_reader(coordinator: Coordinator, path: str) -> None:
    rw = ZkReadWriteLock(path, client=coordinator, dialect="kazoo")
    with rw.read, pytest.raises(AlreadyHeldError):
        ZkLock(path, client=coordinator, dialect="kazoo").acquire()


# --- beside kazoo's


def test_kazoos_locks_and_ours_keep_each_other_out(
    make_client: MakeClient, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    theirs = make_client()
    rw = ZkReadWriteLock(path, client=coordinator, dialect="kazoo")
    with KazooReadLock(theirs, path):
        with rw.read:
            pass
        with pytest.raises(AcquireTimeoutError):
            rw.write.acquire(timeout=0.2)
        queued(zk, path, 1)
    with KazooWriteLock(theirs, path):
        for side in (rw.read, rw.write):
            assert None is side.try_acquire()
    with rw.read:
        their_read = KazooReadLock(theirs, path)
        assert their_read.acquire(blocking=False)
        their_read.release()
    with rw.write:
        assert not KazooReadLock(make_client(), path).acquire(blocking=False)
        assert not KazooWriteLock(make_client(), path).acquire(blocking=False)
    with rw.write as writer, rw.read:
        writer.release()
        assert not KazooWriteLock(make_client(), path).acquire(blocking=False)


def test_kazoos_writers_and_our_readers_and_writers_take_turns(
    make_client: MakeClient, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    inside: list[str] = []
    seen: list[tuple[str, ...]] = []

    def ours(side: str, count: int) -> None:
        lock = getattr(ZkReadWriteLock(path, client=make_coordinator(), dialect="kazoo"), side)
        for _ in range(count):
            with lock:
                visit(side)

    def theirs(cls: type[KazooReadLock], side: str, count: int) -> None:
        client = make_client()
        for _ in range(count):
            with cls(client, path):
                visit(side)

    def visit(side: str) -> None:
        inside.append(side)
        seen.append(tuple(inside))
        inside.remove(side)

    jobs = [
        in_thread(ours, "read", 30),
        in_thread(ours, "write", 30),
        in_thread(theirs, KazooReadLock, "read", 30),
        in_thread(theirs, KazooWriteLock, "write", 30),
    ]
    for job in jobs:
        job.result(60.0)
    assert 120 == len(seen)
    assert not [each for each in seen if "write" in each and len(each) > 1]
    assert [] == members(zk, path)
