"""The fault matrix on asyncio: on the embedded server, all of it that can be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault.matrix.expected import CELLS, Cell
from tests.fault.matrix.pool import Played, play_selected
from tests.fault.matrix.theatre import embedded
from tests.support.fronts import Tasks, stand_ins

#: Most seconds until a cell's turn has come and it is over; all of them take less than a minute.
TURN_S = 110.0

#: A process of its own knows of no front end, and Ctrl-C is a matter of threads.
CAN_BE = [cell for cell in CELLS if not cell.is_apart]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    """What comes of the cells that this run asks for; they are all under way."""
    with Tasks() as tasks:
        yield from play_selected(request, embedded, stand_ins(tasks))


@pytest.mark.parametrize("cell", CAN_BE, ids=[cell.name for cell in CAN_BE])
def test_cell(cell: Cell, played: Played) -> None:
    played[cell.name].result(TURN_S)
