"""The fault matrix on the embedded server, all of it; see `tests.fault.matrix`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault.matrix.expected import CELLS, IMPOSSIBLE, REASONS, WORDS, Cell
from tests.fault.matrix.pool import Played, play_selected
from tests.fault.matrix.theatre import embedded

#: Most seconds until a cell's turn has come and it is over; all of them take less than a minute.
TURN_S = 110.0


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    """What comes of the cells that this run asks for; they are all under way."""
    yield from play_selected(request, embedded)


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_cell(cell: Cell, played: Played) -> None:
    played[cell.name].result(TURN_S)


def test_table_is_complete_and_every_impossible_cell_has_its_reason() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS) >= 500
    assert {cell.expected for cell in CELLS} == set(WORDS)
    assert {cell.expected for cell in IMPOSSIBLE} == set(REASONS)
