"""A progress bar for a walk over the tree."""

import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

#: A listing shorter than this needs no progress bar, which would only flicker.
_QUIET_S = 0.5


class TreeProgress:
    """A bar on a terminal, and only if the walk takes long and nothing else is written meanwhile. Call it."""

    def __init__(self, err: TextIO) -> None:
        """Nothing is shown yet; `err` = where to."""
        self._err = err
        self._quiet_until = time.monotonic() + _QUIET_S
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> "TreeProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the bar away for what is to be written; it comes back when nothing more is, for a while."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._quiet_until = time.monotonic() + _QUIET_S

    def __call__(self, done: int, known: int) -> None:
        """Report `done` directories read of `known` so far."""
        if self._bar is None:
            if not self._err.isatty() or time.monotonic() < self._quiet_until:
                return
            columns = TextColumn("reading the tree"), BarColumn(), MofNCompleteColumn()
            self._bar = Progress(*columns, console=Console(file=self._err), transient=True)
            self._task = self._bar.add_task("walk", total=known)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=known)
