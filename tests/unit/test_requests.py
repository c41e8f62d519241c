"""Bounded sending: order, the window, taking back, and that everything is settled exactly once."""

import pytest
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    RolledBackError,
    SessionExpiredError,
)

from tests.support.fake_kazoo import FakeClock, FakeKazoo
from zkcoord._session import kazoo_private
from zkcoord._session.requests import WINDOW, LinkLostError, Requests


class Rig:
    """Requests on a fake client, and everything they tell."""

    def __init__(self, is_up=True):
        self.kazoo = FakeKazoo()
        self.clock = FakeClock()
        self.proofs = []
        self.told = []
        self.wakes = 0
        self.requests = Requests(self.kazoo, self.clock, self.proof, self.wake)
        if is_up:
            self.requests.up()

    def proof(self, *proof):
        self.proofs.append(proof)

    def wake(self):
        self.wakes += 1

    def submit(self, name, **kwargs):
        return self.requests.submit(
            name, lambda value, error: self.told.append((name, value, error)), **kwargs
        )

    def fill(self):
        for i in range(WINDOW):
            self.submit(i)

    def lost(self):
        """(name, maybe_applied) of all that was told as lost."""
        return [
            (name, error.maybe_applied) for name, _, error in self.told if isinstance(error, LinkLostError)
        ]


@pytest.fixture
def rig():
    return Rig()


def test_a_request_goes_to_kazoo_at_once_and_its_answer_back(rig):
    rig.submit("a")

    assert ["a"] == rig.kazoo.sent
    assert 1 == rig.kazoo.wake_up.count
    rig.kazoo.answer("value")
    assert [("a", "value", None)] == rig.told


def test_a_servers_error_is_passed_on(rig):
    error = NoNodeError()
    rig.submit("a")
    rig.kazoo.answer(error)

    assert [("a", None, error)] == rig.told


def test_nothing_is_sent_before_there_is_a_connection():
    rig = Rig(is_up=False)
    rig.submit("a")

    assert [] == rig.kazoo.sent
    assert [("a", False)] == rig.lost()


def test_nothing_is_sent_once_kazoo_knows_that_the_connection_broke(rig):
    rig.kazoo.lose_pending()
    rig.submit("a")

    assert [] == rig.kazoo.sent
    assert [("a", False)] == rig.lost()
    assert not rig.requests.is_up


def test_no_more_than_a_window_is_unanswered_and_the_rest_keeps_its_order(rig):
    rig.fill()
    rig.submit("x")
    rig.submit("y")

    assert list(range(WINDOW)) == rig.kazoo.sent
    rig.kazoo.answer()
    assert [*range(1, WINDOW), "x"] == rig.kazoo.sent
    rig.kazoo.answer()
    assert [*range(2, WINDOW), "x", "y"] == rig.kazoo.sent


def test_what_comes_later_does_not_pass_what_waits(rig):
    rig.fill()
    rig.submit("x")
    rig.kazoo._queue.extend([("somebody else's", None)] * kazoo_private.MAX_QUEUED)
    rig.kazoo.answer()
    rig.kazoo.answer()
    rig.kazoo._queue.clear()
    rig.submit("y")

    assert [] == rig.kazoo.sent
    rig.requests.pump()
    assert ["x", "y"] == rig.kazoo.sent


def test_a_long_queue_of_other_users_counts_too(rig):
    rig.kazoo._queue.extend([("somebody else's", None)] * kazoo_private.MAX_QUEUED)
    rig.submit("a")

    assert "a" not in rig.kazoo.sent
    rig.kazoo._queue.popleft()
    rig.requests.pump()
    assert "a" == rig.kazoo.sent[-1]


def test_an_urgent_request_does_not_wait_for_the_window(rig):
    rig.fill()
    rig.submit("x")
    rig.submit("beat", is_urgent=True)

    assert [*range(WINDOW), "beat"] == rig.kazoo.sent


def test_a_request_that_was_not_sent_can_be_taken_back_and_is_never_told(rig):
    rig.fill()
    call = rig.submit("x")

    assert rig.requests.cancel(call)
    assert not rig.requests.cancel(call)
    for _ in range(WINDOW):
        rig.kazoo.answer()
    assert [] == rig.kazoo.sent
    assert "x" not in [name for name, _, _ in rig.told]


def test_a_request_that_was_sent_or_answered_cannot_be_taken_back(rig):
    call = rig.submit("a")

    assert not rig.requests.cancel(call)
    rig.kazoo.answer("value")
    assert not rig.requests.cancel(call)
    assert [("a", "value", None)] == rig.told


