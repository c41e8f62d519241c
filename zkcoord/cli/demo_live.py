"""How the demo shows itself while it runs: a live table on a terminal, a line a second elsewhere."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkcoord.cli.views import holder_text
from zkcoord.queues import Member

#: Seconds between lines where there is no terminal.
_LINE_S = 1.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The demo at one moment.

    Attributes:
        drawn: order numbers so far.
        wanted: order numbers in all.
        queue: the lock's queue, oldest first; empty without a lock.
        news: what happened last, in words.
    """

    drawn: int
    wanted: int
    queue: Sequence[Member]
    news: str

    def holder(self) -> str:
        """Say who holds the lock."""
        holder = next((member for member in self.queue if member.holds), None)
        if holder is None:
            return "-"
        return f"{holder_text(holder)}, pid {holder.pid}, thread {holder.thread}"

    def waiters(self) -> int:
        """Count the waiters."""
        return sum(not member.holds for member in self.queue)


class Display(AbstractContextManager["Display"]):
    """Shows snapshots and news on `out`, live if that is a terminal."""

    def __init__(self, out: TextIO, with_lock: bool) -> None:
        """Nothing is shown before it is entered."""
        self._out = out
        self._with_lock = with_lock
        self._live = Live(console=Console(file=out), refresh_per_second=8) if out.isatty() else None
        self._shown_at = time.monotonic()

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, text: str) -> None:
        """Show a line that stays."""
        if self._live is not None:
            self._live.console.print(Text(text))
        else:
            print(text, file=self._out, flush=True)

    def update(self, snapshot: Snapshot) -> None:
        """Show the state; without a terminal at most once a second."""
        if self._live is not None:
            self._live.update(self._table(snapshot))
        elif time.monotonic() - self._shown_at >= _LINE_S:
            self._shown_at = time.monotonic()
            lock = f"  holder {snapshot.holder()}  waiters {snapshot.waiters()}" if self._with_lock else ""
            print(f"  orders {snapshot.drawn}/{snapshot.wanted}{lock}", file=self._out, flush=True)

    def _table(self, snapshot: Snapshot) -> Group:
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=snapshot.wanted, completed=snapshot.drawn, width=40)
        table.add_row(Text("orders", "bold"), bar, Text(f"{snapshot.drawn}/{snapshot.wanted}"))
        if self._with_lock:
            table.add_row(Text("holder", "bold"), Text(snapshot.holder()))
            table.add_row(Text("waiters", "bold"), Text(str(snapshot.waiters())))
        return Group(table, Text(snapshot.news, "dim"))
