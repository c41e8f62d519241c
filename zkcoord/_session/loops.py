"""What threads and event loops say to each other; and what is to be done for a loop that was closed."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def tell(loop: asyncio.AbstractEventLoop, callback: Callable[[Unpack[Ts]], object], *arguments: *Ts) -> bool:
    """Have `callback` called on the loop soon, from any thread; False when the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True


async def off_loop(function: Callable[[], T], name: str = "zkcoord-off-loop") -> T:
    """
    Run what may block on a daemon thread of its own, and return what it returns.

    A caller that is cancelled stops waiting at once; the thread goes on to its end, which nobody is told of.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def succeed(value: T) -> None:
        if not done.done():
            done.set_result(value)

    def fail(error: Exception) -> None:
        if not done.done():
            done.set_exception(error)

    def work() -> None:
        try:
            value = function()
        except Exception as error:
            tell(loop, fail, error)
        else:
            tell(loop, succeed, value)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await done


class Wards:
    """
    Clean-ups to be done for event loops that are closed before their tasks have done them. Thread-safe.

    A task of such a loop never runs again, so nobody else would give back what it holds or waits for.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clean_ups: dict[Callable[[], bool], set[Callable[[], object]]] = {}

    def add(self, is_closed: Callable[[], bool], clean_up: Callable[[], object]) -> None:
        """Have `clean_up` called once when `is_closed` is seen to be true, unless it is taken off before."""
        with self._lock:
            self._clean_ups.setdefault(is_closed, set()).add(clean_up)

    def remove(self, is_closed: Callable[[], bool], clean_up: Callable[[], object]) -> None:
        """Take a clean-up off. Again does nothing."""
        with self._lock:
            clean_ups = self._clean_ups.get(is_closed)
            if clean_ups is not None:
                clean_ups.discard(clean_up)
                if not clean_ups:
                    del self._clean_ups[is_closed]

    def sweep(self) -> int:
        """Do what is to be done for the loops that are closed by now; how much that was."""
        with self._lock:
            closed = [is_closed for is_closed in self._clean_ups if is_closed()]
            due = [clean_up for is_closed in closed for clean_up in self._clean_ups.pop(is_closed)]
        for clean_up in due:
            clean_up()
        return len(due)
