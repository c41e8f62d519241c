"""`ZkSemaphore` on both servers: the limit, weights, order, wake-ups, and the record of the limit."""

from __future__ import annotations

import threading
from itertools import pairwise
from random import Random

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import MakeCoordinator, RunScript
from tests.support.faults import members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireCancelledError,
    ConfigError,
    Coordinator,
    Grant,
    LimitMismatchError,
    QueueConflictError,
    Status,
    ZkLock,
    ZkMultiLock,
    ZkSemaphore,
)

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio")]


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


# --- the limit


def test_as_many_hold_as_there_are_permits(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    pool = ZkSemaphore(path, permits=3, client=coordinator)
    grants = [pool.acquire() for _ in range(3)]  # one thread: each acquire is a member of its own
    assert 3 == len({grant.token for grant in grants})
    assert None is pool.try_acquire()
    assert 0 == pool.available()
    grants[1].release()
    assert 1 == pool.available()
    with pool:
        assert None is pool.try_acquire()
    for grant in (grants[0], grants[2]):
        assert grant.release()
        assert not grant.release()
    assert ([], 3) == (members(zk, path), pool.available())


def test_an_acquire_takes_all_its_permits_or_none(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=4, client=coordinator)
    small = pool.acquire(permits=2)
    assert None is pool.try_acquire(permits=3)
    assert 2 == pool.available()
    big = in_thread(lambda: pool.acquire(permits=3))
    queued(zk, path, 2)
    # It has its place, so nobody who comes later goes first; but the permits are nobody's yet.
    assert 2 == pool.available()
    assert None is pool.try_acquire(permits=1)
    small.release()
    grant = big.result(PATIENCE_S)
    assert "-permit3-" in grant.name
    assert 1 == pool.available()
    grant.release()


@pytest.mark.parametrize("permits", [0, -1, 5, True, 1.0, "1", None])
def test_a_number_that_can_never_be_granted_is_refused_at_once(
    coordinator: Coordinator, zk: KazooClient, path: str, permits: object
) -> None:
    pool = ZkSemaphore(path, permits=4, client=coordinator)
    for attempt in (pool.acquire, pool.try_acquire):
        with pytest.raises(ConfigError, match="permits"):
            attempt(permits=permits)  # type: ignore[arg-type]
    assert None is zk.exists(path)


@pytest.mark.parametrize("permits", [0, -1, True, 1.5, "4", 2**31])
def test_a_limit_must_be_a_number(coordinator: Coordinator, path: str, permits: object) -> None:
    with pytest.raises(ConfigError, match="permits"):
        ZkSemaphore(path, permits=permits, client=coordinator)  # type: ignore[arg-type]


# --- the record


def test_the_limit_is_recorded_in_a_persistent_parent(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    with ZkSemaphore(path, permits=4, client=coordinator):
        data, stat = zk.get(path)
    assert b'{"v":1,"permits":4}' == data
    assert 0 == stat.ephemeralOwner


def test_the_limit_outlives_the_reaping_of_empty_containers(reaping_hosts: str) -> None:
    with Coordinator(reaping_hosts) as coordinator:
        pool = ZkSemaphore("/pools/gpu", permits=4, client=coordinator)
        lock = ZkLock("/locks/gone", client=coordinator)
        pool.acquire().release()
        lock.acquire().release()
        wait_until(lambda: coordinator.client.exists(lock.path) is None)  # the reaper has been here
        resized = ZkSemaphore("/pools/gpu", permits=None, client=coordinator)
        assert 4 == resized.available()
        with resized.acquire(permits=4):
            pass


def test_the_recorded_limit_can_be_taken_as_it_is(coordinator: Coordinator, path: str) -> None:
    pool = ZkSemaphore(path, permits=None, client=coordinator)
    for attempt in (pool.acquire, pool.try_acquire, pool.available):
        with pytest.raises(ConfigError, match="no limit is recorded"):
            attempt()
    ZkSemaphore(path, permits=2, client=coordinator).acquire().release()
    assert 2 == pool.available()
    with pool.acquire(permits=2):
        assert 0 == pool.available()
    with pytest.raises(ConfigError, match="permits=3 can never be granted"):
        pool.acquire(permits=3)


def test_another_limit_is_an_error_that_leaves_nothing(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    with ZkSemaphore(path, permits=2, client=coordinator) as grant:
        for wrong in (1, 3):
            other = ZkSemaphore(path, permits=wrong, client=coordinator)
            for attempt in (other.acquire, other.try_acquire):
                with pytest.raises(LimitMismatchError) as caught:
                    attempt()
                assert (wrong, 2) == (caught.value.asked, caught.value.recorded)
        wait_until(lambda: [grant.name] == members(zk, path))
    assert b'{"v":1,"permits":2}' == zk.get(path)[0]


def test_whoever_is_first_records_the_limit_and_the_others_agree_or_fail(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    zk.ensure_path(path)
    pools = [ZkSemaphore(path, permits=limit, client=make_coordinator()) for limit in (2, 2, 3, 3)]
    attempts = [in_thread(pool.acquire) for pool in pools]
    outcomes = [attempt.exception(PATIENCE_S) for attempt in attempts]
    winners = [attempt for attempt, error in zip(attempts, outcomes, strict=True) if error is None]
    assert 2 == len(winners)
    assert all(isinstance(error, LimitMismatchError) for error in outcomes if error)
    for attempt in winners:
        attempt.result().release()
    wait_until(lambda: [] == members(zk, path))


def test_a_directory_with_other_data_is_left_alone(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    zk.create(path, b"somebody else's", makepath=True)
    pool = ZkSemaphore(path, permits=2, client=coordinator)
    for attempt in (pool.acquire, pool.available, lambda: pool.resize(3)):
        with pytest.raises(ConfigError, match="data of somebody else"):
            attempt()
    wait_until(lambda: [] == members(zk, path))
    assert b"somebody else's" == zk.get(path)[0]


def test_an_empty_directory_gets_the_limit(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    zk.create(path, b"", makepath=True)
    with ZkSemaphore(path, permits=2, client=coordinator).acquire(permits=2):
        assert b'{"v":1,"permits":2}' == zk.get(path)[0]


# --- resize


def test_growth_wakes_waiters(make_coordinator: MakeCoordinator, zk: KazooClient, path: str) -> None:
    pool = ZkSemaphore(path, permits=1, client=make_coordinator())
    grant = pool.acquire()
    follower = ZkSemaphore(path, permits=None, client=make_coordinator())
    waiting = [in_thread(follower.acquire) for _ in range(3)]
    queued(zk, path, 4)
    pool.resize(3)
    wait_until(lambda: sum(each.done() for each in waiting) == 2)
    pool.resize(4)
    for each in waiting:
        each.result(PATIENCE_S).release()
    grant.release()
    with pytest.raises(LimitMismatchError):
        pool.acquire()


def test_a_shrink_revokes_nothing_and_lets_nobody_in_until_enough_have_left(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=3, client=coordinator)
    grants = [pool.acquire() for _ in range(3)]
    pool.resize(1)
    follower = ZkSemaphore(path, permits=None, client=coordinator)
    waiting = in_thread(follower.acquire)
    queued(zk, path, 4)
    for grant in grants:
        assert not waiting.done()
        assert Status.HELD is grant.status
        grant.verify()
        grant.release()
    waiting.result(PATIENCE_S).release()
    assert 1 == follower.available()


def test_a_waiter_that_believes_in_the_old_limit_is_told(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=1, client=coordinator)
    with pool:
        waiting = in_thread(pool.acquire)
        queued(zk, path, 2)
        pool.resize(2)
        with pytest.raises(LimitMismatchError):
            waiting.result(PATIENCE_S)
        queued(zk, path, 1)


@pytest.mark.parametrize("permits", [0, -1, True, "4"])
def test_a_wrong_size_is_refused(coordinator: Coordinator, path: str, permits: object) -> None:
    with pytest.raises(ConfigError):
        ZkSemaphore(path, permits=1, client=coordinator).resize(permits)  # type: ignore[arg-type]


def test_what_does_not_exist_cannot_be_resized(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    with pytest.raises(ConfigError, match="does not exist yet"):
        ZkSemaphore(path, permits=1, client=coordinator).resize(2)
    assert None is zk.exists(path)


# --- order


def test_a_middle_waiter_that_leaves_lets_those_behind_it_in(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    pools = [ZkSemaphore(path, permits=3, client=make_coordinator()) for _ in range(3)]
    held = pools[0].acquire(permits=2)
    heavy = in_thread(lambda: pools[1].acquire(permits=3))
    queued(zk, path, 2)
    light = [in_thread(pools[2].acquire) for _ in range(2)]
    queued(zk, path, 4)
    assert not any(each.done() for each in light)  # a permit is free, and yet they do not overtake
    pools[1].cancel()
    with pytest.raises(AcquireCancelledError):
        heavy.result(PATIENCE_S)
    wait_until(lambda: 1 == sum(each.done() for each in light))
    held.release()
    for each in light:
        each.result(PATIENCE_S).release()


def test_a_middle_holder_that_leaves_lets_the_next_in(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=4, client=make_coordinator())
    held = [pool.acquire(permits=permits) for permits in (1, 2, 1)]
    other = ZkSemaphore(path, permits=4, client=make_coordinator())
    first = in_thread(lambda: other.acquire(permits=2))
    queued(zk, path, 4)
    second = in_thread(other.acquire)
    queued(zk, path, 5)
    held[1].release()
    grant = first.result(PATIENCE_S)
    assert not second.done()
    held[0].release()
    second.result(PATIENCE_S).release()
    for each in (grant, held[2]):
        each.release()


def test_who_wants_all_is_not_starved_by_a_stream_of_those_who_want_one(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    granted: list[str] = []
    is_over = threading.Event()
    client = make_coordinator()

    def stream() -> None:
        pool = ZkSemaphore(path, permits=3, client=client)
        while not is_over.is_set():
            with pool as grant:
                granted.append(grant.name)

    streams = [in_thread(stream) for _ in range(6)]
    wait_until(lambda: len(granted) >= 12)
    for _ in range(5):
        with ZkSemaphore(path, permits=3, client=make_coordinator()).acquire(permits=3) as grant:
            number = grant.name[-10:]
            assert [] == [name for name in granted if name[-10:] > number]
    is_over.set()
    for each in streams:
        each.result(PATIENCE_S)


# --- many


def test_threads_with_mixed_weights_never_exceed_the_limit_and_all_get_their_turn(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    limit = 5
    clients = [make_coordinator() for _ in range(3)]
    counted = threading.Lock()
    inside = most = done = 0

    def work(number: int) -> None:
        nonlocal inside, most, done
        random = Random(number)
        pool = ZkSemaphore(path, permits=limit, client=clients[number % 3])
        for _ in range(12):
            weight = random.randint(1, limit)
            with pool.acquire(permits=weight):
                with counted:
                    inside += weight
                    most = max(most, inside)
                with counted:
                    inside -= weight
                    done += 1

    for each in [in_thread(work, number) for number in range(12)]:
        each.result(60.0)
    assert 144 == done
    assert most <= limit
    assert [] == members(zk, path)


@pytest.mark.servers("real")
def test_processes_with_mixed_weights_never_exceed_the_limit(
    zk: KazooClient, root: str, path: str, run_script: RunScript
) -> None:
    """Each process keeps a node per grant of its own; whoever holds counts all of them."""
    zk.ensure_path(f"{root}/inside")
    source = (
        "import sys\n"
        "from random import Random\n"
        "from kazoo.client import KazooClient\n"
        "from zkcoord import Coordinator, ZkSemaphore\n"
        "zk = KazooClient(HOSTS); zk.start()\n"
        "most = 0\n"
        "with Coordinator(HOSTS) as coordinator:\n"
        f"    pool = ZkSemaphore({path!r}, permits=4, client=coordinator)\n"
        "    random = Random(SEED)\n"
        "    for _ in range(40):\n"
        "        weight = random.randint(1, 4)\n"
        "        with pool.acquire(permits=weight, timeout=60):\n"
        "            mine = zk.create(ROOT + f'/inside/w{weight}-', ephemeral=True, sequence=True)\n"
        "            inside = zk.get_children(ROOT + '/inside')\n"
        "            most = max(most, sum(int(name[1]) for name in inside))\n"
        "            zk.delete(mine)\n"
        "zk.stop(); zk.close()\n"
        "print(most)\n"
    )
    runs = [in_thread(run_script, f"SEED = {seed}\n{source}") for seed in range(4)]
    most = [int(run.result(90.0)) for run in runs]
    assert max(most) <= 4
    assert [] == members(zk, path)


@pytest.mark.servers("real")
def test_two_hundred_waiters_are_woken_by_those_who_matter_only(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str
) -> None:
    limit, waiters = 4, 200
    holder = ZkSemaphore(path, permits=limit, client=make_coordinator())
    held = [holder.acquire() for _ in range(limit)]
    pool = ZkSemaphore(path, permits=limit, client=make_coordinator(proxy.hosts))
    granted: list[Grant] = []
    for number in range(waiters):
        in_thread(lambda: granted.append(pool.acquire()))
        if number % 20 == 19:
            queued(zk, path, limit + number + 1)
    wait_until(lambda: proxy.requests[Op.GET_CHILDREN] >= waiters)
    # Whoever is woken lists once. (All waiters share a session here, which gets one notification for each member that
    # leaves; had each a session of its own, there would be one for each wake-up.)
    woken, notifications = [], []
    for released in range(waiters):
        lists, told = proxy.requests[Op.GET_CHILDREN], proxy.notifications
        (held.pop() if held else granted[released - limit]).release()
        wait_until(lambda released=released: len(granted) == released + 1)
        wait_until(lambda: session_is_quiet(pool))
        woken.append(proxy.requests[Op.GET_CHILDREN] - lists)
        notifications.append(proxy.notifications - told)
    # The last list of a release may be counted with the next one.
    assert max(first + second for first, second in pairwise(woken)) <= 2 * limit
    assert sum(woken) / waiters <= limit / 2 + 1
    assert max(notifications) <= 1
    for grant in granted[waiters - limit :]:
        grant.release()


def session_is_quiet(pool: ZkSemaphore) -> bool:
    """Whether all that a release has woken has been done."""
    requests = pool._coordinator().session().requests
    return requests.oldest_sent() is None


# --- faults and others


def test_lost_replies_leave_nothing_and_take_no_permit(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=1, client=make_coordinator(proxy.hosts))
    pool.acquire().release()
    for opcode in (Op.CREATE2, Op.GET_DATA, Op.GET_CHILDREN):
        for fault in (proxy.drop_reply, proxy.cut_before):
            fault(opcode)
            with pool.acquire(timeout=PATIENCE_S) as grant:
                wait_until(lambda grant=grant: [grant.name] == members(zk, path))
        wait_until(lambda: [] == members(zk, path))
        assert 1 == pool.available()


def test_a_waiter_goes_on_after_a_reconnect(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, path: str
) -> None:
    pool = ZkSemaphore(path, permits=3, client=make_coordinator())
    grants = [pool.acquire() for _ in range(3)]
    away = ZkSemaphore(path, permits=3, client=make_coordinator(proxy.hosts))
    waiting = in_thread(lambda: away.acquire(permits=2))
    queued(zk, path, 4)
    proxy.cut()
    grants[0].release()
    proxy.restore()
    grants[2].release()
    waiting.result(PATIENCE_S).release()
    grants[1].release()


def test_members_of_another_kind_are_a_conflict(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    with ZkSemaphore(path, permits=1, client=coordinator) as grant:
        with pytest.raises(QueueConflictError):
            ZkLock(path, client=make_coordinator()).acquire()
        queued(zk, path, 1)  # till then it is a conflict for the holder as well
        grant.verify()
    with ZkLock(f"{path}-lock", client=coordinator), pytest.raises(QueueConflictError):
        ZkSemaphore(f"{path}-lock", permits=1, client=make_coordinator()).acquire()


def test_a_semaphore_is_no_member_of_a_multi_lock(coordinator: Coordinator, path: str) -> None:
    with pytest.raises(ConfigError, match="ZkSemaphore"):
        ZkMultiLock([ZkSemaphore(path, permits=1, client=coordinator)], client=coordinator)
