"""The wait-for graph, on queues made by hand."""

from __future__ import annotations

import json
import random
from itertools import count

import pytest

from zkcoord._core.names import parse
from zkcoord._members import holding, member, ordered
from zkcoord._waits import WaitGraph

UUID = "_c_01234567-89ab-4cde-8f01-23456789abcd"


class Stat:
    ctime = 0

    def __init__(self, czxid, session):
        self.czxid, self.ephemeralOwner = czxid, session


def queue(path, *entries, limit=None):
    """A queue from (who, marker) or who: an int is a session of another library, a text a zkcoord thread."""
    names = {}
    for number, entry in enumerate(entries):
        who, marker = entry if isinstance(entry, tuple) else (entry, "-lock-")
        names[f"{UUID}{marker}{number:010}"] = who
    held = holding(ordered(names), limit)
    serial = count()

    def made(name, who):
        if isinstance(who, int):
            data, session = b"127.0.0.1", who
        else:
            key = f"{who}/{next(serial)}" if "permit" in name else who
            data = json.dumps({"v": 1, "host": "h", "boot": "b", "pid": 1, "thread": {"key": key}}).encode()
            session = hash(who)
        return member(path, name, parse(name), name in held, data, Stat(1, session))

    return tuple(made(name, who) for name, who in names.items()), limit


def cycles(*queues):
    """The deadlocks as sets of paths waited for, with whether each is certain."""
    return [
        ({step.waiter.path for step in cycle}, all(step.is_exact for step in cycle))
        for cycle in WaitGraph(queues).cycles()
    ]


def test_two_that_wait_for_each_other():
    assert [({"/a", "/b"}, True)] == cycles(queue("/a", "x", "y"), queue("/b", "y", "x"))


def test_waiting_for_one_that_moves_is_no_deadlock():
    assert [] == cycles(queue("/a", "x", "y", "z"), queue("/b", "w", "x"))


def test_those_behind_a_deadlock_are_stuck_but_not_in_it():
    queues = queue("/a", "x", "y", "z"), queue("/b", "y", "x", "w"), queue("/c", "z", "v")

    assert [({"/a", "/b"}, True)] == cycles(*queues)
    assert 5 == len(WaitGraph(queues).stuck())


def test_waiter_in_the_middle_of_a_queue_is_left_out():
    assert [({"/a", "/b"}, True)] == cycles(queue("/a", "x", "between", "y"), queue("/b", "y", "x"))


def test_two_deadlocks_are_both_shown_once():
    found = cycles(
        queue("/a", "x", "y"), queue("/b", "y", "x"), queue("/c", "u", "v", "w"), queue("/d", "v", "u"),
        queue("/e", "x", "other"),
    )  # fmt: skip

    assert [({"/a", "/b"}, True), ({"/c", "/d"}, True)] == sorted(found, key=lambda one: sorted(one[0]))


def test_ring_of_many():
    ring = [queue(f"/{number}", f"t{number}", f"t{(number + 1) % 50}") for number in range(50)]

    assert [({f"/{number}" for number in range(50)}, True)] == cycles(*ring)


def test_sessions_of_other_libraries_are_only_possible():
    assert [({"/a", "/b"}, False)] == cycles(queue("/a", 1, 2), queue("/b", 2, 1))
    assert [({"/a", "/b"}, False)] == cycles(queue("/a", "x", 2), queue("/b", 2, "x"))


def test_two_threads_of_one_foreign_session_do_not_wait_for_themselves():
    assert [] == cycles(queue("/a", 1, 1))


def test_readers_do_not_wait_for_readers():
    read, write = "-__READ__", "-__WRIT__"
    both = queue("/rw", ("x", read), ("y", read), ("z", write), ("w", read))

    assert [] == cycles(both, queue("/b", "y", "x"))
    assert [({"/rw", "/b"}, True)] == cycles(both, queue("/b", "z", "x"))
    assert [({"/rw", "/b"}, True)] == cycles(
        both, queue("/b", "w", "y")
    )  # behind the writer, who waits for y


def test_semaphore_is_stuck_only_when_too_few_can_give_back():
    two = "-permit-"

    # x holds one of two permits and is stuck behind z in /b; but y moves, and makes room.
    assert [] == cycles(queue("/s", ("x", two), ("y", two), ("z", two), limit=2), queue("/b", "z", "x"))
    assert [({"/s", "/b"}, True)] == cycles(
        queue("/s", ("x", two), ("z", "-permit2-"), limit=2), queue("/b", "z", "x")
    )


def test_member_that_waits_in_two_queues_at_once():
    # A multi-lock: m waits for z in /a and stands ahead of w in /b, whose holder moves. z waits for w.
    found = cycles(queue("/a", "z", "m"), queue("/b", "free", "m", "w"), queue("/c", "w", "z"))

    assert [({"/a", "/b", "/c"}, True)] == found


def test_long_queue_takes_no_time():
    members, limit = queue("/a", *(f"t{number}" for number in range(3000)))

    assert set() == WaitGraph([(members, limit)]).stuck()


@pytest.mark.parametrize("seed", range(40))
def test_found_cycles_are_cycles_and_there_is_one_whenever_somebody_is_stuck(seed):
    rng = random.Random(seed)
    threads = [f"t{number}" for number in range(6)]
    waiting = {thread: rng.randrange(6) for thread in threads if rng.random() < 0.8}
    queues = [
        queue(
            f"/{number}",
            threads[number],
            *(t for t, n in waiting.items() if n == number and t != threads[number]),
        )
        for number in range(6)
    ]
    graph = WaitGraph(queues)
    found = graph.cycles()

    for cycle in found:
        actors = [graph.actor(step.waiter).key for step in cycle]
        assert len(set(actors)) == len(actors)
        for step, following in zip(cycle, actors[1:] + actors[:1], strict=True):
            assert graph.actor(step.blocker).key == following
    assert bool(graph.stuck()) == bool(found)
