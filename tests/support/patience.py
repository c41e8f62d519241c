"""Waiting for things in tests: bounded, by condition, never by a guess of how long something takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")

#: Most seconds that anything in a test may take before it counts as hung; the machine may be slow.
PATIENCE_S = 15.0

_POLL_S = 0.005


def wait_until(condition: Callable[[], _T], timeout: float = PATIENCE_S) -> _T:
    """
    Look again and again until ``condition()`` is true, and return what it returned.

    Raises:
        AssertionError: it was not true within ``timeout`` seconds.
    """
    give_up = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < give_up, f"not true within {timeout} s: {condition}"
        time.sleep(_POLL_S)
    return value


def in_thread(function: Callable[..., _T], *arguments: Any, name: str | None = None) -> Future[_T]:
    """Run ``function`` on a new thread of its own; ``.result(timeout)`` gives what it returned or raised."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
