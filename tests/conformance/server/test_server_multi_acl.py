"""Several operations in one, and who may do what. Both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.zk_raw import (
    OPEN,
    Connect,
    RawClient,
    create,
    digest_auth,
    events_of,
    multi,
    path_watch,
    stat_of,
)
from zkcoord.server import records as r
from zkcoord.server.acl import digest_id
from zkcoord.server.codes import Code, Op
from zkcoord.server.requests import error_result, ok_result


def test_multi_does_all_with_one_zxid(client: RawClient, base: str) -> None:
    answer = client.call(
        Op.MULTI,
        multi(
            (Op.CREATE, create(f"{base}/a", b"1")),
            (Op.SET_DATA, r.SetDataRequest(f"{base}/a", b"22", 0)),
            (Op.CHECK, r.PathVersionRequest(f"{base}/a", 1)),
            (Op.CREATE, create(f"{base}/n-", b"", 2)),
            (Op.DELETE, r.PathVersionRequest(f"{base}/a", 1)),
        ),
    )

    results = answer.record.results
    assert [Op.CREATE, Op.SET_DATA, Op.CHECK, Op.CREATE, Op.DELETE] == [result.op for result in results]
    assert f"{base}/n-0000000001" == results[3].record.path
    assert answer.zxid == stat_of(client, f"{base}/n-0000000001").czxid == results[1].record.stat.mzxid


def test_failed_multi_does_nothing_and_says_where(client: RawClient, base: str) -> None:
    answer = client.call(
        Op.MULTI,
        multi(
            (Op.CREATE, create(f"{base}/n-", b"", 2)),
            (Op.CHECK, r.PathVersionRequest(base, 7)),
            (Op.DELETE, r.PathVersionRequest(f"{base}/missing", -1)),
        ),
    )

    assert Code.OK == answer.error
    expected = [Code.OK, Code.BAD_VERSION, Code.RUNTIME_INCONSISTENCY]
    assert tuple(error_result(code) for code in expected) == answer.record.results
    assert f"{base}/n-0000000000" == client.call(Op.CREATE, create(f"{base}/n-", b"", 2)).record.path


def test_multi_answers_create2_like_create(client: RawClient, base: str) -> None:
    answer = client.call(
        Op.MULTI,
        multi((Op.CREATE2, create(f"{base}/a")), (Op.CREATE_CONTAINER, create(f"{base}/c", b"", 4))),
    )

    plain, container = answer.record.results
    assert ok_result(Op.CREATE, r.PathResponse(f"{base}/a")) == plain
    assert (Op.CREATE2, f"{base}/c") == (container.op, container.record.path)


@pytest.mark.parametrize(
    "operations",
    [
        [(Op.GET_DATA, path_watch("/"))],
        [(Op.CHECK, r.PathVersionRequest("/", -1)), (Op.GET_DATA, path_watch("/"))],
        [(Op.SET_ACL, r.SetACLRequest("/", OPEN, -1))],
    ],
    ids=["reads", "mixed", "setACL"],
)
def test_multi_takes_writes_only(client: RawClient, operations: list[Any]) -> None:
    assert Code.MARSHALLING_ERROR == client.call(Op.MULTI, multi(*operations)).error


def test_multi_read_answers_each_by_itself(client: RawClient, base: str) -> None:
    client.call(Op.CREATE, create(f"{base}/a", b"x"))
    answer = client.call(
        Op.MULTI_READ,
        multi(
            (Op.GET_DATA, path_watch(f"{base}/a", watch=True)),
            (Op.GET_DATA, path_watch(f"{base}/missing")),
            (Op.GET_CHILDREN, path_watch(base)),
        ),
    )

    data, missing, children = answer.record.results
    assert b"x" == data.record.data
    assert error_result(Code.NO_NODE) == missing
    assert ("a",) == children.record.texts
    client.call(Op.SET_DATA, r.SetDataRequest(f"{base}/a", b"", -1))
    assert [] == events_of(client)  # a multiRead sets no watches
    wrong = multi((Op.CHECK, r.PathVersionRequest("/", -1)))
    assert Code.MARSHALLING_ERROR == client.call(Op.MULTI_READ, wrong).error


def test_check_outside_a_multi_is_only_answered_when_it_fails(client: RawClient, base: str) -> None:
    client.send(Op.CHECK, r.PathVersionRequest(base, 0))
    assert -2 == client.call(Op.PING).xid
    assert Code.BAD_VERSION == client.call(Op.CHECK, r.PathVersionRequest(base, 1)).error
    assert Code.NO_NODE == client.call(Op.CHECK, r.PathVersionRequest(f"{base}/x", -1)).error


ONE = digest_id("one:secret")


@pytest.mark.parametrize(
    ("acl", "error"),
    [
        ((), Code.INVALID_ACL),
        ((r.ACL(31, r.Id("auth", "")),), Code.INVALID_ACL),  # not authenticated
        ((r.ACL(31, r.Id("nobody", "x")),), Code.INVALID_ACL),
        ((r.ACL(31, r.Id("digest", "no-colon")),), Code.INVALID_ACL),
        ((r.ACL(31, r.Id("ip", "1.2.3")),), Code.INVALID_ACL),
        ((r.ACL(31, r.Id("ip", "1.2.3.4/33")),), Code.INVALID_ACL),
        ((r.ACL(31, r.Id("world", "somebody")),), Code.INVALID_ACL),
        ((r.ACL(31, r.Id("ip", "1.2.3.4/24")),), Code.OK),
        ((r.ACL(31, ONE),), Code.OK),
    ],
)
def test_acls_are_checked(client: RawClient, base: str, acl: tuple[r.ACL, ...], error: Code) -> None:
    assert error == client.call(Op.CREATE, create(f"{base}/a", acl=acl)).error
    assert error == client.call(Op.SET_ACL, r.SetACLRequest(base, acl, -1)).error


def test_auth_stands_for_the_own_digest(client: RawClient, connect: Connect, base: str) -> None:
    answer = client.call(Op.AUTH, digest_auth("one:secret"), xid=-4)
    assert (-4, 0, Code.OK) == (answer.xid, answer.zxid, answer.error)
    client.call(Op.CREATE, create(f"{base}/a", acl=(r.ACL(31, r.Id("auth", "ignored")),)))

    record = client.call(Op.GET_ACL, r.PathRequest(f"{base}/a")).record
    assert (r.ACL(31, ONE),) == record.acl
    stranger = connect()
    assert Code.NO_AUTH == stranger.call(Op.GET_DATA, path_watch(f"{base}/a")).error
    assert Code.NO_AUTH == stranger.call(Op.SET_DATA, r.SetDataRequest(f"{base}/a", b"", 7)).error
    assert Code.NO_AUTH == stranger.call(Op.CREATE, create(f"{base}/a/b")).error
    assert Code.NO_AUTH == stranger.call(Op.GET_ACL, r.PathRequest(f"{base}/a")).error
    assert Code.OK == stranger.call(Op.EXISTS, path_watch(f"{base}/a")).error  # exists asks for no right
    assert (
        Code.OK == stranger.call(Op.DELETE, r.PathVersionRequest(f"{base}/a", -1)).error
    )  # the parent's right


def test_digests_are_masked_for_who_may_only_read(client: RawClient, base: str) -> None:
    acl = (r.ACL(31, ONE), r.ACL(1, r.Id("world", "anyone")))
    client.call(Op.CREATE, create(f"{base}/a", acl=acl))

    shown = client.call(Op.GET_ACL, r.PathRequest(f"{base}/a")).record.acl
    assert (r.ACL(31, r.Id("digest", "one:x")), acl[1]) == shown


def test_ip_acl_is_for_an_address_or_a_net(client: RawClient, base: str) -> None:
    for name, address in (("mine", "127.0.0.0/8"), ("other", "127.0.0.2")):
        client.call(Op.CREATE, create(f"{base}/{name}", acl=(r.ACL(31, r.Id("ip", address)),)))

    assert Code.OK == client.call(Op.GET_DATA, path_watch(f"{base}/mine")).error
    assert Code.NO_AUTH == client.call(Op.GET_DATA, path_watch(f"{base}/other")).error


def test_set_acl_counts_aversion(client: RawClient, base: str) -> None:
    answer = client.call(Op.SET_ACL, r.SetACLRequest(base, OPEN, 0))

    assert 1 == answer.record.stat.aversion
    assert Code.BAD_VERSION == client.call(Op.SET_ACL, r.SetACLRequest(base, OPEN, 0)).error


def test_wrong_scheme_of_authentication_closes_the_connection(client: RawClient) -> None:
    answer = client.call(Op.AUTH, r.AuthPacket(0, "kerberos", b"x"), xid=-4)

    assert (-4, 0, Code.AUTH_FAILED) == (answer.xid, answer.zxid, answer.error)
    assert client.is_closed_by_server()


def test_who_am_i_names_users_not_digests(client: RawClient) -> None:
    client.call(Op.AUTH, digest_auth("one:secret"), xid=-4)
    client.call(Op.AUTH, digest_auth("one:secret"), xid=-4)

    clients = client.call(Op.WHO_AM_I).record.clients
    assert [("digest", "one"), ("ip", "127.0.0.1")] == sorted(clients)


def test_sasl_without_a_set_up_gives_no_token(client: RawClient) -> None:
    answer = client.call(Op.SASL, r.SaslRequest(b"token"))

    assert (Code.OK, r.SaslResponse(None)) == (answer.error, answer.record)
    assert [("ip", "127.0.0.1")] == list(client.call(Op.WHO_AM_I).record.clients)
