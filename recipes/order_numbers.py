"""
Order numbers: unique numbers for all processes, without a round trip for each.

**Problem.** Orders, invoices, jobs need numbers that nobody gives out twice, on any host, also after crashes.

**Guarantee.** No number is given out twice, by any process, as long as the znode is neither deleted nor restored from a
backup. Those of one process grow, and those of a later block are larger than all of an earlier one.

**Cost.** Two round trips for each block of (by default) 1,000 numbers; a number itself costs no network, so a process
gives out hundreds of thousands a second.

**Not done.** Numbers without gaps: what a process has left of its block when it ends is never used, nor is a block
whose allocation nobody could be sure of. Nor is the order of numbers that of the calls on different hosts.
"""

import asyncio
import os
import threading
from typing import Any

from recipes._cell import apply, apply_async
from recipes._znodes import DEFAULT_TIMEOUT_S, Client, Record, Znodes, check_count, check_path, check_timeout
from recipes._znodes_aio import AsyncZnodes
from recipes.errors import NumberLimitError

DEFAULT_BLOCK = 1_000

#: Largest number, as databases have them.
HIGHEST = 2**63 - 1


class _OrderNumbers:
    """What both front ends have: the arguments, the block, and the decision."""

    def __init__(self, path: str, *, client: Client, block: int, start: int) -> None:
        self.path = check_path(path)
        self._block = check_count("block", block)
        self._start = check_count("start", start, HIGHEST, 0)
        self._record = Record(self.path, "order-numbers")
        self._next = self._end = 0
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def _take(self) -> int | None:
        """Return the next number of the block; None when it is used up."""
        if self._next == self._end:
            return None
        number = self._next
        self._next += 1
        return number

    def _allocate(self, value: Any | None) -> int:
        """Decide on the first number of the next block, from that of the one before."""
        end = (self._start if value is None else int(value)) + self._block
        if end > HIGHEST:
            raise NumberLimitError(self.path, end, self._start, HIGHEST)
        return end

    def _begin(self, end: Any) -> int:
        self._next, self._end = int(end) - self._block, int(end)
        number = self._next
        self._next += 1
        return number


class OrderNumbers(_OrderNumbers):
    """
    Numbers from the series at `path`.

    Args:
        path: the series' znode; never deleted.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator.
        block: how many numbers to fetch at once. Each process may choose its own.
        start: the first number of a new series.

    Raises:
        ConfigError: an argument is wrong.

    Safety: may be shared between threads. A forked child begins with a block of its own.
    """

    def __init__(
        self, path: str, *, client: Client = None, block: int = DEFAULT_BLOCK, start: int = 1
    ) -> None:
        super().__init__(path, client=client, block=block, start=start)
        self._znodes = Znodes(client)
        self._lock = threading.Lock()

    def next(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> int:
        """
        Return a number that nobody else ever gets.

        Raises:
            ConnectionLostError: a block was needed, and no answer came in `timeout` seconds.
            WaitTimeoutError: others were faster each time.
            NumberLimitError: the series is used up.
            QueueConflictError: the path is used for something else.
        """
        if (
            self._pid != os.getpid()
        ):  # a forked child, with one thread so far: what is left of the block is the parent's
            self._lock, self._next, self._end, self._pid = threading.Lock(), 0, 0, os.getpid()
        with self._lock:
            number = self._take()
            if number is not None:
                return number
            return self._begin(apply(self._znodes, self._record, self._allocate, check_timeout(timeout)))


class AsyncOrderNumbers(_OrderNumbers):
    """`OrderNumbers` for tasks: the same arguments, methods and errors. For the tasks of one loop, not for children."""

    def __init__(
        self, path: str, *, client: Client = None, block: int = DEFAULT_BLOCK, start: int = 1
    ) -> None:
        super().__init__(path, client=client, block=block, start=start)
        self._znodes = AsyncZnodes(client)
        self._lock = asyncio.Lock()

    async def next(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> int:
        """Return a number that nobody else ever gets. Raises as `OrderNumbers.next`; cancelled, it skips a block."""
        number = self._take()
        if number is not None:
            return number
        give_up = check_timeout(timeout)
        async with self._lock:
            number = self._take()
            if number is not None:
                return number
            return self._begin(await apply_async(self._znodes, self._record, self._allocate, give_up))


def example() -> None:
    """Number some orders."""
    numbers = OrderNumbers("/examples/orders", block=100)
    print("orders", numbers.next(), numbers.next(), numbers.next())


if __name__ == "__main__":
    example()
