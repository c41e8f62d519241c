"""The fault matrix through a proxy on the real server: another tenth a day; ``python -m tests.full matrix``: all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import date

import pytest

from tests.fault.matrix.expected import CELLS, Cell
from tests.fault.matrix.pool import Played, play_selected
from tests.fault.matrix.theatre import proxied
from tests.support.zookeeper import Server

#: Most seconds until a cell's turn has come and it is over.
TURN_S = 110.0

#: A day's draw; its number stands in the names of the tests, and draws the same cells again.
SEED = int(os.environ.get("ZKCOORD_MATRIX_SEED", date.today().toordinal()))


def draw() -> list[Cell]:
    """Return a tenth of the cells, or those that the full run is at."""
    can_be = [cell for cell in CELLS if not cell.point.is_cold]  # the proxy cuts no connect request
    size = int(os.environ.get("ZKCOORD_MATRIX_CELLS", "0"))
    if size:
        done = int(os.environ["ZKCOORD_FULL_DONE"])
        return can_be[done : done + size]
    return random.Random(SEED).sample(can_be, len(CELLS) // 10)


DRAWN = draw()


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, zookeeper: Server) -> Iterator[Played]:
    """What comes of the cells that this run asks for; they are all under way."""
    yield from play_selected(request, lambda session: proxied(zookeeper.hosts))


@pytest.mark.parametrize("cell", DRAWN, ids=[f"{SEED}-{cell.name}" for cell in DRAWN])
def test_cell(cell: Cell, played: Played) -> None:
    played[cell.name].result(TURN_S)
