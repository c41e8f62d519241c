"""Every recipe is listed, says what it should in its head, and its example runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import recipes
from recipes.__main__ import listing
from tests.support.waiting import PATIENCE_S
from zkcoord.server import EmbeddedServer

ROOT = Path(__file__).parents[2]
RECIPES = [name for name, _ in listing()]
HEADS = ("**Problem.**", "**Guarantee.**", "**Cost.**", "**Not done.**")


@pytest.mark.parametrize("name", RECIPES)
def test_example_runs(server: EmbeddedServer, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"recipes.{name}"],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        cwd=ROOT,
        env={**os.environ, "ZKCOORD_HOSTS": server.hosts},
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout


@pytest.mark.parametrize("name", RECIPES)
def test_head_says_what_a_reader_needs(name: str) -> None:
    head = ast.get_docstring(ast.parse((ROOT / "recipes" / f"{name}.py").read_text("utf-8"))) or ""

    places = [head.find(heading) for heading in HEADS]
    assert 0 < min(places)
    assert sorted(places) == places


def test_listing_shows_each_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recipes"], capture_output=True, text=True, cwd=ROOT, check=True
    )

    assert [f"recipes.{name}" for name in RECIPES] == [line.split()[0] for line in done.stdout.splitlines()]
    assert all(line for _, line in listing())


def test_every_name_can_be_imported() -> None:
    assert [name for name in recipes.__all__ if not hasattr(recipes, name)] == []
    assert set(recipes.__all__) <= set(dir(recipes))
    with pytest.raises(AttributeError):
        recipes.Nothing  # noqa: B018
