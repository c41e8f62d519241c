"""Turns views into a table on a terminal, tab-separated lines elsewhere, or JSON, while they are still being found."""

import json
import sys
import textwrap
import time
from collections.abc import Iterator
from itertools import zip_longest
from typing import TextIO

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from zkcoord.cli.progress import TreeProgress
from zkcoord.cli.views import Entry, View

#: Columns of a terminal from which a whole row of a queue fits on one line.
_WIDE = 120

#: Width of a table that goes to no terminal.
_FILE_WIDTH = 160

#: Rows of a table are kept back to find the widths of its columns: so many, and so long.
_CHUNK = 500
_CHUNK_S = 0.5

#: Longest time for which lines stay in a buffer.
_FLUSH_S = 0.2

#: Between two columns of a table.
_GAP = 2


def show(
    view: View,
    *,
    output: str | None,
    out: TextIO,
    err: TextIO,
    progress: TreeProgress | None = None,
) -> int:
    """
    Write a view, as it comes.

    Args:
        view: what to show.
        output: "table", "plain" (one line a row, fields separated by tabs, headings first) or "json" (a list of
            objects, always ASCII); None = a table if `out` is a terminal, else plain.
        out: where.
        err: gets the remark when there is nothing to show.
        progress: a bar to clear away while rows are written.

    Returns:
        How many rows there were.
    """
    if output == "json":
        return _json(view, out)
    is_table = output == "table" or (output is None and out.isatty())
    count = _table(view, out, progress) if is_table else _plain(view, out)
    if not count:
        err.write(view.empty() + "\n")
    return count


def _json(view: View, out: TextIO) -> int:
    count, flush = 0, _Flusher(out)
    for count, entry in enumerate(view.entries, 1):
        # Views are made of plain values only; a tuple is written as a list.
        out.write("[\n" if count == 1 else ",\n")
        out.write(textwrap.indent(json.dumps(entry.data, indent=2, default=dict), "  "))
        flush()
    out.write("\n]\n" if count else "[]\n")
    return count


def _plain(view: View, out: TextIO) -> int:
    count, flush = 0, _Flusher(out)
    for count, entry in enumerate(view.entries, 1):
        if count == 1:
            out.write("\t".join(view.columns) + "\n")
        out.write("\t".join(entry.row) + "\n")
        flush()
    return count


def _table(view: View, out: TextIO, progress: TreeProgress | None) -> int:
    console = Console(file=out) if out.isatty() else Console(file=out, width=_FILE_WIDTH)
    left_out = view.wide_only if console.width < _WIDE else ()
    kept = [index for index, heading in enumerate(view.columns) if heading not in left_out]
    headings = [view.columns[index] for index in kept]
    widths: list[int] = []
    count = 0
    for chunk in _chunks(iter(view.entries)):
        rows = [[entry.row[index] for index in kept] for entry in chunk]
        if progress is not None:
            progress.clear()
        if not count:
            widths = fit([headings, *rows], console.width)
            console.print(Text(view.title, style="italic"), soft_wrap=True)
            for line in lines(headings, widths):
                console.print(Text(line, style="bold"), soft_wrap=True)
        # Not by rich, which takes a millisecond for a row.
        out.writelines(line + "\n" for row in rows for line in lines(row, widths))
        out.flush()
        count += len(rows)
    return count


def lines(row: list[str], widths: list[int]) -> Iterator[str]:
    """Lay one row out: cells that are too wide go on in the lines below."""
    cells = [
        [cell] if cell_len(cell) <= width else chop_cells(cell, width)
        for cell, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        yield (
            (" " * _GAP)
            .join(part + " " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True))
            .rstrip()
        )


def fit(rows: list[list[str]], width: int) -> list[int]:
    """Return the width of each column: that of its longest cell, the widest cut down until all fit into `width`."""
    widths = [max(cell_len(row[index]) for row in rows) for index in range(len(rows[0]))]
    room = width - _GAP * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 1:
        widest = max(widths)
        second = max((value for value in widths if value < widest), default=1)
        least = max(second, widest - -(-(sum(widths) - room) // widths.count(widest)))
        widths = [min(value, max(1, least)) for value in widths]
    return widths


def _chunks(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    chunk: list[Entry] = []
    began = time.monotonic()
    for entry in entries:
        chunk.append(entry)
        if len(chunk) >= _CHUNK or time.monotonic() - began > _CHUNK_S:
            yield chunk
            chunk, began = [], time.monotonic()
    if chunk:
        yield chunk


class _Flusher:
    """Lets the first row out at once, and the others now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._out.flush()
            self._next = now + _FLUSH_S


def prepare_streams() -> None:
    """Let no character that a terminal's encoding lacks end a command: it is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
