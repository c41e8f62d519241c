"""The queue rule against what Curator does: sort all children, first holds, everybody watches the one before."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord._core.names import EXCLUSIVE
from zkcoord._core.queue import Conflict, Gone, Granted, Wait, decide

RULES = {"curator": "lock-", "curator-latch": "latch-"}

numbers = st.one_of(st.integers(0, 30), st.integers(0, 2**31 - 1))
heads = st.sampled_from(["", "_c_a-", "_c_0-", "zz", "lock-", "0000000000"])
strangers = st.one_of(
    st.sampled_from(
        "config ready A _x 9999999999 0000000005 0000000006 lock-5 latch-x 0 -1 lock- lock-00000000001"
        " a__lock__0000000001 _c_b-__READ__0000000002 _c_b-permit3-0000000001 lock--000000007".split()
    ),
    st.text("lock-atch_0159W", max_size=16),
)


def curators_key(name, marker):
    at = name.rfind(marker)
    return name[at + len(marker) :] if at >= 0 else name


def is_member(name, marker):
    return re.fullmatch(rf".*{marker}[0-9]{{10}}", name) is not None


def is_strange(name, marker, mine):
    """Curator could sort it before us though it is no member, or it is another library's member."""
    others = r"(lock-|latch-|__r?lock__|__READ__|__WRIT__|permit([1-9]\d*)?-)(\d{10}|-\d{9,10})"
    return not is_member(name, marker) and (
        re.fullmatch(rf".*{others}", name) is not None or curators_key(name, marker) <= mine
    )


@st.composite
def queues(draw):
    """A dialect, its members (no two of one number), and other children."""
    dialect = draw(st.sampled_from(sorted(RULES)))
    marker = RULES[dialect]
    members = [
        f"{draw(heads)}{marker}{number:010}"
        for number in draw(st.lists(numbers, min_size=1, max_size=7, unique=True))
    ]
    others = [
        name for name in draw(st.lists(strangers, max_size=3, unique=True)) if not is_member(name, marker)
    ]
    return dialect, members, draw(st.permutations(members + others))


@settings(max_examples=500, deadline=None)
@given(queues())
def test_every_member_decides_as_curator_would(queue):
    dialect, members, children = queue
    rule, marker = EXCLUSIVE[dialect], RULES[dialect]
    in_order = sorted(children, key=lambda name: curators_key(name, marker))

    for me in members:
        mine = me[-10:]
        strange = sorted(name for name in children if is_strange(name, marker, mine))
        place = in_order.index(me)
        if strange:
            expected = Conflict(tuple(strange))
        elif place == 0:
            expected = Granted()
        else:
            expected = Wait(in_order[place - 1], in_order[0], place)
        assert expected == decide(children, me, rule)


@settings(max_examples=200, deadline=None)
@given(queues())
def test_at_most_one_member_is_granted(queue):
    dialect, members, children = queue

    granted = [me for me in members if decide(children, me, EXCLUSIVE[dialect]) == Granted()]

    assert len(granted) <= 1
    assert granted in ([], [min(members, key=lambda name: name[-10:])])


@settings(max_examples=200, deadline=None)
@given(queues(), st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_matter(queue, random):
    dialect, members, children = queue
    shuffled = list(children)
    random.shuffle(shuffled)

    for me in members:
        assert decide(children, me, EXCLUSIVE[dialect]) == decide(shuffled, me, EXCLUSIVE[dialect])


@settings(max_examples=200, deadline=None)
@given(queues())
def test_a_member_that_is_missing_is_never_granted(queue):
    dialect, members, children = queue

    for me in members:
        without = [name for name in children if name != me]
        assert isinstance(decide(without, me, EXCLUSIVE[dialect]), Gone | Conflict)


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=7, unique=True), st.randoms(use_true_random=False))
def test_kazoos_members_stand_in_one_order_whatever_their_kind(order, random):
    members = [
        f"{random.randrange(16):x}__{random.choice(['lock', 'rlock'])}__{number:010}" for number in order
    ]
    in_order = sorted(members, key=lambda name: name[-10:])

    for place, me in enumerate(in_order):
        expected = Wait(in_order[place - 1], in_order[0], place) if place else Granted()
        assert expected == decide(members, me, EXCLUSIVE["kazoo"])


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=7, unique=True))
def test_one_departure_wakes_at_most_one_waiter(order):
    members = [f"x-lock-{number:010}" for number in order]
    watched = [
        decision.name
        for me in members
        if isinstance(decision := decide(members, me, EXCLUSIVE["curator"]), Wait)
    ]

    assert len(members) - 1 == len(set(watched)) == len(watched)
