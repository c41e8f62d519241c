"""Who is told what, and when. Both servers."""

from __future__ import annotations

import pytest

from tests.support.zk_raw import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    Connect,
    RawClient,
    create,
    events_of,
    path_watch,
)
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op


def test_watches_fire_once_and_before_the_reply(client: RawClient, connect: Connect, base: str) -> None:
    path, watcher = f"{base}/a", connect()
    watcher.call(Op.EXISTS, path_watch(path, watch=True))
    watcher.call(Op.GET_CHILDREN, path_watch(base, watch=True))
    client.call(Op.CREATE, create(path))
    client.call(Op.SET_DATA, r.SetDataRequest(path, b"", -1))

    assert [(CREATED, path), (CHILDREN, base)] == events_of(watcher)
    assert [] == events_of(client)


def test_own_writes_tell_before_they_answer(client: RawClient, base: str) -> None:
    client.call(Op.GET_DATA, path_watch(base, watch=True))
    client.call(Op.SET_DATA, r.SetDataRequest(base, b"", -1))

    assert [(CHANGED, base)] == [(event.type, event.path) for event in client.events]


def test_deletion_is_told_once_to_who_watches_data_and_children(client: RawClient, base: str) -> None:
    path = f"{base}/a"
    client.call(Op.CREATE, create(path))
    client.call(Op.GET_DATA, path_watch(path, watch=True))
    client.call(Op.GET_CHILDREN, path_watch(path, watch=True))
    client.call(Op.GET_CHILDREN2, path_watch(base, watch=True))
    client.call(Op.DELETE, r.PathVersionRequest(path, -1))

    assert [(DELETED, path), (CHILDREN, base)] == events_of(client)


def test_failed_get_data_leaves_no_watch_but_exists_does(client: RawClient, base: str) -> None:
    client.call(Op.GET_DATA, path_watch(f"{base}/a", watch=True))
    client.call(Op.EXISTS, path_watch(f"{base}/b", watch=True))
    client.call(Op.CREATE, create(f"{base}/a"))
    client.call(Op.CREATE, create(f"{base}/b"))

    assert [(CREATED, f"{base}/b")] == events_of(client)


def test_event_is_withheld_from_who_may_not_read(client: RawClient, base: str) -> None:
    secret = (r.ACL(30, r.Id("world", "anyone")),)
    client.call(Op.EXISTS, path_watch(f"{base}/a", watch=True))
    client.call(Op.CREATE, create(f"{base}/a", acl=secret))
    client.call(Op.DELETE, r.PathVersionRequest(f"{base}/a", -1))
    client.call(Op.CREATE, create(f"{base}/a"))

    assert [] == events_of(client)  # the watch was used up by what it may not tell


def test_persistent_watch_keeps_telling(client: RawClient, base: str) -> None:
    answer = client.call(Op.ADD_WATCH, r.PathTypeRequest(base, 0))
    client.call(Op.SET_DATA, r.SetDataRequest(base, b"", -1))
    client.call(Op.CREATE, create(f"{base}/a"))
    client.call(Op.CREATE, create(f"{base}/a/b"))
    client.call(Op.SET_DATA, r.SetDataRequest(base, b"", -1))

    assert r.IntResponse(0) == answer.record
    assert [(CHANGED, base), (CHILDREN, base), (CHANGED, base)] == events_of(client)


def test_recursive_watch_tells_of_everything_below_but_no_child_events(client: RawClient, base: str) -> None:
    client.call(Op.ADD_WATCH, r.PathTypeRequest(base, 1))
    client.call(Op.CREATE, create(f"{base}/a"))
    client.call(Op.CREATE, create(f"{base}/a/b"))
    client.call(Op.SET_DATA, r.SetDataRequest(f"{base}/a/b", b"", -1))
    client.call(Op.DELETE, r.PathVersionRequest(f"{base}/a/b", -1))

    expected = [(CREATED, "/a"), (CREATED, "/a/b"), (CHANGED, "/a/b"), (DELETED, "/a/b")]
    assert [(type_, base + path) for type_, path in expected] == events_of(client)


@pytest.mark.parametrize("op", [Op.ADD_WATCH, Op.CHECK_WATCHES, Op.REMOVE_WATCHES])
def test_unknown_watch_types_are_refused(client: RawClient, base: str, op: int) -> None:
    assert Code.MARSHALLING_ERROR == client.call(op, r.PathTypeRequest(base, 9)).error


def test_watches_are_removed_by_type(client: RawClient, base: str) -> None:
    client.call(Op.GET_DATA, path_watch(base, watch=True))
    client.call(Op.GET_CHILDREN, path_watch(base, watch=True))

    def call(op: int, type_: int) -> int:
        return client.call(op, r.PathTypeRequest(base, type_)).error

    assert [Code.OK] * 3 == [call(Op.CHECK_WATCHES, type_) for type_ in (1, 2, 3)]
    assert [Code.OK, Code.NO_WATCHER] == [call(Op.REMOVE_WATCHES, 2), call(Op.REMOVE_WATCHES, 2)]
    assert [Code.OK, Code.NO_WATCHER] == [call(Op.CHECK_WATCHES, 1), call(Op.CHECK_WATCHES, 2)]
    assert Code.OK == call(Op.REMOVE_WATCHES, 3)
    client.call(Op.SET_DATA, r.SetDataRequest(base, b"", -1))
    client.call(Op.CREATE, create(f"{base}/a"))
    assert [] == events_of(client)
