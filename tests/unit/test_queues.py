"""Reading queues, against a client made of a dictionary."""

from dataclasses import dataclass, field

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord.errors import ConfigError, ConnectionLostError
from zkcoord.queues import WINDOW, find_locks, read_queue

UUID = "_c_01234567-89ab-4cde-8f01-23456789abcd"


@dataclass
class Stat:
    czxid: int
    ctime: int = 0
    ephemeralOwner: int = 1


@dataclass
class Answer:
    client: "Tree"
    outcome: object

    def get(self, block=True, timeout=None):
        self.client.timeouts.append(timeout)
        self.client.in_flight -= 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass
class Tree:
    """A tree by path; an exception as data is what reading the node raises."""

    nodes: dict[str, object]
    vanishing: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    def _send(self, kind, path, outcome):
        self.requests.append((kind, path))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return Answer(self, outcome)

    def sync_async(self, path):
        self.requests.append(("sync", path))
        return Answer(self, path)

    def get_children_async(self, path):
        listing = self.nodes.get(path)
        prefix = path.rstrip("/") + "/"
        below = [name[len(prefix) :] for name in self.nodes if name.startswith(prefix)]
        children = [name for name in below if name and "/" not in name]
        if isinstance(listing, Exception) or path not in self.nodes:
            return self._send("list", path, listing or NoNodeError())
        return self._send("list", path, children)

    def get_async(self, path):
        data = self.nodes.get(path)
        if data is None or path in self.vanishing:
            return self._send("get", path, NoNodeError())
        return self._send("get", path, data if isinstance(data, Exception) else (data, Stat(hash(path))))

    def exists_async(self, path):
        return self._send("exists", path, Stat(5))


def lock_tree(path, count, data=b""):
    nodes = {path: b""}
    nodes |= {f"{path}/{UUID}-lock-{number:010}": data for number in range(count)}
    return nodes


def test_queue_is_read_after_a_sync_oldest_first():
    client = Tree(lock_tree("/a", 3, b"10.0.0.1"))

    found = read_queue(client, "a/")

    assert ("sync", "/a") == client.requests[0]
    assert [0, 1, 2] == [member.sequence for member in found]
    assert [True, False, False] == [member.holds for member in found]
    assert {"10.0.0.1"} == {member.host for member in found}
    assert {"/a"} == {member.path for member in found}


def test_missing_path_and_empty_directory_are_empty_queues():
    client = Tree({"/a": b""})

    assert () == read_queue(client, "/a")
    assert () == read_queue(client, "/none")


def test_next_in_line_holds_when_the_first_vanishes_during_the_read():
    nodes = lock_tree("/a", 3)
    client = Tree(nodes, vanishing={f"/a/{UUID}-lock-0000000000"})

    found = read_queue(client, "/a")

    assert [(1, True), (2, False)] == [(member.sequence, member.holds) for member in found]


def test_unreadable_member_is_described_by_its_stat():
    client = Tree({"/a": b"", f"/a/{UUID}-lock-0000000000": NoAuthError()})

    (found,) = read_queue(client, "/a")

    assert (5, b"", None) == (found.token, found.raw, found.label)


def test_unreadable_path_is_a_config_error():
    with pytest.raises(ConfigError, match="/a"):
        read_queue(Tree({"/a": NoAuthError()}), "/a")


def test_limit_of_a_semaphore_comes_from_its_parent():
    nodes = {"/s": b'{"v":1,"permits":2}'} | {f"/s/x-permit-{n:010}": b"" for n in range(3)}

    assert [True, True, False] == [member.holds for member in read_queue(Tree(nodes), "/s")]
    (view,) = find_locks(Tree({"/": b"", **nodes}))
    assert ("semaphore", 2, 1) == (view.dialect, len(view.holders), view.waiters)


@pytest.mark.parametrize("error", [ConnectionLoss(), SessionExpiredError(), KazooTimeoutError()])
def test_broken_connection_is_a_connection_lost_error(error):
    with pytest.raises(ConnectionLostError):
        read_queue(Tree({"/a": error}), "/a")
    with pytest.raises(ConnectionLostError):
        find_locks(Tree({"/": error}))


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_timeout_must_be_a_positive_number(timeout):
    with pytest.raises(ConfigError, match="timeout"):
        read_queue(Tree({}), "/a", timeout=timeout)


def test_all_answers_share_one_deadline():
    client = Tree(lock_tree("/a", 20))

    read_queue(client, "/a", timeout=3.0)

    assert all(0 <= timeout <= 3.0 for timeout in client.timeouts)
    assert client.timeouts == sorted(client.timeouts, reverse=True)


def test_locks_of_every_library_are_found():
    nodes = {"/": b"", "/zookeeper": b"", "/zookeeper/lock-0000000000": b"", "/app": b"", "/app/config": b"x"}
    nodes |= lock_tree("/app/orders", 3)
    nodes |= {"/app/kaz": b"", "/app/kaz/0123456789abcdef0123456789abcdef__lock__0000000007": b"job 17"}

    views = find_locks(Tree(nodes))

    assert [("/app/kaz", "kazoo", 0), ("/app/orders", "curator", 2)] == [
        (view.path, view.dialect, view.waiters) for view in views
    ]
    assert "job 17" == views[0].holders[0].label


def test_two_dialects_on_one_path_give_two_views():
    nodes = {"/": b"", **lock_tree("/a", 1), "/a/0123456789abcdef0123456789abcdef__lock__0000000007": b""}

    assert ["curator", "kazoo"] == [view.dialect for view in find_locks(Tree(nodes))]


def test_members_are_not_descended_into_and_waiters_not_read():
    nodes = {"/": b"", **lock_tree("/a", 500)}
    client = Tree(nodes)

    (view,) = find_locks(client)

    assert 499 == view.waiters
    assert [("sync", "/"), ("list", "/"), ("list", "/a")] == client.requests[:3]
    assert [("get", f"/a/{UUID}-lock-0000000000")] == client.requests[3:]


def test_next_holder_is_found_when_holders_vanish_during_the_walk():
    nodes = {"/": b"", **lock_tree("/a", 5)}
    client = Tree(nodes, vanishing={f"/a/{UUID}-lock-{number:010}" for number in range(2)})

    (view,) = find_locks(client)

    assert (2, 2) == (view.holders[0].sequence, view.waiters)


def test_walk_keeps_a_bounded_number_of_requests_in_flight_and_reports_progress():
    client = Tree({"/": b""} | {f"/n{number}": b"" for number in range(1000)})
    reports = []

    assert () == find_locks(client, progress=lambda done, known: reports.append((done, known)))

    assert WINDOW // 2 == client.most_in_flight
    assert (1001, 1001) == reports[-1]


def test_unreadable_directories_are_told():
    told = []

    assert () == find_locks(Tree({"/": b"", "/secret": NoAuthError()}), unreadable=told.append)

    assert ["/secret"] == told


def test_search_can_begin_at_a_lock_and_below_a_missing_path():
    client = Tree(lock_tree("/a", 1))

    assert ["/a"] == [view.path for view in find_locks(client, "/a/")]
    assert () == find_locks(client, "/none")
