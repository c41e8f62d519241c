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


class Call:
    """Somebody who acquires."""

    def __init__(self):
        self.counted = []


class Watchman:
    def __init__(self):
        self.clock = FakeClock()

    def now(self):
        return self.clock()

    def late_after(self):
        return float("inf")

    def is_connected(self):
        return True

    def ended(self, hold, on_deleted=None):
        pass


@pytest.fixture
def watchman():
    return Watchman()


@pytest.fixture
def hold(watchman):
    lease = Lease(10.0)
    lease.connected(watchman.now())
    lease.answered(watchman.now(), watchman.now(), is_confirmed=True)
    return Hold("/a", (Node("/a", "x-lock-0000000001", 17, 7),), lease, watchman)


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def call():
    return Call()


def never():
    raise AssertionError("nobody waits")


def test_the_first_claim_may_acquire(registry):
    assert Claim.FREE is registry.claim(KEY, never, Call())


def test_a_settled_hold_is_counted_once_and_re_entered(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    assert 1 == hold.grants

    assert hold is registry.claim(KEY, never, Call())
    assert 2 == hold.grants
    assert 1 == len(registry)


@pytest.mark.parametrize(
    "other", [("/b", "lock-", "owner-1"), ("/a", "latch-", "owner-1"), ("/a", "lock-", "owner-2")]
)
def test_another_path_kind_or_owner_has_a_slot_of_its_own(registry, hold, other, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)

    assert Claim.FREE is registry.claim((other,), never, Call())


def test_a_second_claim_waits_until_the_first_is_settled_and_is_told_once(registry, hold, call):
    told = []
    registry.claim(KEY, never, call)

    assert Claim.PENDING is registry.claim(KEY, lambda: told.append("two"), Call())
    assert Claim.PENDING is registry.claim(KEY, lambda: told.append("three"), Call())
    assert [] == told
    registry.settle(KEY, hold, call)
    registry.settle(KEY, hold, call)
    assert ["two", "three"] == told
    assert hold is registry.claim(KEY, never, Call())


def test_a_failed_acquire_frees_the_slot_and_wakes_who_waits(registry, call):
    told = []
    registry.claim(KEY, never, call)
    registry.claim(KEY, lambda: told.append("two"), Call())
    registry.settle(KEY, None, call)

    assert (["two"], 0) == (told, len(registry))
    assert Claim.FREE is registry.claim(KEY, never, Call())


def test_settling_what_was_not_claimed_changes_nothing(registry, hold, call):
    registry.settle(KEY, hold, call)

    assert 0 == len(registry)


def test_the_last_grant_given_back_ends_the_hold_in_any_order(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    second = Call()
    registry.claim(KEY, never, second)

    assert registry.leave(call.counted) is None
    assert registry.leave(call.counted) is None  # given back once, whoever asks again
    assert hold is registry.leave(second.counted)
    assert (0, 0) == (len(registry), hold.grants)


def test_a_lost_hold_is_forgotten_and_not_re_entered(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    hold.lose(LossReason.DELETED)

    assert 0 == len(registry)
    assert Claim.FREE is registry.claim(KEY, never, Call())


def test_a_hold_past_its_deadline_is_not_re_entered(registry, hold, watchman, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    watchman.clock.now += 10

    assert Claim.FREE is registry.claim(KEY, never, Call())
    assert Claim.PENDING is registry.claim(KEY, lambda: None, Call())


def test_leaving_a_lost_hold_does_not_disturb_its_successor(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    hold.lose(LossReason.DELETED)
    registry.claim(KEY, never, Call())
    registry.leave(call.counted)

    assert Claim.PENDING is registry.claim(KEY, lambda: None, Call())


def test_a_hold_lost_before_it_is_settled_leaves_no_slot(registry, hold, call):
    registry.claim(KEY, never, call)
    hold.lose(LossReason.EXPIRED)
    registry.settle(KEY, hold, call)

    assert 0 == len(registry)


def test_every_count_is_noted_with_the_call_it_was_made_for(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    again = Call()
    registry.claim(KEY, never, again)

    assert ([hold], [hold]) == (call.counted, again.counted)


def test_only_the_call_that_claimed_settles(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, None, Call())

    assert Claim.PENDING is registry.claim(KEY, lambda: None, Call())


# --- several places as one


def test_a_hold_of_several_places_is_re_entered_as_a_whole_and_by_each_of_them(registry, hold, call):
    assert Claim.FREE is registry.claim(BOTH, never, call)
    registry.settle(BOTH, hold, call)
    calls = [call, Call(), Call()]

    assert hold is registry.claim(BOTH[::-1], never, calls[1])
    assert hold is registry.claim(KEY, never, calls[2])
    assert 3 == hold.grants
    assert [None, None, hold] == [registry.leave(each.counted) for each in calls]
    assert 0 == len(registry)


def test_some_of_several_places_held_is_no_re_entry_and_claims_nothing(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    other = Call()

    assert Claim.PARTIAL is registry.claim(BOTH, never, other)
    assert (1, []) == (len(registry), other.counted)


def test_all_of_several_places_held_one_by_one_is_no_re_entry(registry, hold, watchman):
    other = Hold("/b", (Node("/b", "x-lock-0000000001", 18, 7),), hold._lease, watchman)
    for keys, held in ((KEY, hold), (BOTH[1:], other)):
        caller = Call()
        registry.claim(keys, never, caller)
        registry.settle(keys, held, caller)

    assert Claim.PARTIAL is registry.claim(BOTH, never, Call())


def test_a_claim_of_several_waits_for_whichever_is_pending(registry, call):
    told = []
    registry.claim(BOTH[1:], never, call)

    assert Claim.PENDING is registry.claim(BOTH, lambda: told.append("both"), Call())
    registry.settle(BOTH[1:], None, call)
    assert ["both"] == told
    assert Claim.FREE is registry.claim(BOTH, never, Call())


def test_a_failed_acquire_of_several_frees_all_and_tells_everybody(registry, call):
    told = []
    registry.claim(BOTH, never, call)
    registry.claim(KEY, lambda: told.append("a"), Call())
    registry.claim(BOTH[1:], lambda: told.append("b"), Call())
    registry.settle(BOTH, None, call)

    assert (["a", "b"], 0) == (told, len(registry))


def test_a_live_hold_is_found_and_a_lost_or_pending_one_is_not(registry, hold, call):
    assert None is registry.find(KEY[0])
    registry.claim(KEY, never, call)
    assert None is registry.find(KEY[0])
    registry.settle(KEY, hold, call)
    assert hold is registry.find(KEY[0])
    hold.lose(LossReason.DELETED)
    assert None is registry.find(KEY[0])
