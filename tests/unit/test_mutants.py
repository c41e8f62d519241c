"""The deliberate faults still apply to the code as it is; `tests.mutants` sees whether the tests find them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.faults import MUTANTS, Mutant
from tests.mutants.kill import ROOT, mutate


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_applies_and_is_python(mutant: Mutant, tmp_path: Path) -> None:
    for name, _, _ in mutant.edits:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / name).read_text())

    mutate(mutant, tmp_path)

    for name, _, _ in mutant.edits:
        ast.parse((tmp_path / name).read_text())


def test_mutant_that_does_not_apply_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("one, two, two")
    for old in ("three", "two"):
        with pytest.raises(ValueError, match=r"has this [02] times"):
            mutate(Mutant("x", (("file.py", old, ""),)), tmp_path)


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
