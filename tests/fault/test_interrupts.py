"""Ctrl-C and cancel at every point where an acquire or a release can be waiting, once and twice quickly."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import pytest
from kazoo.client import KazooClient

from tests.conftest import MakeClient
from tests.fault.conftest import SESSION_S, MakeCoordinator
from tests.support.faults import Background, add_member, members
from tests.support.proxy import FaultProxy, Hold, Op
from tests.support.waiting import wait_until
from zkcoord import AcquireCancelledError, Coordinator, ZkLock

#: Sooner than the session could take the nodes along: it was the janitor.
BY_JANITOR_S = SESSION_S / 2


class Point(Protocol):
    """Gets an acquire to wait at one point: set up before, `wait` until it is there, `end` the fault after."""

    def begin(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None: ...
    def wait(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None: ...
    def end(self, proxy: FaultProxy) -> None: ...


class Connecting:
    """Nobody answers from the start."""

    def __init__(self, break_it: Callable[[FaultProxy], None]) -> None:
        self._break = break_it

    def begin(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        self._break(proxy)

    def wait(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        pass

    def end(self, proxy: FaultProxy) -> None:
        proxy.restore()


class Held:
    """One request, or its answer, is under way."""

    def __init__(self, opcode: Op, *, is_reply: bool) -> None:
        self._opcode = opcode
        self._is_reply = is_reply
        self._hold: Hold | None = None

    def begin(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        self._hold = (proxy.hold_reply if self._is_reply else proxy.hold)(self._opcode)

    def wait(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        assert self._hold is not None
        assert self._hold.wait()

    def end(self, proxy: FaultProxy) -> None:
        assert self._hold is not None
        self._hold.release()


class HeldAhead(Held):
    """The same with somebody ahead."""

    def begin(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        add_member(zk, path)
        super().begin(proxy, zk, path)


class Waiting:
    """In the queue, the predecessor watched."""

    def begin(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        add_member(zk, path)

    def wait(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        seen = proxy.requests[Op.GET_DATA]
        wait_until(lambda: len(members(zk, path)) == 2)
        assert proxy.wait_for_requests(Op.GET_DATA, max(1, seen))

    def end(self, proxy: FaultProxy) -> None:
        pass


class WaitingCutOff(Waiting):
    """In the queue, and the connection breaks."""

    def wait(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        super().wait(proxy, zk, path)
        proxy.cut()

    def end(self, proxy: FaultProxy) -> None:
        proxy.restore()


class Recovering:
    """The create took effect, its answer was lost, and the connection is gone."""

    _hold: Hold

    def begin(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        self._hold = proxy.hold_reply(Op.CREATE2)

    def wait(self, proxy: FaultProxy, zk: KazooClient, path: str) -> None:
        assert self._hold.wait()
        wait_until(lambda: len(members(zk, path)) == 1)
        proxy.cut()

    def end(self, proxy: FaultProxy) -> None:
        self._hold.release()
        proxy.restore()


POINTS = {
    "connecting, refused": lambda: Connecting(FaultProxy.cut),
    "connecting, silent": lambda: Connecting(FaultProxy.black_hole),
    "create on its way": lambda: Held(Op.CREATE2, is_reply=False),
    "create done": lambda: Held(Op.CREATE2, is_reply=True),
    "list on its way": lambda: Held(Op.GET_CHILDREN, is_reply=False),
    "list done": lambda: Held(Op.GET_CHILDREN, is_reply=True),
    "watch on its way": lambda: HeldAhead(Op.GET_DATA, is_reply=False),
    "watch done": lambda: HeldAhead(Op.GET_DATA, is_reply=True),
    "waiting": Waiting,
    "waiting, cut off": WaitingCutOff,
    "recovering": Recovering,
}
#: Only when the lock's directory is missing.
PARENT_POINTS = {
    "parents on their way": lambda: Held(Op.CREATE_CONTAINER, is_reply=False),
    "parents done": lambda: Held(Op.CREATE_CONTAINER, is_reply=True),
}
#: A borrowed client's first grant has to wait for its second proof.
BORROWED_POINTS = {
    "confirming, on its way": lambda: Held(Op.MULTI, is_reply=False),
    "confirming, done": lambda: Held(Op.MULTI, is_reply=True),
}
ALL_POINTS = [
    pytest.param(make, name, id=name) for name, make in {**POINTS, **PARENT_POINTS, **BORROWED_POINTS}.items()
]


@contextmanager
def child(mode: str, hosts: str, path: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.fault.interrupted", mode, hosts, path, *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = Background(process.stdout.readline)
    try:
        return line.result().strip()
    except AssertionError:
        process.send_signal(signal.SIGUSR1)  # it shows its threads
        line.result()
        raise


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return read(process)


def own_members(zk: KazooClient, path: str) -> list[str]:
    """All members but those that the test put there."""
    return [name for name in members(zk, path) if "_c_00000000" not in name]


def clear_the_way(zk: KazooClient, path: str) -> None:
    for name in members(zk, path):
        if "_c_00000000" in name:
            zk.delete(f"{path}/{name}")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("make", "name"), ALL_POINTS)
def test_ctrl_c_while_acquiring_leaves_nothing(
    proxy: FaultProxy, zk: KazooClient, root: str, make: Callable[[], Point], name: str, times: int
) -> None:
    path = f"{root}/lock"
    if name not in PARENT_POINTS:
        zk.ensure_path(path)
    point = make()
    is_borrowed = name in BORROWED_POINTS
    point.begin(proxy, zk, path)
    with child("acquire-borrowed" if is_borrowed else "acquire", proxy.hosts, path) as process:
        assert "begin" == read(process)
        point.wait(proxy, zk, path)
        for _ in range(times):
            process.send_signal(signal.SIGINT)

        assert "interrupted" == read(process)

        point.end(proxy)
        wait_until(lambda: [] == own_members(zk, path), timeout=BY_JANITOR_S)
        clear_the_way(zk, path)
        assert int(ask(process)) > 0
        wait_until(lambda: [] == members(zk, path), timeout=BY_JANITOR_S)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("is_reply", [False, True], ids=["delete on its way", "delete done"])
def test_ctrl_c_while_releasing(
    proxy: FaultProxy, zk: KazooClient, root: str, is_reply: bool, times: int
) -> None:
    path = f"{root}/lock"
    point = Held(Op.DELETE, is_reply=is_reply)
    point.begin(proxy, zk, path)
    with child("release", proxy.hosts, path) as process:
        assert "begin" == read(process)
        point.wait(proxy, zk, path)
        for _ in range(times):
            process.send_signal(signal.SIGINT)

        assert "interrupted" == read(process)
        assert "RELEASED" == read(process)

        point.end(proxy)
        wait_until(lambda: [] == members(zk, path), timeout=BY_JANITOR_S)
        assert int(ask(process)) > 0


@pytest.mark.parametrize("way", ["with", "locked", "commit"])
def test_ctrl_c_at_any_moment_of_many_acquires(hosts: str, zk: KazooClient, root: str, way: str) -> None:
    """Interrupts that hit any instruction: no member is left, and no acquire of the same thread ever hangs."""
    path = f"{root}/lock"
    chance = random.Random(20)
    pause = threading.Event()
    with child("storm", hosts, path, way) as process:
        assert "begin" == read(process)
        for _ in range(300):
            pause.wait(chance.uniform(0.0005, 0.012))
            process.send_signal(signal.SIGINT)
        rounds, interrupts = map(int, ask(process).split())
        assert int(read(process)) > 0
        assert "ended" == read(process)
        assert "0" == read(process)
        wait_until(lambda: [] == members(zk, path), timeout=BY_JANITOR_S)
    print(f"{interrupts} interrupts in {rounds} rounds")
    assert interrupts > 100


# --- cancel


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("make", "name"), ALL_POINTS)
def test_cancel_while_acquiring_leaves_nothing(
    proxy: FaultProxy,
    make_client: MakeClient,
    make_coordinator: MakeCoordinator,
    zk: KazooClient,
    root: str,
    make: Callable[[], Point],
    name: str,
    times: int,
) -> None:
    path = f"{root}/lock"
    if name not in PARENT_POINTS:
        zk.ensure_path(path)
    if name in BORROWED_POINTS:
        coordinator = make_coordinator(kazoo=make_client(hosts=proxy.hosts, timeout=SESSION_S))
    else:
        coordinator = make_coordinator(hosts=proxy.hosts)
    lock = ZkLock(path, client=coordinator)
    point = make()
    point.begin(proxy, zk, path)
    acquiring = Background(lock.acquire)
    wait_until(lambda: lock._waiting)
    point.wait(proxy, zk, path)

    for _ in range(times):
        lock.cancel()

    with pytest.raises(AcquireCancelledError) as ended:
        acquiring.result(1.0)
    assert "cancelled" == ended.value.reason
    point.end(proxy)
    wait_until(lambda: [] == own_members(zk, path), timeout=BY_JANITOR_S)
    clear_the_way(zk, path)
    with lock.acquire(timeout=10.0) as grant:
        wait_until(lambda: [grant.name] == members(zk, path), timeout=BY_JANITOR_S)
    proxy.clear()


def test_cancel_ends_exactly_the_pending_acquires_of_its_object(
    direct: Coordinator, zk: KazooClient, root: str
) -> None:
    path = f"{root}/lock"
    lock, other = ZkLock(path, client=direct), ZkLock(path, client=direct)
    ahead = add_member(zk, path)
    acquiring = [Background(lambda: lock.acquire(timeout=20.0)) for _ in range(3)]
    staying = Background(lambda: other.acquire(timeout=20.0))
    wait_until(lambda: len(members(zk, path)) == 5)

    lock.cancel()

    for one in acquiring:
        with pytest.raises(AcquireCancelledError):
            one.result(1.0)
    wait_until(lambda: len(members(zk, path)) == 2, timeout=BY_JANITOR_S)
    assert not staying.is_done
    zk.delete(ahead)
    assert staying.result().release()


def test_cancel_with_nothing_pending_does_nothing(direct: Coordinator, root: str) -> None:
    lock = ZkLock(f"{root}/lock", client=direct, timeout=5.0)
    lock.cancel()
    with lock as grant:
        lock.cancel()
        assert "HELD" == grant.status
    with lock:
        pass


def test_cancel_at_any_moment_of_many_acquires(direct: Coordinator, zk: KazooClient, root: str) -> None:
    path = f"{root}/lock"
    lock = ZkLock(path, client=direct)
    is_over = threading.Event()

    def work() -> tuple[int, int]:
        granted = cancelled = 0
        while not is_over.is_set():
            try:
                with lock.acquire(timeout=10.0):
                    granted += 1
            except AcquireCancelledError:
                cancelled += 1
        return granted, cancelled

    workers = [Background(work) for _ in range(3)]
    pause = threading.Event()
    for _ in range(300):
        pause.wait(0.003)
        lock.cancel()
    is_over.set()
    granted, cancelled = map(sum, zip(*(worker.result() for worker in workers), strict=True))
    assert granted > 20
    assert cancelled > 20
    wait_until(lambda: [] == members(zk, path), timeout=BY_JANITOR_S)
    assert lock.acquire(timeout=5.0).release()
