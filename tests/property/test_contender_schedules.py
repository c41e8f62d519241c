"""
Contenders against a tiny model of a server, under any schedule (`tests.support.schedules`).

A seed decides who contends for what, and each next step of those that are possible just then: the server serves a
request, an answer arrives, a watch fires, a connection breaks or comes back, a session ends, somebody deletes a
member, a user gives up or releases. What is checked at every step is what users are promised; after the schedule
everything is let run to its end, which must come: whoever is still waiting then is stuck.
"""

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.schedules import World
from zkcoord._core.messages import Busy, Stopped, Won
from zkcoord._core.names import EXCLUSIVE, READ, WRITE, permits

# A world has one kind of lock.
KINDS = ("lock", "read/write", "semaphore")

# A semaphore's limit at first; it may grow.
LIMIT = 3


@dataclass
class Plan:
    places: list
    is_try: bool
    list_first: bool
    is_up: bool
    is_told_twice: bool


def plan(random, kind, limit):
    directories = random.choice([("/a",), ("/a",), ("/b",), ("/a", "/b")])
    if kind == "semaphore":
        directories, rules = directories[:1], [permits(random.randint(1, LIMIT), limit)]
    elif kind == "lock":
        rules = [EXCLUSIVE["curator"]] * 2
    else:
        rules = [random.choice([READ, WRITE])["curator"] for _ in directories]
    return Plan(
        places=list(zip(directories, rules, strict=False)),
        is_try=random.random() < 0.15,
        list_first=random.random() < 0.3 and kind != "semaphore",
        is_up=random.random() < 0.7,
        is_told_twice=random.random() < 0.2,
    )


@settings(max_examples=3000, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_whatever_happens_acquires_end_once_keep_others_out_and_leave_nothing(seed):
    random = Random(seed)
    kind = random.choice(KINDS)
    # Who takes whatever is recorded must find it; who names a limit would take a resize for a mismatch.
    limit = random.choice([LIMIT, None])
    plans = [plan(random, kind, limit) for _ in range(random.randint(1, 5))]
    world = World(
        plans, kind, is_made=random.random() < 0.6, mischief=random.randint(0, 6), can_grow=limit is None
    )
    if kind == "semaphore" and limit is None:
        for directory in "/a", "/b":
            world.server.make(directory)
            world.server.limits[directory] = LIMIT

    for _ in range(random.randint(0, 250)):
        world.step(random)
    world.run_out()

    for client in world.clients:
        world.check_ended(client)
        assert isinstance(client.outcomes[0], Won | Stopped | Busy)
    assert [] == [name for members in world.server.directories.values() for name in members]
