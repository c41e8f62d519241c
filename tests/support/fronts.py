"""
The two front ends behind one face, so that one suite runs on both.

A test is written for threads. On asyncio its locks and grants are stand-ins: each calling thread has a task of its own
on a loop that runs elsewhere, and every call that waits is awaited in that task, so a thread of the test is an owner as
it is with threads. The loop is in debug mode, and what is left on it in the end is an error.

``pytest.mark.fronts("threads", "asyncio")`` makes tests run on both; see the fixture ``front``
in ``tests/conftest.py``.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import zkcoord
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord._aio.base import AsyncLock
from zkcoord._aio.grants import AsyncGrant, AsyncLostSignal, AsyncTransaction
from zkcoord.testing import LeftBehindError

FRONTS = ("threads", "asyncio")

#: What tests make: each has its twin for asyncio.
LOCKS = ("ZkLock", "ZkReadWriteLock", "ZkSemaphore", "ZkMultiLock")

TWINS = (AsyncLock, AsyncGrant, AsyncLostSignal, AsyncTransaction, zkcoord.AsyncZkReadWriteLock)

Thunk = Callable[[], Awaitable[Any]]


#: Whether all tests are run on asyncio that can be, as `python -m tests.full asyncio` does; else not the slow ones.
IS_FULL = bool(os.environ.get("ZKCOORD_TEST_ASYNCIO") or os.environ.get("ZKCOORD_TEST_UVLOOP"))


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop of the kind that the run is for: asyncio's own, or uvloop's where ``ZKCOORD_TEST_UVLOOP`` is set."""
    if os.environ.get("ZKCOORD_TEST_UVLOOP"):
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop
    return asyncio.new_event_loop()


@dataclass(frozen=True)
class Front:
    """
    A front end under test.

    Attributes:
        kind: one of FRONTS.
        locks: what makes its locks, by the names of those for threads.
    """

    kind: str
    locks: dict[str, Any]


class Tasks:
    """A loop on a thread of its own, with one task for each thread that calls. A context manager."""

    def __init__(self) -> None:
        self.made = 0
        self._local = threading.local()
        self._workers: list[asyncio.Task[None]] = []
        self._calls: dict[Future[Any], tuple[asyncio.Task[Any], object]] = {}
        self._complaints: list[str] = []
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="test-loop", daemon=True)
        self._faces: weakref.WeakValueDictionary[int, Face] = weakref.WeakValueDictionary()

    def __enter__(self) -> Tasks:
        self._thread.start()
        self._loop, self._end = self._ready.result(PATIENCE_S)
        return self

    def __exit__(self, *error: object) -> None:
        """End it; a call that still waits is an error, as is a task of zkcoord's, or what the loop complained of."""
        try:
            wait_until(lambda: not self._calls)
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(PATIENCE_S)
        if self._complaints:
            raise LeftBehindError("\n".join(self._complaints))

    def call(self, thunk: Thunk, key: object = None) -> Any:
        """Await in this thread's task what `thunk` returns. `cancel` with its `key` cancels that: `CancelledError`."""
        assert threading.current_thread() is not self._thread, "a callback of the test blocks the loop"
        if not hasattr(self._local, "jobs"):
            name = threading.current_thread().name
            self._local.jobs = self._ask(lambda: self._new_worker(name))
        done: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._local.jobs.put_nowait, (thunk, key, done))
        return done.result()

    def cancel(self, key: object) -> None:
        """Cancel the tasks in whose calls with this key they are."""
        self._ask(lambda: [task.cancel() for task, which in self._calls.values() if which is key])

    def face(self, value: Any) -> Any:
        """Return what stands for a thing of asyncio's; the same for the same. All else as it is."""
        if not isinstance(value, TWINS):
            return value
        face = self._faces.get(id(value))
        if face is None:
            face = self._faces[id(value)] = Face(self, value)
        return face

    def _ask(self, function: Callable[[], Any]) -> Any:
        answer: Future[Any] = Future()
        self._loop.call_soon_threadsafe(lambda: answer.set_result(function()))
        return answer.result(PATIENCE_S)

    def _new_worker(self, name: str) -> asyncio.Queue[Any]:
        jobs: asyncio.Queue[Any] = asyncio.Queue()
        self._workers.append(self._loop.create_task(self._work(jobs), name=name))
        return jobs

    async def _work(self, jobs: asyncio.Queue[Any]) -> None:
        while True:
            await self._do(*await jobs.get())

    async def _do(self, thunk: Thunk, key: object, done: Future[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._calls[done] = task, key
        try:
            done.set_result(await thunk())
        except asyncio.CancelledError as error:
            task.uncancel()
            done.set_exception(error)
        except BaseException as error:
            done.set_exception(error)
        finally:
            del self._calls[done]

    def _run(self) -> None:
        with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
            runner.run(self._main())
            gc.collect(
                1
            )  # what is never retrieved is told of when it is thrown away; not all the run's garbage

    async def _main(self) -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda loop, context: self._complaints.append(str(context)))
        self._ready.set_result((loop, end))
        await end.wait()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self._complaints.extend(f"still running: {task!r}" for task in left)


class Face:
    """A thing of asyncio's, used as its twin for threads is. The body of a ``with`` is not cancelled."""

    def __init__(self, tasks: Tasks, inner: Any) -> None:
        self._tasks = tasks
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner).replace("Async", "")

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._inner.__reduce_ex__(protocol)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name.startswith("_") or not inspect.ismethod(value):
            return self._tasks.face(value)
        if name in ("on_lost", "on_revoke"):
            return lambda callback: value(self._told(callback))
        if not inspect.iscoroutinefunction(value):
            return lambda *arguments, **keywords: self._tasks.face(value(*arguments, **keywords))
        return lambda *arguments, **keywords: self._await(lambda: value(*arguments, **keywords))

    def __enter__(self) -> Any:
        return self._await(self._inner.__aenter__)

    def __exit__(self, *error: Any) -> Any:
        return self._await(lambda: self._inner.__aexit__(*error))

    def cancel(self) -> None:
        """Cancel the tasks that wait in a call of this object's."""
        self._tasks.cancel(self._inner)

    def _await(self, thunk: Thunk) -> Any:
        try:
            return self._tasks.face(self._tasks.call(thunk, self._inner))
        except asyncio.CancelledError as error:
            raise zkcoord.AcquireCancelledError(self._inner.path, "cancelled") from error

    def _told(self, callback: Any) -> Any:
        """Return a callback that does not block the loop, whatever the test's does."""
        if not callable(callback):
            return callback
        return lambda grant, *more: in_thread(callback, self._tasks.face(grant), *more) and None


def of_threads() -> dict[str, Any]:
    """Return what makes the locks of a test for threads: they themselves."""
    return {name: getattr(zkcoord, name) for name in LOCKS}


def stand_ins(tasks: Tasks) -> dict[str, Any]:
    """Return what makes the locks of a test on asyncio, by the names of those for threads."""

    def maker(name: str) -> Any:
        def make(*arguments: Any, **keywords: Any) -> Any:
            tasks.made += 1
            plain = [_plain(argument) for argument in arguments]
            return tasks.face(getattr(zkcoord, f"Async{name}")(*plain, on_lost="signal", **keywords))

        return make

    return {name: maker(name) for name in LOCKS}


def _plain(argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        return [_plain(one) for one in argument]
    return argument._inner if isinstance(argument, Face) else argument