def test_a_broken_connection_settles_everything_once_and_says_what_may_have_happened(rig):
    rig.fill()
    rig.submit("x")
    sinks = [sink for _, sink in rig.kazoo._queue]
    rig.kazoo.take()
    rig.requests.down()

    assert [*((i, True) for i in range(WINDOW)), ("x", False)] == rig.lost()
    assert [] == list(rig.kazoo._queue)
    for sink in sinks:
        sink.set("late")
        sink.set_exception(ConnectionLoss())
    assert WINDOW + 1 == len(rig.told)
    assert not rig.requests.is_up


def test_purging_leaves_other_users_requests_in_their_order(rig):
    rig.kazoo._queue.append(("first", None))
    rig.submit("a")
    rig.kazoo._queue.append(("second", None))
    rig.submit("b")
    rig.requests.down()

    assert ["first", "second"] == rig.kazoo.sent


def test_a_new_connection_starts_with_an_empty_window(rig):
    rig.fill()
    rig.requests.down()
    rig.requests.up()
    rig.submit("a")

    assert ["a"] == rig.kazoo.sent
    assert rig.requests.is_up


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLoss(),
        SessionExpiredError(),
        ConnectionClosedError(),
        AuthFailedError(),
        KeyboardInterrupt(),
    ],
)
def test_kazoos_ways_of_saying_that_no_answer_comes_are_a_lost_link_and_maybe_applied(rig, error):
    rig.submit("a")
    rig.kazoo.answer(error)

    assert [("a", True)] == rig.lost()


@pytest.mark.parametrize(
    "error", [ConnectionLoss(), SessionExpiredError(), ConnectionClosedError(), AuthFailedError()]
)
def test_no_answer_proves_nothing(rig, error):
    rig.submit("a", is_confirmed=True)
    rig.kazoo.answer(error)

    assert [] == rig.proofs


@pytest.mark.parametrize(
    ("is_confirmed", "answer", "proved"),
    [
        (True, "path", True),
        (True, [True], True),
        (True, [], True),
        (True, NoNodeError(), False),
        (True, [RolledBackError(), NoNodeError()], False),
        (True, [True, NoNodeError()], False),
        (False, "data", False),
        (False, NoNodeError(), False),
    ],
)
def test_only_what_a_leader_must_have_applied_is_a_confirmation(rig, is_confirmed, answer, proved):
    rig.submit("a", is_confirmed=is_confirmed)
    rig.clock.now += 0.5
    rig.kazoo.answer(answer)

    assert [(1000.0, 1000.5, proved)] == rig.proofs


def test_the_proof_is_told_before_the_answer(rig):
    seen = []
    rig.requests.submit("a", lambda value, error: seen.append(list(rig.proofs)))
    rig.kazoo.answer()

    assert [[(1000.0, 1000.0, False)]] == seen


def test_sent_is_when_it_left_for_kazoo_not_when_it_was_asked_for(rig):
    rig.fill()
    rig.submit("x")
    rig.clock.now = 1005.0
    rig.kazoo.answer()

    assert 1005.0 == rig.requests.last_sent
    for _ in range(WINDOW):
        rig.kazoo.answer()
    assert (1005.0, 1005.0, False) == rig.proofs[-1]


def test_the_oldest_unanswered_request_tells_for_how_long_a_server_is_silent(rig):
    assert None is rig.requests.oldest_sent()
    rig.submit("a")
    rig.clock.now += 1
    rig.submit("b")

    assert 1000.0 == rig.requests.oldest_sent()
    rig.kazoo.answer()
    assert 1001.0 == rig.requests.oldest_sent()
    rig.kazoo.answer()
    assert None is rig.requests.oldest_sent()


def test_a_full_wake_up_pipe_is_left_to_a_thread_that_may_block(rig):
    rig.kazoo.wake_up.is_full = True
    rig.submit("a")

    assert (1, ["a"]) == (rig.wakes, rig.kazoo.sent)


def test_a_callback_that_raises_harms_nobody(rig, caplog):
    def broken(value, error):
        raise ValueError("user's fault")

    rig.requests.submit("a", broken)
    rig.submit("b")
    rig.kazoo.answer()
    rig.kazoo.answer("value")

    assert [("b", "value", None)] == rig.told
    assert "request.callback_failed" in caplog.text


def test_a_callback_may_send_the_next_request(rig):
    rig.requests.submit("a", lambda value, error: rig.submit("b") and None)
    rig.kazoo.answer()

    assert ["b"] == rig.kazoo.sent


def test_the_window_counts_also_what_kazoo_has_written_already(rig):
    rig.fill()
    for _ in range(WINDOW):
        rig.kazoo.take()
    rig.submit("x")

    assert "x" not in rig.kazoo.sent
    rig.kazoo.answer()
    assert "x" == rig.kazoo.sent[-1]


def test_what_was_settled_as_lost_is_not_sent_on_the_next_connection(rig):
    rig.fill()
    rig.submit("x")
    rig.requests.down()
    rig.requests.up()
    rig.requests.pump()

    assert [] == rig.kazoo.sent
