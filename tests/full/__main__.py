"""
The runs that are too long for every day: ``python -m tests.full NAME [--count N] [--again]``.

A run is cut into batches, each with a seed of its own, so a failing one can be repeated by its seed. What is done is
written down: a run that was interrupted goes on behind its last whole batch, unless ``--again``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fault.matrix.expected import CELLS
from tests.support import margins

ROOT = Path(__file__).parents[2]
STATE = ROOT / ".pytest_cache" / "full-runs.json"
MARGINS = STATE.with_name("margins.jsonl")


@dataclass(frozen=True)
class Run:
    """
    One long run.

    Attributes:
        target: what pytest is given, separated by spaces.
        variable: the environment variable that tells the test how much to do.
        batch: how much in one go.
        count: how much in all, unless the command line says otherwise.
        has_margins: the test keeps its margins (`tests.support.margins`); they are shown at the end.
    """

    target: str
    variable: str
    batch: int
    count: int
    about: str
    has_margins: bool = False


RUNS = {
    "differential": Run(
        "tests/property/test_server_differential.py::test_random_operations_look_the_same_on_both",
        "ZKCOORD_DIFFERENTIAL_EXAMPLES",
        2_000,
        50_000,
        "random operations on the embedded server and on a real one",
    ),
    "cycles": Run(
        "tests/fault/test_resources.py::test_cycles_leave_everything_as_it_was",
        "ZKCOORD_CYCLES",
        10_000,
        10_000,
        "acquires and releases, after which everything is as it was",
    ),
    "simulation": Run(
        "tests/simulation/test_simulation.py::test_no_schedule_breaks_a_promise",
        "ZKCOORD_SIMULATION_SEEDS",
        20_000,
        200_000,
        "schedules of the real session and locks on a simulated ensemble, in virtual time",
    ),
    "hostile": Run(
        "tests/property/test_server_hostile.py::test_memory_stays_bounded_under_masses_of_broken_frames",
        "ZKCOORD_HOSTILE_FRAMES",
        100_000,
        100_000,
        "broken frames against the embedded server",
    ),
    "matrix": Run(
        "tests/fault/test_matrix_real.py::test_cell",
        "ZKCOORD_MATRIX_CELLS",
        80,
        sum(not cell.point.is_cold for cell in CELLS),
        "cells of the fault matrix on a real server",
    ),
    "tasks": Run(
        "tests/fault/test_many_tasks.py",
        "ZKCOORD_TASKS",
        10_000,
        10_000,
        "tasks of one process that wait at once",
    ),
    "asyncio": Run(
        "tests/conformance tests/fault -k asyncio",
        "ZKCOORD_TEST_ASYNCIO",
        1,
        1,
        "runs of all conformance and fault tests that can be on asyncio, on both servers",
    ),
    "uvloop": Run(
        "tests/conformance tests/fault -k asyncio",
        "ZKCOORD_TEST_UVLOOP",
        1,
        1,
        "runs of the same tests on uvloop",
    ),
    "ensemble": Run(
        "tests/ensemble/test_follower_cut.py::test_holder_on_a_follower_that_is_cut_off_sees_its_loss_first",
        "ZKCOORD_ENSEMBLE_RUNS",
        5,
        20,
        "cuts of a follower from its leader under holders of every kind, with sessions of 4, 6 and 15 s each",
        has_margins=True,
    ),
    "quiet": Run(
        "tests/ensemble/test_follower_cut.py::test_no_grant_is_lost_while_nothing_happens",
        "ZKCOORD_QUIET_S",
        60,
        60,
        "seconds of holding while nothing happens",
    ),
    "blips": Run(
        "tests/fault/test_blips.py",
        "ZKCOORD_BLIPS",
        50,
        50,
        "breaks of a connection shorter than T/4, of each session time",
    ),
    "listing": Run(
        "tests/conformance/test_cli_many.py",
        "ZKCOORD_LISTED_LOCKS",
        10_000,
        10_000,
        "locks of three members each, listed by the command line",
    ),
    "election": Run(
        "tests/recipes/test_election_rounds.py",
        "ZKCOORD_ELECTION_ROUNDS",
        50,
        200,
        "times that something happens to an elected leader, on the embedded server",
    ),
    "election-ensemble": Run(
        "tests/ensemble/test_election_rounds.py",
        "ZKCOORD_ELECTION_ROUNDS_REAL",
        25,
        200,
        "the same on three real servers",
    ),
    "soak": Run(
        "tests/fault/test_soak.py",
        "ZKCOORD_SOAK_S",
        60,
        120,
        "seconds of everything at once, with sessions a tenth as long as usual",
    ),
}


def main(arguments: list[str]) -> int:
    about = "; ".join(f"{name}: {run.about} ({run.count:,})" for name, run in RUNS.items())
    parser = argparse.ArgumentParser(prog="python -m tests.full", description=about)
    parser.add_argument("name", choices=sorted(RUNS))
    parser.add_argument("--count", type=int, help="how much in all")
    parser.add_argument("--again", action="store_true", help="from the beginning")
    options = parser.parse_args(arguments)
    run = RUNS[options.name]
    count = options.count or run.count
    state = {} if options.again or not STATE.exists() else json.loads(STATE.read_text())
    done = int(state.get(options.name, 0))
    if run.has_margins and not done:
        MARGINS.unlink(missing_ok=True)
    while done < count:
        size = min(run.batch, count - done)
        print(f"{options.name}: {done:,} of {count:,} done", flush=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-qs",
            *run.target.split(),
            f"--hypothesis-seed={done}",
            "-p",
            "no:randomly",
        ]
        STATE.parent.mkdir(exist_ok=True)
        variables = {
            run.variable: str(size),
            "ZKCOORD_FULL_DONE": str(done),
            margins.VARIABLE: str(MARGINS) if run.has_margins else "",
        }
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode
        if code:
            return code
        done += size
        STATE.write_text(json.dumps({**state, options.name: done}))
    if run.has_margins and MARGINS.exists():
        print(margins.table(margins.load(MARGINS)))
    print(f"{options.name}: {done:,} done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
