"""`locked` on a real server: who excludes whom, busy calls, sub-second timeouts, generators, the grant."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import RunScript
from tests.support.faults import members
from tests.support.waiting import PATIENCE_S, in_thread
from zkcoord import (
    AcquireTimeoutError,
    Coordinator,
    Grant,
    GrantLostError,
    Status,
    ZkLock,
    ZkReadWriteLock,
    ZkSemaphore,
    locked,
)


class Gate:
    """A body that waits inside the lock until it is let out."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.leave = threading.Event()

    def __call__(self) -> None:
        self.inside.release()
        assert self.leave.wait(PATIENCE_S)


def test_same_arguments_exclude_and_others_do_not(coordinator: Coordinator, root: str) -> None:
    gate = Gate()

    @locked(f"{root}/{{order_id}}", client=coordinator, timeout=0, on_busy="skip")
    def ship(order_id: int) -> str:
        gate()
        return "shipped"

    first = in_thread(ship, 1)
    assert gate.inside.acquire(timeout=PATIENCE_S)
    assert None is ship(1)
    second = in_thread(ship, 2)
    assert gate.inside.acquire(timeout=PATIENCE_S)
    gate.leave.set()
    assert ["shipped", "shipped"] == [first.result(PATIENCE_S), second.result(PATIENCE_S)]
    assert "shipped" == ship(1)


def test_increments_under_the_decorator_are_all_there(coordinator: Coordinator, root: str) -> None:
    count = {"value": 0}

    @locked(f"{root}/counter", client=coordinator, timeout=PATIENCE_S)
    def increment() -> None:
        before = count["value"]
        time.sleep(0.001)  # where others would come in
        count["value"] = before + 1

    def many() -> None:
        for _ in range(10):
            increment()

    for running in [in_thread(many) for _ in range(4)]:
        running.result(4 * PATIENCE_S)
    assert 40 == count["value"]


def test_sub_second_timeout_is_kept(coordinator: Coordinator, path: str) -> None:
    @locked(path, client=coordinator, timeout=0.3)
    def run() -> None:
        raise AssertionError("the body ran without the lock")

    with ZkLock(path, client=coordinator, owner="somebody"):
        began = time.monotonic()
        with pytest.raises(AcquireTimeoutError) as caught:
            run()
        assert 0.3 <= time.monotonic() - began < 2.0
    assert 1 == caught.value.position


def test_body_that_times_out_on_another_lock_is_not_taken_for_busy(
    coordinator: Coordinator, root: str
) -> None:
    @locked(f"{root}/outer", client=coordinator, timeout=1, on_busy="skip")
    def run() -> None:
        ZkLock(f"{root}/inner", client=coordinator).acquire(timeout=0.05)

    with (
        ZkLock(f"{root}/inner", client=coordinator, owner="somebody"),
        pytest.raises(AcquireTimeoutError) as caught,
    ):
        run()
    assert f"{root}/inner" == caught.value.path
    with ZkLock(f"{root}/outer", client=coordinator, timeout=0, owner="somebody"):
        pass  # and the outer one was given back


def test_recursion_re_enters(coordinator: Coordinator, path: str) -> None:
    @locked(path, client=coordinator, timeout=1, grant="grant")
    def down(depth: int, *, grant: Grant) -> list[int]:
        return [grant.token, *(down(depth - 1) if depth else [])]

    assert 1 == len(set(down(3)))


def test_value_with_a_slash_stays_in_its_directory(
    coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    @locked(f"{root}/{{name}}", client=coordinator, grant="grant")
    def run(name: str, *, grant: Grant) -> str:
        grant.verify()
        return grant.path

    assert f"{root}/..%2Fadmin" == run("../admin")
    assert ["..%2Fadmin"] == zk.get_children(root)


def test_generator_holds_until_it_is_closed_also_from_another_thread(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    @locked(path, client=coordinator, timeout=1)
    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    generator: Any = numbers()
    assert 1 == next(generator)
    assert 1 == len(members(zk, path))
    in_thread(generator.close).result(PATIENCE_S)
    assert [] == members(zk, path)
    assert [1, 2] == list(numbers())
    assert [] == members(zk, path)


def test_loss_while_the_body_runs_is_raised(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    @locked(path, client=coordinator, grant="grant")
    def run(*, grant: Grant) -> str:
        zk.delete(f"{grant.path}/{grant.name}")
        assert grant.lost.wait(PATIENCE_S)
        assert Status.LOST is grant.status
        return "done"

    with pytest.raises(GrantLostError) as caught:
        run()
    assert "deleted" == caught.value.reason


def test_other_kinds_of_locks(coordinator: Coordinator, root: str) -> None:
    gate = Gate()

    @locked(
        f"{root}/rw",
        lock=lambda path, **options: ZkReadWriteLock(path, **options).read,
        client=coordinator,
        timeout=PATIENCE_S,
    )
    def read() -> None:
        gate()

    @locked(
        f"{root}/pool",
        lock=lambda path, **options: ZkSemaphore(path, permits=2, **options),
        client=coordinator,
        timeout=PATIENCE_S,
    )
    def use() -> None:
        gate()

    running = [in_thread(read), in_thread(read), in_thread(use), in_thread(use)]
    for _ in running:
        assert gate.inside.acquire(timeout=PATIENCE_S)
    assert None is ZkReadWriteLock(f"{root}/rw", client=coordinator).write.try_acquire()
    assert 0 == ZkSemaphore(f"{root}/pool", permits=2, client=coordinator).available()
    gate.leave.set()
    for one in running:
        one.result(PATIENCE_S)


def test_function_is_shown_to_operators(coordinator: Coordinator, path: str) -> None:
    @locked(path, client=coordinator)
    def run() -> str | None:
        return ZkLock(path, client=coordinator).queue()[0].label

    assert f"{__name__}.test_function_is_shown_to_operators.<locals>.run" == run()


def test_decorated_at_module_level_it_works_in_forked_children(run_script: RunScript, hosts: str) -> None:
    output = run_script(
        """
import multiprocessing, zkcoord
zkcoord.configure(hosts=HOSTS)

@zkcoord.locked(ROOT + "/{number}", timeout=10, grant="grant")
def work(number, *, grant):
    grant.check()
    return number

work(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, [1, 1, 2]))
"""
    )
    assert "[1, 1, 2]\n" == output
