"""The engine without sockets: what cannot be seen from outside, or only after 2**31 requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.zk_raw import create, multi, path_watch
from zkcoord.server import ServerEngine, Settings
from zkcoord.server import records as r
from zkcoord.server.codes import Code, EventType, Op
from zkcoord.server.outputs import Accepted, Close, Notification, Output, Reply
from zkcoord.server.replica import Reading, Replica
from zkcoord.server.requests import Record, Request
from zkcoord.server.transactions import Transaction

START = 1_700_000_000.0
MAX_INT = 2**31 - 1


class Driver:
    """Plays the transport: connections by number, a clock by hand."""

    def __init__(self, **settings: Any) -> None:
        self.now = START
        self.engine = ServerEngine(START, Settings(**settings), first_session_id=100, secret=b"secret")
        self._xid = 0

    def connect(
        self, number: int, timeout_s: float = 10.0, session: r.ConnectResponse | None = None
    ) -> list[Output]:
        self.engine.open(number, "127.0.0.1", self.now)
        session_id, password = (session.session_id, session.password) if session else (0, b"")
        request = r.ConnectRequest(0, 0, int(timeout_s * 1000), session_id, password)
        return self.engine.connect(number, request, self.now)

    def call(self, number: int, op: int, body: Record | None = ()) -> list[Output]:
        self._xid += 1
        return self.engine.handle(number, Request(self._xid, op, body), self.now)

    def reply(self, number: int, op: int, body: Record | None = ()) -> Reply:
        outputs = self.call(number, op, body)
        assert isinstance(outputs[-1], Reply)
        return outputs[-1]


@pytest.fixture
def driver() -> Driver:
    driver = Driver(tick_time=1.0)
    driver.connect(1)
    return driver


def accepted(outputs: list[Output]) -> r.ConnectResponse:
    (answer,) = [output for output in outputs if isinstance(output, Accepted)]
    return answer.response


def test_same_inputs_give_the_same_outputs() -> None:
    def run() -> list[Output]:
        driver = Driver()
        outputs = driver.connect(1) + driver.connect(2)
        for name in ("b", "a", "c"):
            outputs += driver.call(1, Op.CREATE2, create(f"/{name}", b"", 1))
        outputs += driver.call(2, Op.GET_CHILDREN, path_watch("/", True))
        return outputs + driver.call(1, Op.CLOSE_SESSION)

    assert run() == run()


def test_time_is_the_drivers(driver: Driver) -> None:
    driver.now += 5.5
    reply = driver.reply(1, Op.CREATE2, create("/a"))

    assert isinstance(reply.record, r.Create2Response)
    assert int((START + 5.5) * 1000) == reply.record.stat.ctime_ms


def test_sequence_freezes_at_the_largest_int(driver: Driver) -> None:
    driver.reply(1, Op.CREATE, create("/p"))
    parent = driver.engine.replica.tree.find("/p")
    assert parent is not None
    parent.cversion = MAX_INT - 1

    def next_name(path: str) -> Any:
        reply = driver.reply(1, Op.CREATE, create(path, b"", 2))
        return reply.record[0] if reply.record else reply.error

    assert f"/p/{MAX_INT - 1}" == next_name("/p/")
    pzxid = parent.pzxid
    assert f"/p/a{MAX_INT}" == next_name("/p/a")
    assert Code.NODE_EXISTS == next_name("/p/a")  # for ever
    assert f"/p/b{MAX_INT}" == next_name("/p/b")
    assert (MAX_INT, pzxid) == (parent.cversion, parent.pzxid)  # the create leaves no mark on the parent


def test_sequences_of_one_multi_wrap_past_the_largest_int(driver: Driver) -> None:
    driver.reply(1, Op.CREATE, create("/p"))
    parent = driver.engine.replica.tree.find("/p")
    assert parent is not None
    parent.cversion = MAX_INT
    reply = driver.reply(1, Op.MULTI, multi(*[(Op.CREATE, create("/p/", b"", 2))] * 2))

    assert reply.record is not None
    assert [f"/p/{MAX_INT}", "/p/-2147483648"] == [result.record[0] for result in reply.record[0]]


def test_transactions_build_the_same_tree_elsewhere(driver: Driver) -> None:
    leader, follower = driver.engine, Replica()
    log: list[Transaction] = []
    link = leader.connections[1]
    for op, body in [
        (Op.CREATE, create("/a", b"1")),
        (Op.CREATE, create("/a/e-", b"", 3)),
        (Op.CREATE, create("/a", b"")),  # refused, and still in the order
        (Op.SET_DATA, r.SetDataRequest("/a", b"2", 0)),
        (Op.MULTI, multi((Op.CREATE, create("/b")), (Op.DELETE, r.PathVersionRequest("/b", 0)))),
        (Op.CLOSE_SESSION, ()),
    ]:
        transaction = leader.propose(link, Request(1, op, body), driver.now)
        leader.commit(transaction)
        log.append(transaction)
    for transaction in log[:2]:
        follower.apply(transaction)
    # A delayed follower answers with old data, and its watches fire when it catches up.
    reading = Reading(7, 0, [])
    stale = follower.read(Op.GET_DATA, path_watch("/a", True), reading)
    assert isinstance(stale, r.GetDataResponse)
    assert b"1" == stale.data
    events = [event for transaction in log[2:] for event in follower.apply(transaction)[1]]
    assert [(7, EventType.DATA_CHANGED, "/a")] == [event[:3] for event in events]

    ours, theirs = leader.replica.tree, follower.tree
    assert ours.last_zxid == theirs.last_zxid
    for path in ("/", "/a"):
        node, other = ours.find(path), theirs.find(path)
        assert node is not None
        assert other is not None
        assert (node.stat(), node.data) == (other.stat(), other.data)


def test_session_is_due_at_the_end_of_its_tick(driver: Driver) -> None:
    driver.now = START + 0.5
    driver.call(1, Op.CREATE, create("/e", b"", 1))
    assert START + 11 == driver.engine.next_deadline()
    assert [] == driver.engine.tick(START + 10.9)

    assert [Close(1)] == driver.engine.tick(START + 11)
    assert driver.engine.replica.tree.find("/e") is None
    assert driver.engine.next_deadline() is None


def test_dying_connection_hears_nothing_of_its_own_end(driver: Driver) -> None:
    driver.connect(2)
    driver.call(1, Op.CREATE, create("/e", b"", 1))
    for number in (1, 2):
        driver.call(number, Op.EXISTS, path_watch("/e", True))

    expected = [Notification(2, EventType.DELETED, "/e"), Close(1)]
    assert expected == driver.engine.expire(100, driver.now)


def test_request_for_a_moved_session_closes_the_connection(driver: Driver) -> None:
    driver.engine.sessions.move(100, "another server")

    assert [Close(1)] == driver.call(1, Op.PING)


def test_reconnect_moves_the_session_here(driver: Driver) -> None:
    session = r.ConnectResponse(0, 0, 100, driver.engine.sessions.password(100))
    driver.engine.sessions.move(100, "another server")
    outputs = driver.connect(2, session=session)

    assert [Close(1)] == outputs[:1]
    assert 100 == accepted(outputs).session_id
    assert Code.OK == driver.reply(2, Op.PING).error


def test_containers_are_looked_for_at_intervals() -> None:
    driver = Driver(container_check_interval=60.0)
    driver.connect(1, 40.0)
    driver.call(1, Op.CREATE_CONTAINER, create("/c", b"", 4))
    driver.call(1, Op.CREATE, create("/c/a"))
    driver.call(1, Op.DELETE, r.PathVersionRequest("/c/a", -1))
    for seconds in (20, 40, 59):
        driver.now = START + seconds
        driver.call(1, Op.PING)
        driver.engine.tick(driver.now)
    assert driver.engine.replica.tree.find("/c") is not None
    assert START + 60 == driver.engine.next_deadline()

    driver.engine.tick(START + 60)
    assert driver.engine.replica.tree.find("/c") is None


def test_children_come_in_no_order_that_code_could_rely_on(driver: Driver) -> None:
    names = [f"n{number:03}" for number in range(50)]
    for name in names:
        driver.call(1, Op.CREATE, create(f"/{name}"))
    reply = driver.reply(1, Op.GET_CHILDREN, path_watch("/"))

    assert reply.record is not None
    texts = [text for text in reply.record[0] if text != "zookeeper"]
    assert sorted(names) == sorted(texts)
    assert sorted(names) != texts
    assert texts == [
        text for text in driver.reply(1, Op.GET_CHILDREN, path_watch("/")).record[0] if text in names
    ]  # type: ignore[index]


def test_requests_of_unknown_connections_are_nothing(driver: Driver) -> None:
    driver.engine.close(1)
    driver.engine.close(1)

    assert [] == driver.call(1, Op.PING)
