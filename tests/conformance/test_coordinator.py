"""`Coordinator`: closing from anywhere in bounded time, and a fixed number of threads."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry

from tests.conformance.conftest import MakeCoordinator
from tests.conftest import MakeClient
from tests.support.proxy import FaultProxy
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from tests.support.zookeeper import ZooKeeperServer
from zkcoord import AcquireCancelledError, ConfigError, Coordinator, Grant, GrantLostError, Status, ZkLock
from zkcoord.coordinator import coordinator_for

#: Room above a promised time.
ROOM_S = 0.5


def of_zkcoord() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("zkcoord-")]


def loss(grant: Grant) -> str:
    with pytest.raises(GrantLostError) as caught:
        grant.check()
    return caught.value.reason


# --- closing


def test_close_gives_everything_back(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    locks = [ZkLock(f"{root}/lock-{number}", client=coordinator) for number in range(5)]
    grants = [lock.acquire() for lock in locks]
    reasons: list[str] = []
    for grant in grants:
        grant.on_lost(lambda lost, reason: reasons.append(reason))

    coordinator.close()

    assert ["closed"] * 5 == [loss(grant) for grant in grants]
    assert [[]] * 5 == [zk.get_children(lock.path) for lock in locks]
    wait_until(lambda: ["closed"] * 5 == reasons)
    assert coordinator.is_closed
    assert not any(grant.release() for grant in grants)
    wait_until(lambda: [] == of_zkcoord())


def test_pending_acquires_end_at_once(
    coordinator: Coordinator, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    holder = ZkLock(path, client=make_coordinator()).acquire()
    lock = ZkLock(path, client=coordinator)
    waiters = [in_thread(lock.acquire) for _ in range(5)]
    wait_until(lambda: 6 == len(zk.get_children(path)))
    began = time.monotonic()

    coordinator.close()

    for waiter in waiters:
        with pytest.raises(AcquireCancelledError) as caught:
            waiter.result(PATIENCE_S)
        assert (path, "closed") == (caught.value.path, caught.value.reason)
    assert time.monotonic() - began < 1.0 + ROOM_S
    assert [holder.name] == zk.get_children(path)
    holder.release()


def test_acquire_that_waits_for_a_server_ends_at_once_too(
    make_coordinator: MakeCoordinator, own_zookeeper: ZooKeeperServer
) -> None:
    coordinator = make_coordinator(own_zookeeper.hosts)
    own_zookeeper.kill()
    waiter = in_thread(ZkLock("/lock", client=coordinator).acquire)
    wait_until(lambda: coordinator.last_problem)
    began = time.monotonic()

    closing = in_thread(coordinator.close)

    with pytest.raises(AcquireCancelledError, match="closed"):
        waiter.result(PATIENCE_S)
    assert time.monotonic() - began < 1.0 + ROOM_S
    closing.result(PATIENCE_S)
    assert time.monotonic() - began < 5.0 + ROOM_S


def test_close_is_bounded_while_the_server_says_nothing(own_zookeeper: ZooKeeperServer) -> None:
    coordinator = Coordinator(own_zookeeper.hosts)
    lock = ZkLock("/lock", client=coordinator)
    grant = lock.acquire()
    waiter = in_thread(lock.acquire)
    wait_until(lambda: 2 == len(lock.queue()))

    with own_zookeeper.paused():
        began = time.monotonic()
        closing = in_thread(lambda: coordinator.close(timeout=1.5))
        with pytest.raises(AcquireCancelledError, match="closed"):
            waiter.result(PATIENCE_S)
        assert time.monotonic() - began < 1.0 + ROOM_S
        assert "closed" == loss(grant)
        closing.result(PATIENCE_S)
        assert time.monotonic() - began < 1.5 + ROOM_S
    with Coordinator(own_zookeeper.hosts) as other:
        ZkLock("/lock", client=other).acquire(timeout=PATIENCE_S).release()


def test_close_twice_and_from_several_threads(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    grant = ZkLock(path, client=coordinator).acquire()

    for closing in [in_thread(coordinator.close) for _ in range(4)]:
        closing.result(PATIENCE_S)
    coordinator.close()

    assert "closed" == loss(grant)
    wait_until(lambda: not zk.get_children(path))
    wait_until(lambda: [] == of_zkcoord())


def test_close_of_a_coordinator_that_was_never_used(make_coordinator: MakeCoordinator) -> None:
    coordinator = make_coordinator("zk1.invalid:2181")
    coordinator.close()
    assert coordinator.is_closed
    assert coordinator.session_id is None


def test_close_from_an_on_lost_callback(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    other = ZkLock(f"{path}-2", client=coordinator).acquire()
    is_closed = threading.Event()

    def close(lost: Grant, reason: str) -> None:
        coordinator.close()
        is_closed.set()

    grant.on_lost(close)
    zk.delete(f"{path}/{grant.name}")

    assert is_closed.wait(PATIENCE_S)
    assert ("deleted", "closed") == (loss(grant), loss(other))
    assert [] == zk.get_children(f"{path}-2")
    wait_until(lambda: [] == of_zkcoord())


@pytest.mark.parametrize("kind", ["listener", "watch"])
def test_close_from_a_kazoo_callback_of_a_borrowed_client(
    make_client: MakeClient, make_coordinator: MakeCoordinator, zk: KazooClient, path: str, kind: str
) -> None:
    user = make_client(timeout=4.0)
    coordinator = make_coordinator(kazoo=user)
    grant = ZkLock(path, client=coordinator).acquire()
    took: list[float] = []

    def close(event: object) -> None:
        if not took:
            began = time.monotonic()
            coordinator.close()
            took.append(time.monotonic() - began)

    if kind == "watch":
        user.get(path, close)
        zk.set(path, b"")
    else:
        user.add_listener(close)
        user._connection._socket.shutdown(2)

    wait_until(lambda: took)
    assert took[0] < 1.0  # it must not wait there for what that thread would have to deliver
    assert "closed" == loss(grant)
    wait_until(lambda: user.connected)
    wait_until(lambda: not zk.get_children(path), timeout=4.0 + PATIENCE_S)
    wait_until(lambda: [] == of_zkcoord())


def test_close_of_a_borrowed_client_without_a_connection_cleans_up_when_it_is_back(
    make_client: MakeClient, zk: KazooClient, proxy: FaultProxy, path: str
) -> None:
    """The user's session lives on, and would keep our members for as long."""
    user = make_client(
        hosts=proxy.hosts, connection_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.1)
    )
    coordinator = Coordinator(kazoo=user)
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire()
    listeners = len(user.state_listeners)
    proxy.cut()
    wait_until(lambda: not user.connected)
    began = time.monotonic()

    coordinator.close()

    assert time.monotonic() - began < 1.0
    assert "closed" == loss(grant)
    proxy.restore()
    wait_until(lambda: not zk.get_children(path))
    assert user.connected
    wait_until(lambda: listeners == len(user.state_listeners) + 1)
    wait_until(lambda: [] == of_zkcoord())
    with ZkLock(path, client=user) as again:
        assert again.token > grant.token
    coordinator_for(user).close()


