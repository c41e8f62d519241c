"""
What must come of every cell: the table, its words, and the cells that it makes.

Columns, from left to right: the request is not sent; it is applied and its answer lost; the connection breaks and comes
back to the same session; the session is ended on the server; nothing passes any more; the directory is deleted; the
own member is deleted; data are overwritten (the own member's, and those of the member ahead); the lock is cancelled;
Ctrl-C; the process forks; it is stopped until its session has expired, and goes on. A row is a point of ``points.py``,
for all of its kinds of lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.fault.matrix.points import POINTS, Point

FAULTS = (
    "cut",
    "lost",
    "reconnect",
    "expired",
    "hole",
    "parent",
    "node",
    "data",
    "cancel",
    "interrupt",
    "fork",
    "stop",
)

#: What an entry of the table means. An acquire that ends without a grant has left nothing.
WORDS = {
    "same": "granted in the same session, with the member that was there when the fault struck",
    "anew": "granted in the same session; the first member is gone, and another one queued",
    "new": "granted in a new session",
    "timeout": "AcquireTimeoutError at the deadline",
    "cancelled": "AcquireCancelledError",
    "ctrl-c": "KeyboardInterrupt",
    "held": "still held, and a quorum says so",
    "expired": "lost, since the server said so",
    "deadline": "lost, by its own deadline, before the server could give the lock to anybody else",
    "deleted": "lost, since its member was deleted",
    "true": "`release` returns True",
    "false": "`release` returns False: it was lost",
}

#: Why a cell is impossible.
REASONS = {
    "-session": "there is no session yet",
    "-member": "there is no member yet",
    "-parent": "there is no directory yet, nor anything that the request needs",
    "-listed": "the list has been answered and decides; what comes later is the hold's business",
    "-request": "no request is under way",
}

# fmt: off
TABLE = """
point       cut      lost     reconnect expired  hole     parent  node    data    cancel    interrupt fork stop
connect     same     same     same      -session timeout  -parent -member -member cancelled ctrl-c    same -session
create      same     same     same      new      timeout  same    -member -member cancelled ctrl-c    same new
parents     same     same     same      new      timeout  same    -member -member cancelled ctrl-c    same new
list        same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
limit       same     same     same      new      timeout  anew    -listed same   cancelled ctrl-c    same new
record      anew     same     anew      new      timeout  anew    anew    anew    cancelled ctrl-c    anew new
stat        same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
catch-up    same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
search      same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
adopt       same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
proof       same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
watch       same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
limit-watch same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
waiting     -request -request same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
look-again  same     same     same      new      timeout  anew    anew    same    cancelled ctrl-c    same new
own-watch   held     held     held      expired  deadline deleted deleted held    held      ctrl-c    held deadline
heartbeat   held     held     held      expired  deadline deleted deleted held    held      ctrl-c    held deadline
stamp       held     held     held      expired  deadline deleted deleted held    held      ctrl-c    held deadline
delete      true     true     true      true     true     false   false   true    true      ctrl-c    true true
"""
# fmt: on

#: These need a process of their own, to be interrupted, forked and stopped.
APART = ("interrupt", "fork", "stop")


@dataclass(frozen=True)
class Cell:
    """One kind of lock at one point under one fault."""

    kind: str
    point: Point
    fault: str
    expected: str

    @property
    def name(self) -> str:
        """For people and for pytest."""
        return f"{self.point.stage.value}-{self.point.name}-{self.kind}-{self.fault}"

    @property
    def is_apart(self) -> bool:
        """Whether it needs a process of its own."""
        return self.fault in APART


def parse(table: str) -> dict[str, dict[str, str]]:
    """Return the entries by row and fault."""
    header, *lines = table.split("\n")[1:-1]
    assert ["point", *FAULTS] == header.split()
    rows = {}
    for line in lines:
        name, *entries = line.split()
        rows[name] = dict(zip(FAULTS, entries, strict=True))
    return rows


def cells() -> tuple[list[Cell], list[Cell]]:
    """Return the cells that can be, and those that cannot."""
    rows = parse(TABLE)
    possible: list[Cell] = []
    impossible: list[Cell] = []
    for point in POINTS:
        for kind in point.skip:
            row = rows[point.name]
            for fault in FAULTS:
                cell = Cell(kind, point, fault, row[fault])
                (impossible if row[fault] in REASONS else possible).append(cell)
    return possible, impossible


CELLS, IMPOSSIBLE = cells()
