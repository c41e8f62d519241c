"""Cancellation: whatever a task is cancelled at, nothing stays behind, and the lock works again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.support.faults import members
from tests.support.loops import Run, session_is_clean, until, within
from tests.support.waiting import PATIENCE_S
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AsyncGrant,
    AsyncZkLock,
    AsyncZkMultiLock,
    AsyncZkReadWriteLock,
    AsyncZkSemaphore,
    Coordinator,
    locked,
)

pytestmark = pytest.mark.servers("embedded")


# --- cancellation


def holding(lock: Any, work: Callable[[Any], Awaitable[object]]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def body() -> None:
        async with lock as grant:
            await work(grant)

    return body


async def in_transaction(grant: Any) -> None:
    async with grant.transaction() as tx:
        tx.check(grant.path)


async def got_and_released(acquiring: Coroutine[Any, Any, AsyncGrant]) -> None:
    async with await acquiring:
        pass


METHODS: dict[str, Callable[[Any, Any, Coordinator, str], Callable[[], Coroutine[Any, Any, Any]]]] = {
    "acquire": lambda lock, rw, client, path: holding(lock, lambda grant: asyncio.sleep(0)),
    "acquire behind": lambda lock, rw, client, path: lambda: AsyncZkLock(
        f"{path}/busy", client=client, timeout=0.05
    ).acquire(),
    "try behind": lambda lock, rw, client, path: AsyncZkLock(f"{path}/busy", client=client).try_acquire,
    "verify": lambda lock, rw, client, path: holding(lock, lambda grant: grant.verify()),
    "transaction": lambda lock, rw, client, path: holding(lock, in_transaction),
    "lost.wait": lambda lock, rw, client, path: holding(lock, lambda grant: grant.lost.wait(0.05)),
    "queue": lambda lock, rw, client, path: lock.queue,
    "upgrade": lambda lock, rw, client, path: holding(rw.read, lambda grant: got_and_released(rw.try_upgrade())),
    "downgrade": lambda lock, rw, client, path: holding(rw.write, lambda grant: got_and_released(rw.read.acquire())),
    "multi": lambda lock, rw, client, path: holding(
        AsyncZkMultiLock([f"{path}/a", f"{path}/b"], client=client), lambda grant: grant.verify()
    ),
    "semaphore": lambda lock, rw, client, path: holding(
        AsyncZkSemaphore(f"{path}/pool", permits=2, client=client), lambda grant: asyncio.sleep(0)
    ),
    "available": lambda lock, rw, client, path: AsyncZkSemaphore(
        f"{path}/pool", permits=2, client=client
    ).available,
    "revoke": lambda lock, rw, client, path: lambda: AsyncZkLock(f"{path}/busy", client=client).revoke(wait=0.05),
    "coordinator": lambda lock, rw, client, path: lambda: with_coordinator(client.hosts, f"{path}/own"),
    "locked": lambda lock, rw, client, path: locked(f"{path}/locked", client=client)(nothing),
    "generator": lambda lock, rw, client, path: lambda: used_up(locked(f"{path}/gen", client=client)(values)()),
    "release": lambda lock, rw, client, path: lambda: got_and_given_back(lock, 1),
    "re-entry": lambda lock, rw, client, path: lambda: got_and_given_back(lock, 2),
    "resize": lambda lock, rw, client, path: lambda: resized(
        AsyncZkSemaphore(f"{path}/pool", permits=2, client=client)
    ),
    "break": lambda lock, rw, client, path: lambda: broken(AsyncZkLock(f"{path}/broken", client=client)),
    "turn": lambda lock, rw, client, path: lambda: taken_in_turn(
        [AsyncZkLock(f"{path}/busy", client=client, owner="both", timeout=0.05) for _ in range(2)]
    ),
}  # fmt: skip


async def values() -> AsyncIterator[int]:
    yield 1
    await asyncio.sleep(0)
    yield 2


async def used_up(generator: Any) -> None:
    async with aclosing(generator):
        async for _ in generator:
            await asyncio.sleep(0)


async def got_and_given_back(lock: AsyncZkLock, count: int) -> None:
    grants = []
    try:
        for _ in range(count):
            grants.append(await lock.acquire())
    finally:
        for grant in grants:
            await grant.release()


async def resized(pool: AsyncZkSemaphore) -> None:
    async with pool:
        await pool.resize(2)


async def broken(lock: AsyncZkLock) -> None:
    grant = await lock.acquire()
    try:
        assert await lock.break_holder(grant.token)
        assert await grant.lost.wait(PATIENCE_S)
    finally:
        await grant.release()


async def taken_in_turn(locks: list[AsyncZkLock]) -> None:
    """Both are the same owner's: the second one waits for the first one's outcome, whoever is cancelled."""
    first = asyncio.create_task(locks[0].acquire())
    try:
        await asyncio.sleep(0)
        with suppress(AcquireTimeoutError):
            await locks[1].acquire()
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def nothing() -> None:
    await asyncio.sleep(0)


async def with_coordinator(hosts: str, path: str) -> None:
    async with Coordinator(hosts) as client, AsyncZkLock(path, client=client, timeout=5.0):
        pass


class StepAndCancel:
    """
    Awaits a coroutine by hand, and cancels its task at the n-th moment at which it sleeps.

    Args:
        coroutine: what is awaited.
        number: the moment, from 1.
        is_woken: cancels when what it sleeps for has come, before it can look at it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, is_woken: bool) -> None:
        self._coroutine = coroutine
        self._number = number
        self._is_woken = is_woken
        self.has_cancelled = False

    def __await__(self) -> Iterator[Any]:
        task = asyncio.current_task()
        assert task is not None
        send: Callable[[], Any] = lambda: self._coroutine.send(None)  # noqa: E731
        while True:
            try:
                waited_for = send()
            except StopIteration as stop:
                return stop.value
            self._number -= 1
            if self._number == 0:
                self.has_cancelled = True
                if self._is_woken and waited_for is not None:
                    waited_for.add_done_callback(lambda _: task.cancel())
                else:
                    asyncio.get_running_loop().call_soon(task.cancel)
            try:
                yield waited_for
            except BaseException as error:
                send = lambda error=error: self._coroutine.throw(error)  # type: ignore[misc]  # noqa: E731
            else:
                send = lambda: self._coroutine.send(None)  # noqa: E731