def test_close_of_a_borrowed_client_never_breaks_its_connection_loop(
    make_client: MakeClient, root: str
) -> None:
    """Whatever the user has under way meanwhile is answered, on the same connection."""
    user = make_client(timeout=4.0)
    lost: list[str] = []
    user.add_listener(lost.append)
    is_over = threading.Event()

    def use() -> int:
        count = 0
        while not is_over.is_set():
            for answer in [user.exists_async("/") for _ in range(20)]:
                answer.get(timeout=PATIENCE_S)
                count += 1
        return count

    using = in_thread(use)
    coordinator = Coordinator(kazoo=user, tick_time=0.1)
    for _ in range(10):
        grants = [ZkLock(f"{root}/lock-{each}", client=coordinator).acquire() for each in range(5)]
        coordinator.close()
        assert ["closed"] * 5 == [loss(grant) for grant in grants]
        coordinator = Coordinator(kazoo=user, tick_time=0.1)
    coordinator.close()
    is_over.set()

    assert using.result(PATIENCE_S) > 0
    assert [] == lost


def test_close_from_a_watch_callback_of_its_own_client(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    is_closed = threading.Event()

    def close(event: WatchedEvent) -> None:
        coordinator.close()
        is_closed.set()

    coordinator.client.get(path, close)
    zk.set(path, b"")

    assert is_closed.wait(PATIENCE_S)
    assert "closed" == loss(grant)
    wait_until(lambda: not zk.get_children(path))


def test_context_manager_closes(hosts: str, zk: KazooClient, path: str) -> None:
    with Coordinator(hosts) as coordinator:
        grant = ZkLock(path, client=coordinator).acquire()
    assert coordinator.is_closed
    assert Status.LOST is grant.status
    assert [] == zk.get_children(path)
    with pytest.raises(ConfigError, match="closed"), coordinator:
        ZkLock(path, client=coordinator).acquire()


def test_close_races_with_acquires(make_coordinator: MakeCoordinator, zk: KazooClient, path: str) -> None:
    """Whoever comes in between is granted, cancelled or refused, and leaves nothing behind."""
    for _ in range(10):
        coordinator = make_coordinator()
        lock = ZkLock(path, client=coordinator)
        lock.acquire().release()
        is_over = threading.Event()

        def churn(lock: ZkLock = lock, is_over: threading.Event = is_over) -> type[Exception] | None:
            while not is_over.is_set():
                try:
                    lock.acquire(timeout=PATIENCE_S).release()
                except (AcquireCancelledError, ConfigError) as error:
                    return type(error)
            return None

        churning = [in_thread(churn) for _ in range(4)]
        began = time.monotonic()
        coordinator.close()
        for one in churning:
            assert one.result(PATIENCE_S) in (AcquireCancelledError, ConfigError)
        assert time.monotonic() - began < 5.0 + ROOM_S
        wait_until(lambda: not zk.get_children(path), timeout=2.0)


# --- threads


def test_threads_stay_fixed_whatever_the_number_of_locks(
    coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/first", client=coordinator)
    lock.acquire().release()
    before = threading.active_count()
    grants = [ZkLock(f"{root}/lock-{number}", client=coordinator).acquire() for number in range(200)]
    calls: list[str] = []
    for grant in grants:
        grant.on_lost(lambda lost, reason: calls.append(reason))
    assert 1 == len(of_zkcoord())
    for grant in grants[:50]:
        zk.delete(f"{grant.path}/{grant.name}")
    wait_until(lambda: 50 == len(calls))

    assert before + 2 == threading.active_count()
    names = sorted(of_zkcoord())
    assert 3 == len(names)
    assert ["callback-1", "callback-2", "guard"] == sorted(name.split("-", 2)[2] for name in names)
    coordinator.close()
    wait_until(lambda: [] == of_zkcoord())
    assert ["closed"] * 150 == calls[50:]


def test_one_session_serves_all_locks(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    grants = [ZkLock(f"{root}/lock-{number}", client=coordinator).acquire() for number in range(20)]
    owners = set()
    for grant in grants:
        stat = zk.exists(f"{grant.path}/{grant.name}")
        assert stat is not None
        owners.add(stat.ephemeralOwner)
        grant.release()
    assert {coordinator.session_id} == owners


def test_nothing_is_connected_before_the_first_use(make_coordinator: MakeCoordinator, path: str) -> None:
    coordinator = make_coordinator()
    ZkLock(path, client=coordinator)
    assert (None, None) == (coordinator.session_id, coordinator.session_timeout)
    assert [] == of_zkcoord()


def test_callback_that_blocks_or_fails_does_not_hold_up_the_others(
    coordinator: Coordinator, zk: KazooClient, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()
    told: list[str] = []

    def fail(lost: Grant, reason: str) -> None:
        raise ZeroDivisionError

    callbacks: list[Callable[[Grant, str], object]] = [
        lambda lost, reason: go_on.wait(PATIENCE_S),
        fail,
        lambda lost, reason: told.append(reason),
    ]
    for number, callback in enumerate(callbacks):
        grant = ZkLock(f"{root}/lock-{number}", client=coordinator).acquire()
        grant.on_lost(callback)
        zk.delete(f"{grant.path}/{grant.name}")
        wait_until(lambda grant=grant: Status.LOST is grant.status)

    wait_until(lambda: told)

    assert "ZeroDivisionError" in caplog.text
    go_on.set()


# --- starting


@pytest.mark.parametrize("round_", range(10))
def test_many_threads_may_be_the_first(make_coordinator: MakeCoordinator, root: str, round_: int) -> None:
    """kazoo hangs in a second start(), so exactly one of those who come together may start it."""
    coordinator = make_coordinator()
    gate = threading.Barrier(8)

    def first(number: int) -> bool:
        gate.wait(PATIENCE_S)
        lock = ZkLock(f"{root}/{round_}-{number}", client=coordinator, timeout=PATIENCE_S)
        return lock.acquire().release()

    results = [in_thread(lambda number=number: first(number)) for number in range(8)]
    assert [True] * 8 == [result.result(PATIENCE_S) for result in results]


def test_coordinator_that_is_dropped_warns_and_ends_its_session_and_threads(hosts: str, root: str) -> None:
    before = threading.active_count()

    def use_and_drop() -> None:
        coordinator = Coordinator(hosts, session_timeout=6.0)
        with ZkLock(f"{root}/lock", client=coordinator, timeout=PATIENCE_S):
            pass
        del coordinator
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"dropped without close\(\): its session is ended"):
        use_and_drop()

    wait_until(lambda: threading.active_count() <= before)
