"""
Processes: what a fork and an exit mean for things that own threads and sockets.

A forked child shares its parent's sockets and has none of its threads. It must neither use nor close them, so whatever
belongs to the parent refuses to work there. At exit everything is closed within a bound, so that locks are free at once
and not only when the session runs out: through `atexit`, and in multiprocessing's children, which skip that, through
its own finalizers.

A module that another thread is just importing at the fork stays half-imported in the child, its import lock held for
ever. So nothing is imported late: not by us, and not by what a connect needs.
"""

import atexit
import codecs
import multiprocessing.util
import os
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from zkcoord.errors import ForeignProcessError

#: All of a process's coordinators are closed within this many seconds at its exit.
EXIT_TIMEOUT_S = 2.0


class Closable(Protocol):
    """Something to close at exit."""

    def close(self, timeout: float = ...) -> None: ...

    def disinherit(self) -> None: ...


codecs.lookup("idna")  # what every look-up of a host's address imports when it is first used

_open: "weakref.WeakSet[Closable]" = weakref.WeakSet()
_child_hooks: list[Callable[[], None]] = []
_hooked_pid: int | None = None


def close_at_exit(closable: Closable) -> None:
    """Have `closable` closed when this process exits."""
    global _hooked_pid
    _open.add(closable)
    if _hooked_pid != os.getpid():
        if _hooked_pid is None:
            atexit.register(_close_all)
        _hooked_pid = os.getpid()
        _finalize_at_exit()


def is_closed(closable: Closable) -> None:
    """Nothing to do for it at exit any more."""
    _open.discard(closable)


def in_child(hook: Callable[[], None]) -> None:
    """Run `hook` in every forked child. It must not touch what the parent uses."""
    _child_hooks.append(hook)


def check(pid: int, what: str) -> None:
    """
    Refuse to use in a forked child what belongs to its parent.

    Raises:
        ForeignProcessError: this process is not `pid`.
    """
    if os.getpid() != pid:
        raise ForeignProcessError(
            f"{what} belongs to process {pid} and cannot be used in its child {os.getpid()}: make a new one here,"
            " or use locks without client=, which find their own coordinator in each process"
        )


def _finalize_at_exit() -> None:
    multiprocessing.util.Finalize(None, _close_all, exitpriority=100)


def _finalize_again(_: object) -> None:
    """
    Repeat our finalizer once multiprocessing has cleared all of them at a child's start.

    Spawned children, and those of a fork server, import the main module before that; what it makes is theirs.
    """
    if _hooked_pid == os.getpid():
        _finalize_at_exit()


def _close_all() -> None:
    give_up = time.monotonic() + EXIT_TIMEOUT_S
    for closable in list(_open):
        closable.close(timeout=max(0.1, give_up - time.monotonic()))


def _after_fork() -> None:
    inherited = list(_open)
    _open.clear()
    for closable in inherited:
        closable.disinherit()
    for hook in _child_hooks:
        hook()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
multiprocessing.util.register_after_fork(_close_all, _finalize_again)