@pytest.mark.parametrize("is_woken", [False, True], ids=["asleep", "woken"])
@pytest.mark.parametrize("name", METHODS)
def test_cancelled_at_each_await_it_leaves_nothing(
    run: Run, coordinator: Coordinator, hosts: str, zk: KazooClient, path: str, name: str, is_woken: bool
) -> None:
    async def main() -> int:
        lock = AsyncZkLock(f"{path}/lock", client=coordinator)
        rw = AsyncZkReadWriteLock(f"{path}/rw", client=coordinator)
        begin = METHODS[name](lock, rw, coordinator, path)
        busy = AsyncZkLock(f"{path}/busy", client=coordinator, owner="somebody")
        number = 0
        while True:
            number += 1
            assert number < 100
            async with (
                busy
                if "behind" in name or name in ("revoke", "turn")
                else AsyncZkLock(f"{path}/z", client=coordinator)
            ):

                async def step(stepping: StepAndCancel) -> Any:
                    return await stepping

                stepping = StepAndCancel(begin(), number, is_woken)
                task = asyncio.create_task(step(stepping))
                (result,) = await asyncio.gather(task, return_exceptions=True)
                expected = (asyncio.CancelledError, AcquireTimeoutError)
                assert not isinstance(result, BaseException) or isinstance(result, expected), result
                if isinstance(result, AsyncGrant):
                    await result.release()
            await until(lambda: session_is_clean(coordinator))
            if not stepping.has_cancelled:
                return number - 1

    moments = run(main())
    assert moments >= 1
    left = [
        f"{path}/{child}/{name}"
        for child in zk.get_children(path)
        for name in zk.get_children(f"{path}/{child}")
    ]
    assert [] == left


@pytest.mark.parametrize("way", ["wait_for", "timeout", "cancel"])
def test_a_wait_that_is_cut_short_leaves_nothing_and_the_lock_works_again(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str, way: str
) -> None:
    async def main() -> None:
        holder = await AsyncZkLock(path, client=coordinator, owner="somebody").acquire()
        lock = AsyncZkLock(path, client=coordinator)
        for _ in range(3):
            if way == "wait_for":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(lock.acquire(), 0.05)
            elif way == "timeout":
                with pytest.raises(TimeoutError):
                    await within(lock.acquire())
            else:
                waiting = asyncio.create_task(lock.acquire())
                await until(lambda: len(members(zk, path)) == 2)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await until(lambda: [holder.name] == members(zk, path))
        await holder.release()
        async with lock as grant:
            assert [grant.name] == await asyncio.to_thread(members, zk, path)
        await until(lambda: session_is_clean(coordinator))

    run(main())


def test_a_grant_that_comes_with_the_cancellation_is_given_back(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    """The outcome is there, and the task is cancelled before it runs again."""

    async def main() -> None:
        lock = AsyncZkLock(path, client=coordinator)
        holder = await AsyncZkLock(path, client=coordinator, owner="somebody").acquire()
        waiting = asyncio.create_task(lock.acquire())
        await until(lambda: len(members(zk, path)) == 2)
        released = asyncio.create_task(holder.release())
        await asyncio.sleep(0)
        hold = coordinator.session().guard._holds
        give_up = time.monotonic() + PATIENCE_S
        while not hold and time.monotonic() < give_up:
            time.sleep(0.001)  # the loop is blocked on purpose: the outcome waits for it
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await released
        await until(lambda: [] == members(zk, path))
        await until(lambda: session_is_clean(coordinator))

    run(main())


def test_closing_the_coordinator_ends_waiters_and_holders(
    run: Run, make_coordinator: Callable[..., Coordinator], path: str, zk: KazooClient
) -> None:
    async def main() -> None:
        async with make_coordinator() as client:
            grant = await AsyncZkLock(path, client=client).acquire()
            waiting = asyncio.create_task(AsyncZkLock(path, client=client).acquire())
            await until(lambda: len(members(zk, path)) == 2)
        assert "closed" == grant.loss_reason
        with pytest.raises(AcquireCancelledError, match="closed"):
            await waiting

    run(main())


def test_a_first_acquire_without_a_server_keeps_its_deadline(run: Run) -> None:
    async def main() -> None:
        async with Coordinator("127.0.0.1:1") as client:
            began = time.monotonic()
            with pytest.raises(AcquireTimeoutError):
                await AsyncZkLock("/a", client=client, timeout=0.2).acquire()
            assert time.monotonic() - began < 1.5

    run(main())
