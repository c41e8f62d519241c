"""Users' callbacks can block, raise and acquire; they delay nothing and break nothing."""

from __future__ import annotations

import sys
import threading

import pytest
from kazoo.client import KazooClient

from tests.conftest import MakeClient
from tests.fault.conftest import SESSION_S, MakeCoordinator
from tests.support.faults import ROOM_S, Background, add_member, end_session, members, timed
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import PATIENCE_S, wait_until
from zkcoord import ConfigError, ConnectionLostError, Coordinator, Grant, GrantLostError, ZkLock

pytestmark = pytest.mark.fronts("threads", "asyncio")


@pytest.mark.fronts("threads", "asyncio", slow=True)
def test_callbacks_that_block_delay_no_loss(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    """More of them than there are threads for callbacks."""
    let_go = threading.Event()
    entered = threading.Semaphore(0)

    def block(grant: Grant, reason: str) -> None:
        entered.release()
        let_go.wait(PATIENCE_S)

    locks = [ZkLock(f"{root}/lock-{number}", client=proxied) for number in range(6)]
    grants = [lock.acquire(timeout=10.0) for lock in locks]
    for grant in grants[:4]:
        grant.on_lost(block)
    for grant in grants[:2]:
        zk.delete(f"{grant.path}/{grant.name}")
    assert entered.acquire(timeout=PATIENCE_S)
    assert entered.acquire(timeout=PATIENCE_S)

    zk.delete(f"{grants[2].path}/{grants[2].name}")
    assert grants[2].lost.wait(SESSION_S / 3)
    assert timed(locks[2].acquire(timeout=5.0).release)[0] <= ROOM_S
    left = grants[5].remaining()
    proxy.black_hole()
    assert grants[5].lost.wait(left + ROOM_S)
    assert {"LOST"} == {grant.status for grant in grants}

    proxy.restore()
    let_go.set()
    for _ in range(2):
        assert entered.acquire(timeout=PATIENCE_S)


def test_callbacks_that_raise_break_nothing(direct: Coordinator, hosts: str, root: str) -> None:
    told: list[str] = []

    def fail(grant: Grant, reason: str) -> None:
        told.append(reason)
        raise RuntimeError("the user's own mistake")

    lock = ZkLock(f"{root}/lock", client=direct, timeout=10.0)
    for round_ in range(1, 4):
        grant = lock.acquire()
        for _ in range(3):
            grant.on_lost(fail)
        end_session(direct.client, hosts)
        assert grant.lost.wait(2.0)
        wait_until(lambda count=3 * round_: len(told) == count)
    grant = lock.acquire()
    grant.on_lost(lambda grant, reason: told.append("after"))
    end_session(direct.client, hosts)
    wait_until(lambda: told[-1] == "after")


def test_callbacks_that_end_the_process_in_vain_break_nothing(
    direct: Coordinator, hosts: str, root: str
) -> None:
    """``sys.exit`` in a callback ends no process, and must not end the thread that calls the others."""
    locks = [ZkLock(f"{root}/lock-{number}", client=direct) for number in range(4)]
    grants = [lock.acquire(timeout=10.0) for lock in locks]
    for grant in grants:
        grant.on_lost(lambda grant, reason: sys.exit(1))
    end_session(direct.client, hosts)
    for grant in grants:
        assert grant.lost.wait(2.0)

    told = threading.Event()
    grants[0].on_lost(lambda grant, reason: told.set())

    assert told.wait(PATIENCE_S)


@pytest.mark.fronts("threads", "asyncio", slow=True)
def test_callbacks_that_wait_for_other_locks_delay_no_loss(
    proxied: Coordinator, proxy: FaultProxy, direct: Coordinator, zk: KazooClient, root: str
) -> None:
    """Both threads for callbacks are taken; the locks they wait for come only later."""
    others = [ZkLock(f"{root}/other-{number}", client=direct).acquire(timeout=10.0) for number in range(2)]
    got: list[Grant] = []

    def acquire(number: int) -> None:
        got.append(ZkLock(f"{root}/other-{number}", client=proxied).acquire(timeout=30.0))

    grants = [ZkLock(f"{root}/lock-{number}", client=proxied).acquire(timeout=10.0) for number in range(4)]
    for number, grant in enumerate(grants[:2]):
        grant.on_lost(lambda grant, reason, number=number: acquire(number))
        zk.delete(f"{grant.path}/{grant.name}")
    for other in others:
        wait_until(lambda path=other.path: len(members(zk, path)) == 2)

    zk.delete(f"{grants[2].path}/{grants[2].name}")
    assert grants[2].lost.wait(SESSION_S / 3)
    left = grants[3].remaining()
    proxy.black_hole()
    assert grants[3].lost.wait(left + ROOM_S)

    proxy.restore()
    for other in others:
        other.release()
    wait_until(lambda: len(got) == 2)
    for grant in got:
        assert grant.release()


@pytest.mark.parametrize("kind", ["block", "raise", "acquire"])
def test_callbacks_that_are_asked_back_delay_no_loss_either(
    proxied: Coordinator, direct: Coordinator, zk: KazooClient, root: str, kind: str
) -> None:
    let_go = threading.Event()
    entered = threading.Semaphore(0)

    def asked(grant: Grant) -> None:
        entered.release()
        if kind == "block":
            let_go.wait(PATIENCE_S)
        elif kind == "raise":
            raise RuntimeError("the user's own mistake")
        else:
            ZkLock(f"{root}/other", client=proxied).acquire(timeout=10.0).release()

    grants = [ZkLock(f"{root}/lock-{number}", client=proxied).acquire(timeout=10.0) for number in range(3)]
    for grant in grants:
        grant.on_revoke(asked)
    for grant in grants[:2]:
        ZkLock(grant.path, client=direct).revoke()
        assert entered.acquire(timeout=PATIENCE_S)

    zk.delete(f"{grants[2].path}/{grants[2].name}")

    assert grants[2].lost.wait(SESSION_S / 3)
    assert ["HELD", "HELD", "LOST"] == [grant.status for grant in grants]
    let_go.set()
    for grant in grants[:2]:
        assert grant.release()


def test_close_keeps_its_deadline_while_callbacks_block(
    make_coordinator: MakeCoordinator, zk: KazooClient, root: str
) -> None:
    coordinator = make_coordinator()
    let_go, ended = threading.Event(), threading.Semaphore(0)
    grants = [
        ZkLock(f"{root}/lock-{number}", client=coordinator).acquire(timeout=10.0) for number in range(4)
    ]
    for grant in grants:
        grant.on_lost(lambda grant, reason: (let_go.wait(PATIENCE_S), ended.release()))

    took, _ = timed(lambda: coordinator.close(timeout=1.0))

    assert took <= 1.0 + ROOM_S
    assert {"LOST"} == {grant.status for grant in grants}
    assert not any(members(zk, grant.path) for grant in grants)
    let_go.set()
    for _ in grants:
        assert ended.acquire(timeout=PATIENCE_S)


def test_callbacks_that_acquire_get_their_locks(
    direct: Coordinator, hosts: str, zk: KazooClient, root: str
) -> None:
    """The natural reaction to a loss: acquire anew, in the callback."""
    again: list[Grant] = []

    def reacquire(grant: Grant, reason: str) -> None:
        again.append(ZkLock(grant.path, client=direct).acquire(timeout=10.0))

    grants = [ZkLock(f"{root}/lock-{number}", client=direct).acquire(timeout=10.0) for number in range(8)]
    for grant in grants:
        grant.on_lost(reacquire)

    end_session(direct.client, hosts)

    wait_until(lambda: len(again) == len(grants))
    for grant in again:
        assert [grant.name] == members(zk, grant.path)
        assert grant.release()


def test_callback_for_a_grant_that_is_lost_already_runs_too(
    direct: Coordinator, hosts: str, root: str
) -> None:
    grant = ZkLock(f"{root}/lock", client=direct).acquire(timeout=10.0)
    end_session(direct.client, hosts)
    assert grant.lost.wait(2.0)
    told: list[str] = []
    grant.on_lost(lambda grant, reason: told.append(reason))
    wait_until(lambda: told)


def test_callback_taken_back_or_released_before_the_loss_is_not_told(
    direct: Coordinator, hosts: str, root: str
) -> None:
    told: list[str] = []
    kept = ZkLock(f"{root}/kept", client=direct).acquire(timeout=10.0)
    kept.on_lost(lambda grant, reason: told.append("taken back"))()
    released = ZkLock(f"{root}/released", client=direct).acquire(timeout=10.0)
    released.on_lost(lambda grant, reason: told.append("released"))
    released.release()
    kept.on_lost(lambda grant, reason: told.append("kept"))

    end_session(direct.client, hosts)

    wait_until(lambda: told)
    assert ["kept"] == told


@pytest.mark.fronts("threads")
@pytest.mark.parametrize("where", ["watch", "listener", "completion"])
def test_acquire_on_a_thread_of_kazoo_is_refused(
    make_client: MakeClient, make_coordinator: MakeCoordinator, zk: KazooClient, root: str, where: str
) -> None:
    """It would wait for an answer that only its own thread could deliver."""
    client = make_client(timeout=SESSION_S)
    lock = ZkLock(f"{root}/lock", client=make_coordinator(kazoo=client))
    tried: list[Background[Grant] | BaseException] = []

    def acquire(*_: object) -> None:
        try:
            lock.acquire(timeout=5.0)
        except Exception as error:
            tried.append(error)

    if where == "watch":
        zk.ensure_path(f"{root}/watched")
        client.get(f"{root}/watched", watch=acquire)
        zk.set(f"{root}/watched", b"now")
    elif where == "completion":
        client.get_async("/").rawlink(acquire)
    else:
        client.add_listener(acquire)
        client._connection._socket.shutdown(2)

    wait_until(lambda: tried, timeout=4.0)
    assert isinstance(tried[0], ConfigError)
    if where == "listener":
        client.remove_listener(acquire)
    assert lock.acquire(timeout=10.0).release()


# --- kazoo's own thread dies


def kill_connection_thread(client: KazooClient, proxy: FaultProxy) -> None:
    """An error code that kazoo does not know ends its connection thread."""
    thread = client._connection._connection_routine
    proxy.corrupt_reply(Op.EXISTS)
    client.exists_async("/")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it is kazoo's to die of
def test_death_of_kazoos_thread_loses_the_grants_and_the_next_acquire_starts_anew(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    for _ in range(2):
        grant = lock.acquire(timeout=10.0)
        session = proxied.session_id

        kill_connection_thread(proxied.client, proxy)

        assert grant.lost.wait(2.0)
        with pytest.raises(GrantLostError):
            grant.check()
        with pytest.raises(GrantLostError):
            grant.verify(timeout=1.0)
        again = lock.acquire(timeout=4 * SESSION_S)
        assert again.token > grant.token
        assert session != proxied.session_id
        assert [again.name] == members(zk, lock.path)
        assert again.release()


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it is kazoo's to die of
def test_death_of_kazoos_thread_does_not_strand_a_waiter(
    proxied: Coordinator, proxy: FaultProxy, direct: Coordinator, zk: KazooClient, root: str
) -> None:
    ahead = ZkLock(f"{root}/lock", client=direct).acquire(timeout=10.0)
    lock = ZkLock(f"{root}/lock", client=proxied)
    acquiring = Background(lambda: lock.acquire(timeout=4 * SESSION_S))
    wait_until(lambda: len(members(zk, lock.path)) == 2)

    kill_connection_thread(proxied.client, proxy)

    ahead.release()
    with acquiring.result(3 * SESSION_S) as grant:
        wait_until(lambda: [grant.name] == members(zk, lock.path))


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it is kazoo's to die of
@pytest.mark.parametrize(
    "opcode", [Op.CREATE2, Op.GET_CHILDREN, Op.GET_DATA, Op.MULTI, Op.DELETE], ids=lambda opcode: opcode.name
)
def test_unknown_error_code_in_answer_to_any_request_is_got_over(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str, opcode: Op
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    lock.acquire(timeout=10.0).release()
    session = proxied.session_id
    thread = proxied.client._connection._connection_routine
    proxy.corrupt_reply(opcode)

    grant = lock.acquire(timeout=4 * SESSION_S)
    if opcode in (Op.GET_DATA, Op.MULTI):  # a hold's own watch and heartbeat
        assert grant.lost.wait(2.0)
    grant.release()

    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with lock.acquire(timeout=4 * SESSION_S) as again:
        assert again.token > grant.token or session != grant._hold.session
        assert [again.name] == members(zk, lock.path)
    assert session != proxied.session_id


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it is kazoo's to die of
def test_death_of_a_borrowed_clients_thread_is_a_typed_error_until_its_user_starts_it(
    make_client: MakeClient, make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = make_client(hosts=proxy.hosts, timeout=SESSION_S)
    coordinator = make_coordinator(kazoo=client)
    lock = ZkLock(f"{root}/lock", client=coordinator)
    grant = lock.acquire(timeout=10.0)
    busy = ZkLock(f"{root}/busy", client=coordinator)
    add_member(zk, busy.path)
    waiting = Background(lambda: busy.acquire(timeout=30.0))
    wait_until(lambda: len(members(zk, busy.path)) == 2)

    kill_connection_thread(client, proxy)

    assert grant.lost.wait(2.0)
    with pytest.raises(ConnectionLostError):
        waiting.result(2.0)
    with pytest.raises(ConnectionLostError):
        lock.acquire(timeout=10.0)
    client.start(
        timeout=20
    )  # `restart` leaves its farewell in kazoo's queue, which then ends the new session
    again = lock.acquire(timeout=4 * SESSION_S)
    assert again.token > grant.token
    assert again.release()
