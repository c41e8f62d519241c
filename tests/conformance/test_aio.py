"""What only asyncio has: tasks as owners, callbacks on the loop, `locked`, loops that are closed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.support.faults import members
from tests.support.loops import Run, lose, session_is_clean, until
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireTimeoutError,
    AlreadyHeldError,
    AsyncGrant,
    AsyncZkLock,
    AsyncZkSemaphore,
    ConfigError,
    Coordinator,
    GrantLostError,
    NotHeldError,
    Status,
    ZkLock,
    locked,
)

pytestmark = pytest.mark.servers("embedded")


# --- owners


def test_tasks_exclude_each_other_and_threads(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    inside = most = done = 0
    counted = threading.Lock()

    def enter() -> None:
        nonlocal inside, most
        with counted:
            inside += 1
            most = max(most, inside)

    def leave() -> None:
        nonlocal inside, done
        with counted:
            inside -= 1
            done += 1

    def thread() -> None:
        for _ in range(10):
            with ZkLock(path, client=coordinator):
                enter()
                leave()

    async def task() -> None:
        for _ in range(10):
            async with AsyncZkLock(path, client=coordinator):
                enter()
                await asyncio.sleep(0)
                leave()

    async def main() -> None:
        await asyncio.gather(*(task() for _ in range(4)))

    threads = [in_thread(thread) for _ in range(2)]
    run(main())
    for each in threads:
        each.result(PATIENCE_S)
    assert (1, 60) == (most, done)
    assert [] == members(zk, path)


def test_a_task_re_enters_and_its_children_do_not(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        lock = AsyncZkLock(path, client=coordinator)
        async with lock as outer, lock as inner, AsyncZkLock(path, client=coordinator) as other:
            assert {outer.token} == {inner.token, other.token}
            assert None is await asyncio.create_task(lock.try_acquire())
            with pytest.raises(AlreadyHeldError):
                await AsyncZkLock(path, client=coordinator, reentrant=False).acquire()
        assert Status.RELEASED is outer.status

    run(main())


def test_a_later_task_does_not_inherit(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        lock = AsyncZkLock(path, client=coordinator)
        grant = await asyncio.create_task(lock.acquire())
        for _ in range(20):
            assert None is await asyncio.create_task(lock.try_acquire())
        assert await grant.release()

    run(main())


def test_a_named_owner_goes_from_thread_to_task_and_on(run: Run, coordinator: Coordinator, path: str) -> None:
    first = ZkLock(path, client=coordinator, owner="job").acquire()

    async def main() -> AsyncGrant:
        grant = await AsyncZkLock(path, client=coordinator, owner="job").acquire(timeout=0)
        assert first.token == grant.token
        assert first.release()
        again = await asyncio.create_task(
            AsyncZkLock(path, client=coordinator, owner="job").acquire(timeout=0)
        )
        assert await grant.release()
        assert Status.HELD is again.status
        await again.release()
        return grant

    grant = run(main())
    assert Status.RELEASED is grant.status


def test_semaphores_of_one_named_owner_never_share(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        pool = AsyncZkSemaphore(path, permits=3, client=coordinator, owner="job")
        async with pool as one, pool as two:
            assert one.token != two.token
            assert 1 == await pool.available()

    run(main())


def test_the_task_is_shown_to_operators(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        asyncio.current_task().set_name("night shift")  # type: ignore[union-attr]
        async with AsyncZkLock(path, client=coordinator, label="x") as grant:
            (member,) = await AsyncZkLock(path, client=coordinator).queue()
            assert ("night shift", "x", grant.token) == (member.task, member.label, member.token)

    run(main())


def test_without_a_task_it_says_so(coordinator: Coordinator, path: str) -> None:
    acquiring = AsyncZkLock(path, client=coordinator).acquire()
    with pytest.raises((ConfigError, RuntimeError)):
        acquiring.send(None)


def test_leaving_in_another_task_names_owner(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        pool = AsyncZkSemaphore(path, permits=2, client=coordinator)
        one, two = await pool.__aenter__(), await pool.__aenter__()
        with pytest.raises(NotHeldError, match="owner="):
            await asyncio.create_task(pool.__aexit__(None, None, None))
        await pool.__aexit__(None, None, None)
        await asyncio.create_task(pool.__aexit__(None, None, None))
        assert [Status.RELEASED] * 2 == [one.status, two.status]

    run(main())


# --- callbacks and operators


def test_callbacks_run_on_the_loop_and_may_not_be_coroutines(
    run: Run, coordinator: Coordinator, path: str
) -> None:
    async def main() -> None:
        thread = threading.get_ident()
        told: list[bool] = []
        grant = await AsyncZkLock(path, client=coordinator).acquire()
        with pytest.raises(ConfigError, match="plain function"):
            grant.on_lost(lose)  # type: ignore[arg-type]
        grant.on_revoke(lambda grant: told.append(threading.get_ident() == thread))
        revoking = AsyncZkLock(path, client=coordinator)
        await asyncio.sleep(0.06)
        assert not await revoking.revoke(token=grant.token, wait=0.05)
        await until(lambda: [True] == told)
        assert await revoking.break_holder(grant.token)
        assert await grant.lost.wait(PATIENCE_S)
        assert not await revoking.break_holder(grant.token)
        assert "revoked" == grant.loss_reason

    run(main())


def test_waiting_for_the_loss_ends_with_the_release(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        grant = await AsyncZkLock(path, client=coordinator).acquire()
        waiting = asyncio.create_task(grant.lost.wait())
        await asyncio.sleep(0.01)
        assert not await grant.lost.wait(0.01)
        await grant.release()
        assert not await waiting

    run(main())


# --- `locked`


def test_locked_coroutines_and_generators(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    @locked(f"{path}/{{number}}", client=coordinator, timeout=0, on_busy="skip", grant="grant")
    async def work(number: int, *, grant: AsyncGrant) -> int:
        await grant.verify()
        assert None is await asyncio.create_task(work(number))
        return number

    async def busy(error: AcquireTimeoutError) -> str:
        return f"busy at {error.position}"

    @locked(f"{path}/1", client=coordinator, timeout=0, on_busy=busy)
    async def other() -> str:
        return "not busy"

    @locked(f"{path}/gen", client=coordinator)
    async def numbers() -> AsyncIterator[int]:
        got = yield 1
        assert "sent" == got
        try:
            yield 2
        except KeyError:
            yield 3

    async def main() -> None:
        assert [1, 2] == await asyncio.gather(work(1), work(2))
        async with AsyncZkLock(f"{path}/1", client=coordinator):
            assert "busy at 1" == await asyncio.create_task(other())
        assert "not busy" == await other()
        values: Any = numbers()
        assert inspect.isasyncgen(values)
        assert 1 == await anext(values)
        assert 1 == len(await asyncio.to_thread(members, zk, f"{path}/gen"))
        assert 2 == await values.asend("sent")
        assert 3 == await values.athrow(KeyError("x"))
        await values.aclose()
        await until(lambda: [] == members(zk, f"{path}/gen"))

    run(main())


def test_a_generators_consumer_is_cancelled_only_inside_it(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    closed: list[str] = []

    @locked(path, client=coordinator, grant="grant")
    async def numbers(*, grant: AsyncGrant) -> AsyncIterator[AsyncGrant]:
        try:
            yield grant
            await asyncio.sleep(PATIENCE_S)
        finally:
            closed.append("closed")

    async def main() -> None:
        values: Any = numbers()
        grant = await anext(values)
        await asyncio.sleep(0.06)
        await lose(zk, grant)
        assert await grant.lost.wait(PATIENCE_S)
        await asyncio.sleep(0.05)  # the consumer's own code goes on
        with pytest.raises(GrantLostError):
            await anext(values)
        assert ["closed"] == closed
        assert 0 == asyncio.current_task().cancelling()  # type: ignore[union-attr]

    run(main())


# --- loops that are closed


def test_a_closed_loops_grants_and_waits_end_within_a_heartbeat(
    make_coordinator: Callable[..., Coordinator], zk: KazooClient, path: str
) -> None:
    coordinator = make_coordinator(session_timeout=4.0)
    heartbeat_s = 0.5
    kept = ZkLock(path, client=coordinator, owner="job").acquire(timeout=PATIENCE_S)
    loop = asyncio.new_event_loop()
    other, waited = f"{path}-other", f"{path}-waited"
    holder = ZkLock(waited, client=coordinator).acquire()

    async def main() -> tuple[AsyncGrant, AsyncGrant, Any]:
        shared = await AsyncZkLock(path, client=coordinator, owner="job").acquire()
        own = await AsyncZkLock(other, client=coordinator).acquire()
        waiting = AsyncZkLock(waited, client=coordinator).acquire()
        task = asyncio.ensure_future(waiting)
        while len(await asyncio.to_thread(members, zk, waited)) < 2:
            await asyncio.sleep(0.005)
        return shared, own, task

    shared, own, task = loop.run_until_complete(main())
    task._log_destroy_pending = False
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    began = time.monotonic()
    wait_until(lambda: not members(zk, other) and len(members(zk, waited)) == 1)
    assert time.monotonic() - began < heartbeat_s + 0.5
    assert (Status.RELEASED, Status.RELEASED, Status.HELD) == (shared.status, own.status, kept.status)
    kept.release()
    holder.release()
    wait_until(lambda: session_is_clean(coordinator))
    del task
    gc.collect()
    assert session_is_clean(coordinator)


@pytest.mark.parametrize("is_closed", [False, True], ids=["open loop", "closed loop"])
def test_a_coroutine_that_is_thrown_away_gives_back(
    coordinator: Coordinator, zk: KazooClient, path: str, is_closed: bool
) -> None:
    """Nobody can wait in it any more, nor is its task the running one."""
    loop = asyncio.new_event_loop()
    # Somebody else's grant of the same object, which must not be taken for the one to be given back.
    pool = AsyncZkSemaphore(path, permits=2, client=coordinator, on_lost="signal")

    async def hold(entered: asyncio.Event) -> None:
        async with pool:
            entered.set()
            await loop.create_future()

    async def main() -> tuple[AsyncGrant, Any]:
        kept = await pool.__aenter__()
        entered = asyncio.Event()
        task = asyncio.ensure_future(hold(entered))
        await entered.wait()
        return kept, task

    async def throw_away() -> None:
        nonlocal task
        task = None
        gc.collect()

    kept, task = loop.run_until_complete(main())
    task._log_destroy_pending = False
    if is_closed:
        loop.close()
        task = None
        gc.collect()
        wait_until(lambda: [] == members(zk, path))
    else:
        loop.run_until_complete(throw_away())
        wait_until(lambda: [kept.name] == members(zk, path))
        assert Status.HELD is kept.status
        loop.run_until_complete(kept.release())
        loop.close()
    wait_until(lambda: session_is_clean(coordinator))
    assert [kept] == [grant for _, grant, _ in pool._entered]
