"""Calls in the background with the moment of their end, and what tests of faults do to queues and sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.support.waiting import PATIENCE_S
from zkcoord import ConnectionLostError, Grant
from zkcoord.testing.sessions import end

T = TypeVar("T")

#: Room above a promised bound, for a loaded two-core machine. It is part of the promise itself.
ROOM_S = 0.25


class Background(Generic[T]):
    """A call on a thread of its own. `at` is when it ended; `result` waits for it, and raises what it raised."""

    def __init__(self, function: Callable[[], T], name: str = "test-background") -> None:
        self.at = 0.0
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended, either way."""
        return not self._thread.is_alive()

    def wait(self, timeout: float) -> bool:
        """Wait for its end, at most `timeout` seconds; whether it has ended."""
        self._thread.join(timeout)
        return self.is_done

    def result(self, timeout: float = PATIENCE_S) -> T:
        """Return what the call returned."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"the call did not end within {timeout} s"
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _run(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # handed to whoever asks for the result
            self._error = error
        finally:
            self.at = time.monotonic()


def timed(function: Callable[[], T]) -> tuple[float, T]:
    """Return how many seconds a call took, and its result."""
    began = time.monotonic()
    value = function()
    return time.monotonic() - began, value


def members(client: KazooClient, path: str) -> list[str]:
    """Return a lock's members, oldest first; empty when the directory is missing too."""
    try:
        return sorted(client.get_children(path), key=lambda name: name[-10:])
    except NoNodeError:
        return []


def add_member(client: KazooClient, path: str, data: bytes = b"") -> str:
    """Queue up as another client of the same lock library would; return the member's path."""
    client.ensure_path(path)
    created: str = client.create(
        f"{path}/_c_00000000-0000-4000-8000-000000000000-lock-", data, ephemeral=True, sequence=True
    )
    return created


def end_session(victim: KazooClient, hosts: str) -> None:
    """End a client's session on the server, as its expiry would: a second client takes it over and closes it."""
    end(victim.client_id, hosts)


def is_verified(grant: Grant) -> bool:
    """Whether the ensemble says so now; False when there is no connection."""
    try:
        grant.verify(timeout=1.0)
    except ConnectionLostError:
        return False
    return True
