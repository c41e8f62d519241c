"""kazoo, unmodified, and zkcoord's own lock, on both servers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, LockTimeout, NoAuthError, RolledBackError, RuntimeInconsistency
from kazoo.security import make_digest_acl

from tests.support.waiting import in_thread, wait_until
from zkcoord import Coordinator, ZkLock

pytestmark = pytest.mark.timeout(60)
WAIT_S = 20.0

Make = Callable[..., KazooClient]


@pytest.fixture
def make_kazoo(server: Any) -> Iterator[Make]:
    clients: list[KazooClient] = []

    def make(**arguments: Any) -> KazooClient:
        client = KazooClient(server.hosts, timeout=10.0, **arguments)
        clients.append(client)
        client.start(WAIT_S)
        return client

    yield make
    for client in clients:
        client.stop()
        client.close()


@pytest.fixture
def zk(make_kazoo: Make) -> KazooClient:
    return make_kazoo()


@pytest.fixture
def path(zk: KazooClient) -> str:
    return f"/kazoo-{uuid.uuid4().hex[:8]}"


def test_lock_passes_on(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    first, second = zk.Lock(path, "one"), make_kazoo().Lock(path, "two")
    first.acquire()
    waiting = in_thread(second.acquire)
    wait_until(lambda: ["one", "two"] == first.contenders())
    with pytest.raises(LockTimeout):
        zk.Lock(path, "three").acquire(timeout=0.1)
    first.release()

    assert waiting.result(WAIT_S)
    second.release()


def test_read_locks_share_and_keep_writers_out(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    readers = [zk.ReadLock(path), make_kazoo().ReadLock(path)]
    for reader in readers:
        assert reader.acquire(timeout=WAIT_S)
    writer = zk.WriteLock(path)
    with pytest.raises(LockTimeout):
        writer.acquire(timeout=0.1)
    for reader in readers:
        reader.release()

    assert writer.acquire(timeout=WAIT_S)


def test_semaphore_has_so_many_leases(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    holders = [client.Semaphore(path, max_leases=2) for client in (zk, make_kazoo())]
    for holder in holders:
        assert holder.acquire(timeout=WAIT_S)
    third = zk.Semaphore(path, max_leases=2)
    waiting = in_thread(third.acquire, True, WAIT_S)
    holders[0].release()

    assert waiting.result(WAIT_S)


def test_election_runs_its_function(zk: KazooClient, path: str) -> None:
    elected = threading.Event()
    zk.Election(path, "me").run(elected.set)

    assert elected.is_set()


def test_barrier_opens(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    barrier = zk.Barrier(path)
    barrier.create()
    waiting = in_thread(make_kazoo().Barrier(path).wait, WAIT_S)
    barrier.remove()

    assert waiting.result(WAIT_S)


def test_double_barrier_waits_for_all(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    barriers = [client.DoubleBarrier(path, 2) for client in (zk, make_kazoo())]
    for step in ("enter", "leave"):
        both = [in_thread(getattr(barrier, step)) for barrier in barriers]
        for one in both:
            one.result(WAIT_S)


def test_queues_keep_their_order(zk: KazooClient, path: str) -> None:
    queue, locking = zk.Queue(path), zk.LockingQueue(f"{path}-locking")
    for entry in (b"1", b"2"):
        queue.put(entry)
    queue.put(b"0", priority=10)
    locking.put_all([b"a", b"b"])

    assert [b"0", b"1", b"2"] == [queue.get() for _ in range(3)]
    assert b"a" == locking.get(timeout=WAIT_S)
    assert locking.consume()


def test_counter_and_party(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    counters = [client.Counter(path) for client in (zk, make_kazoo())]
    counters[0] += 2
    counters[1] += 3
    party = zk.Party(f"{path}-party", "me")
    party.join()

    assert 5 == counters[0].value
    assert ["me"] == list(party)


def test_watchers_follow(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    zk.create(path, b"0")
    data: list[bytes | None] = []
    children: list[list[str]] = []
    watcher = make_kazoo()
    watcher.DataWatch(path, lambda value, stat: data.append(value))
    watcher.ChildrenWatch(path, lambda names: children.append(sorted(names)))
    zk.set(path, b"1")
    wait_until(lambda: b"1" in data)
    zk.create(f"{path}/a")
    wait_until(lambda: ["a"] in children)
    zk.delete(path, recursive=True)

    wait_until(lambda: data[-1] is None)
    assert [b"0", b"1"] == data[:2]


def test_tree_cache_sees_the_tree(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    from kazoo.recipe.cache import TreeCache

    zk.create(f"{path}/a/b", b"1", makepath=True)
    cache = TreeCache(make_kazoo(), path)
    cache.start()
    wait_until(lambda: cache.get_data(f"{path}/a/b"))
    zk.create(f"{path}/a/c", b"2")

    wait_until(lambda: cache.get_data(f"{path}/a/c"))
    assert {"b", "c"} == set(cache.get_children(f"{path}/a"))
    cache.close()


def test_transactions(zk: KazooClient, path: str) -> None:
    good = zk.transaction()
    good.create(path, b"1")
    good.set_data(path, b"2")
    good.check(path, version=1)
    results = good.commit()
    bad = zk.transaction()
    bad.create(f"{path}/a")
    bad.check(path, version=7)
    bad.delete(path)
    refused = bad.commit()

    assert [path, 1, True] == [results[0], results[1].version, results[2]]
    assert [RolledBackError, BadVersionError, RuntimeInconsistency] == [type(result) for result in refused]
    assert zk.exists(f"{path}/a") is None


def test_digest_auth(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    owner = make_kazoo(auth_data=[("digest", "user:password")])
    owner.create(path, b"secret", acl=[make_digest_acl("user", "password", all=True)])
    with pytest.raises(NoAuthError):
        zk.get(path)
    zk.add_auth("digest", "user:password")

    assert b"secret" == zk.get(path)[0]


def test_client_survives_the_loss_of_its_connection(zk: KazooClient, make_kazoo: Make, path: str) -> None:
    zk.create(path, ephemeral=True)
    fired = threading.Event()
    zk.get(path, watch=lambda event: fired.set())
    session = zk.client_id
    zk._connection._socket.shutdown(2)  # what a broken network does
    other = make_kazoo()
    wait_until(lambda: zk.connected and zk.exists(path))
    other.set(path, b"changed")

    assert fired.wait(WAIT_S)
    assert session == zk.client_id


def test_version_is_understood(zk: KazooClient) -> None:
    assert (3, 8) == zk.server_version()[:2]


def test_zk_lock_is_exclusive_and_fenced(server: Any, path: str) -> None:
    with Coordinator(hosts=server.hosts) as one, Coordinator(hosts=server.hosts) as two:
        with ZkLock(path, client=one) as grant:
            assert ZkLock(path, client=two).try_acquire() is None
            first = grant.token
        with ZkLock(path, client=two) as grant:
            assert grant.token > first
            grant.verify()
