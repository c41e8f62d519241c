"""What is used is given back: watches, file descriptors, threads, listeners, kazoo's tables, registry, guard."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.fault.conftest import MakeCoordinator
from tests.support.faults import Background, members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import wait_until
from tests.support.zookeeper import ZooKeeperServer
from zkcoord import AcquireTimeoutError, Coordinator, Grant, ZkLock

pytestmark = pytest.mark.fronts("threads", "asyncio")

#: Cycles in the everyday run; ``python -m tests.full cycles`` does ten thousand.
CYCLES = int(os.environ.get("ZKCOORD_CYCLES", "1500"))

WAITERS = 500


@dataclass(frozen=True)
class Use:
    """What one coordinator, its process and its server have in use."""

    watches: int
    descriptors: int
    threads: int
    listeners: int
    data_watchers: int
    child_watchers: int
    holds: int
    deletes: int


def in_use(coordinator: Coordinator, server: ZooKeeperServer) -> Use:
    client, session = coordinator.client, coordinator.session()
    return Use(
        watches=int(server.mntr()["zk_watch_count"]),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        threads=threading.active_count(),
        listeners=len(client.state_listeners),
        data_watchers=sum(map(len, client._data_watchers.values())),
        child_watchers=sum(map(len, client._child_watchers.values())),
        holds=len(coordinator.registry),
        deletes=len(session.janitor),
    )


@pytest.fixture
def quiet(own_zookeeper: ZooKeeperServer, make_coordinator: MakeCoordinator) -> Coordinator:
    """A coordinator that is alone on its server, and warm."""
    coordinator = make_coordinator(hosts=own_zookeeper.hosts)
    with ZkLock("/warm-up", client=coordinator, timeout=10.0) as grant:
        grant.on_lost(lambda *_: None)
    return coordinator


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.timeout(300)
def test_cycles_leave_everything_as_it_was(quiet: Coordinator, own_zookeeper: ZooKeeperServer) -> None:
    lock = ZkLock("/lock", client=quiet, timeout=10.0)
    before = in_use(quiet, own_zookeeper)
    for number in range(CYCLES):
        with lock as grant:
            if number % 500 == 0:
                # Old enough for a watch on its own member.
                wait_until(lambda: int(own_zookeeper.mntr()["zk_watch_count"]) > before.watches)
                assert grant.remaining() > 0
    wait_until(lambda: before == in_use(quiet, own_zookeeper))


@pytest.mark.fronts("threads", "asyncio", slow=True)
def test_timed_out_waits_leave_no_watch(quiet: Coordinator, own_zookeeper: ZooKeeperServer) -> None:
    lock = ZkLock("/lock", client=quiet)
    holder = KazooClient(own_zookeeper.hosts)
    holder.start(timeout=20)
    holder.create(
        "/lock/_c_00000000-0000-4000-8000-000000000000-lock-", ephemeral=True, sequence=True, makepath=True
    )
    before = in_use(quiet, own_zookeeper)
    for _ in range(100):
        with pytest.raises(AcquireTimeoutError):
            lock.acquire(timeout=0.02)
    wait_until(lambda: before == in_use(quiet, own_zookeeper))
    assert 1 == len(holder.get_children("/lock"))
    holder.stop()
    holder.close()


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.timeout(240)
def test_five_hundred_waiters_are_woken_one_by_one_by_a_fixed_number_of_threads(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    coordinator = make_coordinator(hosts=proxy.hosts, session_timeout=10.0)
    path = f"{root}/lock"
    holder = ZkLock(path, client=coordinator, timeout=10.0).acquire()
    zkcoords = [thread.name for thread in threading.enumerate() if thread.name.startswith("zkcoord-")]
    turns: list[int] = []

    def take_a_turn(number: int) -> int:
        with ZkLock(path, client=coordinator, timeout=120.0) as grant:
            turns.append(grant.token)
        return grant.token

    with ThreadPoolExecutor(WAITERS) as pool:
        tokens = [pool.submit(take_a_turn, number) for number in range(WAITERS)]
        wait_until(lambda: WAITERS + 1 == len(members(zk, path)), timeout=60.0)
        # Each waits for the one ahead, and its watch is in place when its answer has come.
        wait_until(lambda: proxy.requests[Op.GET_DATA] >= WAITERS, timeout=60.0)
        session = coordinator.session()
        wait_until(lambda: session.requests.oldest_sent() is None, timeout=60.0)
        assert zkcoords == [t.name for t in threading.enumerate() if t.name.startswith("zkcoord-")]
        proxy.reset_counts()

        holder.release()
        granted = sorted(token.result(120.0) for token in tokens)

    assert granted == turns  # in the order of asking
    # One for each hand-over; a hold that grew older than 50 ms has had a watch on its own member as well.
    assert WAITERS <= proxy.notifications <= WAITERS + WAITERS // 10
    assert [] == members(zk, path)


def test_watches_are_given_back_after_reconnects_too(
    proxied: Coordinator, proxy: FaultProxy, direct: Coordinator, zk: KazooClient, root: str
) -> None:
    path = f"{root}/lock"
    holder = ZkLock(path, client=direct, timeout=10.0).acquire()
    waiting: Background[Grant] = Background(ZkLock(path, client=proxied, timeout=30.0).acquire)
    wait_until(lambda: 2 == len(members(zk, path)))
    session = proxied.session()
    for _ in range(5):
        wait_until(lambda: 1 == len(session.watches))
        proxy.drop_connections()
        wait_until(lambda: not session.requests.is_up or 0 == len(session.watches))
        wait_until(lambda: session.requests.is_up)
    holder.release()
    waiting.result().release()
    wait_until(lambda: 0 == len(session.watches))
    wait_until(lambda: not any(proxied.client._data_watchers.values()))
