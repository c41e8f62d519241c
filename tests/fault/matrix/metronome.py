"""How late the machine itself is: what a thread that only sleeps oversleeps counts against no promise."""

from __future__ import annotations

import threading
import time
from collections import deque

#: Between two looks.
BEAT_S = 0.01

#: Less is not worth remembering.
MIN_LATE_S = 0.005

#: Late beats that are remembered: more than there are in the longest call.
KEPT = 2_000


class Metronome:
    """A thread that sleeps, from `start` to `stop`."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._due = float("inf")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="matrix-metronome", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def worst_since(self, began: float) -> float:
        """Return the longest oversleep after `began`, in seconds; the one that goes on included."""
        now_late_s = time.monotonic() - self._due
        return max(0.0, now_late_s, *(late for at, late in self._late.copy() if at >= began))

    def _run(self) -> None:
        self._due = time.monotonic() + BEAT_S
        while not self._is_over.wait(max(0.0, self._due - time.monotonic())):
            now = time.monotonic()
            if now - self._due >= MIN_LATE_S:
                self._late.append((now, now - self._due))
            self._due = now + BEAT_S
