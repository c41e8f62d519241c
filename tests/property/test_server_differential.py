"""
The embedded server against a real one: random operations of several clients, played on both, must look the same.

Differences that this found stand below as tests of their own, with the smallest sequence that showed them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.differential import CLIENTS, OPEN, Step, compare, first_difference
from tests.support.zk_raw import digest_auth, multi
from tests.support.zookeeper import NoZooKeeperError, ZooKeeperServer, is_real_required
from zkcoord.server import EmbeddedServer
from zkcoord.server import records as r
from zkcoord.server.acl import digest_id
from zkcoord.server.codes import Op
from zkcoord.server.requests import Record

# 10 ms each. CI plays the 2,000 that the issue asks for, `python -m tests.full differential` more.
EXAMPLES = int(os.environ.get("ZKCOORD_DIFFERENTIAL_EXAMPLES") or (2000 if is_real_required() else 200))

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(max(120, EXAMPLES))]

# No container or TTL node may go while a sequence runs: it would take a zxid.
NEVER_S = 86_400


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    try:
        real = ZooKeeperServer(container_check_ms=NEVER_S * 1000).start()
    except NoZooKeeperError as error:
        if is_real_required():
            pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {error}", pytrace=False)
        pytest.skip(str(error))
    with EmbeddedServer(container_check_interval=NEVER_S) as embedded:
        yield embedded.hosts, real.hosts
    real.stop()


PATHS = st.sampled_from(
    ["/a", "/b", "/a/a", "/a/b", "/a/a/a", "/b/q0000000000", "/a/0000000001", ""] * 4
    + ["/a/", "/.", "/a/../b", "//a", "/\x01", "/a\0", "/\U0001f600", "/é", "!", "!a", "!/zookeeper/quota/x"]
)
DATA = st.sampled_from([b"", b"x", b"yy", None])
ACLS = st.sampled_from(
    [OPEN] * 8
    + [
        (),
        (r.ACL(1, r.Id("world", "anyone")),),
        (r.ACL(30, r.Id("world", "anyone")),),
        (r.ACL(31, digest_id("one:1")),),
        (r.ACL(31, r.Id("auth", "")),),
        (r.ACL(31, r.Id("auth", "")), *OPEN, *OPEN),
        (r.ACL(15, digest_id("two:2")), r.ACL(17, digest_id("one:1"))),
        (r.ACL(31, r.Id("ip", "127.0.0.1")),),
        (r.ACL(31, r.Id("ip", "127.0.0.0/8")), r.ACL(1, r.Id("world", "anyone"))),
        (r.ACL(31, r.Id("ip", "10.0.0.0/40")),),
        (r.ACL(31, r.Id("digest", "no colon")),),
        (r.ACL(31, r.Id("nobody", "x")),),
        (r.ACL(31, r.Id(None, None)),),
    ]
)
VERSIONS = st.sampled_from([-1, -1, -1, 0, 0, 1, 2])
FLAGS = st.sampled_from([0, 0, 0, 1, 1, 2, 2, 3, 4])


def creates() -> st.SearchStrategy[tuple[int, Record]]:
    plain = st.tuples(
        st.sampled_from([Op.CREATE, Op.CREATE, Op.CREATE2]),
        st.builds(r.CreateRequest, PATHS, DATA, ACLS, FLAGS | st.sampled_from([5, 6, 7, -1])),
    )
    container = st.tuples(
        st.just(Op.CREATE_CONTAINER), st.builds(r.CreateRequest, PATHS, DATA, ACLS, st.just(4) | FLAGS)
    )
    # A real server breaks on a negative time with other flags, so these are left out.
    ttl = st.tuples(
        st.just(Op.CREATE_TTL),
        st.builds(
            r.CreateTTLRequest,
            PATHS,
            DATA,
            ACLS,
            st.sampled_from([5, 6]),
            st.sampled_from([10**9, 1 << 41, 0, -1]),
        )
        | st.builds(r.CreateTTLRequest, PATHS, DATA, ACLS, FLAGS, st.just(1000)),
    )
    return st.one_of(plain, plain, plain, container, ttl)


def in_multi() -> st.SearchStrategy[tuple[int, Record]]:
    return st.one_of(
        creates(),
        st.tuples(st.sampled_from([Op.DELETE, Op.CHECK]), st.builds(r.PathVersionRequest, PATHS, VERSIONS)),
        st.tuples(st.just(Op.SET_DATA), st.builds(r.SetDataRequest, PATHS, DATA, VERSIONS)),
    )


def reads(*ops: int) -> st.SearchStrategy[tuple[int, Record]]:
    return st.tuples(st.sampled_from(ops), st.builds(r.PathWatchRequest, PATHS, st.booleans()))


def typed(types: list[int], *ops: int) -> st.SearchStrategy[tuple[int, Record]]:
    return st.tuples(st.sampled_from(ops), st.builds(r.PathTypeRequest, PATHS, st.sampled_from(types)))


# The root of a whole server differs: other sequences leave nodes there.
BELOW = PATHS.filter(lambda path: path not in ("!", "!/zookeeper/quota/x"))
LISTS = st.lists(PATHS, max_size=3).map(tuple)
OPERATIONS = st.one_of(
    creates(),
    creates(),
    in_multi(),
    in_multi(),
    st.tuples(st.just(Op.SET_ACL), st.builds(r.SetACLRequest, BELOW, ACLS, VERSIONS)),
    reads(Op.EXISTS, Op.GET_DATA),
    st.tuples(
        st.sampled_from([Op.GET_CHILDREN, Op.GET_CHILDREN2]),
        st.builds(r.PathWatchRequest, BELOW, st.booleans()),
    ),
    st.tuples(st.sampled_from([Op.GET_ACL, Op.GET_ALL_CHILDREN_NUMBER]), st.builds(r.PathRequest, BELOW)),
    st.tuples(
        st.sampled_from([Op.SYNC, Op.GET_EPHEMERALS]), st.builds(r.NullablePathRequest, BELOW | st.none())
    ),
    st.tuples(st.just(Op.MULTI), st.lists(in_multi(), max_size=4).map(lambda parts: multi(*parts))),
    st.tuples(
        st.just(Op.MULTI_READ),
        st.lists(
            st.tuples(
                st.sampled_from([Op.GET_DATA, Op.GET_CHILDREN]),
                st.builds(r.PathWatchRequest, BELOW, st.booleans()),
            ),
            max_size=3,
        ).map(lambda parts: multi(*parts)),
    ),
    typed([0, 1, 2], Op.ADD_WATCH),
    typed([1, 2, 3, 4], Op.CHECK_WATCHES, Op.REMOVE_WATCHES),
    st.tuples(
        st.just(Op.SET_WATCHES), st.builds(r.SetWatchesRequest, st.integers(-2, 30), LISTS, LISTS, LISTS)
    ),
    st.tuples(
        st.just(Op.SET_WATCHES2),
        st.builds(r.SetWatches2Request, st.integers(-2, 30), LISTS, LISTS, LISTS, LISTS, LISTS),
    ),
    st.tuples(st.just(Op.AUTH), st.sampled_from([digest_auth("one:1"), digest_auth("two:2")])),
    st.tuples(st.sampled_from([Op.WHO_AM_I, Op.PING, "reconnect", "renew"]), st.none()),
    st.tuples(st.just(Op.RECONFIG), st.just(r.ReconfigRequest("", "", "", -1))),
)
STEPS = st.builds(lambda client, operation: Step(client, *operation), st.integers(0, CLIENTS - 1), OPERATIONS)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_random_operations_look_the_same_on_both(servers: tuple[str, str], steps: list[Step]) -> None:
    embedded, real = compare(*servers, steps)

    assert first_difference(real, embedded) == ""


# --- found differences -------------------------------------------------------------------------------------------

UNREADABLE = (r.ACL(30, r.Id("world", "anyone")),)


@pytest.mark.parametrize(
    "steps",
    [
        [
            Step(0, Op.SYNC, r.NullablePathRequest("/\U0001f600")),
            Step(0, Op.SYNC, raw=b"\0\0\0\x05/\xf0\x9f\x98\x80"),  # the same, encoded properly
            Step(0, Op.SYNC, raw=b"\0\0\0\x05/\xf0\x9f\xed\xa0"),
        ],
        [
            Step(0, Op.EXISTS, r.PathWatchRequest("/a", True)),
            Step(0, Op.CREATE, r.CreateRequest("/a", b"", UNREADABLE, 0)),
            Step(0, Op.GET_CHILDREN, r.PathWatchRequest("", True)),
            Step(0, Op.DELETE, r.PathVersionRequest("/a", -1)),
            Step(0, Op.CREATE, r.CreateRequest("/a", b"", OPEN, 0)),
        ],
        [
            Step(0, Op.ADD_WATCH, r.PathTypeRequest("!", 0)),
            Step(1, Op.CHECK_WATCHES, r.PathTypeRequest("!", 1)),
            Step(0, Op.REMOVE_WATCHES, r.PathTypeRequest("!", 3)),
        ],
    ],
    ids=["texts beyond U+FFFF", "events on unreadable nodes", "watches on the empty path"],
)
def test_found_difference_is_gone(servers: tuple[str, str], steps: list[Step]) -> None:
    embedded, real = compare(*servers, steps)

    assert first_difference(real, embedded) == ""
