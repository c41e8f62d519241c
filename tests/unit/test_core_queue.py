"""The queue rule: who is granted, whom a waiter watches, and which children are a conflict."""

import pytest

from zkcoord._core.names import EXCLUSIVE, Rule
from zkcoord._core.queue import Conflict, Gone, Granted, Wait, decide, find_conflicts, is_busy

CURATOR = EXCLUSIVE["curator"]
LATCH = EXCLUSIVE["curator-latch"]
KAZOO = EXCLUSIVE["kazoo"]


def lock(number, who="a"):
    return f"_c_{who}-lock-{number:010}"


ME = lock(5, "me")


def test_alone_is_granted():
    assert Granted() == decide([ME], ME, CURATOR)


def test_lowest_number_is_granted_whatever_stands_behind():
    assert Granted() == decide([lock(7), ME, lock(6)], ME, CURATOR)


def test_waiter_watches_the_nearest_ahead_and_knows_the_head_and_its_place():
    children = [lock(3), ME, lock(1, "z"), lock(4, "b"), lock(9), lock(2)]

    assert Wait(lock(4, "b"), lock(1, "z"), 4) == decide(children, ME, CURATOR)


def test_one_ahead_is_both_nearest_and_head():
    assert Wait(lock(4), lock(4), 1) == decide([lock(4), ME], ME, CURATOR)


@pytest.mark.parametrize("children", [[], [lock(4)], [lock(6)], [lock(5, "other")]])
def test_own_member_missing_is_gone(children):
    assert Gone() == decide(children, ME, CURATOR)


def test_numbers_are_compared_as_text_of_ten_digits():
    me = "x-lock-2147483647"

    assert Wait("y-lock-0999999999", "y-lock-0999999999", 1) == decide(
        ["y-lock-0999999999", me, "y-lock-9999999999"], me, CURATOR
    )


def test_an_equal_number_is_waited_for():
    assert Wait(lock(5, "twin"), lock(5, "twin"), 1) == decide([ME, lock(5, "twin")], ME, CURATOR)


def test_peers_that_are_no_blockers_are_neither_waited_for_nor_a_conflict():
    readers = Rule("curator", "__READ__", frozenset({"__WRIT__"}), frozenset({"__READ__", "__WRIT__"}))
    me = "_c_me-__READ__0000000005"

    assert Granted() == decide([me, "_c_a-__READ__0000000004"], me, readers)
    assert Wait("_c_b-__WRIT__0000000003", "_c_b-__WRIT__0000000003", 1) == decide(
        [me, "_c_a-__READ__0000000004", "_c_b-__WRIT__0000000003"], me, readers
    )
    assert not is_busy(["_c_a-__READ__0000000004"], readers)


def test_the_name_in_front_of_the_marker_does_not_count():
    assert Wait("zzz-lock-0000000004", "lock-0000000003", 2) == decide(
        [ME, "lock-0000000003", "zzz-lock-0000000004"], ME, CURATOR
    )


def test_kazoo_lock_waits_for_readers_too():
    me = "f__lock__0000000005"

    assert Wait("0__rlock__0000000004", "e__lock__0000000002", 2) == decide(
        [me, "0__rlock__0000000004", "e__lock__0000000002"], me, KAZOO
    )


@pytest.mark.parametrize(
    "child",
    [
        "3f25__lock__0000000000",
        "3f25__lock__0000000009",
        "0000__rlock__0000000000",
        "_c_a-latch-0000000009",
        "_c_a-__WRIT__0000000009",
        "_c_a-__READ__0000000009",
        "_c_a-permit-0000000009",
        "_c_a-permit2-0000000009",
        "lock--000000001",
        "x-lock--2147483648",
    ],
)
def test_members_of_another_library_or_kind_are_a_conflict_wherever_they_stand(child):
    assert Conflict((child,)) == decide([child, ME], ME, CURATOR)


@pytest.mark.parametrize(
    "child",
    [
        "0",
        "00000000-aaaa",
        "-1",
        "",
        "lock-",
        "lock-00000000000",
        "0000000004",
        "0000000005",
        "0000000001lock-lock-",
        "zlock-0000000004x",
    ],
)
def test_children_that_curator_could_sort_before_us_are_a_conflict(child):
    assert Conflict((child,)) == decide([ME, child], ME, CURATOR)


@pytest.mark.parametrize(
    "child",
    ["config", "locks", "leases", "ready", "a1b2", "A", "_x", "9999999999", "lock-5", "0000000006", "lock-x"],
)
def test_children_that_curator_would_sort_after_us_are_ignored(child):
    assert Granted() == decide([child, ME], ME, CURATOR)


def test_a_latch_sorts_by_its_own_marker():
    me = "_c_me-latch-0000000005"

    assert Granted() == decide([me, "latch-x"], me, LATCH)
    assert Conflict(("latch-",)) == decide([me, "latch-"], me, LATCH)
    assert Conflict((lock(9),)) == decide([me, lock(9)], me, LATCH)


@pytest.mark.parametrize("child", ["0", "", "0000000001", "__lock__"])
def test_in_kazoos_dialect_only_members_of_others_are_a_conflict(child):
    me = "f__lock__0000000005"

    assert Granted() == decide([me, child], me, KAZOO)
    assert Conflict((lock(9),)) == decide([me, child, lock(9)], me, KAZOO)


def test_conflicts_come_before_all_else_and_in_name_order():
    assert Conflict(("-1", "0", "_c_a-latch-0000000001")) == decide(
        ["_c_a-latch-0000000001", "0", lock(1), "-1"], ME, CURATOR
    )


@pytest.mark.parametrize(
    ("children", "busy"),
    [
        ([], False),
        (["config", "0", "lock-5", "_c_a-latch-0000000001", "lock-٠٠٠٠٠٠٠٠٠١", "lock-²²²²²²²²²²"], False),
        (["config", lock(3)], True),
        ([lock(2**31 - 1)], True),
    ],
)
def test_busy_means_a_blocking_member_is_there(children, busy):
    assert busy == is_busy(children, CURATOR)


def test_kazoo_readers_make_it_busy():
    assert is_busy(["a__rlock__0000000001"], KAZOO)


def test_find_conflicts_names_members_of_others_and_nothing_else():
    names = ["z__lock__0000000001", "config", "0", lock(1), "lock--000000001", "_c_a-permit-0000000001"]

    assert ("_c_a-permit-0000000001", "lock--000000001", "z__lock__0000000001") == find_conflicts(
        names, CURATOR
    )
    assert () == find_conflicts([lock(1), "0"], CURATOR)
