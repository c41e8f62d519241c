"""The margins of many rounds: kept over the batches of a full run, and shown as a table."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tests.support.cut_scenarios import Outcome

#: Names the file in which a full run keeps its outcomes.
VARIABLE = "ZKCOORD_MARGINS"


def keep(outcomes: Iterable[Outcome]) -> None:
    """Append to the file of this full run, if it is one."""
    path = os.environ.get(VARIABLE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes)


def load(path: Path) -> list[Outcome]:
    """What was kept."""
    return [Outcome(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def table(outcomes: Iterable[Outcome]) -> str:
    """Runs, and least and median margin (LOST → the other's grant), by session time and scenario."""
    groups: dict[tuple[float, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.session_s, outcome.scenario), []).append(outcome)
    lines = [f"{'T':>4}  {'scenario':<14} {'runs':>4} {'early':>5} {'least':>7} {'median':>7}"]
    for (session_s, scenario), group in sorted(groups.items()):
        margins = [outcome.margin_s for outcome in group if not outcome.is_early]
        figures = f"{min(margins):7.2f} {statistics.median(margins):7.2f}" if margins else "      –       –"
        early = sum(outcome.is_early for outcome in group)
        lines.append(f"{session_s:4g}  {scenario:<14} {len(group):4d} {early:5d} {figures}")
    return "\n".join(lines)
