"""The fault matrix: on the embedded server all of it, on the real one a part that is drawn; see `tests.fault.matrix`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.fault.matrix.expected import CELLS, IMPOSSIBLE, REASONS, WORDS, Cell
from tests.fault.matrix.pool import Pool
from tests.fault.matrix.theatre import embedded
from tests.support.waiting import wait_until

Played = dict[str, Future[None]]


def selected(request: pytest.FixtureRequest) -> list[Cell]:
    """The cells that this run asks for, so that others are not played in vain."""
    return [
        item.callspec.params["cell"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and "cell" in item.fixturenames
    ]


@pytest.fixture(scope="module")
def on_embedded(request: pytest.FixtureRequest) -> Iterator[Played]:
    descriptors, threads = count_descriptors(), threading.active_count()
    with Pool(embedded) as pool:
        yield pool.play(selected(request))
    wait_until(lambda: threading.active_count() <= threads)
    wait_until(lambda: count_descriptors() <= descriptors)


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_cell_on_the_embedded_server(cell: Cell, on_embedded: Played) -> None:
    on_embedded[cell.name].result(100.0)


def test_table_is_complete_and_every_impossible_cell_has_its_reason() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS) >= 400
    assert {cell.expected for cell in CELLS} == set(WORDS)
    assert {cell.expected for cell in IMPOSSIBLE} == set(REASONS)
