"""The queue rules of kinds that share: readers and writers, and a semaphore's permits."""

import pytest

from zkcoord._core.names import EXCLUSIVE, READ, WRITE, parse, permits, sibling_prefix
from zkcoord._core.queue import (
    Conflict,
    Gone,
    Granted,
    Wait,
    conflicts_of,
    decide,
    decide_permits,
    find_conflicts,
    free_permits,
    is_busy,
)

UUID = "0a0b0c0d-0000-4000-8000-000000000001"


def r(number, dialect="curator"):
    return f"_c_r-__READ__{number:010}" if dialect == "curator" else f"00ff__rlock__{number:010}"


def w(number, dialect="curator"):
    return f"_c_w-__WRIT__{number:010}" if dialect == "curator" else f"00ff__lock__{number:010}"


def p(number, weight=1):
    return f"_c_p-permit{weight if weight > 1 else ''}-{number:010}"


# --- readers and writers

BOTH = pytest.mark.parametrize("dialect", ["curator", "kazoo"])


@BOTH
def test_readers_share(dialect):
    readers = [r(number, dialect) for number in (1, 2, 3)]

    assert [Granted()] * 3 == [decide(readers, me, READ[dialect]) for me in readers]


@BOTH
def test_readers_wait_for_the_nearest_writer_ahead_and_not_for_readers(dialect):
    children = [w(1, dialect), r(2, dialect), w(3, dialect), r(4, dialect), r(5, dialect), w(6, dialect)]

    assert Wait(w(1, dialect), w(1, dialect), 1) == decide(children, r(2, dialect), READ[dialect])
    for number in (4, 5):
        expected = Wait(w(3, dialect), w(1, dialect), 2)
        assert expected == decide(children, r(number, dialect), READ[dialect])


@BOTH
def test_a_writer_waits_for_everybody_ahead(dialect):
    children = [r(2, dialect), r(3, dialect), w(5, dialect), r(7, dialect)]

    assert Wait(r(3, dialect), r(2, dialect), 2) == decide(children, w(5, dialect), WRITE[dialect])
    assert Granted() == decide([w(5, dialect), r(7, dialect)], w(5, dialect), WRITE[dialect])


@BOTH
def test_a_downgraded_reader_with_its_writers_number_is_ahead_of_the_next_writer(dialect):
    children = [w(5, dialect), r(5, dialect), w(6, dialect), r(7, dialect)]

    assert 2 == decide(children, w(6, dialect), WRITE[dialect]).position
    children.remove(w(5, dialect))
    assert Wait(r(5, dialect), r(5, dialect), 1) == decide(children, w(6, dialect), WRITE[dialect])
    assert Wait(w(6, dialect), w(6, dialect), 1) == decide(children, r(7, dialect), READ[dialect])


@pytest.mark.parametrize("rule", [READ["curator"], WRITE["curator"]])
@pytest.mark.parametrize(
    "stranger",
    [
        "x-lock-0000000001",
        "x-latch-0000000001",
        "x__lock__0000000009",
        "x__rlock__0000000001",
        "x-permit3-0000000001",
        "_c_x-__WRIT__-000000003",
        "0",
        "x__WRIT__",
        "x__READ__",
        "__READ__x__WRIT__00000",
    ],
)
def test_other_kinds_and_what_curator_would_sort_ahead_are_a_conflict(rule, stranger):
    me = f"_c_m-{rule.marker}0000000005"

    assert Conflict((stranger,)) == decide([me, stranger], me, rule)
    assert (stranger,) == conflicts_of([me, stranger], me, rule)


@pytest.mark.parametrize("rule", [READ["curator"], WRITE["curator"]])
@pytest.mark.parametrize("bystander", ["config", "A", "9999999999", "x__WRIT__5", "__READ__a"])
def test_what_curator_would_sort_behind_is_ignored(rule, bystander):
    me = f"_c_m-{rule.marker}0000000005"

    assert Granted() == decide([me, bystander], me, rule)
    assert () == conflicts_of([me, bystander], me, rule)


def test_a_try_to_read_is_busy_only_where_a_writer_is():
    assert not is_busy([r(1), r(2)], READ["curator"])
    assert is_busy([r(1), w(2)], READ["curator"])
    assert is_busy([r(1)], WRITE["curator"])


def test_own_member_missing_is_told():
    assert Gone() == decide([w(1)], r(2), READ["curator"])


