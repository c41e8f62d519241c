"""
What must be true of the demo's order numbers. Pure: records in, findings out.

The counter's value tells the order in which the draws happened, independently of the lock: each draw reads it
and writes one more. Under a lock the draws are one after another, so no value is drawn twice, and the fencing
tokens, put in order of those values, must grow.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """
    One order number, as its worker reported it.

    Attributes:
        number: ``yyyyMMddHHmmss`` and six digits.
        value: the counter's value behind the six digits.
        token: the grant's fencing token; None when drawn without a lock.
        wait_s: seconds from asking for the lock to having it.
        worker: the process, from 0.
        thread: the thread in it, from 0.
    """

    number: str
    value: int
    token: int | None
    wait_s: float
    worker: int
    thread: int


@dataclass(frozen=True, slots=True)
class Kill:
    """
    The holder that was killed.

    Attributes:
        pid: its process.
        token: its grant's.
        moved_on_s: seconds from the kill to the next order number; None when none came.
    """

    pid: int
    token: int
    moved_on_s: float | None


@dataclass(frozen=True, slots=True)
class Findings:
    """
    What the run showed.

    Attributes:
        issued: order numbers drawn.
        expected: order numbers asked for.
        duplicates: how many of them had been drawn before.
        gaps: values below the largest that nobody drew.
        tokens_grow: whether tokens strictly grow in the order of values; None without a lock.
        mean_wait_s, max_wait_s: for the lock.
        kill: the killed holder; None when none was.
        failures: properties that did not hold, in words; empty when all is well.
    """

    issued: int
    expected: int
    duplicates: int
    gaps: int
    tokens_grow: bool | None
    mean_wait_s: float
    max_wait_s: float
    kill: Kill | None
    failures: tuple[str, ...]


def judge(
    orders: Sequence[Order], expected: int, *, with_lock: bool, kill: Kill | None, wants_kill: bool
) -> Findings:
    """
    Check a finished run.

    Args:
        orders: in any order.
        expected: how many were asked for.
        with_lock: False for the demonstration of what happens without one; then only duplicates are wanted.
        kill: what is known of the killed holder.
        wants_kill: whether one should have been killed.
    """
    values = [order.value for order in orders]
    waits = [order.wait_s for order in orders]
    duplicates, gaps = count_duplicates(values), count_gaps(values)
    tokens_grow = do_tokens_grow(orders) if with_lock else None
    failures = []
    if len(orders) != expected:
        failures.append(f"{len(orders)} order numbers were drawn instead of {expected}")
    if with_lock:
        if duplicates:
            failures.append(f"{duplicates} duplicates under the lock")
        if gaps > (1 if kill else 0):
            failures.append(f"{gaps} gaps: only a killed holder may leave one")
        if not tokens_grow:
            failures.append("fencing tokens do not grow in grant order")
        if wants_kill and kill is None:
            failures.append("no holder was killed")
        if kill is not None and kill.moved_on_s is None:
            failures.append("the killed holder's lock did not move on")
    elif not duplicates:
        failures.append("no duplicates without the lock this time: try more processes, threads or orders")
    return Findings(
        issued=len(orders),
        expected=expected,
        duplicates=duplicates,
        gaps=gaps,
        tokens_grow=tokens_grow,
        mean_wait_s=sum(waits) / len(waits) if waits else 0.0,
        max_wait_s=max(waits, default=0.0),
        kill=kill,
        failures=tuple(failures),
    )


def count_duplicates(values: Iterable[int]) -> int:
    """Count the values that had been seen before."""
    values = list(values)
    return len(values) - len(set(values))


def count_gaps(values: Iterable[int]) -> int:
    """Count the numbers from 1 to the largest value that are missing."""
    seen = {value for value in values if value > 0}
    return max(seen, default=0) - len(seen)


def do_tokens_grow(orders: Iterable[Order]) -> bool:
    """Tell whether every order has a token, larger than the token of every smaller value."""
    tokens = [order.token for order in sorted(orders, key=lambda order: order.value)]
    known = [token for token in tokens if token is not None]
    return len(known) == len(tokens) and all(early < late for early, late in itertools.pairwise(known))
