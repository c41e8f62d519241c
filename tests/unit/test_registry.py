"""Who holds what in this process: re-entry, one acquire at a time, and slots that do not leak."""

import pytest

from tests.support.fake_kazoo import FakeClock
from zkcoord._core.grant import LossReason
from zkcoord._core.lease import Lease
from zkcoord._core.messages import Node
from zkcoord._session.hold import Hold
from zkcoord._session.registry import Claim, Registry

KEY = (("/a", "lock-", "owner-1"),)
BOTH = (*KEY, ("/b", "lock-", "owner-1"))


class Watchman:
    def __init__(self):
        self.clock = FakeClock()

    def now(self):
        return self.clock()

    def late_after(self):
        return float("inf")

    def is_connected(self):
        return True

    def ended(self, hold):
        pass


@pytest.fixture
def watchman():
    return Watchman()


@pytest.fixture
def hold(watchman):
    lease = Lease(10.0)
    lease.connected(watchman.now())
    return Hold("/a", (Node("/a", "x-lock-0000000001", 17, 7),), lease, watchman)


@pytest.fixture
def registry():
    return Registry()


def never():
    raise AssertionError("nobody waits")


def test_the_first_claim_may_acquire(registry):
    assert Claim.FREE is registry.claim(KEY, never)


def test_a_settled_hold_is_counted_once_and_re_entered(registry, hold):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)
    assert 1 == hold.grants

    assert hold is registry.claim(KEY, never)
    assert 2 == hold.grants
    assert 1 == len(registry)


@pytest.mark.parametrize(
    "other", [("/b", "lock-", "owner-1"), ("/a", "latch-", "owner-1"), ("/a", "lock-", "owner-2")]
)
def test_another_path_kind_or_owner_has_a_slot_of_its_own(registry, hold, other):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)

    assert Claim.FREE is registry.claim((other,), never)


def test_a_second_claim_waits_until_the_first_is_settled_and_is_told_once(registry, hold):
    told = []
    registry.claim(KEY, never)

    assert Claim.PENDING is registry.claim(KEY, lambda: told.append("two"))
    assert Claim.PENDING is registry.claim(KEY, lambda: told.append("three"))
    assert [] == told
    registry.settle(KEY, hold)
    registry.settle(KEY, hold)
    assert ["two", "three"] == told
    assert hold is registry.claim(KEY, never)


def test_a_failed_acquire_frees_the_slot_and_wakes_who_waits(registry):
    told = []
    registry.claim(KEY, never)
    registry.claim(KEY, lambda: told.append("two"))
    registry.settle(KEY, None)

    assert (["two"], 0) == (told, len(registry))
    assert Claim.FREE is registry.claim(KEY, never)


def test_settling_what_was_not_claimed_changes_nothing(registry, hold):
    registry.settle(KEY, hold)

    assert 0 == len(registry)


def test_the_last_grant_given_back_ends_the_hold_in_any_order(registry, hold):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)
    registry.claim(KEY, never)

    assert not registry.leave(hold)
    assert registry.leave(hold)
    assert 0 == len(registry)


def test_a_lost_hold_is_forgotten_and_not_re_entered(registry, hold):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)
    hold.lose(LossReason.DELETED)

    assert 0 == len(registry)
    assert Claim.FREE is registry.claim(KEY, never)


def test_a_hold_past_its_deadline_is_not_re_entered(registry, hold, watchman):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)
    watchman.clock.now += 10

    assert Claim.FREE is registry.claim(KEY, never)
    assert Claim.PENDING is registry.claim(KEY, lambda: None)


def test_leaving_a_lost_hold_does_not_disturb_its_successor(registry, hold):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)
    hold.lose(LossReason.DELETED)
    registry.claim(KEY, never)
    registry.leave(hold)

    assert Claim.PENDING is registry.claim(KEY, lambda: None)


def test_a_hold_lost_before_it_is_settled_leaves_no_slot(registry, hold):
    registry.claim(KEY, never)
    hold.lose(LossReason.EXPIRED)
    registry.settle(KEY, hold)

    assert 0 == len(registry)


# --- several places as one


def test_a_hold_of_several_places_is_re_entered_as_a_whole_and_by_each_of_them(registry, hold):
    assert Claim.FREE is registry.claim(BOTH, never)
    registry.settle(BOTH, hold)

    assert hold is registry.claim(BOTH[::-1], never)
    assert hold is registry.claim(KEY, never)
    assert 3 == hold.grants
    assert [False, False, True] == [registry.leave(hold) for _ in range(3)]
    assert 0 == len(registry)


def test_some_of_several_places_held_is_no_re_entry_and_claims_nothing(registry, hold):
    registry.claim(KEY, never)
    registry.settle(KEY, hold)

    assert Claim.PARTIAL is registry.claim(BOTH, never)
    assert 1 == len(registry)


def test_all_of_several_places_held_one_by_one_is_no_re_entry(registry, hold, watchman):
    other = Hold("/b", (Node("/b", "x-lock-0000000001", 18, 7),), hold._lease, watchman)
    for keys, held in ((KEY, hold), (BOTH[1:], other)):
        registry.claim(keys, never)
        registry.settle(keys, held)

    assert Claim.PARTIAL is registry.claim(BOTH, never)


def test_a_claim_of_several_waits_for_whichever_is_pending(registry):
    told = []
    registry.claim(BOTH[1:], never)

    assert Claim.PENDING is registry.claim(BOTH, lambda: told.append("both"))
    registry.settle(BOTH[1:], None)
    assert ["both"] == told
    assert Claim.FREE is registry.claim(BOTH, never)


def test_a_failed_acquire_of_several_frees_all_and_tells_everybody(registry):
    told = []
    registry.claim(BOTH, never)
    registry.claim(KEY, lambda: told.append("a"))
    registry.claim(BOTH[1:], lambda: told.append("b"))
    registry.settle(BOTH, None)

    assert (["a", "b"], 0) == (told, len(registry))


def test_a_live_hold_is_found_and_a_lost_or_pending_one_is_not(registry, hold):
    assert None is registry.find(KEY[0])
    registry.claim(KEY, never)
    assert None is registry.find(KEY[0])
    registry.settle(KEY, hold)
    assert hold is registry.find(KEY[0])
    hold.lose(LossReason.DELETED)
    assert None is registry.find(KEY[0])