# --- permits


def decided(children, me, limit):
    return decide_permits(children, me, permits(parse(me).weight, limit), limit)


def test_permits_are_granted_while_all_ahead_and_mine_fit():
    children = [p(1, 2), p(2), p(3, 3)]

    assert Granted() == decided(children, p(1, 2), 4)
    assert Granted() == decided(children, p(2), 4)
    assert Wait(p(2), p(1, 2), 2, (p(1, 2),)) == decided(children, p(3, 3), 4)
    assert Granted() == decided(children, p(3, 3), 6)


def test_only_as_many_are_watched_as_must_not_all_stay():
    children = [p(number) for number in range(1, 8)]

    assert Wait(p(6), p(1), 6, (p(5), p(4))) == decided(children, p(7), 3)


def test_a_heavy_one_right_ahead_is_watched_alone():
    assert Wait(p(2, 4), p(1), 2) == decided([p(1), p(2, 4), p(3)], p(3), 4)


def test_those_behind_do_not_matter_and_a_light_one_does_not_overtake():
    children = [p(1, 3), p(2, 4), p(3)]

    assert Granted() == decided(children, p(1, 3), 4)
    assert isinstance(decided(children, p(3), 4), Wait)


def test_more_held_than_a_shrunken_limit_has_only_makes_others_wait():
    assert Wait(p(2, 3), p(1, 3), 2) == decided([p(1, 3), p(2, 3), p(3)], p(3), 2)


def test_a_number_past_the_counters_end_or_another_kind_is_a_conflict_and_the_rest_is_ignored():
    bad = ["_c_x-permit--000000001", r(1), "x-lock-0000000009"]

    assert Conflict(tuple(sorted(bad))) == decided([p(1), *bad, "config", "0"], p(1), 1)
    assert tuple(sorted(bad)) == conflicts_of([p(1), *bad, "0"], p(1), permits(1, 1))
    assert Gone() == decided([p(1), "config"], p(2), 1)


@pytest.mark.parametrize(
    ("children", "limit", "free"),
    [
        ([], 4, 4),
        ([p(1), p(2, 2)], 4, 1),
        ([p(1), p(2, 4), p(3)], 4, 3),
        ([p(2, 4), p(1)], 4, 3),
        ([p(1, 4)], 4, 0),
        ([p(1, 4), p(2)], 2, 0),  # it was there before a shrink
        ([p(1), "config"], 2, 1),
    ],
)
def test_permits_that_nobody_holds_are_free(children, limit, free):
    assert free == free_permits(children, limit)


# --- names and conflicts


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (READ["curator"], f"_c_{UUID}-__READ__"),
        (WRITE["curator"], f"_c_{UUID}-__WRIT__"),
        (READ["kazoo"], f"{UUID.replace('-', '')}__rlock__"),
        (WRITE["kazoo"], f"{UUID.replace('-', '')}__lock__"),
        (permits(1, 4), f"_c_{UUID}-permit-"),
        (permits(3, 4), f"_c_{UUID}-permit3-"),
    ],
)
def test_each_kind_has_its_name_and_is_parsed_back(rule, name):
    assert name == rule.prefix(UUID)
    parsed = parse(f"{name}0000000012")
    assert (12, rule.dialect, rule.marker, rule.weight or 1) == (
        parsed.sequence,
        parsed.dialect,
        parsed.marker,
        parsed.weight,
    )


@pytest.mark.parametrize("first", [READ["curator"], WRITE["curator"], EXCLUSIVE["curator"]])
@pytest.mark.parametrize("rule", [READ["curator"], WRITE["curator"], EXCLUSIVE["curator"]])
def test_siblings_of_one_attempt_share_its_uuid(first, rule):
    assert rule.prefix(UUID) == sibling_prefix(first.prefix(UUID), first, rule)


def test_siblings_in_kazoos_dialect_share_the_uuid_too():
    hexed = UUID.replace("-", "")

    assert f"{hexed}__rlock__" == sibling_prefix(f"{hexed}__lock__", WRITE["kazoo"], READ["kazoo"])


def test_members_of_other_kinds_are_found_among_names():
    names = [r(1), w(2), "config", "x-lock-0000000001", "_c_x-__READ__-000000001"]

    assert ("_c_x-__READ__-000000001", "x-lock-0000000001") == find_conflicts(names, READ["curator"])
