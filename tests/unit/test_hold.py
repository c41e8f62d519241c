"""A hold: lost or released once, told once, and never believed past its deadline."""

import threading

import pytest

from tests.support.fake_kazoo import FakeClock
from zkcoord._core.grant import LossReason, Status
from zkcoord._core.lease import Lease
from zkcoord._core.messages import Node
from zkcoord._session.hold import Hold

START = 1000.0
DEADLINE = START + 10.0 - 0.2


class Watchman:
    def __init__(self):
        self.clock = FakeClock(START)
        self.ends = []
        self.connected = True

    def now(self):
        return self.clock()

    def late_after(self):
        return START + 2.5

    def is_connected(self):
        return self.connected

    def ended(self, hold, on_deleted=None):
        self.ends.append(hold)


@pytest.fixture
def watchman():
    return Watchman()


@pytest.fixture
def hold(watchman):
    lease = Lease(10.0)
    lease.connected(START)
    lease.answered(START, START, is_confirmed=True)
    return Hold("/a", (Node("/a", "x-lock-0000000001", 17, 7),), lease, watchman)


def test_token_and_session_are_the_first_members(hold):
    assert (17, 7, START, "/a") == (hold.token, hold.session, hold.granted_at, hold.path)


def test_a_hold_is_held_until_its_deadline(hold, watchman):
    assert Status.HELD is hold.status()
    assert DEADLINE - START == pytest.approx(hold.remaining())
    watchman.clock.now = DEADLINE - 0.01
    assert (Status.UNCERTAIN, None) == (hold.status(), hold.loss())
    watchman.clock.now = DEADLINE

    assert (Status.LOST, LossReason.DEADLINE, 0.0) == (hold.status(), hold.loss(), hold.remaining())
    assert [hold] == watchman.ends


def test_a_deadline_seen_as_passed_is_final(hold, watchman):
    watchman.clock.now = DEADLINE
    hold.loss()
    watchman.clock.now = START

    assert (Status.LOST, LossReason.DEADLINE, 0.0) == (hold.status(), hold.loss(), hold.remaining())


def test_remaining_is_never_negative(hold, watchman):
    watchman.clock.now = DEADLINE + 5

    assert 0.0 == hold.remaining()


def test_without_a_connection_it_is_uncertain(hold, watchman):
    watchman.connected = False

    assert Status.UNCERTAIN is hold.status()


def test_a_release_ends_it_once(hold, watchman):
    told = []
    hold.on_lost(told.append)

    assert hold.release()
    assert not hold.release()
    assert not hold.lose(LossReason.EXPIRED)
    assert (Status.RELEASED, None, 0.0, [hold], []) == (
        hold.status(),
        hold.loss(),
        hold.remaining(),
        watchman.ends,
        told,
    )


def test_a_release_after_the_deadline_is_a_loss(hold, watchman):
    watchman.clock.now = DEADLINE

    assert not hold.release()
    assert LossReason.DEADLINE is hold.loss()


def test_a_loss_ends_it_once_and_tells_everybody_once(hold, watchman):
    told = []
    hold.on_lost(lambda reason: told.append(("one", reason)))
    hold.on_lost(lambda reason: told.append(("two", reason)))

    assert hold.lose(LossReason.DELETED)
    assert not hold.lose(LossReason.EXPIRED)
    assert not hold.release()
    assert [("one", LossReason.DELETED), ("two", LossReason.DELETED)] == told
    assert [hold] == watchman.ends


def test_the_watchman_knows_before_the_callbacks(hold, watchman):
    seen = []
    hold.on_lost(lambda reason: seen.append(list(watchman.ends)))
    hold.lose(LossReason.DELETED)

    assert [[hold]] == seen


def test_a_callback_that_comes_late_is_told_at_once(hold, watchman):
    told = []
    watchman.clock.now = DEADLINE
    hold.on_lost(told.append)

    assert [LossReason.DEADLINE] == told


