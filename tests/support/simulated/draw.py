"""Plans drawn from seeds: who acquires what, and what goes wrong when."""

from __future__ import annotations

from random import Random

from tests.support.simulated.plan import LIMIT, Disturbance, Plan, Round

#: Odds of each kind of lock.
KINDS = ("lock",) * 5 + ("read/write",) * 2 + ("semaphore",) * 2 + ("multi",) * 2

#: Faults at random moments, each with its usual length in session times.
FAULTS = {
    "cut_connection": (0.0, 0.0),
    "stall_connection": (0.05, 1.5),
    "stall_requests": (0.05, 1.0),
    "stall_answers": (0.05, 1.0),
    "cut_server_off": (0.1, 2.5),
    "stop_server": (0.05, 1.0),
    "elect": (0.05, 0.5),
    "desert": (0.3, 3.0),
    "pause": (0.05, 2.0),
    "cancel": (0.0, 0.0),
    "delete_by_hand": (0.0, 0.0),
    "end_session": (0.0, 0.0),
}

#: The fastest that clocks run apart: one part in a thousand, ten times a bad quartz.
MOST_DRIFT = 0.001


def draw(seed: int) -> Plan:
    """Return the plan of a seed."""
    random = Random(seed)
    tick_s = random.choice((0.5, 2.0))
    timeout_s = tick_s * random.choice((2, 3, 5, 8))
    kind = random.choice(KINDS)
    count = random.choice((2, 2, 3))
    rounds = tuple(
        tuple(_round(random, kind, timeout_s) for _ in range(random.randint(1, 3))) for _ in range(count)
    )
    disturbances: list[Disturbance] = []
    for _ in range(random.choice((0, 1, 1, 2, 2, 3))):
        if random.random() < 0.5:
            disturbances += _worst_moment(random, count, timeout_s)
        else:
            what = random.choice(tuple(FAULTS))
            length = random.uniform(*FAULTS[what]) * timeout_s
            disturbances.append(
                Disturbance(what, random.randrange(count), random.uniform(0, 3) * timeout_s, length)
            )
    return Plan(
        seed,
        tick_s,
        timeout_s,
        kind,
        _drifts(random, count),
        rounds,
        tuple(disturbances),
        random.choice((None, None, None, 0.1 * timeout_s)),
    )


def draw_worst(seed: int) -> Plan:
    """Return a plan in which a holder's server is cut off at a bad moment while somebody else waits."""
    random = Random(seed)
    tick_s = random.choice((0.5, 2.0))
    timeout_s = tick_s * random.choice((2, 3, 5, 8))
    holds = Round(random.uniform(0, 1) * timeout_s, ("/a",), "lock", 1, None, 6 * timeout_s)
    waits = Round(random.uniform(0, 2) * timeout_s, ("/a",), "lock", 1, None, 0.1)
    return Plan(
        seed,
        tick_s,
        timeout_s,
        "lock",
        _drifts(random, 2),
        ((holds,), (waits, waits)),
        tuple(_worst_moment(random, 1, timeout_s)),
        random.choice((None, 0.05 * timeout_s)),
    )


def _drifts(random: Random, count: int) -> tuple[float, ...]:
    return tuple(random.uniform(-MOST_DRIFT, MOST_DRIFT) for _ in range(count))


def _round(random: Random, kind: str, timeout_s: float) -> Round:
    sides = {"lock": "lock", "multi": "lock", "semaphore": "permits"}
    paths = random.choice((("/a",), ("/b",), ("/a", "/b"))) if kind == "multi" else ("/a",)
    side = sides.get(kind) or random.choice(("read", "read", "write"))
    then = {"read": "upgrade", "write": "downgrade"}.get(side, "") if random.random() < 0.4 else ""
    return Round(
        pause_s=random.choice((0.0, random.uniform(0, 0.1), random.uniform(0, 1) * timeout_s)),
        paths=paths,
        side=side,
        weight=random.randint(1, LIMIT) if kind == "semaphore" else 1,
        timeout_s=random.choice((None, None, random.uniform(0.01, 3) * timeout_s)),
        hold_s=random.choice((random.uniform(0, 0.1), random.uniform(0.2, 3) * timeout_s)),
        is_try=random.random() < 0.1,
        then=then,
    )


def _worst_moment(random: Random, count: int, timeout_s: float) -> list[Disturbance]:
    """A cut-off follower just when the holder's proof of life is weakest."""
    who = random.randrange(count)
    how = random.choice(("cut_server_off", "cut_server_off", "desert"))
    cut = Disturbance(how, who, _soon(random, timeout_s), random.uniform(1.5, 2.5) * timeout_s)
    begin = random.uniform(0, 2) * timeout_s
    weakness = random.choice(
        (
            "pause",
            "stall_requests",
            "stall_answers",
            "late_answer",
            "stall_connection",
            "cut_connection",
            "grant",
        )
    )
    if weakness == "grant":  # after idling, or after a long wait
        return [Disturbance(cut.what, who, cut.after_s, cut.length_s, "grant", begin)]
    length = random.uniform(0.3, 0.64) * timeout_s
    if weakness == "late_answer":  # and nothing is sent between it and the last proof
        halves = (length * 0.6, random.uniform(0.25, 0.4) * timeout_s)
        stall = Disturbance("stall_answers", who, begin, halves[0])
        pause = Disturbance("pause", who, begin + halves[0] + random.uniform(0.0, 0.05), halves[1])
        return [stall, pause, Disturbance(cut.what, who, cut.after_s, cut.length_s, "resumption", begin)]
    first = Disturbance(weakness, who, begin, length)
    if weakness == "pause":
        return [first, Disturbance(cut.what, who, cut.after_s, cut.length_s, "resumption", begin)]
    if weakness == "cut_connection":
        return [first, Disturbance(cut.what, who, cut.after_s, cut.length_s, "connection", begin)]
    return [first, Disturbance(cut.what, who, begin + length + cut.after_s, cut.length_s)]


def _soon(random: Random, timeout_s: float) -> float:
    return random.choice((random.uniform(0.0, 0.03), random.uniform(0.0, 0.2) * timeout_s))
