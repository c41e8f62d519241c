"""Readers and writers against Curator's sort and predicates; permits against a model that looks at everything."""

from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord._core.names import READ, WRITE, parse, permits
from zkcoord._core.queue import Conflict, Granted, Wait, decide, decide_permits, free_permits

numbers = st.one_of(st.integers(0, 30), st.integers(0, 2**31 - 1))
strangers = st.one_of(
    st.sampled_from(
        "config ready A 9999999999 0000000005 x__WRIT__ __READ__ x__WRIT__5 0 -1 __READ__a".split()
    ),
    st.text("_READWIT_059", max_size=16),
)


def curators_key(name):
    """``InterProcessReadWriteLock``'s sort: what follows the last __READ__, and of that the last __WRIT__."""
    for marker in "__READ__", "__WRIT__":
        at = name.rfind(marker)
        name = name[at + len(marker) :] if at >= 0 else name
    return name


def curator_grants(children, me):
    """What Curator 5.5's predicates say for a reader that is no downgrade, or a writer."""
    in_order = sorted(children, key=curators_key)
    place = in_order.index(me)
    if "__WRIT__" in me:
        return place == 0
    return not any("__WRIT__" in name for name in in_order[:place])


@st.composite
def queues(draw):
    members = [
        f"_c_a-{draw(st.sampled_from(['__READ__', '__WRIT__']))}{number:010}"
        for number in draw(st.lists(numbers, min_size=1, max_size=7, unique=True))
    ]
    others = [name for name in draw(st.lists(strangers, max_size=2, unique=True)) if parse(name) is None]
    return members, draw(st.permutations(members + others))


def rule_of(me):
    return (READ if "__READ__" in me else WRITE)["curator"]


@settings(max_examples=1000, deadline=None)
@given(queues())
def test_whoever_is_granted_would_be_granted_by_curator_and_the_reverse(queue):
    members, children = queue
    for me in members:
        decision = decide(children, me, rule_of(me))
        if not isinstance(decision, Conflict):
            assert curator_grants(children, me) == (decision == Granted())


@settings(max_examples=500, deadline=None)
@given(queues())
def test_holders_are_readers_only_or_one_writer_and_waiters_watch_who_blocks_them(queue):
    members, _ = queue
    decisions = {me: decide(members, me, rule_of(me)) for me in members}
    holders = [me for me, decision in decisions.items() if decision == Granted()]

    assert holders
    assert 1 == len(holders) or all("__READ__" in me for me in holders)
    for me, decision in decisions.items():
        if isinstance(decision, Wait):
            ahead = [name for name in members if name[-10:] < me[-10:]]
            blockers = [name for name in ahead if "__WRIT__" in (name, me)[("__WRIT__" in me)]]
            assert (len(blockers), max(blockers, key=lambda name: name[-10:])) == (
                decision.position,
                decision.name,
            )


def test_every_reader_right_behind_a_writer_watches_it_and_writers_watch_one_each():
    members = [f"x__WRIT__{1:010}", *(f"x-__READ__{number:010}" for number in range(2, 6))]

    assert [members[0]] * 4 == [decide(members, me, READ["curator"]).name for me in members[1:]]


# --- permits


@st.composite
def pools(draw):
    limit = draw(st.integers(1, 6))
    weights = draw(st.lists(st.integers(1, limit), min_size=1, max_size=12))
    return limit, [
        f"_c_a-permit{weight if weight > 1 else ''}-{number:010}" for number, weight in enumerate(weights)
    ]


def decided(children, me, limit):
    return decide_permits(children, me, permits(parse(me).weight, limit), limit)


@settings(max_examples=500, deadline=None)
@given(pools(), st.randoms(use_true_random=False))
def test_whatever_order_they_leave_in_the_limit_holds_and_nobody_misses_a_wake_up(pool, random):
    limit, members = pool
    held, watching, left = set(), {}, list(members)

    def look(me):
        decision = decided(random.sample(left, len(left)), me, limit)
        if decision == Granted():
            held.add(me)
            watching.pop(me, None)
        else:
            watching[me] = {decision.name, *decision.others}

    for me in members:
        look(me)
    while left:
        assert sum(parse(me).weight for me in held) <= limit
        for me in watching:
            assert decided(left, me, limit) != Granted(), f"{me} missed a wake-up"
        assert held, "nobody holds and somebody waits"
        leaver = random.choice(left)  # a waiter that gives up, as well as a holder that is done
        left.remove(leaver)
        held.discard(leaver)
        watching.pop(leaver, None)
        for me in [me for me, watched in watching.items() if leaver in watched]:
            look(me)


@settings(max_examples=300, deadline=None)
@given(pools())
def test_holders_and_what_is_free_make_up_the_limit(pool):
    limit, members = pool
    holders = [me for me in members if decided(members, me, limit) == Granted()]

    assert holders == members[: len(holders)]
    assert limit - sum(parse(me).weight for me in holders) == free_permits(members, limit)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(10, 60), st.randoms(use_true_random=False))
def test_a_release_wakes_at_most_as_many_as_there_are_permits_and_half_of_that_on_average(
    limit, count, random
):
    left = [f"_c_a-permit-{number:010}" for number in range(count)]
    woken = []
    while left:
        decisions = {me: decided(left, me, limit) for me in left}
        holder = random.choice([me for me in left if decisions[me] == Granted()])
        woken.append(
            sum(
                holder in (decision.name, *decision.others)
                for decision in decisions.values()
                if isinstance(decision, Wait)
            )
        )
        left.remove(holder)

    assert max(woken) <= limit
    assert sum(woken) / len(woken) <= limit / 2 + 1
