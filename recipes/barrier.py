"""
Barrier: a gate that everybody waits at until somebody opens it.

**Problem.** A migration, a deployment, a switch: many processes must not go on before one of them says so.

**Guarantee.** `wait` returns only after a read that saw the barrier open, no older than the call. The barrier stays
shut when its maker dies. It is that of Java's ``DistributedBarrier``: shut while the znode exists.

**Cost.** To shut: one round trip; to open: two. To wait: one, a notification and one more. A waiter leaves nothing on
the server but a watch, which goes with its session.

**Not done.** Who passes the open barrier late finds it shut again if somebody has shut it meanwhile. To meet and part
together, `recipes.double_barrier`.
"""

import time

from recipes._znodes import (
    DEFAULT_TIMEOUT_S,
    Client,
    Record,
    Wake,
    Znodes,
    check_path,
    check_timeout,
    is_over,
    left,
)
from recipes._znodes_aio import AsyncWake, AsyncZnodes
from recipes.errors import WaitTimeoutError

#: A lost watch is made up for after so many seconds.
_LOOK_AGAIN_S = 5.0


class _Barrier:
    """What both front ends have."""

    def __init__(self, path: str) -> None:
        self.path = check_path(path)
        self._record = Record(self.path, "barrier")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def _timed_out(self, began: float) -> WaitTimeoutError:
        return WaitTimeoutError(self.path, time.monotonic() - began, "the barrier was not opened")


def _pause(give_up: float | None) -> float:
    rest = left(give_up)
    return _LOOK_AGAIN_S if rest is None else min(rest, _LOOK_AGAIN_S)


class Barrier(_Barrier):
    """
    The barrier at `path`.

    Args:
        path: its znode; shut while it exists. Nothing else may be there.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator.

    Raises:
        ConfigError: an argument is wrong.

    Safety: may be shared between threads.
    """

    def __init__(self, path: str, *, client: Client = None) -> None:
        super().__init__(path)
        self._znodes = Znodes(client)

    def shut(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> bool:
        """
        Shut it; False when it was shut already.

        Raises:
            ConnectionLostError: no answer in time; it may have been shut.
        """
        return self._znodes.create(self.path, self._record.encode(), check_timeout(timeout))

    def open(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> bool:
        """
        Open it, and let all go on who wait; False when it was open already.

        Raises:
            QueueConflictError: the znode has children, so it is no barrier.
            ConnectionLostError: no answer in time; it may have been opened.
        """
        give_up = check_timeout(timeout)
        found = self._znodes.get(self.path, give_up)
        if found is not None and found[1].numChildren:
            raise self._record.conflict("(it has children)")
        return self._znodes.delete(self.path, -1, give_up) is not None

    def is_shut(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> bool:
        """Whether it is shut, by a fresh read. `ConnectionLostError` when no answer came."""
        return self._znodes.get(self.path, check_timeout(timeout)) is not None

    def wait(self, *, timeout: float | None = None) -> None:
        """
        Wait until it is open.

        Args:
            timeout: most seconds to wait; None = for ever, 0 = one look.

        Raises:
            WaitTimeoutError: it was not opened in time.
            ConnectionLostError: the time is up, and no server answered.
        """
        give_up, began, wake = check_timeout(timeout), time.monotonic(), Wake()
        look_by = check_timeout(DEFAULT_TIMEOUT_S) if timeout == 0 else give_up
        while True:
            wake.clear()
            if self._znodes.get(self.path, look_by, wake.ring) is None:
                return
            wake.wait(_pause(give_up))
            if is_over(give_up):
                raise self._timed_out(began)


class AsyncBarrier(_Barrier):
    """`Barrier` for tasks: the same arguments, methods and errors. May be shared between tasks of one loop."""

    def __init__(self, path: str, *, client: Client = None) -> None:
        super().__init__(path)
        self._znodes = AsyncZnodes(client)

    async def shut(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> bool:
        """Shut it; False when it was shut already. Raises as `Barrier.shut`."""
        return await self._znodes.create(self.path, self._record.encode(), check_timeout(timeout))

    async def open(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> bool:
        """Open it, and let all go on who wait; False when it was open already. Raises as `Barrier.open`."""
        give_up = check_timeout(timeout)
        found = await self._znodes.get(self.path, give_up)
        if found is not None and found[1].numChildren:
            raise self._record.conflict("(it has children)")
        return await self._znodes.delete(self.path, -1, give_up) is not None

    async def is_shut(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> bool:
        """Whether it is shut, by a fresh read. `ConnectionLostError` when no answer came."""
        return await self._znodes.get(self.path, check_timeout(timeout)) is not None

    async def wait(self, *, timeout: float | None = None) -> None:
        """Wait until it is open. Raises as `Barrier.wait`."""
        give_up, began, wake = check_timeout(timeout), time.monotonic(), AsyncWake()
        look_by = check_timeout(DEFAULT_TIMEOUT_S) if timeout == 0 else give_up
        while True:
            wake.clear()
            if await self._znodes.get(self.path, look_by, wake.ring) is None:
                return
            await wake.wait(_pause(give_up))
            if is_over(give_up):
                raise self._timed_out(began)


def example() -> None:
    """Keep workers waiting while something is prepared."""
    barrier = Barrier("/examples/migration")
    barrier.shut()
    print("shut:", barrier.is_shut())
    barrier.open()
    barrier.wait(timeout=5.0)
    print("open, go on")


if __name__ == "__main__":
    example()
