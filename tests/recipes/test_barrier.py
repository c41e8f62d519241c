"""`Barrier`, for threads and for tasks."""

from __future__ import annotations

import asyncio
import time

import pytest

from recipes import AsyncBarrier, Barrier, WaitTimeoutError
from tests.support.faults import end_session
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import ConfigError, ConnectionLostError, Coordinator, QueueConflictError, ZkLock
from zkcoord.server import EmbeddedServer

pytestmark = pytest.mark.servers("embedded", "real")


def test_waiters_go_on_when_it_is_opened(make_coordinator, path):
    barrier = Barrier(path, client=make_coordinator())
    barrier.wait(timeout=5.0)  # nobody has shut it
    assert barrier.shut()
    assert not barrier.shut()
    assert barrier.is_shut()
    waiting = [in_thread(Barrier(path, client=make_coordinator()).wait) for _ in range(3)]
    with pytest.raises(WaitTimeoutError):
        barrier.wait(timeout=1.0)
    with pytest.raises(WaitTimeoutError):
        barrier.wait(timeout=0)
    assert not any(one.done() for one in waiting)

    assert barrier.open()

    for one in waiting:
        one.result(PATIENCE_S)
    assert not barrier.open()
    assert not barrier.is_shut()
    barrier.wait(timeout=0)


def test_it_stays_shut_when_its_maker_has_gone_and_a_waiter_survives_its_sessions_end(
    make_coordinator, hosts, path
):
    maker = make_coordinator()
    Barrier(path, client=maker).shut()
    maker.close()
    waiter = make_coordinator()
    waiting = in_thread(Barrier(path, client=waiter).wait)
    wait_until(lambda: waiter.session_id is not None)
    end_session(waiter.client, hosts)
    wait_until(lambda: waiter.session_id is not None)
    assert not waiting.done()

    Barrier(path, client=make_coordinator()).open()

    waiting.result(PATIENCE_S)


def test_wrong_use(coordinator, path):
    with pytest.raises(ConfigError):
        Barrier(path, client=coordinator).wait(timeout=-1)
    with ZkLock(path, client=coordinator, timeout=10.0), pytest.raises(QueueConflictError):
        Barrier(path, client=coordinator).open()


def test_barrier_for_tasks(hosts, path):
    async def work():
        async with Coordinator(hosts) as coordinator:
            barrier = AsyncBarrier(path, client=coordinator)
            await barrier.wait(timeout=0)
            assert await barrier.shut()
            with pytest.raises(WaitTimeoutError):
                await barrier.wait(timeout=1.0)
            waiting = [asyncio.create_task(barrier.wait()) for _ in range(3)]
            await asyncio.sleep(0)
            assert await barrier.is_shut()
            assert await barrier.open()
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*waiting)
            return await barrier.open()

    assert not asyncio.run(work())


@pytest.mark.servers("embedded")
@pytest.mark.parametrize("operation", ["getData", "sync"])
@pytest.mark.parametrize("fault", ["cut_before", "cut_after", "expire"])
def test_waiters_get_over_a_break_at_any_request(server: EmbeddedServer, operation, fault):
    with Coordinator(server.hosts, session_timeout=2.0) as mine, Coordinator(server.hosts) as other:
        Barrier("/gate", client=other).shut()
        struck = getattr(server.faults, fault)(operation=operation)
        waiting = in_thread(Barrier("/gate", client=mine).wait)
        wait_until(lambda: struck.hits)
        Barrier("/gate", client=other).open()
        waiting.result(PATIENCE_S)


@pytest.mark.servers("embedded")
def test_no_server(path):
    began = time.monotonic()
    with Coordinator("127.0.0.1:1") as coordinator, pytest.raises(ConnectionLostError):
        Barrier(path, client=coordinator).wait(timeout=0.2)
    assert time.monotonic() - began < PATIENCE_S
