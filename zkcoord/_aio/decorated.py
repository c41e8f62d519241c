"""What `locked` makes of coroutine functions and async generators, for asyncio."""

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from types import TracebackType

from zkcoord._aio.base import AsyncLock
from zkcoord._aio.grants import AsyncGrant
from zkcoord._aio.scope import Scope
from zkcoord._call import LockedCall, no_lock
from zkcoord.errors import AcquireTimeoutError


def wrap(function: Callable[..., object], call: LockedCall[AsyncLock]) -> Callable[..., object]:
    """Return the function that locks, of the same sort."""
    if inspect.isasyncgenfunction(function):
        return _wrap_generator(function, call)
    return _wrap_function(function, call)


def check_lock(lock: object) -> AsyncLock:
    """
    Check what a ``lock=`` function returned.

    Raises:
        ConfigError: it is no lock for asyncio.
    """
    if not isinstance(lock, AsyncLock):
        raise no_lock(lock, "asyncio")
    return lock


def _wrap_function(function: Callable[..., object], call: LockedCall[AsyncLock]) -> Callable[..., object]:
    @functools.wraps(function)
    async def wrapper(*arguments: object, **keywords: object) -> object:
        lock = check_lock(call.lock(arguments, keywords))
        is_entered = False
        try:
            async with lock as grant:
                is_entered = True
                result = function(*arguments, **call.extended(keywords, grant))
                assert inspect.isawaitable(result)
                return await result
        except AcquireTimeoutError as error:
            if is_entered:
                raise  # the body's own
            result = call.skipped(error)
            return await result if inspect.isawaitable(result) else result

    return wrapper


def _wrap_generator(
    function: Callable[..., AsyncGenerator[object, object]], call: LockedCall[AsyncLock]
) -> Callable[..., object]:
    @functools.wraps(function)
    async def wrapper(*arguments: object, **keywords: object) -> AsyncGenerator[object, object]:
        lock = check_lock(call.lock(arguments, keywords))
        is_entered = False
        try:
            async with _Uncancelled(lock) as grant:
                is_entered = True
                generator = function(*arguments, **call.extended(keywords, grant))
                step: Callable[[], Awaitable[object]] = generator.__anext__
                try:
                    while True:
                        # Whoever asks for the next value is cancelled while it waits for it, never in code of its own.
                        with Scope(grant) if lock._spec.cancels else nullcontext():
                            value = await step()
                        try:
                            step = functools.partial(generator.asend, (yield value))
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            step = functools.partial(generator.athrow, error)
                except StopAsyncIteration:
                    return
                finally:
                    await generator.aclose()
        except AcquireTimeoutError as error:
            if is_entered:
                raise  # the body's own
            call.skipped(error)

    return wrapper


class _Uncancelled:
    """A lock as a context manager that cancels nobody."""

    def __init__(self, lock: AsyncLock) -> None:
        self._lock = lock

    async def __aenter__(self) -> AsyncGrant:
        return await self._lock._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lock.__aexit__(kind, error, trace)
