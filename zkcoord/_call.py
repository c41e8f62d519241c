"""How the calls of one function decorated with `locked` are locked; for threads and for asyncio."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from zkcoord.errors import AcquireTimeoutError, ConfigError

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class LockedCall(Generic[L]):
    """
    How the calls of one decorated function are locked.

    Attributes:
        path_of: a call's arguments to its path.
        make_lock: a path to its lock; a new one for each call, which holds the state of its ``with``.
        busy: makes the result of a call that finds the lock busy; None: it raises.
        grant: the parameter that gets the grant.
    """

    path_of: Callable[..., str]
    make_lock: Callable[[str], L]
    busy: Callable[[AcquireTimeoutError], object] | None
    grant: str | None

    def lock(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> L:
        """Return the lock for a call."""
        if self.grant is not None and self.grant in keywords:
            raise TypeError(f"{self.grant} is given by @locked, not by the caller")
        return self.make_lock(self.path_of(*arguments, **keywords))

    def extended(self, keywords: dict[str, object], grant: object) -> dict[str, object]:
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


def no_lock(lock: object, kind: str) -> ConfigError:
    """Return the error for a ``lock=`` function that returned something else than the `kind` of lock needed."""
    prefix = "Async" if kind == "asyncio" else ""
    return ConfigError(
        f"lock= must make a lock for {kind}, not {type(lock).__name__}; for one side of a read/write lock give"
        f" lock=lambda path, **options: {prefix}ZkReadWriteLock(path, **options).write"
    )
