"""
Counter: one number that many processes change, each change once.

**Problem.** Hits, stock, a budget: several hosts add to one number, and no addition may get lost or count twice.

**Guarantee.** A change is applied exactly once or not at all, also when the answer to it is lost: the znode remembers
the last 32 changes. `add` returns the value that it made itself. Whoever cannot know any more, because so many others
changed it while no server answered, gets ``ConnectionLostError`` with ``maybe_applied=True``.

**Cost.** A read: one round trip. A change: two, and two more for each time that somebody else was faster. So a few
hundred changes a second in all, whatever the number of clients; `recipes.order_numbers` is for more.

**Not done.** Java's and kazoo's forms have no room to remember changes: with ``form="curator-int"`` (4 bytes, as
``DistributedAtomicInteger`` and ``SharedCount`` have it), ``"curator-long"`` (8 bytes) and ``"kazoo"`` (decimal text) a
change whose answer is lost raises ``ConnectionLostError`` with ``maybe_applied=True``.
"""

import math
import struct
from collections.abc import Callable
from typing import Any

from recipes._cell import Form, apply, apply_async, read
from recipes._znodes import DEFAULT_TIMEOUT_S, Client, Record, Znodes, check_path, check_timeout
from recipes._znodes_aio import AsyncZnodes
from recipes.errors import NumberLimitError
from zkcoord import ConfigError

Number = int | float

#: Smallest and largest integer of each form; JSON's are those that every reader of it can keep.
_LIMITS = {
    "json": (-(2**63), 2**63 - 1),
    "curator-int": (-(2**31), 2**31 - 1),
    "curator-long": (-(2**63), 2**63 - 1),
    "kazoo": (-(2**63), 2**63 - 1),
}
_STRUCTS = {"curator-int": struct.Struct(">i"), "curator-long": struct.Struct(">q")}


class _Counter:
    """What both front ends have: the arguments, and the decisions."""

    def __init__(self, path: str, *, client: Client, initial: Number, form: str) -> None:
        if form not in _LIMITS:
            raise ConfigError(f"form must be one of {', '.join(_LIMITS)}, not {form!r:.80}")
        self.path = check_path(path)
        self._client = client
        self._form = form
        self._initial = self._checked("initial", initial)
        self._record = (
            Form(self.path, self._decode, self._encode) if form != "json" else Record(self.path, "counter")
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def _checked(self, name: str, value: object) -> Number:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{name} must be an int or a float, not {type(value).__name__}")
        if isinstance(value, float):
            if self._form != "json":
                raise ConfigError(f"{name} must be an int: form {self._form} has no fractions")
            if not math.isfinite(value):
                raise ConfigError(f"{name} must be finite, not {value}")
            return value
        lowest, highest = _LIMITS[self._form]
        if not lowest <= value <= highest:
            raise NumberLimitError(self.path, value, lowest, highest)
        return value

    def _plus(self, delta: Number) -> Callable[[Any | None], Number]:
        self._checked("delta", delta)
        return lambda value: self._checked("the sum", (self._initial if value is None else value) + delta)

    def _swap(self, expected: Number, new: Number) -> Callable[[Any | None], Number | None]:
        self._checked("expected", expected)
        self._checked("new", new)
        return lambda value: new if expected == (self._initial if value is None else value) else None

    def _decode(self, data: bytes) -> Number:
        try:
            if self._form == "kazoo":
                return int(data.decode("ascii"))
            return int(_STRUCTS[self._form].unpack(data)[0])
        except (ValueError, struct.error):
            raise Record(self.path, "counter").conflict(f"(no number of form {self._form})") from None

    def _encode(self, value: Number) -> bytes:
        return str(value).encode() if self._form == "kazoo" else _STRUCTS[self._form].pack(value)

    def _value(self, found: Any | None) -> Number:
        value: Number = self._initial if found is None else found
        return value


class Counter(_Counter):
    """
    A number at `path`.

    Args:
        path: its znode; made by the first change, and never deleted.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator.
        initial: what it is before the first change; the same for all its users.
        form: "json" (the default; int or float), "curator-int", "curator-long" or "kazoo".

    Raises:
        ConfigError: an argument is wrong.
        NumberLimitError: `initial` does not fit.

    Safety: may be shared between threads, and used in forked children if `client` may.
    """

    def __init__(self, path: str, *, client: Client = None, initial: Number = 0, form: str = "json") -> None:
        super().__init__(path, client=client, initial=initial, form=form)
        self._znodes = Znodes(client)

    def get(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> Number:
        """
        Return the value, by a fresh read.

        Raises:
            ConnectionLostError: no answer in `timeout` seconds.
            QueueConflictError: the path holds something else.
        """
        return self._value(read(self._record, self._znodes.get(self.path, check_timeout(timeout))))

    def add(self, delta: Number = 1, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> Number:
        """
        Add `delta`, and return what it is then.

        Raises:
            NumberLimitError: the sum does not fit; nothing was changed.
            ConnectionLostError: no answer in time; see `maybe_applied`.
            WaitTimeoutError: others were faster each time; nothing was changed.
            QueueConflictError: the path holds something else.
        """
        return self._value(apply(self._znodes, self._record, self._plus(delta), check_timeout(timeout)))

    def compare_and_set(
        self, expected: Number, new: Number, *, timeout: float | None = DEFAULT_TIMEOUT_S
    ) -> bool:
        """Set it to `new` if it is `expected`; whether it was. Raises as `add`."""
        change = self._swap(expected, new)
        return apply(self._znodes, self._record, change, check_timeout(timeout)) is not None

    def set(self, value: Number, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> None:
        """Set it, whatever it is. Raises as `add`."""
        self._checked("value", value)
        apply(self._znodes, self._record, lambda _: value, check_timeout(timeout))


class AsyncCounter(_Counter):
    """`Counter` for tasks: the same arguments, methods and errors. May be shared between tasks of one loop."""

    def __init__(self, path: str, *, client: Client = None, initial: Number = 0, form: str = "json") -> None:
        super().__init__(path, client=client, initial=initial, form=form)
        self._znodes = AsyncZnodes(client)

    async def get(self, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> Number:
        """Return the value, by a fresh read. Raises as `Counter.get`."""
        return self._value(read(self._record, await self._znodes.get(self.path, check_timeout(timeout))))

    async def add(self, delta: Number = 1, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> Number:
        """Add `delta`, and return what it is then. Raises as `Counter.add`; cancelled, it may have been applied."""
        change = self._plus(delta)
        return self._value(await apply_async(self._znodes, self._record, change, check_timeout(timeout)))

    async def compare_and_set(
        self, expected: Number, new: Number, *, timeout: float | None = DEFAULT_TIMEOUT_S
    ) -> bool:
        """Set it to `new` if it is `expected`; whether it was. Raises as `add`."""
        change = self._swap(expected, new)
        return await apply_async(self._znodes, self._record, change, check_timeout(timeout)) is not None

    async def set(self, value: Number, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> None:
        """Set it, whatever it is. Raises as `add`."""
        self._checked("value", value)
        await apply_async(self._znodes, self._record, lambda _: value, check_timeout(timeout))


def example() -> None:
    """Count, and take from a stock only while there is some."""
    hits = Counter("/examples/hits")
    print("hits:", hits.add())
    stock = Counter("/examples/stock", initial=5)
    left = stock.get()
    while left > 0 and not stock.compare_and_set(left, left - 1):
        left = stock.get()
    print("left:", stock.get())


if __name__ == "__main__":
    example()
