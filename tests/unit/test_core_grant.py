"""A hold ends once, and its status is computed from what is known at the moment of asking."""

import pytest

from zkcoord._core.grant import HoldState, LossReason, Status, loss_at, status


def ended(how):
    state = HoldState()
    if how == "released":
        state.release()
    elif how is not None:
        state.lose(how)
    return state


def test_a_new_hold_is_not_over():
    state = HoldState()

    assert (None, False, False) == (state.lost, state.is_released, state.is_over)


@pytest.mark.parametrize("reason", list(LossReason))
def test_the_first_loss_wins_and_stays(reason):
    state = HoldState()

    assert state.lose(reason)
    assert not state.lose(LossReason.CLOSED)
    assert not state.release()
    assert (reason, False, True) == (state.lost, state.is_released, state.is_over)


def test_a_release_wins_over_a_later_loss():
    state = HoldState()

    assert state.release()
    assert not state.release()
    assert not state.lose(LossReason.EXPIRED)
    assert (None, True, True) == (state.lost, state.is_released, state.is_over)


@pytest.mark.parametrize(
    ("how", "now", "reason"),
    [
        (None, 9.99, None),
        (None, 10.0, LossReason.DEADLINE),
        (None, 10.01, LossReason.DEADLINE),
        (LossReason.DELETED, 1.0, LossReason.DELETED),
        (LossReason.DELETED, 11.0, LossReason.DELETED),
        ("released", 1.0, None),
        ("released", 11.0, None),
    ],
)
def test_lost_by_what_ended_it_or_by_the_deadline(how, now, reason):
    assert reason == loss_at(ended(how), 10.0, now)


@pytest.mark.parametrize(
    ("how", "now", "until", "reason"),
    [
        (None, 4.99, 5.0, None),
        (None, 5.0, 5.0, LossReason.MAX_HOLD),
        (None, 11.0, 5.0, LossReason.MAX_HOLD),
        (None, 10.0, 10.0, LossReason.MAX_HOLD),
        (None, 10.0, 11.0, LossReason.DEADLINE),
        (None, 12.0, 11.0, LossReason.DEADLINE),
        (LossReason.DELETED, 6.0, 5.0, LossReason.DELETED),
        ("released", 6.0, 5.0, None),
    ],
)
def test_a_longest_time_ends_it_if_that_comes_before_the_deadline(how, now, until, reason):
    assert reason == loss_at(ended(how), 10.0, now, until)


@pytest.mark.parametrize(
    ("how", "now", "is_connected", "expected"),
    [
        (None, 4.9, True, Status.HELD),
        (None, 5.0, True, Status.UNCERTAIN),
        (None, 4.9, False, Status.UNCERTAIN),
        (None, 9.9, False, Status.UNCERTAIN),
        (None, 10.0, True, Status.LOST),
        (LossReason.EXPIRED, 1.0, True, Status.LOST),
        ("released", 1.0, True, Status.RELEASED),
        ("released", 99.0, False, Status.RELEASED),
    ],
)
def test_status_follows_from_ending_deadline_connection_and_lateness(how, now, is_connected, expected):
    assert expected == status(ended(how), 10.0, now, is_connected, late_after=5.0)


def test_words_that_users_compare_with():
    assert ["HELD", "UNCERTAIN", "LOST", "RELEASED"] == [str(value) for value in Status]
    assert ["expired", "deadline", "deleted", "revoked", "max_hold", "closed"] == [str(r) for r in LossReason]
