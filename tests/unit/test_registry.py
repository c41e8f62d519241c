"""Who holds what in this process: re-entry, one acquire at a time, and slots that do not leak."""

import pytest

from tests.support.fake_kazoo import FakeClock
from zkcoord._core.grant import LossReason
from zkcoord._core.lease import Lease
from zkcoord._core.messages import Node
from zkcoord._session.hold import Hold
from zkcoord._session.registry import Registry

KEY = ("/a", "lock-", "owner-1")


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
    assert True is registry.claim(KEY, never, Call())


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

    assert True is registry.claim(other, never, Call())


def test_a_second_claim_waits_until_the_first_is_settled_and_is_told_once(registry, hold, call):
    told = []
    registry.claim(KEY, never, call)

    assert False is registry.claim(KEY, lambda: told.append("two"), Call())
    assert False is registry.claim(KEY, lambda: told.append("three"), Call())
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
    assert True is registry.claim(KEY, never, Call())


def test_settling_what_was_not_claimed_changes_nothing(registry, hold, call):
    registry.settle(KEY, hold, call)

    assert 0 == len(registry)


def test_the_last_grant_given_back_ends_the_hold_in_any_order(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    second = Call()
    registry.claim(KEY, never, second)

    assert registry.leave(KEY, call.counted) is None
    assert registry.leave(KEY, call.counted) is None  # given back once, whoever asks again
    assert hold is registry.leave(KEY, second.counted)
    assert (0, 0) == (len(registry), hold.grants)


def test_a_lost_hold_is_forgotten_and_not_re_entered(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    hold.lose(LossReason.DELETED)

    assert 0 == len(registry)
    assert True is registry.claim(KEY, never, Call())


def test_a_hold_past_its_deadline_is_not_re_entered(registry, hold, watchman, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    watchman.clock.now += 10

    assert True is registry.claim(KEY, never, Call())
    assert False is registry.claim(KEY, lambda: None, Call())


def test_leaving_a_lost_hold_does_not_disturb_its_successor(registry, hold, call):
    registry.claim(KEY, never, call)
    registry.settle(KEY, hold, call)
    hold.lose(LossReason.DELETED)
    registry.claim(KEY, never, Call())
    registry.leave(KEY, call.counted)

    assert False is registry.claim(KEY, lambda: None, Call())


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

    assert False is registry.claim(KEY, lambda: None, Call())
