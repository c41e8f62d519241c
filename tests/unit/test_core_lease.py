"""The deadline rule: which requests prove that the session lives, and until when."""

import pytest

from zkcoord._core.lease import Lease, heartbeat_s, margin_s, pair_gap_s

NEVER = float("-inf")
T = 10.0
K = 1.5
MARGIN = 0.2


def until(basis):
    return pytest.approx(basis + T - MARGIN)


@pytest.mark.parametrize(("timeout", "margin"), [(1.0, 0.1), (5.0, 0.1), (10.0, 0.2), (40.0, 0.8)])
def test_margin_is_a_fiftieth_but_never_less_than_a_tenth_of_a_second(timeout, margin):
    assert margin == pytest.approx(margin_s(timeout))


def test_heartbeat_is_an_eighth():
    assert 1.25 == heartbeat_s(10.0)


@pytest.mark.parametrize(
    ("timeout", "tick", "gap"),
    [(4.0, None, 1.0), (6.0, None, 1.5), (30.0, None, 1.5), (30.0, 4.0, 2.1), (1.0, 2.0, 1.05)],
)
def test_pair_gap_is_a_quarter_at_most_a_second_and_a_half_or_half_the_stated_tick(timeout, tick, gap):
    assert gap == pytest.approx(pair_gap_s(timeout, tick))


def test_nothing_is_proved_before_the_first_pair():
    lease = Lease(T)

    assert (NEVER, NEVER, NEVER, None) == (
        lease.deadline,
        lease.basis,
        lease.confirmed_sent,
        lease.next_proof(),
    )


def test_a_connect_that_was_seen_is_a_proof_once_a_quorum_has_answered_behind_it():
    lease = Lease(T)
    lease.connected(100.0)
    assert NEVER == lease.deadline
    lease.answered(100.2, 100.3, False)
    assert NEVER == lease.deadline  # a leader that was deserted takes sessions back, and answers reads
    lease.answered(100.4, 100.5, True)

    assert until(100.0) == lease.deadline


def test_a_reconnect_does_not_prolong_what_an_earlier_connection_has_proved():
    lease = Lease(T)
    lease.connected(100.0)
    lease.answered(100.1, 100.2, True)
    lease.connected(105.0)

    assert until(100.0) == lease.deadline
    lease.connected(None)
    lease.answered(106.0, 106.1, True)
    assert until(100.0) == lease.deadline  # nobody had answered on the connection of 105


def test_a_connect_makes_any_confirmation_the_next_proof():
    lease = Lease(T)
    lease.connected(100.0)
    assert 100.0 == lease.next_proof()
    lease.answered(100.1, 100.2, True)
    assert 100.2 + K == lease.next_proof()


def test_a_connect_that_nobody_saw_proves_nothing():
    lease = Lease(T)
    lease.connected(None)

    assert NEVER == lease.deadline


def test_one_confirmed_answer_alone_proves_nothing():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.1, True)

    assert NEVER == lease.deadline
    assert 100.0 == lease.confirmed_sent


def test_a_pair_proves_back_to_the_send_time_of_the_earlier_request():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.1, False)
    lease.answered(100.1 + K, 101.7, True)

    assert 100.0 == lease.basis
    assert until(100.0) == lease.deadline


def test_the_earlier_answer_must_have_arrived_the_gap_before():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.2, False)
    lease.answered(100.19 + K, 101.8, True)

    assert NEVER == lease.deadline


def test_what_was_sent_early_but_answered_late_does_not_pair():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 106.0, False)
    lease.answered(105.0, 106.0, True)

    assert NEVER == lease.deadline


def test_reads_never_confirm():
    lease = Lease(T)
    lease.connected(None)
    for moment in range(100, 120, 2):
        lease.answered(float(moment), moment + 0.1, False)

    assert (NEVER, NEVER) == (lease.deadline, lease.confirmed_sent)


def test_the_newest_answer_that_is_old_enough_counts():
    lease = Lease(T)
    lease.connected(None)
    for moment in (100.0, 101.0, 102.0, 103.0):
        lease.answered(moment, moment + 0.1, False)
    lease.answered(103.7, 103.8, True)

    assert 102.0 == lease.basis


def test_a_confirmed_answer_is_the_earlier_one_of_the_next_pair():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.1, True)
    lease.answered(102.0, 102.1, True)
    lease.answered(104.0, 104.1, True)

    assert 102.0 == lease.basis


def test_an_older_confirmation_that_arrives_late_changes_nothing():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.1, False)
    lease.answered(103.0, 103.1, True)
    lease.answered(102.0, 103.2, True)

    assert (100.0, 103.0) == (lease.basis, lease.confirmed_sent)


def test_the_basis_never_moves_back():
    lease = Lease(T)
    lease.connected(100.0)
    lease.answered(101.0, 101.1, False)
    lease.answered(90.0, 101.2, False)
    lease.answered(103.0, 103.1, True)
    lease.connected(99.0)

    assert 101.0 == lease.basis


def test_answers_of_an_earlier_connection_prove_nothing():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.1, False)
    lease.connected(None)
    lease.answered(102.0, 102.1, True)

    assert NEVER == lease.deadline


def test_what_was_proved_before_a_reconnect_stays_proved_but_the_confirmation_is_void():
    lease = Lease(T)
    lease.connected(100.0)
    lease.answered(103.0, 103.1, True)
    lease.connected(None)

    assert (100.0, NEVER) == (lease.basis, lease.confirmed_sent)


def test_the_next_proof_is_the_gap_after_the_oldest_answer():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.1, False)
    lease.answered(101.0, 101.1, False)

    assert 100.1 + K == pytest.approx(lease.next_proof())
    lease.answered(101.7, 101.8, True)
    assert 101.1 + K == pytest.approx(lease.next_proof())


def test_answers_close_together_are_kept_as_the_earliest_of_them():
    lease = Lease(T)
    lease.connected(None)
    for i in range(10):
        lease.answered(100.0 + i * 0.001, 100.1 + i * 0.001, False)
    lease.answered(102.0, 102.1, True)

    assert 100.0 == lease.basis
    assert 102.1 + K == pytest.approx(lease.next_proof())


def test_answers_a_sample_apart_are_kept_both():
    lease = Lease(T)
    lease.connected(None)
    lease.answered(100.0, 100.125, False)
    lease.answered(100.0625, 100.140625, False)
    lease.answered(102.0, 102.1, True)

    assert 100.0625 == lease.basis


def test_a_stated_tick_sets_the_gap():
    lease = Lease(T, tick_s=4.0)
    lease.connected(None)
    lease.answered(100.0, 100.0, False)
    lease.answered(102.05, 102.06, True)
    assert NEVER == lease.basis
    lease.answered(102.2, 102.21, True)

    assert 100.0 == lease.basis
