"""Many seeds on all cores: which of them break a promise, and the smallest schedule that still does."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator

from tests.support.simulated.draw import draw, draw_worst
from tests.support.simulated.plan import Plan, shrink
from tests.support.simulated.world import Violation, play

#: Seeds that a worker process plays before it reports.
CHUNK = 100


def plan_of(seed: int) -> Plan:
    """Every third plan is one of the worst moments."""
    return draw_worst(seed) if seed % 3 == 2 else draw(seed)


def fault_of(plan: Plan) -> str | None:
    """Play a plan; what it broke, with the schedule, or None."""
    try:
        play(plan)
    except Violation as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    return None


def explain(plan: Plan) -> str:
    """Describe a failing plan by the smallest one that fails."""
    return fault_of(shrink(plan, lambda smaller: fault_of(smaller) is not None)) or "it does not fail again"


def first_fault(seeds: Iterator[int], make: Callable[[int], Plan] = plan_of) -> int | None:
    """Return the first seed whose plan breaks a promise."""
    return next((seed for seed in seeds if fault_of(make(seed)) is not None), None)


def run(first: int, count: int, jobs: int | None = None) -> Iterator[tuple[int, list[int]]]:
    """
    Play `count` seeds from `first` on.

    Yields:
        How many are done, and the failing seeds among the last ones.
    """
    chunks = [(at, min(CHUNK, first + count - at)) for at in range(first, first + count, CHUNK)]
    done = 0
    with multiprocessing.get_context("spawn").Pool(jobs or os.cpu_count(), _quiet) as pool:
        for size, failing in pool.imap(_play_chunk, chunks):
            done += size
            yield done, failing


def _quiet() -> None:
    logging.disable(logging.CRITICAL)  # losses are what it is about


def _play_chunk(chunk: tuple[int, int]) -> tuple[int, list[int]]:
    first, count = chunk
    return count, [seed for seed in range(first, first + count) if fault_of(plan_of(seed)) is not None]
