"""The demo's properties are found to hold, and found to be broken."""

from zkcoord.cli.demo_checks import Kill, Order, count_duplicates, count_gaps, do_tokens_grow, judge

KILL = Kill(pid=1, token=102, moved_on_s=4.2)


def order(value, token=None):
    return Order(f"20261130120000{value:06}", value, token, 0.5, worker=0, thread=0)


def good(count=5):
    return [order(value, 100 + value) for value in range(1, count + 1)]


def test_good_run_has_no_failures():
    findings = judge(good()[::-1], 5, with_lock=True, kill=KILL, wants_kill=True)

    assert () == findings.failures
    assert (5, 0, 0, True) == (findings.issued, findings.duplicates, findings.gaps, findings.tokens_grow)
    assert (0.5, 0.5) == (findings.mean_wait_s, findings.max_wait_s)


def test_duplicates_under_the_lock_fail():
    findings = judge([*good(4), order(4, 105)], 5, with_lock=True, kill=None, wants_kill=False)

    assert 1 == findings.duplicates
    assert "1 duplicates under the lock" in findings.failures


def test_missing_orders_fail():
    assert judge(good(4), 5, with_lock=True, kill=None, wants_kill=False).failures


def test_only_a_killed_holder_may_leave_one_gap():
    orders = [order(1, 101), order(3, 103)]

    assert () == judge(orders, 2, with_lock=True, kill=KILL, wants_kill=True).failures
    assert judge(orders, 2, with_lock=True, kill=None, wants_kill=False).failures
    assert judge([order(1, 101), order(4, 104)], 2, with_lock=True, kill=KILL, wants_kill=True).failures


def test_tokens_that_do_not_grow_fail():
    orders = [order(1, 102), order(2, 101)]

    assert judge(orders, 2, with_lock=True, kill=None, wants_kill=False).failures


def test_kill_that_did_not_happen_or_did_not_move_on_fails():
    stuck = Kill(pid=1, token=102, moved_on_s=None)

    assert judge(good(), 5, with_lock=True, kill=None, wants_kill=True).failures
    assert judge(good(), 5, with_lock=True, kill=stuck, wants_kill=True).failures


def test_without_a_lock_duplicates_are_what_is_wanted():
    twice = judge([order(1), order(1)], 2, with_lock=False, kill=None, wants_kill=False)
    once = judge([order(1), order(2)], 2, with_lock=False, kill=None, wants_kill=False)

    assert ((), None) == (twice.failures, twice.tokens_grow)
    assert once.failures


def test_empty_run_fails():
    assert judge([], 5, with_lock=True, kill=None, wants_kill=False).failures


def test_counting():
    assert 2 == count_duplicates([1, 1, 2, 2, 3])
    assert 2 == count_gaps([1, 4, 4])
    assert 0 == count_gaps([])
    assert do_tokens_grow([order(2, 9), order(1, 3)])
    assert not do_tokens_grow([order(2, 9), order(1, 9)])
    assert not do_tokens_grow([order(1, None)])
