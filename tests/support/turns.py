"""Two sides that take turns with one lock, and the history of who was inside when."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import NamedTuple

from kazoo.client import KazooClient

from tests.support.waiting import PATIENCE_S, wait_until

#: How many turns each side takes where two alternate.
HAND_OVERS = 200


class Turn(NamedTuple):
    """One hold: begun and ended on the machine's monotonic clock, in nanoseconds."""

    begun: int
    ended: int
    who: str


def take_turns(
    zk: KazooClient, path: str, who: str, lock: AbstractContextManager[object], count: int = HAND_OVERS
) -> list[Turn]:
    """Hold again and again, each time until the other side queues up behind; the last time just once."""
    history = []
    for left in range(count, 0, -1):
        with lock:
            begun = time.monotonic_ns()
            if left > 1:
                wait_until(lambda: len(zk.get_children(path)) > 1, 2 * PATIENCE_S)
            history.append(Turn(begun, time.monotonic_ns(), who))
    return history


def check_turns(history: Iterable[Turn], count: int = HAND_OVERS) -> None:
    """Assert that nobody was inside together with another, and that two sides alternated, `count` turns each."""
    turns = sorted(history)
    assert not [(one, other) for one, other in pairwise(turns) if other.begun < one.ended]
    order = [turn.who for turn in turns]
    assert 2 * count == len(order)
    assert [order[0], order[1]] * count == order
    assert order[0] != order[1]
