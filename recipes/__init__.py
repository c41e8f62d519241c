"""
Recipes built only on what ``zkcoord`` exports: one readable file a recipe. ``python -m recipes`` lists them.

Each name here is loaded with its first use, so that one recipe does not pay for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recipes._terms import Leader, Term
    from recipes.leader_election import LeaderElection

_HOMES = {
    "Leader": "_terms",
    "LeaderElection": "leader_election",
    "Term": "_terms",
}

__all__ = ["Leader", "LeaderElection", "Term"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'recipes' has no attribute {name!r}")
    value = getattr(import_module(f"recipes.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
