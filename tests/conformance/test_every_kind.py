"""What holds for every kind of lock alike, on both servers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import MakeCoordinator, RunScript
from tests.support.faults import end_session, members
from tests.support.fronts import Front
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    Coordinator,
    Grant,
    GrantLostError,
    NotHeldError,
    Status,
    ZkLock,
)

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio")]

#: Source of a lock that one owner holds alone, given `path` and `client`; its directories are in DIRECTORIES.
KINDS = {
    "exclusive": "ZkLock(path, client=client, **more)",
    "latch": "ZkLock(path, client=client, dialect='curator-latch', **more)",
    "kazoo": "ZkLock(path, client=client, dialect='kazoo', **more)",
    "write": "ZkReadWriteLock(path, client=client, **more).write",
    "kazoo write": "ZkReadWriteLock(path, client=client, dialect='kazoo', **more).write",
    "read": "ZkReadWriteLock(path, client=client, **more).read",
    "kazoo read": "ZkReadWriteLock(path, client=client, dialect='kazoo', **more).read",
    "semaphore": "ZkSemaphore(path, permits=1, client=client, **more)",
    "multi": "ZkMultiLock([path, path + '-2'], client=client, **more)",
    "mixed multi": "ZkMultiLock([ZkReadWriteLock(path).write, path + '-2', ZkReadWriteLock(path + '-3').read],"
    " client=client, **more)",
}
SHARED = ("read", "kazoo read")

Make = Callable[..., ZkLock]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind's name."""
    name: str = request.param
    return name


@pytest.fixture
def make(kind: str, path: str, front: Front) -> Make:
    """``make(client, **arguments)``: a lock of the kind, always on the same path."""

    def made(client: Coordinator | None, **more: object) -> ZkLock:
        lock: ZkLock = eval(KINDS[kind], {**front.locks, "path": path, "client": client, "more": more})
        return lock

    return made


@pytest.fixture
def block(kind: str, path: str, make_coordinator: MakeCoordinator, front: Front) -> Callable[[], Grant]:
    """Take what keeps a lock of the kind from being granted, through another client and as another owner."""
    source = KINDS[kind.replace("read", "write")] if kind in SHARED else KINDS[kind]
    lock: ZkLock = eval(
        source,
        {**front.locks, "path": path, "client": make_coordinator(), "more": {"owner": "somebody else"}},
    )
    return lock.acquire


def is_clean(zk: KazooClient, path: str) -> bool:
    return not any(members(zk, directory) for directory in (path, f"{path}-2", f"{path}-3"))


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


