"""Turns views into a table on a terminal, tab-separated lines elsewhere, or JSON."""

import json
import sys
import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from zkcoord.cli.views import View

#: A listing shorter than this needs no progress bar, which would only flicker.
_QUIET_S = 0.5

#: Columns of a terminal from which a whole row of a queue fits on one line.
_WIDE = 120


def show(view: View, *, as_json: bool, out: TextIO, err: TextIO) -> None:
    """
    Write a view.

    Args:
        view: what to show.
        as_json: write a JSON list of objects instead, always ASCII.
        out: where; a table when it is a terminal, else one line a row, fields separated by tabs, headings
            first.
        err: gets the remark when there is nothing to show.
    """
    if as_json:
        out.write(json.dumps(list(view.objects), indent=2, default=dict) + "\n")
        return
    if not view.rows:
        err.write(view.empty + "\n")
        return
    if out.isatty():
        console = Console(file=out)
        console.print(_table(view, console.width))
        return
    out.writelines("\t".join(row) + "\n" for row in (view.columns, *view.rows))


def _table(view: View, width: int) -> Table:
    left_out = view.wide_only if width < _WIDE else ()
    kept = [index for index, heading in enumerate(view.columns) if heading not in left_out]
    table = Table(title=Text(view.title), title_justify="left", header_style="bold", box=None, pad_edge=False)
    for index in kept:
        table.add_column(Text(view.columns[index]), overflow="fold")
    for row in view.rows:
        # Text, not str: what others wrote into a znode must not be taken for markup.
        table.add_row(*(Text(row[index]) for index in kept))
    return table


class TreeProgress:
    """A progress bar for a walk over the tree: on a terminal, and only if the walk takes long. Call it."""

    def __init__(self, err: TextIO) -> None:
        """Nothing is shown yet; `err` = where to."""
        self._err = err
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> "TreeProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, known: int) -> None:
        """Report `done` directories read of `known` so far."""
        if self._bar is None:
            if not self._err.isatty() or time.monotonic() - self._began < _QUIET_S:
                return
            columns = TextColumn("reading the tree"), BarColumn(), MofNCompleteColumn()
            self._bar = Progress(*columns, console=Console(file=self._err), transient=True)
            self._task = self._bar.add_task("walk", total=known)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=known)


def prepare_streams() -> None:
    """Let no character that a terminal's encoding lacks end a command: it is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
