"""Deletes that must happen: kept over reconnects, struck off with the session, found by name when need be."""

import threading

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import CheckVersion, Delete, GetChildren, Transaction

from tests.support.fake_kazoo import FakeClock, FakeKazoo
from zkcoord._core.messages import Node
from zkcoord._session.janitor import Janitor
from zkcoord._session.requests import WINDOW, Requests

CATCH_UP = Transaction([CheckVersion("/", -1)])
CATCH_UP_APP = Transaction([CheckVersion("/app", -1)])
NODE = Node("/a", "x-lock-0000000001", session=7)


class Rig:
    def __init__(self, chroot=""):
        self.kazoo = FakeKazoo(chroot)
        self.requests = Requests(
            self.kazoo, FakeClock(), lambda *proof: self.proofs.append(proof[2]), lambda: None
        )
        self.proofs = []
        self.janitor = Janitor(self.kazoo, self.requests)
        self.told = []

    def up(self, session=7):
        self.kazoo.reconnected()
        self.requests.up()
        self.janitor.up(session)

    def down(self):
        self.kazoo.lose_pending()
        self.requests.down()


@pytest.fixture
def rig():
    rig = Rig()
    rig.up()
    return rig


def test_a_member_is_deleted_whatever_its_version_and_told(rig):
    rig.janitor.delete(NODE, rig.told.append)

    assert [Delete(NODE.path, -1)] == rig.kazoo.sent
    assert 1 == len(rig.janitor)
    rig.kazoo.answer(True)
    assert ([True], 0) == (rig.told, len(rig.janitor))
    assert [True] == rig.proofs


def test_paths_are_below_the_chroot():
    rig = Rig("/app")
    rig.up()
    rig.janitor.delete(NODE)
    rig.janitor.search("/a", "x")

    assert [Delete(f"/app{NODE.path}", -1), CATCH_UP_APP, GetChildren("/app/a", None)] == rig.kazoo.sent


def test_a_member_that_somebody_else_has_deleted_is_told_so(rig):
    rig.janitor.delete(NODE, rig.told.append)
    rig.kazoo.answer(NoNodeError())

    assert ([False], 0) == (rig.told, len(rig.janitor))


def test_a_member_gone_after_a_lost_answer_was_deleted_by_us(rig):
    rig.janitor.delete(NODE, rig.told.append)
    rig.down()
    assert [] == rig.told
    rig.up()
    rig.kazoo.answer(NoNodeError())

    assert [True] == rig.told


def test_a_delete_asked_for_without_a_connection_is_sent_with_the_next(rig):
    rig.down()
    rig.janitor.delete(NODE, rig.told.append)
    assert [] == rig.kazoo.sent
    rig.up()
    assert [Delete(NODE.path, -1)] == rig.kazoo.sent
    rig.kazoo.answer(NoNodeError())

    assert [False] == rig.told


def test_a_delete_is_sent_once_per_connection(rig):
    rig.janitor.delete(NODE)
    rig.janitor.up(7)

    assert 1 == len(rig.kazoo.sent)


def test_deletes_are_repeated_over_any_number_of_reconnects(rig):
    rig.janitor.delete(NODE, rig.told.append)
    for _ in range(3):
        rig.down()
        rig.up()
        assert [Delete(NODE.path, -1)] == rig.kazoo.sent
    rig.kazoo.answer(True)

    assert [True] == rig.told


def test_a_connection_that_comes_while_a_refusal_is_told_is_not_missed():
    rig = Rig()
    rig.up()
    refused = rig.requests.submit

    def submit_between_two_connections(*args, **kwargs):
        rig.requests.submit = refused
        rig.down()
        call = refused(*args[:1], lambda value, error: pending.append((args[1], error)), **kwargs)
        rig.up()
        for done, error in pending:
            done(None, error)
        return call

    pending = []
    rig.requests.submit = submit_between_two_connections
    rig.janitor.delete(NODE, rig.told.append)

    assert [Delete(NODE.path, -1)] == rig.kazoo.sent
    rig.kazoo.answer(True)
    assert [True] == rig.told


def test_what_an_ended_session_owned_went_with_it(rig):
    rig.janitor.delete(NODE, rig.told.append)
    rig.down()
    rig.up(session=8)

    assert ([], [True], 0) == (rig.kazoo.sent, rig.told, len(rig.janitor))


def test_a_delete_for_a_session_that_is_not_the_current_one_is_not_sent(rig):
    rig.janitor.delete(Node("/a", "x-lock-0000000001", session=6), rig.told.append)

    assert ([], [True]) == (rig.kazoo.sent, rig.told)


def test_a_refused_delete_is_logged_and_not_repeated(rig, caplog):
    rig.janitor.delete(NODE, rig.told.append)
    rig.kazoo.answer(NoAuthError())

    assert ([True], 0) == (rig.told, len(rig.janitor))
    assert "delete.refused" in caplog.text
    assert NODE.path in caplog.text


