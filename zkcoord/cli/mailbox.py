"""What `run` waits for, in one place: signals, words from other threads, and a keeper's link."""

import os
import select
import signal
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Self

#: Passed on to the command, or ending the wait for the lock.
FORWARDED = tuple(
    getattr(signal, name)
    for name in (
        "SIGINT",
        "SIGTERM",
        "SIGHUP",
        "SIGQUIT",
        "SIGUSR1",
        "SIGUSR2",
        "SIGWINCH",
        "SIGCONT",
        "SIGTSTP",
    )
    if hasattr(signal, name)
)

#: Those that end something; the others are news to the command only.
ENDING = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))


def ignored_signals() -> frozenset[int]:
    """Return the signals that are ignored now. Python's own choices, made at its start, are not counted."""
    python_ignores = {getattr(signal, name, None) for name in ("SIGPIPE", "SIGXFSZ", "SIGXFZ")}
    return frozenset(
        number
        for number in signal.valid_signals()
        if number not in python_ignores and signal.getsignal(number) == signal.SIG_IGN
    )


class Mailbox:
    """
    Collects signals from its `with` on; in the main thread. Signals that were ignored stay so.

    A signal does nothing by itself: `wait` returns it. So none can strike between two steps.
    """

    def __init__(self) -> None:
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The handlers stay: whoever sends TERM twice must not cut the clean-up short.
        signal.set_wakeup_fd(-1)

    def poke(self) -> None:
        """Wake `wait` up. From any thread."""
        try:
            os.write(self._waker, b"\0")
        except BlockingIOError:  # it is full, so it wakes anyhow
            pass

    def wait(self, timeout: float, link: socket.socket | None = None) -> tuple[Sequence[int], bool]:
        """Sleep until something comes; return the signals, and whether `link` has something to read."""
        watched: list[int | socket.socket] = [self._woken] if link is None else [self._woken, link]
        ready, _, _ = select.select(watched, [], [], max(0.0, timeout))
        numbers: Sequence[int] = ()
        if self._woken in ready:
            numbers = [number for number in os.read(self._woken, 4096) if number]
        return numbers, link in ready
