"""Every public call keeps its one deadline, whatever the network and the queue do meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.fault.conftest import SESSION_S, MakeCoordinator
from tests.support.faults import ROOM_S, Background, add_member, is_verified, members, timed
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import wait_until
from tests.support.zookeeper import free_port
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    ConfigError,
    ConnectionLostError,
    Coordinator,
    Grant,
    GrantLostError,
    ZkLock,
)

pytestmark = pytest.mark.fronts("threads", "asyncio")

#: How long one try may wait for a silent server.
TRY_S = min(SESSION_S / 3, 1.0)

Break = Callable[[FaultProxy], None]
BREAKS = [
    pytest.param(FaultProxy.cut, id="cut"),
    pytest.param(FaultProxy.black_hole, id="black hole"),
    pytest.param(lambda proxy: proxy.black_hole(to_server=False), id="replies lost"),
]


def refused(call: Callable[[], object], error: type[Exception] | tuple[type[Exception], ...]) -> float:
    """Return how long a call took that must raise `error`."""

    def run() -> None:
        with pytest.raises(error):
            call()

    return timed(run)[0]


# --- acquire


def test_acquire_keeps_its_deadline_while_predecessors_come_and_go(
    proxied: Coordinator, zk: KazooClient, root: str
) -> None:
    path = f"{root}/lock"
    ahead = [add_member(zk, path) for _ in range(200)]
    is_over = threading.Event()

    def churn() -> int:
        left = 0
        while len(ahead) > 1 and not is_over.wait(0.02):
            zk.delete(ahead.pop())  # the nearest one: the waiter wakes up and finds the next
            left += 1
        return left

    lock = ZkLock(path, client=proxied)
    acquiring = Background(lambda: refused(lambda: lock.acquire(timeout=1.0), AcquireTimeoutError))
    wait_until(lambda: len(members(zk, path)) > len(ahead))
    churning = Background(churn)

    took = acquiring.result()
    is_over.set()

    assert churning.result() > 5
    assert 1.0 <= took <= 1.0 + ROOM_S
    wait_until(lambda: len(ahead) == len(members(zk, path)))


@pytest.mark.parametrize("break_it", BREAKS)
def test_acquire_keeps_its_deadline_while_disconnected(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, break_it: Break
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    break_it(proxy)

    took = refused(lambda: lock.acquire(timeout=0.6), AcquireTimeoutError)

    assert 0.6 <= took <= 0.6 + ROOM_S
    proxy.restore()
    with lock.acquire(timeout=10.0) as grant:
        wait_until(lambda: [grant.name] == members(zk, lock.path))


@pytest.mark.parametrize("break_it", BREAKS)
def test_acquire_keeps_its_deadline_when_the_connection_breaks_while_it_waits(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, break_it: Break
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    ahead = add_member(zk, lock.path)
    acquiring = Background(lambda: refused(lambda: lock.acquire(timeout=1.5), AcquireTimeoutError))
    wait_until(lambda: len(members(zk, lock.path)) == 2)

    break_it(proxy)

    assert 1.5 <= acquiring.result() <= 1.5 + ROOM_S
    proxy.restore()
    wait_until(lambda: [ahead.rpartition("/")[2]] == members(zk, lock.path))


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.parametrize("is_silent", [False, True], ids=["refused port", "silent port"])
def test_acquire_keeps_its_deadline_before_any_server_was_up(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, is_silent: bool
) -> None:
    proxy.black_hole()
    hosts = proxy.hosts if is_silent else f"127.0.0.1:{free_port()}"
    coordinator = make_coordinator(hosts=hosts)
    lock = ZkLock("/never", client=coordinator)

    assert 0.6 <= refused(lambda: lock.acquire(timeout=0.6), AcquireTimeoutError) <= 0.6 + ROOM_S
    assert refused(lock.try_acquire, ConnectionLostError) <= TRY_S + ROOM_S
    assert refused(lambda: lock.try_acquire(timeout=0.3), ConnectionLostError) <= 0.3 + ROOM_S
    assert refused(lambda: lock.queue(timeout=0.3), ConnectionLostError) <= 0.3 + ROOM_S
    assert timed(lambda: coordinator.close(timeout=0.5))[0] <= 0.5 + ROOM_S


def test_a_waiter_comes_to_life_when_the_server_does(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, root: str
) -> None:
    proxy.cut()
    lock = ZkLock(f"{root}/lock", client=make_coordinator(hosts=proxy.hosts))
    acquiring = Background(lambda: lock.acquire(timeout=20.0))
    refused(lambda: ZkLock(f"{root}/other", client=lock._client).acquire(timeout=0.3), AcquireTimeoutError)

    proxy.restore()

    assert acquiring.result(5.0).release()


# --- one try


def test_a_busy_try_takes_one_round_trip(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    round_trip = 0.4  # two of them would be more than one and the room
    lock = ZkLock(f"{root}/lock", client=proxied)
    ahead = add_member(zk, lock.path)
    proxy.delay(to_client=round_trip)

    first, no_grant = timed(lock.try_acquire)
    second, no_grant_again = timed(lock.try_acquire)  # it lists first now, and creates nothing

    proxy.delay()
    assert (None, None) == (no_grant, no_grant_again)
    assert first <= round_trip + ROOM_S
    assert second <= round_trip + ROOM_S
    wait_until(lambda: [ahead.rpartition("/")[2]] == members(zk, lock.path))


def test_a_try_that_is_known_to_be_disconnected_fails_at_once(
    proxied: Coordinator, proxy: FaultProxy, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    with lock as grant:
        proxy.cut()
        wait_until(lambda: grant.status != "HELD")
        assert refused(ZkLock(f"{root}/other", client=proxied).try_acquire, ConnectionLostError) <= ROOM_S
        proxy.restore()


@pytest.mark.parametrize("was_busy", [False, True], ids=["create first", "list first"])
@pytest.mark.parametrize("is_one_way", [False, True], ids=["black hole", "replies lost"])
def test_a_try_with_a_silent_peer_is_no_answer_and_not_busy(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, was_busy: bool, is_one_way: bool
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    ahead = add_member(zk, lock.path)
    if was_busy:
        assert lock.try_acquire() is None
        wait_until(lambda: len(members(zk, lock.path)) == 1)
    proxy.black_hole(to_server=not is_one_way)

    took = refused(lock.try_acquire, ConnectionLostError)

    assert TRY_S - 0.05 <= took <= TRY_S + ROOM_S
    proxy.restore()
    wait_until(lambda: [ahead.rpartition("/")[2]] == members(zk, lock.path))


# --- release, verify, close


@pytest.mark.parametrize("break_it", BREAKS)
def test_release_returns_in_time_and_the_node_goes_later(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, root: str, break_it: Break
) -> None:
    coordinator = make_coordinator(hosts=proxy.hosts, release_timeout=0.5)
    lock = ZkLock(f"{root}/lock", client=coordinator)
    grant = lock.acquire(timeout=10.0)
    break_it(proxy)

    took, ended = timed(grant.release)

    assert ended
    assert took <= 0.5 + ROOM_S
    assert "RELEASED" == grant.status
    proxy.restore()
    wait_until(lambda: [] == members(zk, lock.path), timeout=SESSION_S - 1.0)
    assert not grant.release()


def test_a_burst_of_releases_while_disconnected_is_all_worked_off(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    coordinator = make_coordinator(hosts=proxy.hosts, release_timeout=0.0)
    locks = [ZkLock(f"{root}/lock-{number}", client=coordinator) for number in range(300)]
    grants = [lock.acquire(timeout=10.0) for lock in locks]
    proxy.cut()
    for grant in grants:
        grant.release()

    proxy.restore()

    wait_until(lambda: not any(members(zk, lock.path) for lock in locks), timeout=SESSION_S - 1.0)


@pytest.mark.parametrize("break_it", BREAKS)
def test_verify_keeps_its_deadline(
    proxied: Coordinator, proxy: FaultProxy, root: str, break_it: Break
) -> None:
    with ZkLock(f"{root}/lock", client=proxied).acquire(timeout=10.0) as grant:
        grant.verify()
        break_it(proxy)

        assert refused(lambda: grant.verify(timeout=0.4), ConnectionLostError) <= 0.4 + ROOM_S

        proxy.restore()
        wait_until(lambda: is_verified(grant))


@pytest.mark.fronts("threads", "asyncio", slow=True)
def test_verify_without_a_limit_ends_with_the_connection_or_the_grant(
    proxied: Coordinator, proxy: FaultProxy, root: str
) -> None:
    grant = ZkLock(f"{root}/lock", client=proxied).acquire(timeout=10.0)
    proxy.black_hole()
    left = grant.remaining()

    took = refused(grant.verify, (ConnectionLostError, GrantLostError))

    assert took <= left + ROOM_S
    grant.release()


@pytest.mark.parametrize("break_it", BREAKS)
def test_close_keeps_its_deadline_with_grants_and_waiters(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, root: str, break_it: Break
) -> None:
    coordinator = make_coordinator(hosts=proxy.hosts)
    held = ZkLock(f"{root}/held", client=coordinator)
    grant = held.acquire(timeout=10.0)
    waiting = ZkLock(f"{root}/busy", client=coordinator)
    add_member(zk, waiting.path)
    pending = Background(waiting.acquire)
    wait_until(lambda: len(members(zk, waiting.path)) == 2)
    break_it(proxy)

    took, _ = timed(lambda: coordinator.close(timeout=0.5))

    assert took <= 0.5 + ROOM_S
    with pytest.raises(AcquireCancelledError) as ended:
        pending.result(1.0)
    assert "closed" == ended.value.reason
    with pytest.raises(GrantLostError, match="closed"):
        grant.check()
    proxy.restore()


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_an_acquire_that_waits_for_another_thread_of_its_owner_can_be_ended(
    make_coordinator: MakeCoordinator, zk: KazooClient, root: str, how: str
) -> None:
    coordinator = make_coordinator()
    lock = ZkLock(f"{root}/lock", client=coordinator, owner="job")
    add_member(zk, lock.path)
    pending = [Background(lock.acquire) for _ in range(3)]
    wait_until(lambda: len(lock._waiting) == 3)

    coordinator.close() if how == "close" else lock.cancel()

    for one in pending:
        with pytest.raises(AcquireCancelledError):
            one.result(1.0)


def test_held_up_delete_does_not_hold_up_others(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, root: str
) -> None:
    coordinator = make_coordinator(hosts=proxy.hosts, release_timeout=0.3)
    grant = ZkLock(f"{root}/lock", client=coordinator).acquire(timeout=10.0)
    with proxy.hold_reply(Op.DELETE):
        assert timed(grant.release)[0] <= 0.3 + ROOM_S
    assert ZkLock(f"{root}/lock", client=coordinator).acquire(timeout=5.0).release()


def test_verify_and_transaction_wait_for_a_connection_that_is_coming_back(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    zk.create(f"{root}/data", b"", makepath=True)
    with ZkLock(f"{root}/lock", client=proxied).acquire(timeout=10.0) as grant:
        for number in range(2):
            proxy.cut()
            wait_until(lambda: not proxied.session().requests.is_up)
            verifying = Background(lambda: grant.verify(timeout=SESSION_S))
            writing = Background(lambda: write(grant, f"{root}/data", SESSION_S))
            assert not verifying.is_done
            proxy.restore()

            verifying.result()
            writing.result()
            assert number + 1 == zk.get(f"{root}/data")[1].version


def write(grant: Grant, path: str, timeout: float) -> None:
    with grant.transaction(timeout=timeout) as tx:
        tx.set_data(path, b"x")


def test_verify_is_sent_again_when_its_answer_is_lost(
    proxied: Coordinator, proxy: FaultProxy, root: str
) -> None:
    with ZkLock(f"{root}/lock", client=proxied).acquire(timeout=10.0) as grant:
        proxy.drop_reply(Op.MULTI)
        grant.verify(timeout=SESSION_S)


def test_transaction_that_is_larger_than_servers_take_says_so(
    make_coordinator: MakeCoordinator, zk: KazooClient, root: str
) -> None:
    zk.create(f"{root}/data", b"", makepath=True)
    with ZkLock(f"{root}/lock", client=make_coordinator()).acquire(timeout=10.0) as grant:
        tx = grant.transaction(timeout=SESSION_S)
        for _ in range(3):
            tx.set_data(f"{root}/data", bytes(500_000))

        with pytest.raises(ConfigError, match=r"one request of 15\d{5} bytes; servers take"):
            tx.commit()

        grant.verify(timeout=SESSION_S)
    assert 0 == zk.get(f"{root}/data")[1].version