def test_a_search_catches_up_lists_and_deletes_what_has_the_prefix(rig):
    rig.janitor.search("/a", "x-lock-")

    assert [CATCH_UP, GetChildren("/a", None)] == rig.kazoo.sent
    rig.kazoo.answer("/a")
    rig.kazoo.answer(["y-lock-0000000002", NODE.name, "x-lock-0000000003", "0x-lock-0000000004"])
    assert [Delete(NODE.path, -1), Delete("/a/x-lock-0000000003", -1)] == rig.kazoo.sent
    rig.kazoo.answer(True)
    assert 1 == len(rig.janitor)
    rig.kazoo.answer(True)
    assert 0 == len(rig.janitor)


@pytest.mark.parametrize(("answer", "warns"), [([], False), (NoNodeError(), False), (NoAuthError(), True)])
def test_a_search_that_finds_nothing_is_over(rig, caplog, answer, warns):
    rig.janitor.search("/a", "x-lock-")
    rig.kazoo.answer("/a")
    rig.kazoo.answer(answer)

    assert ([], 0) == (rig.kazoo.sent, len(rig.janitor))
    assert warns == ("search.refused" in caplog.text)


def test_a_search_is_repeated_after_a_reconnect_and_given_up_with_the_session(rig):
    rig.janitor.search("/a", "x-lock-")
    rig.down()
    rig.up()
    assert [CATCH_UP, GetChildren("/a", None)] == rig.kazoo.sent
    rig.down()
    rig.up(session=8)

    assert ([], 0) == (rig.kazoo.sent, len(rig.janitor))


def test_a_search_asked_for_before_any_connection_waits_for_the_first():
    rig = Rig()
    rig.janitor.search("/a", "x-lock-")
    rig.up(session=9)

    assert [CATCH_UP, GetChildren("/a", None)] == rig.kazoo.sent


def test_idle_means_nothing_is_left(rig):
    assert rig.janitor.wait_idle(0)
    rig.janitor.delete(NODE)
    assert not rig.janitor.wait_idle(0)
    rig.kazoo.answer(True)
    assert rig.janitor.wait_idle(0)


def test_a_delete_that_never_left_was_not_the_one_that_removed_the_member(rig):
    for n in range(WINDOW):
        rig.requests.submit(n, lambda value, error: None)
    rig.janitor.delete(NODE, rig.told.append)
    rig.requests.down()
    rig.up()
    rig.kazoo.answer(NoNodeError())

    assert [False] == rig.told


def test_a_member_that_is_to_be_deleted_twice_is_deleted_once_and_both_are_told(rig):
    rig.janitor.delete(NODE, rig.told.append)
    rig.janitor.delete(NODE, rig.told.append)

    assert [Delete(NODE.path, -1)] == rig.kazoo.sent
    rig.kazoo.answer(True)
    assert [True, True] == rig.told
    rig.janitor.delete(NODE, rig.told.append)
    rig.kazoo.answer(NoNodeError())
    assert [True, True, False] == rig.told


def test_a_delete_that_a_sweep_has_sent_again_was_ours(rig):
    rig.janitor.delete(NODE, rig.told.append)
    rig.kazoo._queue.clear()  # it was applied, and its answer is being told just now
    rig.requests._outstanding.clear()
    rig.janitor.sweep()
    rig.janitor.sweep()
    rig.kazoo.answer(NoNodeError())

    assert [True] == rig.told


def test_whoever_waits_for_idle_is_woken_by_the_last_answer(rig):
    rig.janitor.delete(NODE)
    results = []
    waiter = threading.Thread(target=lambda: results.append(rig.janitor.wait_idle(30)))
    waiter.start()
    rig.kazoo.answer(True)
    waiter.join(10)

    assert [True] == results


def test_a_delete_that_an_interrupt_kept_from_being_sent_is_sent_by_the_second_sweep(rig):
    rig.janitor.delete(NODE, rig.told.append)
    rig.kazoo._queue.clear()
    rig.requests._outstanding.clear()

    rig.janitor.sweep()
    assert [] == rig.kazoo.sent
    rig.janitor.sweep()
    assert [Delete(NODE.path, -1)] == rig.kazoo.sent


def test_a_sweep_leaves_alone_what_is_under_way(rig):
    rig.janitor.delete(NODE, rig.told.append)
    for _ in range(3):
        rig.janitor.sweep()

    assert [Delete(NODE.path, -1)] == rig.kazoo.sent


def test_no_interrupt_can_leave_the_lock_taken(rig, monkeypatch):
    """`Condition.__enter__` is Python: Ctrl-C can strike when it has the lock, and before the `with` knows of it."""

    def struck(condition):
        pytest.fail("a condition was entered itself")

    monkeypatch.setattr(threading.Condition, "__enter__", struck)
    rig.janitor.delete(NODE, rig.told.append)
    rig.janitor.sweep()
    rig.kazoo.answer(True)

    assert [True] == rig.told
    assert rig.janitor.wait_idle(0.0)
