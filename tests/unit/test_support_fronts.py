"""The stand-ins that let tests for threads run on asyncio: a task for each thread, cancellation, what is left over."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support.fronts import LOCKS, Face, Tasks, stand_ins
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import AsyncZkLock
from zkcoord.testing import LeftBehindError


async def whoami() -> tuple[str, int]:
    task = asyncio.current_task()
    assert task is not None
    return task.get_name(), id(task)


def test_each_thread_has_one_task_named_like_it() -> None:
    with Tasks() as tasks:
        here = [tasks.call(whoami) for _ in range(2)]
        there = in_thread(tasks.call, whoami, name="another").result(PATIENCE_S)

    assert threading.current_thread().name == here[0][0]
    assert here[0] == here[1]
    assert "another" == there[0]
    assert there[1] != here[0][1]


def test_errors_come_out_and_the_task_goes_on() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with Tasks() as tasks:
        before = tasks.call(whoami)
        with pytest.raises(KeyError):
            tasks.call(fail)
        assert before == tasks.call(whoami)


def test_cancel_ends_exactly_the_calls_with_that_key() -> None:
    async def wait() -> str:
        await asyncio.sleep(0.1)
        return "done"

    one, other = object(), object()
    with Tasks() as tasks:
        calls = [in_thread(tasks.call, wait, key) for key in (one, other)]
        wait_until(lambda: len(tasks._calls) == 2)
        tasks.cancel(one)
        with pytest.raises(asyncio.CancelledError):
            calls[0].result(PATIENCE_S)
        assert "done" == calls[1].result(PATIENCE_S)


def test_a_task_that_is_left_over_fails_the_test() -> None:
    left = []

    async def leave_behind() -> None:
        left.append(asyncio.create_task(asyncio.sleep(60)))

    with pytest.raises(LeftBehindError, match="still running"), Tasks() as tasks:
        tasks.call(leave_behind)


def test_an_exception_that_nobody_retrieves_fails_the_test() -> None:
    async def fail() -> None:
        raise KeyError("x")

    async def forget() -> None:
        asyncio.create_task(fail())  # noqa: RUF006
        await asyncio.sleep(0.01)

    with pytest.raises(LeftBehindError, match="never retrieved"), Tasks() as tasks:
        tasks.call(forget)


def test_stand_ins_are_made_of_the_locks_for_asyncio_and_signal_a_loss() -> None:
    with Tasks() as tasks:
        makers = stand_ins(tasks)
        lock = makers["ZkLock"]("/a", timeout=1.0)

        assert set(LOCKS) == set(makers)
        assert isinstance(lock, Face)
        assert isinstance(lock._inner, AsyncZkLock)
        assert ("<ZkLock /a>", "/a", False) == (repr(lock), lock.path, lock._spec.cancels)
        assert tasks.face(lock._inner) is lock
