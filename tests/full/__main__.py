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

ROOT = Path(__file__).parents[2]
STATE = ROOT / ".pytest_cache" / "full-runs.json"


@dataclass(frozen=True)
class Run:
    """
    One long run.

    Attributes:
        target: what pytest is given.
        variable: the environment variable that tells the test how much to do.
        batch: how much in one go.
        count: how much in all, unless the command line says otherwise.
    """

    target: str
    variable: str
    batch: int
    count: int
    about: str


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
    while done < count:
        size = min(run.batch, count - done)
        print(f"{options.name}: {done:,} of {count:,} done", flush=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            run.target,
            f"--hypothesis-seed={done}",
            "-p",
            "no:randomly",
        ]
        code = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, run.variable: str(size), "ZKCOORD_FULL_DONE": str(done)},
            check=False,
        ).returncode
        if code:
            return code
        done += size
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(json.dumps({**state, options.name: done}))
    print(f"{options.name}: {done:,} done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
