"""The guard's arithmetic with a clock of the test's own: what it sends when, and when holds are lost."""

import socket

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError, RolledBackError
from kazoo.protocol.serialization import CheckVersion, Delete, Exists, GetData, Transaction

from tests.support.fake_kazoo import FakeClock, FakeKazoo
from zkcoord._core.grant import LossReason, Status
from zkcoord._core.messages import Node
from zkcoord._session.guard import REVOKE, Guard
from zkcoord._session.hold import Hold
from zkcoord._session.janitor import Janitor
from zkcoord._session.requests import Requests
from zkcoord._session.watches import Watches

T = 8.0
H = T / 8
K = 1.5
MARGIN = 0.16
START = 1000.0
NODE = Node("/a", "x-lock-0000000001", czxid=17, session=7)


def beat(path):
    return Transaction([CheckVersion(path, -1)])


class Rig:
    def __init__(self, chroot=""):
        self.kazoo = FakeKazoo(chroot)
        self.clock = FakeClock(START)
        self.kicks = 0
        self.requests = Requests(self.kazoo, self.clock, self.answered, lambda: None)
        self.watches = Watches(self.kazoo, self.requests)
        self.janitor = Janitor(self.kazoo, self.requests)
        self.guard = Guard(
            self.kazoo, self.clock, self.requests, self.watches, self.janitor, tick_s=None, kick=self.kick
        )
        self.gone = []

    def answered(self, *proof):
        self.guard.answered(*proof)

    def kick(self):
        self.kicks += 1

    def up(self, session=7, sent=START, is_confirmed=True):
        self.kazoo.reconnected()
        self.guard.connected(session, T, sent)
        self.requests.up()
        self.janitor.up(session)
        if sent is not None and is_confirmed:
            self.guard.answered(sent, sent, True)
        return self

    def down(self):
        self.kazoo.lose_pending()
        self.requests.down()
        self.watches.down()
        self.guard.disconnected()

    def tick(self, at):
        """Look at START + `at`; returns when to look again, counted from START."""
        self.clock.now = START + at
        return self.guard.tick(self.clock.now) - START

    def track(self, path="/a/w"):
        self.guard.track(path, lambda: self.gone.append(path))

    def hold(self, node=NODE, max_hold_s=None):
        hold = Hold(node.directory, (node,), self.guard.lease, self.guard, max_hold_s=max_hold_s)
        self.guard.add(hold)
        return hold

    def confirm_at(self, at):
        """A heartbeat that is answered at once."""
        self.tick(at)
        assert isinstance(self.kazoo.sent[0], Transaction)
        self.kazoo.answer([True])


@pytest.fixture
def rig():
    return Rig().up()


# --- idle


def test_nothing_is_sent_before_there_is_a_session():
    rig = Rig()
    rig.tick(0)

    assert [] == rig.kazoo.sent


def test_an_idle_session_reads_every_quarter_of_its_timeout(rig):
    rig.tick(0)
    assert [Exists("/", None)] == rig.kazoo.sent
    rig.kazoo.answer()
    rig.tick(T / 4 - 0.01)
    assert [] == rig.kazoo.sent
    rig.tick(T / 4)

    assert [Exists("/", None)] == rig.kazoo.sent


def test_any_other_request_takes_the_place_of_the_idle_read(rig):
    rig.clock.now += 1
    rig.requests.submit("anything", lambda value, error: None)
    rig.kazoo.answer()
    rig.tick(T / 4)
    assert [] == rig.kazoo.sent
    rig.tick(1 + T / 4)

    assert [Exists("/", None)] == rig.kazoo.sent


def test_the_idle_read_is_below_the_chroot():
    rig = Rig("/app").up()
    rig.tick(0)

    assert [Exists("/app", None)] == rig.kazoo.sent


def test_idle_reads_keep_an_old_answer_so_that_a_first_confirmation_counts():
    rig = Rig().up(sent=None)
    for quarter in range(4):
        rig.tick(quarter * T / 4)
        rig.kazoo.answer()
    rig.track()
    rig.confirm_at(3 * T / 4 + 0.5)

    assert START + T / 2 == rig.guard.lease.basis


# --- heartbeats


