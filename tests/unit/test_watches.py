"""Data watches: shared by their subscribers, taken back by the last, forgotten with the connection."""

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from tests.support.fake_kazoo import FakeClock, FakeKazoo
from zkcoord._session.requests import LinkLostError, Requests
from zkcoord._session.watches import Watches
from zkcoord._session.wire import RemoveWatches

DATA = (b"data", object())


class Rig:
    def __init__(self, chroot=""):
        self.kazoo = FakeKazoo(chroot)
        self.requests = Requests(self.kazoo, FakeClock(), lambda *proof: None, lambda: None)
        self.requests.up()
        self.watches = Watches(self.kazoo, self.requests)
        self.told = []

    def get(self, who="w", path="/a/x"):
        return self.watches.get(
            path,
            lambda answer, error: self.told.append((who, "answer", answer, error)),
            lambda is_deleted: self.told.append((who, "fired", is_deleted)),
        )

    def armed(self, who="w", path="/a/x"):
        subscription = self.get(who, path)
        self.kazoo.answer(DATA)
        self.told.clear()
        return subscription


@pytest.fixture
def rig():
    return Rig()


def test_reads_the_node_and_tells_its_data(rig):
    rig.get()

    assert ["/a/x"] == [request.path for request in rig.kazoo.sent]
    assert isinstance(rig.kazoo.sent[0], GetData)
    assert callable(rig.kazoo.sent[0].watcher)
    rig.kazoo.answer(DATA)
    assert [("w", "answer", DATA, None)] == rig.told
    assert 1 == len(rig.watches)


def test_paths_are_below_the_chroot():
    rig = Rig("/app")
    subscription = rig.armed()
    rig.watches.release(subscription)

    assert [RemoveWatches("/app/a/x")] == rig.kazoo.sent


def test_a_missing_node_is_told_as_none_and_leaves_nothing(rig):
    rig.get()
    rig.kazoo.answer(NoNodeError())

    assert [("w", "answer", None, None)] == rig.told
    assert 0 == len(rig.watches)


def test_an_error_is_told_and_leaves_nothing(rig):
    error = NoAuthError()
    rig.get()
    rig.kazoo.answer(error)

    assert [("w", "answer", None, error)] == rig.told
    assert 0 == len(rig.watches)


def test_no_connection_is_told_at_once_and_leaves_nothing(rig):
    rig.requests.down()
    subscription = rig.get()

    ((who, what, answer, error),) = rig.told
    assert ("w", "answer", None) == (who, what, answer)
    assert isinstance(error, LinkLostError)
    assert 0 == len(rig.watches)
    rig.watches.release(subscription)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_event_is_told_once_and_ends_the_watch(rig, is_deleted):
    subscription = rig.armed()
    rig.kazoo.fire("/a/x", is_deleted)

    assert [("w", "fired", is_deleted)] == rig.told
    assert 0 == len(rig.watches)
    rig.watches.release(subscription)
    assert [] == rig.kazoo.sent


def test_a_broken_connection_is_no_event(rig):
    subscription = rig.armed()
    subscription.entry(WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None))

    assert [] == rig.told
    assert 1 == len(rig.watches)


def test_subscribers_of_one_path_share_a_watch_and_all_hear_of_it(rig):
    rig.armed("one")
    rig.armed("two")

    assert 1 == len(rig.watches)
    assert 1 == len(rig.kazoo._data_watchers["/a/x"])
    rig.kazoo.fire("/a/x", True)
    assert [("one", "fired", True), ("two", "fired", True)] == rig.told


def test_the_last_subscriber_takes_the_watch_with_it(rig):
    one, two = rig.armed("one"), rig.armed("two")
    rig.watches.release(one)
    assert [] == rig.kazoo.sent
    rig.watches.release(two)

    assert [RemoveWatches("/a/x")] == rig.kazoo.sent
    assert 0 == len(rig.watches)
    rig.kazoo.answer(True)
    assert {} == rig.kazoo._data_watchers


def test_a_released_subscriber_hears_nothing_and_the_others_do(rig):
    one, _ = rig.armed("one"), rig.armed("two")
    rig.watches.release(one)
    rig.kazoo.fire("/a/x", True)

    assert [("two", "fired", True)] == rig.told


def test_releasing_twice_sends_once(rig):
    subscription = rig.armed()
    rig.watches.release(subscription)
    rig.watches.release(subscription)

    assert 1 == len(rig.kazoo.sent)


def test_a_watch_of_the_clients_user_on_the_same_node_stays(rig):
    def users(event):
        raise AssertionError("not in this test")

    subscription = rig.armed()
    rig.kazoo._data_watchers["/a/x"].add(users)
    rig.watches.release(subscription)

    assert [] == rig.kazoo.sent
    assert users in rig.kazoo._data_watchers["/a/x"]


def test_a_watch_set_while_the_last_is_being_removed_is_a_new_one(rig):
    first = rig.armed("one")
    rig.watches.release(first)
    rig.get("two")

    assert [RemoveWatches("/a/x"), "/a/x"] == [rig.kazoo.sent[0], rig.kazoo.sent[1].path]
    rig.kazoo.answer(True)
    rig.kazoo.answer(DATA)
    rig.told.clear()
    rig.kazoo.fire("/a/x", True)
    assert [("two", "fired", True)] == rig.told


def test_a_broken_connection_forgets_all_without_a_word(rig):
    subscription = rig.armed()
    rig.requests.down()
    rig.watches.down()

    assert 0 == len(rig.watches)
    rig.kazoo.fire("/a/x", True)
    rig.requests.up()
    rig.watches.release(subscription)
    assert ([], []) == (rig.told, rig.kazoo.sent)


def test_releasing_without_a_connection_sends_nothing(rig):
    subscription = rig.armed()
    rig.requests.down()
    rig.watches.release(subscription)

    assert ([], 0) == (rig.kazoo.sent, len(rig.watches))


def test_an_event_of_an_earlier_watch_does_not_end_the_new_one(rig):
    old = rig.armed("old")
    rig.watches.down()
    rig.armed("new")
    rig.watches.fired(old.entry, True)

    assert 1 == len(rig.watches)
    rig.kazoo.fire("/a/x", True)
    assert [("new", "fired", True)] == rig.told


def test_a_watch_that_kazoo_tells_twice_is_passed_on_once(rig):
    subscription = rig.armed()
    rig.watches.fired(subscription.entry, True)
    rig.watches.fired(subscription.entry, True)

    assert [("w", "fired", True)] == rig.told