def test_a_callback_on_a_released_hold_is_never_told(hold):
    told = []
    hold.release()
    undo = hold.on_lost(told.append)

    assert (None, []) == (undo(), told)


def test_a_callback_that_was_undone_is_not_told(hold):
    told = []
    undo = hold.on_lost(told.append)

    assert None is undo()
    undo()
    hold.lose(LossReason.DELETED)
    assert [] == told


def test_waiting_for_the_loss_ends_with_it_with_the_release_and_in_time(hold, watchman):
    assert not hold.wait_lost(0)
    watchman.clock.now = DEADLINE
    assert hold.wait_lost(None)
    assert hold.wait_lost(0)


def test_a_waiter_is_woken_by_a_loss(hold):
    results = []
    waiter = threading.Thread(target=lambda: results.append(hold.wait_lost(30)))
    waiter.start()
    hold.lose(LossReason.DELETED)
    waiter.join(10)

    assert [True] == results


def test_a_waiter_is_woken_by_a_release(hold):
    results = []
    waiter = threading.Thread(target=lambda: results.append(hold.wait_lost(None)))
    waiter.start()
    hold.release()
    waiter.join(10)

    assert [False] == results


# --- a longest time


@pytest.fixture
def bounded(watchman):
    lease = Lease(10.0)
    lease.connected(START)
    lease.answered(START, START, is_confirmed=True)
    return Hold("/a", (Node("/a", "x-lock-0000000001", 17, 7),), lease, watchman, max_hold_s=3.0)


def test_a_longest_time_bounds_what_remains_and_ends_it(bounded, watchman):
    assert 3.0 == bounded.remaining()
    watchman.clock.now = START + 2.99
    assert None is bounded.loss()
    watchman.clock.now = START + 3.0

    assert (Status.LOST, LossReason.MAX_HOLD) == (bounded.status(), bounded.loss())


# --- being asked for it


def test_a_request_is_told_once_to_everybody_who_wants_to_know(hold):
    told = []
    hold.on_revoke(lambda: told.append("a"))
    undo = hold.on_revoke(lambda: told.append("b"))
    hold.on_revoke(lambda: told.append("c"))
    undo()
    hold.revoke()
    hold.revoke()

    assert ["a", "c"] == told
    assert Status.HELD is hold.status()
    hold.on_revoke(lambda: told.append("late"))
    assert ["a", "c", "late"] == told


@pytest.mark.parametrize("end", [Hold.release, lambda hold: hold.lose(LossReason.EXPIRED)])
def test_nobody_is_told_of_a_request_after_the_end(hold, end):
    told = []
    hold.on_revoke(lambda: told.append("a"))
    end(hold)
    hold.revoke()
    hold.on_revoke(lambda: told.append("b"))

    assert [] == told


def test_a_member_deleted_after_a_request_was_revoked(hold):
    hold.revoke()
    hold.lose(LossReason.DELETED)

    assert LossReason.REVOKED is hold.loss()


def test_no_interrupt_can_leave_the_lock_taken(hold, monkeypatch):
    """`Condition.__enter__` is Python: Ctrl-C can strike when it has the lock, and before the `with` knows of it."""

    def struck(condition):
        pytest.fail("a condition was entered itself")

    monkeypatch.setattr(threading.Condition, "__enter__", struck)
    hold.on_lost(lambda reason: None)
    hold.on_revoke(lambda: None)
    assert not hold.wait_lost(0.0)
    assert hold.release()
    assert not hold.lose(LossReason.DELETED)


@pytest.mark.parametrize("end", [Hold.release, lambda hold: hold.lose(LossReason.EXPIRED)])
def test_the_end_is_told_once_whichever_it_is(hold, end):
    told = []
    hold.on_over(lambda: told.append("a"))
    hold.on_over(lambda: told.append("b"))()
    end(hold)
    end(hold)
    hold.on_over(lambda: told.append("late"))

    assert ["a", "late"] == told