def test_a_session_that_owns_members_is_confirmed_every_eighth_of_its_timeout(rig):
    rig.track()
    sent = []
    for step in range(0, 33):
        rig.tick(step * H / 8)
        if rig.kazoo.sent:
            sent.append(step * H / 8)
            assert beat("/a/w") == rig.kazoo.answer([True])

    assert [0, H, 2 * H, 3 * H, 4 * H] == sent


def test_a_heartbeat_confirms_and_moves_the_deadline(rig):
    rig.track()
    rig.confirm_at(0)
    assert START + T - MARGIN == pytest.approx(rig.guard.lease.deadline)
    rig.confirm_at(2)

    assert START + T - MARGIN == pytest.approx(rig.guard.lease.deadline)
    rig.confirm_at(4)
    assert START + 2 + T - MARGIN == pytest.approx(rig.guard.lease.deadline)


def test_members_are_checked_in_turn(rig):
    for path in "/a/1", "/a/2", "/a/3":
        rig.track(path)
    checked = []
    for n in range(4):
        rig.tick(n * H)
        checked.append(rig.kazoo.answer([True]))

    assert [beat("/a/1"), beat("/a/2"), beat("/a/3"), beat("/a/1")] == checked


def test_the_next_look_is_due_with_the_next_heartbeat(rig):
    rig.track()

    assert H == rig.tick(0)
    rig.kazoo.answer([True])
    assert H == rig.tick(0.25)


def test_no_second_heartbeat_is_sent_while_one_is_unanswered(rig):
    rig.track()
    rig.tick(0)
    rig.tick(H)
    rig.tick(2 * H)

    assert [beat("/a/w")] == rig.kazoo.sent


def test_a_refused_check_confirms_nothing():
    rig = Rig().up(is_confirmed=False)
    rig.track()
    rig.tick(0)
    rig.kazoo.answer([NoNodeError()])

    assert float("-inf") == rig.guard.lease.confirmed_sent


@pytest.mark.parametrize("answer", [[NoNodeError()], NoNodeError()])
def test_a_member_found_missing_is_told(rig, answer):
    rig.track()
    rig.tick(0)
    rig.kazoo.answer(answer)

    assert ["/a/w"] == rig.gone


def test_a_missing_member_is_forgotten_and_the_next_asked_about_at_once(rig):
    rig.track()
    rig.guard.track("/a/w2", lambda: None)
    rig.tick(0)
    rig.kazoo.answer([NoNodeError()])
    rig.tick(0.001)

    assert [beat("/a/w2")] == rig.kazoo.sent
    rig.kazoo.answer([True])
    rig.tick(H + 0.001)
    assert [beat("/a/w2")] == rig.kazoo.sent


@pytest.mark.parametrize("answer", [[True], [NoAuthError()], [RolledBackError()], NoAuthError()])
def test_any_other_answer_does_not_tell_that_a_member_is_missing(rig, answer):
    rig.track()
    rig.tick(0)
    rig.kazoo.answer(answer)

    assert [] == rig.gone


def test_a_member_that_was_given_up_meanwhile_is_not_told(rig):
    rig.track()
    rig.tick(0)
    rig.guard.untrack("/a/w")
    rig.kazoo.answer([NoNodeError()])

    assert [] == rig.gone
    rig.guard.untrack("/a/w")


def test_a_member_that_changed_hands_meanwhile_is_not_told_to_the_first(rig):
    rig.track()
    rig.tick(0)
    rig.track()
    rig.kazoo.answer([NoNodeError()])

    assert [] == rig.gone


def test_a_reconnect_confirms_at_once(rig):
    rig.track()
    rig.confirm_at(0)
    rig.down()
    rig.clock.now += 0.2
    rig.up(sent=START + 0.2)
    rig.tick(0.2)

    assert [beat("/a/w")] == rig.kazoo.sent


def test_nothing_is_sent_without_a_connection(rig):
    rig.track()
    rig.down()
    rig.tick(5)

    assert [] == rig.kazoo.sent


def test_a_heartbeat_goes_ahead_of_a_full_window(rig):
    for n in range(130):
        rig.requests.submit(n, lambda value, error: None)
    rig.track()
    rig.tick(0)

    assert beat("/a/w") == rig.kazoo.sent[-1]


# --- a silent server


def test_a_server_silent_for_two_thirds_of_the_timeout_loses_the_connection(rig):
    ours, servers = socket.socketpair()
    with ours, servers:
        rig.kazoo._connection._socket = ours
        servers.settimeout(0)
        rig.track()
        rig.tick(0)
        assert START + T * 2 / 3 >= START + rig.tick(T * 2 / 3 - 0.01)
        with pytest.raises(BlockingIOError):
            servers.recv(1)
        rig.tick(T * 2 / 3)

        assert b"" == servers.recv(1)


