"""What a schedule is, as data: who acquires what when, and what goes wrong; and how to make a failing one smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from zkcoord._core.names import EXCLUSIVE, READ, WRITE, Rule, permits

#: A semaphore's permits.
LIMIT = 3


@dataclass(frozen=True)
class Round:
    """
    One acquire of a client.

    Attributes:
        pause_s: after how long.
        side: "lock", "read", "write" or "permits".
        timeout_s: None = for ever.
        hold_s: for how long it is held.
        then: "downgrade" a writer takes the read lock as well, half-way, and gives the write lock back; "upgrade" a
            reader tries to become the writer.
    """

    pause_s: float
    paths: tuple[str, ...]
    side: str
    weight: int
    timeout_s: float | None
    hold_s: float
    is_try: bool = False
    then: str = ""


@dataclass(frozen=True)
class Disturbance:
    """
    Something goes wrong.

    Attributes:
        what: a method of `World`.
        who: the client it happens to, or whose server it happens to.
        after_s: when; from the beginning, or from `since`.
        since: "start", or "grant", "resumption" or "connection": the first of this client at or after `from_s`.
    """

    what: str
    who: int
    after_s: float
    length_s: float
    since: str = "start"
    from_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """One schedule. Delays come from `seed`, all else is here."""

    seed: int
    tick_s: float
    timeout_s: float
    kind: str
    drifts: tuple[float, ...]
    rounds: tuple[tuple[Round, ...], ...]
    disturbances: tuple[Disturbance, ...]
    chatter_s: float | None = None  # between two reads that have nothing to do with the locks

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.kind}, tick {self.tick_s} s, session {self.timeout_s} s, drifts {self.drifts}"
        ]
        for number, rounds in enumerate(self.rounds):
            lines += [f"  client {number}: {each}" for each in rounds]
        lines += [f"  {each}" for each in self.disturbances]
        return "\n".join(lines)


def rule_of(what: Round) -> Rule:
    """Return the rule by which a round's members queue."""
    if what.side == "permits":
        return permits(what.weight, LIMIT)
    return {"lock": EXCLUSIVE, "read": READ, "write": WRITE}[what.side]["curator"]


def smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one thing less."""
    for index in range(len(plan.disturbances)):
        yield replace(plan, disturbances=plan.disturbances[:index] + plan.disturbances[index + 1 :])
    for client, rounds in enumerate(plan.rounds):
        for index in range(len(rounds)):
            fewer = rounds[:index] + rounds[index + 1 :]
            yield replace(plan, rounds=(*plan.rounds[:client], fewer, *plan.rounds[client + 1 :]))
    if any(plan.drifts):
        yield replace(plan, drifts=(0.0,) * len(plan.drifts))


def shrink(plan: Plan, fails: Callable[[Plan], bool], most: int = 300) -> Plan:
    """Remove what a failure does not need, in at most `most` tries."""
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in smaller(plan):
            tries += 1
            if tries > most:
                return plan
            if fails(candidate):
                plan, is_smaller = candidate, True
                break
    return plan
