"""Lost replies: whatever the server did without our hearing of it is found again, and nothing stays behind."""

from __future__ import annotations

from itertools import cycle, product

import pytest
from kazoo.client import KazooClient

from tests.fault.conftest import SESSION_S
from tests.support.faults import Background, add_member, end_session, members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import wait_until
from zkcoord import AcquireTimeoutError, ConnectionLostError, Coordinator, ZkLock

pytestmark = pytest.mark.fronts("threads", "asyncio")

#: Sooner than the session could take the nodes along: it was the janitor.
BY_JANITOR_S = SESSION_S / 2

REQUESTS = [
    pytest.param(Op.CREATE2, id="create"),
    pytest.param(Op.GET_CHILDREN, id="list"),
]


@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("opcode", REQUESTS)
@pytest.mark.parametrize("is_applied", [True, False], ids=["reply lost", "not sent"])
def test_acquire_goes_on_in_the_same_session(
    proxied: Coordinator,
    proxy: FaultProxy,
    zk: KazooClient,
    root: str,
    opcode: Op,
    times: int,
    is_applied: bool,
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    with lock.acquire(timeout=5.0) as before:
        pass
    session = proxied.session_id
    if is_applied:
        proxy.drop_reply(opcode, times)
    else:
        proxy.cut_before(opcode, times)

    with lock.acquire(timeout=10.0) as grant:
        assert session == proxied.session_id
        assert grant.token > before.token
        wait_until(lambda: [grant.name] == members(zk, lock.path), timeout=BY_JANITOR_S)
        grant.verify(timeout=5.0)
    wait_until(lambda: [] == members(zk, lock.path), timeout=BY_JANITOR_S)


def test_create_that_took_effect_keeps_its_place(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    ahead = add_member(zk, lock.path)
    proxy.drop_reply(Op.CREATE2)
    acquiring = Background(lambda: lock.acquire(timeout=20.0))
    wait_until(lambda: len(members(zk, lock.path)) == 2)
    name = members(zk, lock.path)[1]
    add_member(zk, lock.path)

    zk.delete(ahead)

    grant = acquiring.result()
    assert name == grant.name
    assert grant.token == zk.exists(f"{lock.path}/{name}").czxid
    assert grant.release()


@pytest.mark.parametrize("is_connected_again", [True, False], ids=["connected again", "still cut"])
def test_create_reply_lost_and_then_timeout(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, is_connected_again: bool
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    ahead = [add_member(zk, lock.path).rpartition("/")[2]]
    with proxy.hold_reply(Op.CREATE2) as hold:
        acquiring = Background(lambda: lock.acquire(timeout=1.0))
        assert hold.wait()
        assert 2 == len(members(zk, lock.path))
        hold.cut()
        if not is_connected_again:
            proxy.cut()
        with pytest.raises(AcquireTimeoutError):
            acquiring.result()
    if not is_connected_again:
        assert 2 == len(members(zk, lock.path))
    proxy.restore()

    wait_until(lambda: ahead == members(zk, lock.path), timeout=BY_JANITOR_S)


def test_create_reply_lost_in_a_black_hole_and_then_timeout(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    lock.acquire(timeout=5.0).release()  # its directory exists
    proxy.black_hole(to_server=False)
    with pytest.raises(AcquireTimeoutError):
        lock.acquire(timeout=0.5)
    assert 1 == len(members(zk, lock.path))
    with pytest.raises(ConnectionLostError):
        lock.try_acquire(timeout=0.5)

    proxy.restore()

    wait_until(lambda: [] == members(zk, lock.path), timeout=BY_JANITOR_S)


def test_late_create_is_cleaned_up_when_a_stall_ends(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    """The requests arrive after everybody has given up on them: the connection never broke."""
    lock = ZkLock(f"{root}/lock", client=proxied)
    lock.acquire(timeout=5.0).release()  # its directory exists
    for _ in range(3):
        proxy.black_hole()
        with pytest.raises(AcquireTimeoutError):
            lock.acquire(timeout=0.3)
        proxy.restore(deliver=True)
        with lock.acquire(timeout=5.0) as grant:
            wait_until(lambda: [grant.name] == members(zk, lock.path), timeout=BY_JANITOR_S)


@pytest.mark.parametrize("opcode", [Op.CREATE2, Op.GET_CHILDREN, Op.SYNC, Op.EXISTS])
def test_reply_lost_again_while_it_recovers(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, opcode: Op
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    proxy.drop_reply(Op.CREATE2)
    proxy.drop_reply(opcode, 2)

    with lock.acquire(timeout=10.0) as grant:
        wait_until(lambda: [grant.name] == members(zk, lock.path), timeout=BY_JANITOR_S)
    wait_until(lambda: [] == members(zk, lock.path), timeout=BY_JANITOR_S)
    proxy.clear()


@pytest.mark.parametrize("opcode", [Op.GET_CHILDREN, Op.SYNC, Op.DELETE])
def test_reply_lost_again_while_the_janitor_looks_for_it(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, opcode: Op
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    lock.acquire(timeout=5.0).release()  # its directory exists
    proxy.black_hole(to_server=False)
    with pytest.raises(AcquireTimeoutError):
        lock.acquire(timeout=0.3)
    proxy.drop_reply(opcode, 2)

    proxy.restore()

    wait_until(lambda: [] == members(zk, lock.path), timeout=BY_JANITOR_S)
    proxy.clear()


def test_session_ends_while_the_create_is_under_way(
    proxied: Coordinator, proxy: FaultProxy, hosts: str, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    for hold_it in (proxy.hold, proxy.hold_reply):
        with hold_it(Op.CREATE2) as hold:
            acquiring = Background(lambda: lock.acquire(timeout=10.0))
            assert hold.wait()
            end_session(proxied.client, hosts)
            hold.cut()
        with acquiring.result() as grant:
            wait_until(lambda: [grant.name] == members(zk, lock.path), timeout=BY_JANITOR_S)


@pytest.mark.parametrize("is_applied", [True, False], ids=["reply lost", "not sent"])
@pytest.mark.parametrize("times", [1, 2])
def test_release_whose_delete_gets_no_answer(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, is_applied: bool, times: int
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    grant = lock.acquire(timeout=5.0)
    if is_applied:
        proxy.drop_reply(Op.DELETE, times)
    else:
        proxy.cut_before(Op.DELETE, times)

    assert grant.release()

    wait_until(lambda: [] == members(zk, lock.path), timeout=BY_JANITOR_S)
    assert not grant.release()
    assert lock.acquire(timeout=5.0).release()


@pytest.mark.parametrize("times", [1, 2])
def test_heartbeat_without_an_answer_is_no_loss(
    proxied: Coordinator, proxy: FaultProxy, root: str, times: int
) -> None:
    with ZkLock(f"{root}/lock", client=proxied).acquire(timeout=5.0) as grant:
        proxy.drop_reply(Op.MULTI, times)
        seen = proxy.requests[Op.MULTI]
        assert proxy.wait_for_requests(Op.MULTI, seen + times + 1)

        wait_until(lambda: grant.status == "HELD")
        wait_until(lambda: grant.remaining() > SESSION_S / 2)
        assert not grant.lost.is_set()


@pytest.mark.parametrize("times", [1, 2])
def test_watch_whose_answer_is_lost_is_set_again(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, times: int
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    ahead = add_member(zk, lock.path)
    proxy.drop_reply(Op.GET_DATA, times)
    seen = proxy.requests[Op.GET_DATA]
    acquiring = Background(lambda: lock.acquire(timeout=20.0))
    assert proxy.wait_for_requests(Op.GET_DATA, seen + times + 1)

    zk.delete(ahead)

    with acquiring.result(5.0) as grant:
        assert [grant.name] == members(zk, lock.path)


def test_connection_that_breaks_all_the_time_leaves_nothing(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    """Whatever request each break hits."""
    path = f"{root}/lock"
    operations = (Op.CREATE2, Op.GET_CHILDREN, Op.DELETE, Op.GET_DATA, Op.MULTI, Op.SYNC, Op.EXISTS)

    def work() -> list[int]:
        lock = ZkLock(path, client=proxied)
        tokens = []
        for _ in range(6):
            with lock.acquire(timeout=60.0) as grant:
                tokens.append(grant.token)
        return tokens

    workers = [Background(work) for _ in range(3)]
    for begin, opcode in cycle(product((proxy.drop_reply, proxy.cut_before), operations)):
        if all(worker.is_done for worker in workers):
            break
        seen, accepted = proxy.requests.total(), proxy.accepted
        begin(opcode)
        proxy.wait_for_connections(accepted + 1, timeout=0.3)
        proxy.clear()
        wait_until(lambda seen=seen: proxy.requests.total() > seen + 10 or workers[0].is_done)
    tokens = [token for worker in workers for token in worker.result()]
    assert 18 == len(set(tokens))
    wait_until(lambda: [] == members(zk, path))