def test_silence_counts_from_the_oldest_unanswered_request(rig):
    ours, servers = socket.socketpair()
    with ours, servers:
        rig.kazoo._connection._socket = ours
        servers.settimeout(0)
        rig.track()
        for n in range(8):
            rig.confirm_at(n * H)

        with pytest.raises(BlockingIOError):
            servers.recv(1)


# --- confirm before a grant


def test_enough_lease_is_confirmed_at_once(rig):
    told = []
    rig.clock.now = START + T - MARGIN - H - 0.01
    rig.guard.confirm(lambda: told.append("yes"))

    assert (["yes"], 0) == (told, rig.kicks)


def test_too_little_lease_waits_for_a_heartbeat_that_makes_it_enough(rig):
    told = []
    rig.track()
    rig.confirm_at(0)
    for moment in (2, 4, 5):
        rig.confirm_at(moment)
    rig.down()
    rig.guard.connected(7, T, None)
    rig.kazoo.reconnected()
    rig.requests.up()
    rig.clock.now = rig.guard.lease.deadline - H + 0.01
    at = rig.clock.now - START
    rig.guard.confirm(lambda: told.append("yes"))
    assert ([], 1) == (told, rig.kicks)

    rig.confirm_at(at)
    assert [] == told
    rig.tick(at + K - 0.01)
    assert [] == rig.kazoo.sent
    rig.confirm_at(at + K)
    assert ["yes"] == told


def test_a_client_just_handed_in_is_confirmed_after_the_pair_gap():
    rig = Rig().up(sent=None)
    told = []
    rig.track()
    rig.guard.confirm(lambda: told.append("yes"))
    rig.confirm_at(0)
    due = rig.tick(0.06)
    assert (K, []) == (pytest.approx(due, abs=H), told)
    rig.confirm_at(K)

    assert ["yes"] == told


def test_no_lease_counts_without_a_connection(rig):
    told = []
    rig.down()
    rig.guard.confirm(lambda: told.append("yes"))

    assert [] == told


def test_a_broken_connection_forgets_who_waits_for_confirmation():
    rig = Rig().up(sent=None)
    told = []
    rig.guard.confirm(lambda: told.append("yes"))
    rig.down()
    rig.up(sent=START)
    rig.track()
    rig.confirm_at(0)

    assert [] == told


# --- holds


def test_a_hold_is_lost_at_its_deadline_and_its_member_deleted(rig):
    hold = rig.hold()
    rig.confirm_at(0)
    deadline = T - MARGIN
    rig.tick(deadline - 0.01)
    assert None is hold._state.lost
    rig.tick(deadline)

    assert LossReason.DEADLINE is hold._state.lost
    assert Delete(NODE.path, -1) in rig.kazoo.sent


def test_the_next_look_is_never_later_than_the_deadline(rig):
    rig.hold()
    rig.down()

    assert T - MARGIN == pytest.approx(rig.tick(T - MARGIN - 0.03))


def test_an_answer_that_comes_after_the_deadline_does_not_revive_a_hold(rig):
    hold = rig.hold()
    rig.tick(0)
    rig.kazoo.answer([True])
    rig.tick(T / 2)
    rig.clock.now = START + T
    rig.kazoo.answer([True])

    assert LossReason.DEADLINE is hold._state.lost


def test_a_reconnect_after_the_deadline_does_not_revive_a_hold(rig):
    hold = rig.hold()
    rig.down()
    rig.clock.now = START + T
    rig.up(sent=START + T)

    assert LossReason.DEADLINE is hold._state.lost


def test_a_reconnect_in_time_keeps_a_hold(rig):
    hold = rig.hold()
    rig.down()
    assert Status.UNCERTAIN is hold.status()
    rig.clock.now = START + T / 2
    rig.up(sent=START + T / 2)
    rig.tick(T / 2)
    assert isinstance(rig.kazoo.answer((b"{}", object())), GetData)
    rig.kazoo.answer([True])

    assert Status.HELD is hold.status()
    assert START + T / 2 + T - MARGIN == pytest.approx(hold.deadline)


