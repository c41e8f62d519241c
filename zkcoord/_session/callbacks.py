"""
Users' callbacks, on two daemon threads of ours: never on kazoo's threads, never on the guard's.

Two, so that one that blocks does not hold up all the others. What a callback raises is logged and goes no further.
"""

import queue
import threading
from collections.abc import Callable

from zkcoord._session.log import get_logger

log = get_logger("callbacks")

_THREADS = 2


class Callbacks:
    """A small executor whose threads start with the first callback and end with `close`. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._is_closed = False

    def run(self, callback: Callable[[], object]) -> None:
        """Run `callback` soon, in the order of asking as far as the threads are free. After `close` it is dropped."""
        with self._lock:
            if self._is_closed:
                return
            while self._started < _THREADS:
                self._started += 1
                threading.Thread(
                    target=self._work, name=f"{self._name}-callback-{self._started}", daemon=True
                ).start()
            self._queue.put(callback)

    def close(self) -> None:
        """End the threads once what was asked for has run; does not wait."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for _ in range(self._started):
                self._queue.put(None)

    def _work(self) -> None:
        while (callback := self._queue.get()) is not None:
            try:
                callback()
            except BaseException:  # SystemExit too: it would end this thread, and all later callbacks with it
                log.exception("callback.failed", callback=repr(callback))
