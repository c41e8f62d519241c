"""What `locked` makes of functions and generators, for threads."""

import functools
import inspect
from collections.abc import Callable, Generator

from zkcoord._call import LockedCall, no_lock
from zkcoord._sync.base import Lock
from zkcoord.errors import AcquireTimeoutError, ConfigError


def wrap(function: Callable[..., object], call: LockedCall[Lock]) -> Callable[..., object]:
    """Return the function that locks, of the same sort."""
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, call)
    return _wrap_function(function, call)


def check_lock(lock: object) -> Lock:
    """
    Check what a ``lock=`` function returned.

    Raises:
        ConfigError: it is no lock for threads.
    """
    if not isinstance(lock, Lock):
        raise no_lock(lock, "threads")
    return lock


def _wrap_function(function: Callable[..., object], call: LockedCall[Lock]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*arguments: object, **keywords: object) -> object:
        lock = check_lock(call.lock(arguments, keywords))
        is_entered = False
        try:
            with lock as grant:
                is_entered = True
                result = function(*arguments, **call.extended(keywords, grant))
                if inspect.iscoroutine(result):
                    result.close()
                    raise ConfigError(f"{function!r} returned a coroutine, which would run after the release")
                return result
        except AcquireTimeoutError as error:
            if is_entered:
                raise  # the body's own
            return call.skipped(error)

    return wrapper


def _wrap_generator(
    function: Callable[..., Generator[object, object, object]], call: LockedCall[Lock]
) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*arguments: object, **keywords: object) -> Generator[object, object, object]:
        lock = check_lock(call.lock(arguments, keywords))
        is_entered = False
        try:
            with lock as grant:
                is_entered = True
                return (yield from function(*arguments, **call.extended(keywords, grant)))
        except AcquireTimeoutError as error:
            if is_entered:
                raise  # the body's own
            return call.skipped(error)

    return wrapper