def test_status_is_uncertain_once_two_heartbeats_are_late(rig):
    hold = rig.hold()
    rig.confirm_at(0)
    rig.clock.now = START + 2 * H - 0.01
    assert Status.HELD is hold.status()
    rig.clock.now = START + 2 * H

    assert Status.UNCERTAIN is hold.status()


def test_another_session_loses_all_holds_as_expired_and_deletes_nothing(rig):
    hold = rig.hold()
    rig.down()
    rig.up(session=8)

    assert LossReason.EXPIRED is hold.loss()
    assert [] == rig.kazoo.sent
    assert 8 == rig.guard.session


def test_another_session_starts_with_a_lease_of_its_own(rig):
    old = rig.guard.lease
    rig.down()
    rig.up(session=8, sent=None)

    assert old is not rig.guard.lease
    assert float("-inf") == rig.guard.lease.deadline


def test_the_end_of_the_session_loses_holds_with_its_reason_and_forgets_waiters(rig):
    rig.track()
    hold = rig.hold()
    rig.guard.session_ended(LossReason.CLOSED)

    assert (LossReason.CLOSED, None) == (hold.loss(), rig.guard.session)
    rig.tick(0)
    assert [Exists("/", None)] == rig.kazoo.sent


def test_a_hold_of_a_session_that_ended_meanwhile_is_lost_at_once(rig):
    hold = rig.hold(Node("/a", "x-lock-0000000001", czxid=17, session=6))

    assert LossReason.EXPIRED is hold.loss()


def test_a_heartbeat_that_finds_a_holds_member_missing_loses_it(rig):
    hold = rig.hold()
    rig.tick(0)
    rig.kazoo.answer([NoNodeError()])

    assert LossReason.DELETED is hold.loss()
    assert [] == rig.kazoo.sent
    assert 0 == len(rig.janitor)


def test_close_loses_all_and_deletes_their_members(rig):
    hold = rig.hold()

    assert [hold] == rig.guard.lose_all(LossReason.CLOSED)
    assert [] == rig.guard.lose_all(LossReason.CLOSED)
    assert [Delete(NODE.path, -1)] == rig.kazoo.sent


def test_a_released_hold_is_not_watched_over_any_more(rig):
    hold = rig.hold()
    assert hold.release()
    rig.kazoo.answer(True)
    rig.tick(T)

    assert [Exists("/", None)] == rig.kazoo.sent


def test_what_an_interrupt_left_of_a_release_is_done_by_the_next_sweep(rig):
    hold = rig.hold()
    hold._state.release()  # Ctrl-C struck right behind this
    rig.tick(T / 8)

    assert [NODE.path] == [request.path for request in rig.kazoo.sent if isinstance(request, Delete)]
    while rig.kazoo.sent:
        rig.kazoo.answer(True)
    rig.tick(T / 4)
    assert [] == [request for request in rig.kazoo.sent if isinstance(request, Delete)]


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_sweep_in_the_midst_of_a_release_is_not_taken_for_somebody_elses_delete(rig, is_answered):
    hold = rig.hold()
    told = []
    deleted = False

    def answer_all():
        nonlocal deleted
        while rig.kazoo.sent:
            is_delete = isinstance(rig.kazoo.sent[0], Delete)
            rig.kazoo.answer(NoNodeError() if is_delete and deleted else [True])
            deleted = deleted or is_delete

    hold._state.release()  # the releasing thread is here when the guard's looks
    rig.tick(T / 8)
    if is_answered:
        answer_all()
    rig.guard.ended(hold, told.append)
    answer_all()

    assert [True] == told


# --- the watch on the own member


def test_a_hold_of_50_ms_gets_a_watch_and_a_shorter_one_never_pays_for_it(rig):
    rig.hold()
    assert 0.05 == pytest.approx(rig.tick(0))
    rig.kazoo.answer([True])
    rig.tick(0.049)
    assert [] == rig.kazoo.sent
    rig.tick(0.051)

    assert [NODE.path] == [request.path for request in rig.kazoo.sent if isinstance(request, GetData)]


def test_many_holds_get_their_watches_bit_by_bit_so_that_releases_are_not_held_up(rig):
    nodes = [Node(f"/{number}", NODE.name, czxid=17, session=7) for number in range(250)]
    for node in nodes:
        rig.hold(node)
    rig.tick(0.01)
    rig.kazoo.answer([True])  # the heartbeat
    counts, at = [], 0.05
    for _ in range(4):
        at = rig.tick(at)
        counts.append(len(rig.watches))

    assert [100, 200, 250, 250] == counts
    assert at > 0.1


