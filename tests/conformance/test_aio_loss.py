"""A grant that is lost inside ``async with``: the task is cancelled, and `GrantLostError` comes out, once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.support.faults import end_session, members
from tests.support.loops import Run, body_of, session_is_clean, until
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AsyncGrant,
    AsyncZkLock,
    Coordinator,
    GrantLostError,
    Status,
)

pytestmark = pytest.mark.servers("embedded")


# --- loss inside `async with`


Body = Callable[[AsyncGrant], Coroutine[Any, Any, None]]


async def sleeps(grant: AsyncGrant) -> None:
    await asyncio.sleep(PATIENCE_S)


async def sleeps_under_a_timeout(grant: AsyncGrant) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.sleep(PATIENCE_S)


async def has_children(grant: AsyncGrant) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(asyncio.sleep(PATIENCE_S))


async def waits_for_children(grant: AsyncGrant) -> None:
    await asyncio.gather(asyncio.sleep(PATIENCE_S), asyncio.sleep(PATIENCE_S))


async def is_shielded(grant: AsyncGrant) -> None:
    inner = asyncio.ensure_future(grant.lost.wait())
    try:
        await asyncio.shield(inner)
    except asyncio.CancelledError:
        await inner
        raise


async def swallows_and_ends_well(grant: AsyncGrant) -> None:
    try:
        await asyncio.sleep(PATIENCE_S)
    except asyncio.CancelledError:
        return


async def swallows_and_takes_it_back(grant: AsyncGrant) -> None:
    try:
        await asyncio.sleep(PATIENCE_S)
    except asyncio.CancelledError:
        asyncio.current_task().uncancel()  # type: ignore[union-attr]


async def ends_without_awaiting_again(grant: AsyncGrant) -> None:
    until_lost = time.monotonic() + PATIENCE_S
    while grant.status is not Status.LOST and time.monotonic() < until_lost:
        time.sleep(0.001)


async def fails(grant: AsyncGrant) -> None:
    try:
        await asyncio.sleep(PATIENCE_S)
    except asyncio.CancelledError:
        raise KeyError("the body's own") from None


async def re_enters(grant: AsyncGrant) -> None:
    async with AsyncZkLock(grant.path, client=grant._coordinator):
        await asyncio.sleep(PATIENCE_S)


BODIES: list[Body] = [
    sleeps,
    sleeps_under_a_timeout,
    has_children,
    waits_for_children,
    is_shielded,
    swallows_and_ends_well,
    swallows_and_takes_it_back,
    ends_without_awaiting_again,
    re_enters,
]


@asynccontextmanager
async def lost_from_outside(zk: KazooClient, path: str) -> AsyncIterator[None]:
    """Somebody deletes the first member as soon as it holds."""

    def delete() -> None:
        wait_until(lambda: members(zk, path))
        time.sleep(0.06)  # by when the guard watches the member
        zk.delete(f"{path}/{members(zk, path)[0]}")

    deleting = in_thread(delete)
    yield
    deleting.result(PATIENCE_S)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_loss_comes_out_of_the_body(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str, body: Body
) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with lost_from_outside(zk, path):
            began = time.monotonic()
            with pytest.raises(GrantLostError) as caught:
                await body_of(AsyncZkLock(path, client=coordinator), body)
            assert time.monotonic() - began < PATIENCE_S / 2
        assert ("deleted", path) == (caught.value.reason, caught.value.path)
        assert 0 == task.cancelling()
        await asyncio.sleep(0)  # and no cancellation is left to come
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.sleep(0)

    run(main())


def test_a_grant_as_context_manager_cancels_too(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    async def main() -> None:
        async with lost_from_outside(zk, path):
            with pytest.raises(GrantLostError):
                await body_of(await AsyncZkLock(path, client=coordinator).acquire(), sleeps)

    run(main())


def test_nested_locks_lost_with_their_session_raise_once(
    run: Run, coordinator: Coordinator, hosts: str, path: str
) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None

        async def inner(grant: AsyncGrant) -> None:
            async with AsyncZkLock(f"{path}/b", client=coordinator):
                await asyncio.to_thread(end_session, coordinator.client, hosts)
                await asyncio.sleep(PATIENCE_S)

        with pytest.raises(GrantLostError, match="expired"):
            await body_of(AsyncZkLock(f"{path}/a", client=coordinator), inner)
        assert 0 == task.cancelling()

    run(main())


def test_only_the_inner_lock_is_lost(run: Run, coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    async def main() -> str:
        async with AsyncZkLock(f"{path}/a", client=coordinator) as outer, lost_from_outside(zk, f"{path}/b"):
            try:
                async with AsyncZkLock(f"{path}/b", client=coordinator):
                    await asyncio.sleep(PATIENCE_S)
            except GrantLostError as error:
                outer.check()
                await outer.verify()
                return error.path
        raise AssertionError

    assert f"{path}/b" == run(main())


def test_signal_leaves_the_body_alone(run: Run, coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    async def main() -> None:
        told: list[tuple[str, bool]] = []
        thread = threading.get_ident()

        async def body(grant: AsyncGrant) -> None:
            grant.on_lost(lambda grant, why: told.append((why, threading.get_ident() == thread)))
            assert not grant.lost.is_set()
            assert await grant.lost.wait(PATIENCE_S)
            await asyncio.sleep(0.01)
            assert [("deleted", True)] == told

        async with lost_from_outside(zk, path):
            with pytest.raises(GrantLostError):
                await body_of(AsyncZkLock(path, client=coordinator, on_lost="signal"), body)

    run(main())


def test_the_bodys_own_error_comes_out_with_a_note(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    async def main() -> None:
        async with lost_from_outside(zk, path):
            with pytest.raises(KeyError) as caught:
                await body_of(AsyncZkLock(path, client=coordinator), fails)
        assert any("lost meanwhile: deleted" in note for note in caught.value.__notes__)
        assert 0 == asyncio.current_task().cancelling()  # type: ignore[union-attr]

    run(main())


@pytest.mark.parametrize("order", ["outside first", "loss first"])
def test_an_outside_cancellation_is_never_mistaken_for_ours(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str, order: str
) -> None:
    async def body(cancelled: asyncio.Event) -> None:
        async with AsyncZkLock(path, client=coordinator) as grant:
            try:
                await asyncio.sleep(PATIENCE_S)
            except asyncio.CancelledError:
                cancelled.set()
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.sleep(PATIENCE_S)
                assert Status.LOST is grant.status
                raise

    async def main() -> None:
        cancelled = asyncio.Event()
        task = asyncio.create_task(body(cancelled))
        await until(lambda: members(zk, path))
        await asyncio.sleep(0.06)
        (name,) = await asyncio.to_thread(members, zk, path)
        if order == "outside first":
            task.cancel()
            await cancelled.wait()
        await asyncio.to_thread(zk.delete, f"{path}/{name}")
        if order == "loss first":
            await cancelled.wait()
            task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError)
        assert task.cancelled()

    run(main())


def test_an_outer_timeout_that_runs_out_with_the_loss_is_a_timeout(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    async def main() -> None:
        async def body(grant: AsyncGrant) -> None:
            limit.reschedule(asyncio.get_running_loop().time() + 0.2)
            zk.delete(f"{grant.path}/{grant.name}")
            time.sleep(0.3)  # both are due when the loop runs again
            await asyncio.sleep(PATIENCE_S)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                await body_of(AsyncZkLock(path, client=coordinator), body)
        assert 0 == asyncio.current_task().cancelling()  # type: ignore[union-attr]

    run(main())


def test_a_cancellation_from_elsewhere_comes_out_as_it_is(
    run: Run, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    async def body() -> None:
        async with AsyncZkLock(path, client=coordinator):
            await asyncio.sleep(PATIENCE_S)

    async def main() -> None:
        task = asyncio.create_task(body())
        await until(lambda: members(zk, path))
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: session_is_clean(coordinator))
        assert [] == await asyncio.to_thread(members, zk, path)

    run(main())


def test_max_hold_cancels_the_body(run: Run, coordinator: Coordinator, path: str) -> None:
    async def main() -> None:
        with pytest.raises(GrantLostError, match="max_hold"):
            await body_of(AsyncZkLock(path, client=coordinator, max_hold=0.1), sleeps)

    run(main())
