"""
Recipes built only on what ``zkcoord`` exports: one readable file a recipe. ``python -m recipes`` lists them.

Each name here is loaded with its first use, so that one recipe does not pay for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recipes._terms import Leader, Term
    from recipes.barrier import AsyncBarrier, Barrier
    from recipes.counter import AsyncCounter, Counter
    from recipes.errors import CountMismatchError, NumberLimitError, WaitTimeoutError
    from recipes.leader_election import LeaderElection
    from recipes.order_numbers import AsyncOrderNumbers, OrderNumbers
    from recipes.run_once import AsyncRunOnce, Outcome, Run, RunOnce
    from recipes.striped_lock import AsyncStripedLock, StripedLock

_HOMES = {
    "AsyncBarrier": "barrier",
    "AsyncCounter": "counter",
    "AsyncOrderNumbers": "order_numbers",
    "AsyncRunOnce": "run_once",
    "AsyncStripedLock": "striped_lock",
    "Barrier": "barrier",
    "CountMismatchError": "errors",
    "Counter": "counter",
    "Leader": "_terms",
    "LeaderElection": "leader_election",
    "NumberLimitError": "errors",
    "OrderNumbers": "order_numbers",
    "Outcome": "run_once",
    "Run": "run_once",
    "RunOnce": "run_once",
    "StripedLock": "striped_lock",
    "Term": "_terms",
    "WaitTimeoutError": "errors",
}

__all__ = [
    "AsyncBarrier",
    "AsyncCounter",
    "AsyncOrderNumbers",
    "AsyncRunOnce",
    "AsyncStripedLock",
    "Barrier",
    "CountMismatchError",
    "Counter",
    "Leader",
    "LeaderElection",
    "NumberLimitError",
    "OrderNumbers",
    "Outcome",
    "Run",
    "RunOnce",
    "StripedLock",
    "Term",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'recipes' has no attribute {name!r}")
    value = getattr(import_module(f"recipes.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
