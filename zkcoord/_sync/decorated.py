"""What `locked` makes of functions and generators, for threads."""

import functools
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass

from zkcoord._sync.base import Lock
from zkcoord._sync.grants import Grant
from zkcoord.errors import AcquireTimeoutError, ConfigError


@dataclass(frozen=True, slots=True)
class LockedCall:
    """
    How the calls of one decorated function are locked.

    Attributes:
        path_of: a call's arguments to its path.
        make_lock: a path to its lock; a new one for each call, which holds the state of its ``with``.
        busy: makes the result of a call that finds the lock busy; None: it raises.
        grant: the parameter that gets the grant.
    """

    path_of: Callable[..., str]
    make_lock: Callable[[str], Lock]
    busy: Callable[[AcquireTimeoutError], object] | None
    grant: str | None

    def lock(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> Lock:
        """Return the lock for a call."""
        if self.grant is not None and self.grant in keywords:
            raise TypeError(f"{self.grant} is given by @locked, not by the caller")
        return check_lock(self.make_lock(self.path_of(*arguments, **keywords)))

    def extended(self, keywords: dict[str, object], grant: Grant) -> dict[str, object]:
        """Return the keyword arguments that the function gets."""
        return keywords if self.grant is None else {**keywords, self.grant: grant}

    def skipped(self, error: AcquireTimeoutError) -> object:
        """
        Return the result of a call whose lock was busy.

        Raises:
            AcquireTimeoutError: that is what was asked for, or no server has said that somebody is ahead.
        """
        if self.busy is None or error.position is None:
            raise error
        return self.busy(error)


def wrap(function: Callable[..., object], call: LockedCall) -> Callable[..., object]:
    """Return the function that locks, of the same sort."""
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, call)
    return _wrap_function(function, call)


def check_lock(lock: object) -> Lock:
    """
    Check what a ``lock=`` function returned.

    Raises:
        ConfigError: it is no lock.
    """
    if not isinstance(lock, Lock):
        raise ConfigError(
            f"lock= must make a lock, not {type(lock).__name__}; for one side of a read/write lock give"
            " lock=lambda path, **options: ZkReadWriteLock(path, **options).write"
        )
    return lock


def _wrap_function(function: Callable[..., object], call: LockedCall) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*arguments: object, **keywords: object) -> object:
        lock = call.lock(arguments, keywords)
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
    function: Callable[..., Generator[object, object, object]], call: LockedCall
) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*arguments: object, **keywords: object) -> Generator[object, object, object]:
        lock = call.lock(arguments, keywords)
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