def test_a_hold_that_ended_before_gets_no_watch(rig):
    rig.hold().release()
    rig.tick(0.1)

    assert not any(isinstance(request, GetData) for request in rig.kazoo.sent)


def watched(rig, data=b"{}"):
    hold = rig.hold()
    rig.confirm_at(0)
    rig.tick(0.1)
    rig.kazoo.answer((data, object()))
    return hold


def test_a_deleted_member_loses_the_hold_when_the_watch_fires(rig):
    hold = watched(rig)
    rig.kazoo.fire(NODE.path, True)

    assert LossReason.DELETED is hold.loss()


def test_a_member_that_is_gone_when_the_watch_is_set_loses_the_hold(rig):
    hold = rig.hold()
    rig.confirm_at(0)
    rig.tick(0.1)
    rig.kazoo.answer(NoNodeError())

    assert LossReason.DELETED is hold.loss()


def test_a_refused_look_loses_nothing(rig):
    hold = rig.hold()
    rig.confirm_at(0)
    rig.tick(0.1)
    rig.kazoo.answer(NoAuthError())

    assert None is hold.loss()


def test_changed_data_is_looked_at_and_a_revocation_logged(rig, caplog):
    hold = watched(rig)
    assert "revocation" not in caplog.text
    rig.kazoo.fire(NODE.path, False)
    rig.kazoo.answer((REVOKE, object()))

    assert None is hold.loss()
    assert "grant.revocation_requested" in caplog.text
    rig.kazoo.fire(NODE.path, True)
    assert LossReason.REVOKED is hold.loss()


def test_a_hold_with_a_longest_time_ends_by_it_and_its_member_is_deleted(rig):
    hold = rig.hold(max_hold_s=0.5)
    other = rig.hold(Node("/b", "x-lock-0000000001", 18, 7), max_hold_s=0.7)
    rig.confirm_at(0)
    assert rig.tick(0.1) <= 0.5
    rig.tick(0.499)
    assert None is hold.loss()
    rig.tick(0.5)

    assert (LossReason.MAX_HOLD, None) == (hold._state.lost, other._state.lost)
    assert any(isinstance(sent, Delete) and sent.path == NODE.path for sent in rig.kazoo.sent)
    other.release()
    rig.tick(0.7)
    assert None is other._state.lost


def test_a_hold_with_a_longest_time_ends_by_it_without_a_connection(rig):
    hold = rig.hold(max_hold_s=0.5)
    rig.confirm_at(0)
    rig.down()
    assert rig.tick(0.1) <= 0.5
    rig.tick(0.5)

    assert LossReason.MAX_HOLD is hold._state.lost


def test_a_hold_of_several_members_that_loses_one_gives_back_the_others(rig):
    second = Node("/b", "x-lock-0000000001", 17, 7)
    hold = Hold("/a", (NODE, second), rig.guard.lease, rig.guard)
    rig.guard.add(hold)
    hold.lose(LossReason.DELETED)

    deleted = [sent.path for sent in rig.kazoo.sent if isinstance(sent, Delete)]
    assert {NODE.path, second.path} == set(deleted)


def test_the_watch_is_taken_back_with_the_hold(rig):
    watched(rig).release()

    assert [18, Delete.type] == [request.type for request in rig.kazoo.sent]


def test_a_reconnect_looks_at_own_members_again(rig):
    hold = watched(rig)
    rig.down()
    rig.up(sent=START + 0.1)
    rig.tick(0.2)

    assert [NODE.path] == [request.path for request in rig.kazoo.sent if isinstance(request, GetData)]
    while rig.kazoo.sent:
        rig.kazoo.answer(NoNodeError() if isinstance(rig.kazoo.sent[0], GetData) else [True])
    assert LossReason.DELETED is hold.loss()


def test_a_new_hold_wakes_the_guard_when_it_would_sleep_past_the_50_ms(rig):
    rig.track()
    rig.confirm_at(0)
    rig.tick(0.01)
    kicks = rig.kicks
    rig.hold()

    assert kicks + 1 == rig.kicks
    rig.hold(Node("/b", "x-lock-0000000001", czxid=18, session=7))
    assert kicks + 1 == rig.kicks
