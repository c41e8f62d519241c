"""Applies one mutant after the other to a copy of the project, and sees which tests notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants.faults import Mutant

ROOT = Path(__file__).parents[2]

#: The suites in the order in which they are asked: the quick ones first. None needs a real server.
SUITES: dict[str, tuple[str, ...]] = {
    "unit": ("tests/unit", "--ignore=tests/unit/test_mutants.py"),
    "property": ("tests/property", "-k", "not server and not paths"),
    "simulation": ("tests/simulation", "-k", "no_schedule"),
    "conformance": ("tests/conformance", "tests/fault/test_own_node.py", "-k", "embedded or own_node"),
}

#: Schedules for each mutant; those that matter are found within some hundreds.
SEEDS = 6_000

_COPIED = ("zkcoord", "recipes", "tests", "stubs", "pyproject.toml", "README.md", "docs", "CHANGELOG.md")


def mutate(mutant: Mutant, root: Path) -> None:
    """
    Apply a mutant to a copy.

    Raises:
        ValueError: a text does not stand there exactly once: the mutant has to follow the code.
    """
    for name, old, new in mutant.edits:
        path = root / name
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{mutant.name}: {name} has this {text.count(old)} times: {old!r}")
        path.write_text(text.replace(old, new))


def copy(to: Path) -> None:
    """Copy what the tests need."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, to / name)


def killers(mutant: Mutant, suites: Sequence[str], *, first_only: bool) -> Iterator[tuple[str, float]]:
    """Yield the suites that kill a mutant, with the seconds that took."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy(root)
        mutate(mutant, root)
        for suite in suites:
            begun = time.monotonic()
            if not _passes(root, SUITES[suite]):
                yield suite, time.monotonic() - begun
                if first_only:
                    return


def _passes(root: Path, arguments: Sequence[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, "--timeout=60", *arguments],
        cwd=root,
        env={**os.environ, "ZKCOORD_SIMULATION_SEEDS": str(SEEDS), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if result.returncode not in (
        0,
        1,
        2,
        3,
    ):  # 2 and 3: the mutant broke pytest's own run, a timeout included
        raise RuntimeError(f"pytest {' '.join(arguments)} ended with {result.returncode}")
    return result.returncode == 0
