"""Nodes: creating, deleting, reading and writing them, and what each answer says. Both servers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.waiting import wait_until
from tests.support.zk_raw import DELETED, OPEN, Connect, RawClient, create, multi, path_watch, stat_of
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op


def test_create_answers_with_the_path(client: RawClient, base: str) -> None:
    answer = client.call(Op.CREATE, create(f"{base}/a", b"data"))

    assert (Code.OK, r.PathResponse(f"{base}/a"), b"") == (answer.error, answer.record, answer.rest)


@pytest.mark.parametrize(("op", "flags"), [(Op.CREATE2, 0), (Op.CREATE_CONTAINER, 4)])
def test_create2_and_container_answer_with_the_stat(
    client: RawClient, base: str, op: int, flags: int
) -> None:
    answer = client.call(op, create(f"{base}/a", b"data", flags))

    assert f"{base}/a" == answer.record.path
    stat = answer.record.stat
    assert (answer.zxid, answer.zxid, answer.zxid) == (stat.czxid, stat.mzxid, stat.pzxid)
    assert (0, 0, 0, 0, 4, 0) == (*stat[4:8], stat.data_length, stat.num_children)
    assert stat.ctime_ms == stat.mtime_ms
    assert abs(stat.ctime_ms / 1000 - time.time()) < 60


@pytest.mark.parametrize(
    ("path", "flags", "error"),
    [
        ("{base}/a", 7, Code.BAD_ARGUMENTS),
        ("{base}/a", -1, Code.BAD_ARGUMENTS),
        ("{base}/a", 5, Code.BAD_ARGUMENTS),  # a TTL node without a TTL
        ("relative", 0, Code.BAD_ARGUMENTS),
        ("", 0, Code.BAD_ARGUMENTS),
        ("{base}/", 0, Code.BAD_ARGUMENTS),
        ("{base}//a", 0, Code.NO_NODE),  # the parent is looked for before the path is checked
        ("{base}/.", 0, Code.BAD_ARGUMENTS),
        ("{base}/..", 0, Code.BAD_ARGUMENTS),
        ("{base}/a\0b", 0, Code.BAD_ARGUMENTS),
        ("{base}/\x1f", 0, Code.BAD_ARGUMENTS),
        ("{base}/\U0001f600", 0, Code.BAD_ARGUMENTS),
        ("{base}/ü", 0, Code.OK),
        ("{base}/a b", 0, Code.OK),
        ("{base}/.a", 0, Code.OK),
        ("{base}/missing/a", 0, Code.NO_NODE),
        ("{base}", 0, Code.NODE_EXISTS),
        ("/", 0, Code.NODE_EXISTS),
    ],
)
def test_create_refuses_with_the_right_code(
    client: RawClient, base: str, path: str, flags: int, error: Code
) -> None:
    assert error == client.call(Op.CREATE, create(path.format(base=base), b"", flags)).error


def test_ephemerals_have_an_owner_and_no_children(client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/e", b"", 1))

    assert client.response.session_id == stat_of(client, f"{base}/e").ephemeral_owner
    answer = client.call(Op.CREATE, create(f"{base}/e/child"))
    assert Code.NO_CHILDREN_FOR_EPHEMERALS == answer.error


def test_sequence_counts_all_creates_below_a_node(client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/plain"))
    first = client.call(Op.CREATE, create(f"{base}/n-", b"", 2)).record.path
    client.call(Op.DELETE, r.PathVersionRequest(first, -1))
    client.call(Op.CREATE, create(f"{base}/plain"))  # exists already: counts nothing
    second = client.call(Op.CREATE, create(f"{base}/", b"", 3)).record.path

    assert [f"{base}/n-0000000001", f"{base}/0000000002"] == [first, second]
    assert (4, 2) == (stat_of(client, base).cversion, stat_of(client, base).num_children)


def test_null_data_stays_null(client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/a", None))

    record = client.call(Op.GET_DATA, path_watch(f"{base}/a")).record
    assert (None, 0) == (record.data, record.stat.data_length)


def test_delete_checks_version_before_children(client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/a"))
    client.call(Op.CREATE, create(f"{base}/a/b"))

    def delete(path: str, version: int) -> int:
        return client.call(Op.DELETE, r.PathVersionRequest(path, version)).error

    assert Code.BAD_VERSION == delete(f"{base}/a", 1)
    assert Code.NOT_EMPTY == delete(f"{base}/a", 0)
    assert Code.NO_NODE == delete(f"{base}/x", -1)
    assert Code.BAD_ARGUMENTS == delete("relative", -1)
    assert [Code.BAD_ARGUMENTS] * 2 == [delete("/", -1), delete("/zookeeper/quota", -1)]
    assert [Code.OK, Code.OK] == [delete(f"{base}/a/b", 0), delete(f"{base}/a", -1)]


def test_set_data_counts_versions(client: RawClient, base: str) -> None:
    first = client.call(Op.SET_DATA, r.SetDataRequest(base, b"one", 0))
    second = client.call(Op.SET_DATA, r.SetDataRequest(base, b"three", -1))

    assert (1, 3) == (first.record.stat.version, first.record.stat.data_length)
    assert (2, second.zxid) == (second.record.stat.version, second.record.stat.mzxid)
    assert first.record.stat.czxid == second.record.stat.czxid
    assert Code.BAD_VERSION == client.call(Op.SET_DATA, r.SetDataRequest(base, b"", 1)).error
    assert Code.NO_NODE == client.call(Op.SET_DATA, r.SetDataRequest(f"{base}/x", b"", -1)).error
    assert Code.BAD_ARGUMENTS == client.call(Op.SET_DATA, r.SetDataRequest(f"{base}/", b"", -1)).error


def test_children_change_cversion_and_pzxid_only(client: RawClient, base: str) -> None:
    before = stat_of(client, base)
    client.call(Op.CREATE, create(f"{base}/a"))
    deleted = client.call(Op.DELETE, r.PathVersionRequest(f"{base}/a", -1))

    after = stat_of(client, base)
    assert before._replace(cversion=2, pzxid=deleted.zxid) == after


@pytest.mark.parametrize("op", [Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN, Op.GET_CHILDREN2])
def test_reads_of_a_missing_node(client: RawClient, base: str, op: int) -> None:
    assert Code.NO_NODE == client.call(op, path_watch(f"{base}/x")).error


def test_children_come_with_and_without_the_stat(client: RawClient, base: str) -> None:
    for name in "ab":
        client.call(Op.CREATE, create(f"{base}/{name}"))

    assert ["a", "b"] == sorted(client.call(Op.GET_CHILDREN, path_watch(base)).record.texts)
    record = client.call(Op.GET_CHILDREN2, path_watch(base)).record
    assert (["a", "b"], stat_of(client, base)) == (sorted(record.children), record.stat)


def test_all_children_number_counts_the_whole_subtree(client: RawClient, base: str) -> None:
    for path in ("a", "a/b", "a/b/c"):
        client.call(Op.CREATE, create(f"{base}/{path}"))

    def count(path: str) -> Any:
        answer = client.call(Op.GET_ALL_CHILDREN_NUMBER, r.PathRequest(path))
        return answer.record.value if answer.error == Code.OK else answer.error

    assert [3, 2, 0, Code.NO_NODE] == [count(f"{base}{rest}") for rest in ("", "/a", "/a/b/c", "/x")]
    assert count("/") >= 7


def test_get_ephemerals_is_for_the_session_and_a_prefix(
    client: RawClient, connect: Connect, base: str
) -> None:
    other = connect()
    for who, name in ((client, "a"), (client, "ab"), (other, "a-other")):
        who.call(Op.CREATE, create(f"{base}/{name}", b"", 1))

    def ephemerals(path: str | None) -> list[str]:
        texts = client.call(Op.GET_EPHEMERALS, r.NullablePathRequest(path)).record.texts
        return sorted(text.removeprefix(base) for text in texts)

    assert ["/a", "/ab"] == ephemerals("/") == ephemerals(None) == ephemerals("")
    assert ["/ab"] == ephemerals(f"{base}/ab")


def test_root_and_its_own_nodes_look_as_usual(client: RawClient) -> None:
    assert r.Stat(0, 0, 0, 0, 0, -2, 0, 0, 0, 2, 0) == stat_of(client, "/zookeeper")
    assert r.Stat(0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0) == stat_of(client, "/zookeeper/config")
    config = client.call(Op.GET_ACL, r.PathRequest("/zookeeper/config")).record
    assert (r.ACL(1, r.Id("world", "anyone")),) == config.acl


def test_sync_answers_with_its_path(client: RawClient) -> None:
    assert "/any" == client.call(Op.SYNC, r.NullablePathRequest("/any")).record.path


def test_every_write_takes_a_zxid_and_reads_take_none(client: RawClient, base: str) -> None:
    start = client.call(Op.PING).zxid
    zxids = [
        client.call(Op.CREATE, create(f"{base}/a")).zxid,
        client.call(Op.CREATE, create(f"{base}/a")).zxid,  # refused
        client.call(Op.EXISTS, path_watch(base)).zxid,
        client.call(Op.CREATE, raw=b"\0").zxid,  # not even a request
        client.call(Op.MULTI, multi()).zxid,
        client.call(Op.SYNC, r.NullablePathRequest(base)).zxid,
        client.call(Op.DELETE, r.PathVersionRequest(f"{base}/a", -1)).zxid,
    ]

    assert [1, 2, 2, 3, 4, 4, 5] == [zxid - start for zxid in zxids]


def test_container_goes_after_its_last_child(client: RawClient, base: str) -> None:
    client.call(Op.CREATE_CONTAINER, create(f"{base}/never-used", b"", 4))
    client.call(Op.CREATE_CONTAINER, create(f"{base}/used", b"", 4))
    client.call(Op.CREATE, create(f"{base}/used/a"))
    assert 0 == stat_of(client, f"{base}/used").ephemeral_owner
    client.call(Op.EXISTS, path_watch(f"{base}/used", watch=True))
    client.call(Op.DELETE, r.PathVersionRequest(f"{base}/used/a", -1))

    event = client.receive_event()
    assert (DELETED, f"{base}/used") == (event.type, event.path)
    assert Code.OK == client.call(Op.EXISTS, path_watch(f"{base}/never-used")).error


def test_ttl_node_goes_after_its_time(client: RawClient, base: str) -> None:
    def create_ttl(name: str, flags: int, ttl_ms: int) -> Any:
        request = r.CreateTTLRequest(f"{base}/{name}", b"", OPEN, flags, ttl_ms)
        return client.call(Op.CREATE_TTL, request)

    assert f"{base}/n-0000000000" == create_ttl("n-", 6, 10_000_000).record.path
    assert [Code.BAD_ARGUMENTS] * 3 == [
        create_ttl("a", *wrong).error for wrong in ((5, 0), (5, 1 << 40), (0, 1000))
    ]
    assert 0 == create_ttl("short", 5, 1).record.stat.ephemeral_owner
    wait_until(lambda: Code.NO_NODE == client.call(Op.EXISTS, path_watch(f"{base}/short")).error)
    assert Code.OK == client.call(Op.EXISTS, path_watch(f"{base}/n-0000000000")).error
