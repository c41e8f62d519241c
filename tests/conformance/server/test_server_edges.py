"""What a server refuses, malformed bytes, and four-letter words. Both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.zk_raw import Connect, RawClient, create, path_watch
from tests.support.zookeeper import four_letter
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op
from zkcoord.server.wire import DEFAULT_MAX_FRAME_BYTES as MAX_FRAME_BYTES
from zkcoord.server.wire import encode


def test_reconfig_is_disabled(client: RawClient) -> None:
    assert Code.RECONFIG_DISABLED == client.call(Op.RECONFIG, r.ReconfigRequest("", "", "", -1)).error


@pytest.mark.parametrize("op", [10, 99, 1000, -5, 0])
def test_unknown_operation_is_unimplemented_and_closes(client: RawClient, op: int) -> None:
    answer = client.call(op)

    assert (-1, Code.UNIMPLEMENTED) == (answer.zxid, answer.error)
    assert client.is_closed_by_server()


@pytest.mark.parametrize(
    "op", [Op.EXISTS, Op.GET_DATA, Op.CREATE, Op.SET_DATA, Op.MULTI, Op.SET_WATCHES, Op.SYNC]
)
@pytest.mark.parametrize("body", [b"", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\0\0\0\x09/a"])
def test_malformed_body_is_answered(client: RawClient, op: int, body: bytes) -> None:
    assert Code.MARSHALLING_ERROR == client.call(op, raw=body).error
    assert Code.OK == client.call(Op.PING).error


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\x10\0\0", b"\0\0\0\0", b"\0\0\0\x04\0\0\0\x01"],
    ids=["-1", "2 GB", "over the maximum", "empty", "half a header"],
)
def test_malformed_frame_closes_only_its_connection(client: RawClient, connect: Connect, data: bytes) -> None:
    bad = connect()
    bad.sock.sendall(data)

    assert bad.is_closed_by_server()
    assert Code.OK == client.call(Op.PING).error


def test_request_of_the_maximum_length_is_taken(client: RawClient, base: str) -> None:
    empty = r.SetDataRequest(base, b"", -1)
    data = bytes(MAX_FRAME_BYTES - 8 - len(encode(empty)))  # 8: the header

    assert Code.OK == client.call(Op.SET_DATA, r.SetDataRequest(base, data, -1)).error
    assert len(data) == len(client.call(Op.GET_DATA, path_watch(base)).record.data)


def shape(text: str) -> list[str]:
    """The names at the beginnings of lines."""
    return [line.replace("\t", "=").replace(":", "=").split("=")[0] for line in text.splitlines()]


def ask(server: Any, word: str) -> str:
    host, port = server.hosts.split(":")
    return four_letter(host, int(port), word)


def test_short_words(server: Any) -> None:
    assert ["imok", "rw"] == [ask(server, "ruok"), ask(server, "isro")]


def test_srvr_and_stat(server: Any, client: RawClient) -> None:
    names = [
        "Zookeeper version",
        "Latency min/avg/max",
        "Received",
        "Sent",
        "Connections",
        "Outstanding",
        "Zxid",
    ]
    names += ["Mode", "Node count"]

    assert names == shape(ask(server, "srvr"))
    assert "Mode: standalone" in ask(server, "srvr")
    assert f"Zxid: 0x{client.call(Op.PING).zxid:x}" in ask(server, "srvr")
    assert ask(server, "srvr").startswith("Zookeeper version: 3.")
    assert "Clients:\n /127.0.0.1:" in ask(server, "stat")


def test_mntr_has_the_values_people_watch(server: Any, client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/e", b"", 1))
    values = dict(line.split("\t") for line in ask(server, "mntr").splitlines())

    assert "standalone" == values["zk_server_state"]
    for name in (
        "znode_count",
        "watch_count",
        "ephemerals_count",
        "num_alive_connections",
        "global_sessions",
    ):
        assert values[f"zk_{name}"].isdigit()
    assert "1" == values["zk_ephemerals_count"]


def test_conf_shows_the_ticks(server: Any) -> None:
    lines = ask(server, "conf").splitlines()

    expected = {"tickTime=500", "minSessionTimeout=1000", "maxSessionTimeout=10000", "secureClientPort=-1"}
    assert expected <= set(lines)
    assert f"clientPort={server.port}" in lines


def test_cons_and_dump_name_sessions(server: Any, client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/e", b"", 1))
    session = f"0x{client.response.session_id:x}"

    assert f"sid={session}" in ask(server, "cons")
    dump = ask(server, "dump")
    assert f"\t{session}\n" in dump
    assert f"{session}:\n\t{base}/e\n" in dump


def test_watch_words_show_data_watches(server: Any, client: RawClient, base: str) -> None:
    client.call(Op.EXISTS, path_watch(base, watch=True))
    session = f"0x{client.response.session_id:x}"

    assert "connections watching" in ask(server, "wchs")
    assert f"{session}\n\t{base}\n" in ask(server, "wchc")
    assert f"{base}\n\t{session}\n" in ask(server, "wchp")


def test_envi_names_the_version(server: Any) -> None:
    assert ask(server, "envi").startswith("Environment:\nzookeeper.version=3.")