def test_with_holds_inside_and_leaves_nothing(
    make: Make, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = make(coordinator)
    with lock as grant:
        assert Status.HELD is grant.status
        assert [grant.name] == members(zk, path)
        grant.check()
        grant.verify()
        with grant.transaction() as tx:
            tx.create(f"{path}-result", b"x")
        assert b"x" == zk.get(f"{path}-result")[0]
        assert (grant.token,) == tuple(set(grant.tokens.values()))
    assert Status.RELEASED is grant.status
    assert is_clean(zk, path)
    with pytest.raises(KeyError), lock:
        raise KeyError("the body's own")
    assert is_clean(zk, path)


def test_queue_shows_holder_and_waiter(
    make: Make, block: Callable[[], Grant], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = make(coordinator, label="me")
    held = block()
    waiting = in_thread(lock.acquire)
    queued(zk, path, 2)

    here = [member for member in lock.queue() if member.path == path]
    assert [held.token, True, False] == [here[0].token, here[0].holds, here[1].holds]
    assert "me" == here[1].label
    held.release()
    waiting.result(PATIENCE_S).release()


def test_a_try_is_none_while_blocked_and_leaves_nothing(
    make: Make, block: Callable[[], Grant], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = make(coordinator)
    held = block()
    for timeout in (0, 0.2, 0):
        assert None is lock.try_acquire(timeout=timeout)
        wait_until(lambda: [held.name] == members(zk, path))
    held.release()
    grant = lock.try_acquire()
    assert grant is not None
    grant.release()
    assert is_clean(zk, path)


def test_a_timeout_says_who_is_in_the_way_and_leaves_nothing(
    make: Make, block: Callable[[], Grant], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    held = block()
    with pytest.raises(AcquireTimeoutError) as caught:
        make(coordinator).acquire(timeout=0.3)
    assert caught.value.position is not None
    assert held.name in str(caught.value.holder)
    wait_until(lambda: [held.name] == members(zk, path))
    held.release()


def test_cancel_ends_a_waiter_and_leaves_nothing(
    make: Make, block: Callable[[], Grant], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    held = block()
    lock = make(coordinator)
    waiting = in_thread(lock.acquire)
    queued(zk, path, 2)
    lock.cancel()
    with pytest.raises(AcquireCancelledError):
        waiting.result(PATIENCE_S)
    wait_until(lambda: [held.name] == members(zk, path))
    held.release()


def test_close_ends_waiters_and_holds(
    make: Make, block: Callable[[], Grant], make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    held = block()
    closing = make_coordinator()
    waiting = in_thread(make(closing).acquire)
    queued(zk, path, 2)
    closing.close()
    with pytest.raises(AcquireCancelledError):
        waiting.result(PATIENCE_S)
    held.release()
    wait_until(lambda: is_clean(zk, path))

    closing = make_coordinator()
    grant = make(closing).acquire()
    closing.close()
    assert Status.LOST is grant.status
    with pytest.raises(GrantLostError, match="closed"):
        grant.check()
    wait_until(lambda: is_clean(zk, path))


def test_a_session_that_ends_takes_the_grant_along(
    make: Make, coordinator: Coordinator, hosts: str, zk: KazooClient, path: str
) -> None:
    lock = make(coordinator)
    grant = lock.acquire(timeout=10.0)
    told: list[str] = []
    grant.on_lost(lambda grant, reason: told.append(reason))
    end_session(coordinator.client, hosts)
    assert grant.lost.wait(PATIENCE_S)
    wait_until(lambda: told)
    assert not grant.release()
    with lock.acquire(timeout=10.0) as again:
        assert again.token > grant.token
    assert is_clean(zk, path)


def test_a_waiter_whose_session_ends_queues_again(
    make: Make, block: Callable[[], Grant], coordinator: Coordinator, hosts: str, zk: KazooClient, path: str
) -> None:
    held = block()
    waiting = in_thread(make(coordinator).acquire)
    queued(zk, path, 2)
    before = members(zk, path)[1]
    end_session(coordinator.client, hosts)
    wait_until(lambda: len(members(zk, path)) == 2 and before not in members(zk, path))
    held.release()
    waiting.result(PATIENCE_S).release()
    assert is_clean(zk, path)


def test_a_members_deletion_is_told_and_frees_everything(
    make: Make, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = make(coordinator).acquire()
    zk.delete(f"{path}/{grant.name}")
    assert grant.lost.wait(PATIENCE_S)
    with pytest.raises(GrantLostError, match="deleted"):
        grant.verify()
    wait_until(lambda: is_clean(zk, path))


def test_a_waiting_members_deletion_makes_it_queue_again(
    make: Make, block: Callable[[], Grant], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    held = block()
    waiting = in_thread(make(coordinator).acquire)
    queued(zk, path, 2)
    mine = members(zk, path)[1]
    zk.delete(f"{path}/{mine}")
    held.release()
    grant = waiting.result(PATIENCE_S)
    assert mine != grant.name
    grant.release()
    assert is_clean(zk, path)


def test_threads_take_turns_and_all_get_their_turn(
    kind: str, make: Make, make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    clients = [make_coordinator() for _ in range(2)]
    counted = threading.Lock()
    inside = most = done = 0

    def work(number: int) -> None:
        nonlocal inside, most, done
        lock = make(clients[number % 2])
        for _ in range(10):
            with lock:
                with counted:
                    inside += 1
                    most = max(most, inside)
                with counted:
                    inside -= 1
                    done += 1

    for each in [in_thread(work, number) for number in range(6)]:
        each.result(60.0)
    assert 60 == done
    assert kind in SHARED or 1 == most
    assert is_clean(zk, path)


def test_a_named_owner_takes_its_grant_to_another_thread(
    make: Make, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = make(coordinator, owner="job").acquire()
    assert in_thread(grant.release).result(PATIENCE_S)
    with pytest.raises(NotHeldError):
        grant.check()
    assert is_clean(zk, path)


@pytest.mark.servers("real")
def test_ctrl_c_ends_a_waiter_and_leaves_nothing(
    kind: str, block: Callable[[], Grant], zk: KazooClient, path: str, run_script: RunScript
) -> None:
    held = block()
    script = in_thread(
        lambda: run_script(
            "import os, signal, threading\n"
            "from kazoo.client import KazooClient\n"
            "from zkcoord import *\n"
            f"path, more = {path!r}, {{}}\n"
            "client = Coordinator(HOSTS)\n"
            "zk = KazooClient(HOSTS); zk.start()\n"
            "def interrupt():\n"
            "    while len(zk.get_children(path)) < 2: pass\n"
            f"    os.kill(os.getpid(), signal.{signal.SIGINT.name})\n"
            f"lock = {KINDS[kind]}\n"
            "threading.Thread(target=interrupt, daemon=True).start()\n"
            "try:\n"
            "    lock.acquire()\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', len(zk.get_children(path)) <= 2)\n"
            "import time\n"
            "give_up = time.monotonic() + 5\n"
            "while len(zk.get_children(path)) > 1 and time.monotonic() < give_up: time.sleep(0.005)\n"
            "print(len(zk.get_children(path)), 'left')\n"
            "zk.stop(); zk.close()\n"
        )
    )
    assert "interrupted True\n1 left\n" == script.result(60.0)
    assert [held.name] == members(zk, path)
    held.release()
