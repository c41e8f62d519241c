"""Sessions: timeouts, moves, ends, and watches after a reconnect. Both servers."""

from __future__ import annotations

import time

import pytest

from tests.support.zk_raw import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    TICK_S,
    ClosedError,
    Connect,
    RawClient,
    create,
    events_of,
    path_watch,
    stat_of,
)
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op


@pytest.mark.parametrize(("wanted_s", "granted_ticks"), [(0.001, 2), (-1, 2), (3 * TICK_S, 3), (1000, 20)])
def test_timeout_is_negotiated(connect: Connect, wanted_s: float, granted_ticks: int) -> None:
    response = connect(timeout_ms=int(wanted_s * 1000)).response

    assert granted_ticks * TICK_S * 1000 == response.timeout_ms
    assert 16 == len(response.password)


def test_old_client_gets_no_read_only_flag(connect: Connect) -> None:
    assert [37, 36] == [len(connect(tail=tail).connect_frame) for tail in (b"\0", b"")]


def test_session_moves_to_a_new_connection(client: RawClient, connect: Connect, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/e", b"", 1))
    client.call(Op.EXISTS, path_watch(f"{base}/e", watch=True))
    again = connect(session_id=client.response.session_id, password=client.response.password, timeout_ms=2000)

    assert client.response.session_id == again.response.session_id
    assert (client.response.password, 2000) == (again.response.password, again.response.timeout_ms)
    assert client.is_closed_by_server()
    again.call(Op.DELETE, r.PathVersionRequest(f"{base}/e", -1))
    assert [] == events_of(again)  # watches do not move by themselves


def test_wrong_password_is_told_that_the_session_is_gone(client: RawClient, connect: Connect) -> None:
    other = connect(session_id=client.response.session_id, password=b"x" * 16)

    assert (0, 0, bytes(16)) == other.response[1:]
    assert other.is_closed_by_server()
    assert client.is_closed_by_server()  # of the session that was asked for, whoever asked


def test_unknown_session_is_gone(connect: Connect) -> None:
    response = connect(session_id=12345, password=b"x" * 16).response

    assert (0, 0, bytes(16)) == response[1:]


def test_client_that_saw_the_future_is_turned_away(client: RawClient, connect: Connect) -> None:
    with pytest.raises(ClosedError):
        connect(last_zxid=client.call(Op.PING).zxid + 1000)


def test_close_deletes_ephemerals_and_closes(client: RawClient, connect: Connect, base: str) -> None:
    owner = connect()
    owner.call(Op.CREATE, create(f"{base}/e", b"", 1))
    client.call(Op.EXISTS, path_watch(f"{base}/e", watch=True))
    answer = owner.call(Op.CLOSE_SESSION)

    assert Code.OK == answer.error
    assert owner.is_closed_by_server()
    assert [(DELETED, f"{base}/e")] == events_of(client)
    gone = connect(session_id=owner.response.session_id, password=owner.response.password)
    assert 0 == gone.response.session_id


def test_silent_session_expires_by_time(client: RawClient, connect: Connect, base: str) -> None:
    owner = connect(timeout_ms=int(2 * TICK_S * 1000))
    owner.call(Op.CREATE, create(f"{base}/e", b"", 1))
    began = time.monotonic()
    client.call(Op.EXISTS, path_watch(f"{base}/e", watch=True))
    event = client.receive_event()
    took_s = time.monotonic() - began

    assert (DELETED, f"{base}/e") == (event.type, event.path)
    assert 2 * TICK_S * 0.9 <= took_s <= 4 * TICK_S + 2  # late is a busy machine's fault
    assert owner.is_closed_by_server()


def test_pings_keep_a_session(connect: Connect, base: str) -> None:
    owner = connect(timeout_ms=int(2 * TICK_S * 1000))
    owner.call(Op.CREATE, create(f"{base}/e", b"", 1))
    for _ in range(10):
        time.sleep(TICK_S / 2)  # the passing of time is what this test is about
        answer = owner.call(Op.PING)
        assert (-2, Code.OK) == (answer.xid, answer.error)
    assert owner.response.session_id == stat_of(owner, f"{base}/e").ephemeral_owner


def test_set_watches_tells_what_was_missed(client: RawClient, connect: Connect, base: str) -> None:
    for name in ("kept", "changed", "gone", "grown"):
        client.call(Op.CREATE, create(f"{base}/{name}"))
    seen = client.call(Op.PING).zxid
    client.call(Op.SET_DATA, r.SetDataRequest(f"{base}/changed", b"", -1))
    client.call(Op.DELETE, r.PathVersionRequest(f"{base}/gone", -1))
    client.call(Op.CREATE, create(f"{base}/new"))
    client.call(Op.CREATE, create(f"{base}/grown/child"))

    def below(*names: str) -> tuple[str, ...]:
        return tuple(f"{base}/{name}" for name in names)

    again = connect()
    request = r.SetWatchesRequest(
        seen, below("kept", "changed", "gone"), below("new", "never"), below("kept", "grown")
    )
    answer = again.call(Op.SET_WATCHES, request, xid=-8)
    told = [(CHANGED, "changed"), (DELETED, "gone"), (CREATED, "new"), (CHILDREN, "grown")]
    assert (-8, Code.OK) == (answer.xid, answer.error)
    assert [(type_, f"{base}/{name}") for type_, name in told] == [(e.type, e.path) for e in again.events]
    again.events = []
    client.call(Op.SET_DATA, r.SetDataRequest(f"{base}/kept", b"", -1))
    client.call(Op.CREATE, create(f"{base}/never"))
    client.call(Op.CREATE, create(f"{base}/kept/child"))
    expected = [(CHANGED, "kept"), (CREATED, "never"), (CHILDREN, "kept")]
    assert [(type_, f"{base}/{name}") for type_, name in expected] == events_of(again)


def test_set_watches2_arms_persistent_watches(client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/a"))
    request = r.SetWatches2Request(0, (), (), (), (f"{base}/a",), (base,))
    client.call(Op.SET_WATCHES2, request, xid=-8)
    client.call(Op.CREATE, create(f"{base}/a/b"))

    assert sorted([(CREATED, f"{base}/a/b"), (CHILDREN, f"{base}/a")]) == sorted(events_of(client))
