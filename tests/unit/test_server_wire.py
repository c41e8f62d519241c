"""The codec: both directions, and lengths that lie."""

from __future__ import annotations

import inspect
import struct
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord.server import records as r
from zkcoord.server.acl import OPEN_ACL, digest_id, fix_acl, may
from zkcoord.server.codes import OP_NAMES, Code, Op, OperationError
from zkcoord.server.paths import check_path
from zkcoord.server.requests import BODIES, decode_connect, decode_request
from zkcoord.server.sessions import SessionTracker
from zkcoord.server.wire import INT, TEXT, MalformedError, Reader, decode, encode, layout, vector, wrap_int

RECORDS = [kind for _, kind in inspect.getmembers(r, inspect.isclass) if kind.__module__ == r.__name__]
# What is beyond U+FFFF does not come back: Java writes it in a way that it cannot read itself.
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values for a record's item, by its annotation."""
    if hint is int:
        return st.integers(-(2**31), 2**31 - 1)
    if hint is bool:
        return st.booleans()
    if hint is str:
        return TEXTS
    if hint is bytes:
        return st.binary(max_size=20)
    arguments = getattr(hint, "__args__", ())
    if type(None) in arguments:
        return st.none() | values(next(item for item in arguments if item is not type(None)))
    if getattr(hint, "__origin__", None) is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    return record_of(hint)


def record_of(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, *[values(hints[name]) for name in kind._fields])


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=30)
@given(draw=st.data())
def test_every_record_comes_back_as_it_was(kind: Any, draw: st.DataObject) -> None:
    record = draw.draw(record_of(kind))
    reader = Reader(bytes(encode(record)) + b"more")

    assert record == decode(kind, reader)
    assert b"more" == reader.data[reader.at :]


def test_known_bytes() -> None:
    expected = bytes.fromhex("00000002 2f61 ffffffff 00000001 0000001f 00000005") + b"world"
    expected += bytes.fromhex("00000006") + b"anyone" + bytes.fromhex("00000003")

    assert expected == bytes(encode(r.CreateRequest("/a", None, OPEN_ACL, 3)))


@pytest.mark.parametrize("length", [-2, -(2**31), 2**31 - 1, 5])
def test_lengths_that_lie_are_malformed(length: int) -> None:
    with pytest.raises(MalformedError):
        decode(r.PathRequest, Reader(struct.pack(">i", length) + b"/abc"))


def test_count_beyond_the_bytes_is_malformed_at_once() -> None:
    with pytest.raises(MalformedError, match="items"):
        decode(r.TextsResponse, Reader(struct.pack(">i", 2**31 - 1) + bytes(100)))


def test_null_vector_reads_as_none_in_it() -> None:
    assert r.TextsResponse(()) == decode(r.TextsResponse, Reader(struct.pack(">i", -1)))


def test_layout_must_fit_its_record() -> None:
    @layout(INT, vector(TEXT))
    class Short(r.NamedTuple):
        number: int

    with pytest.raises(ValueError):
        encode(Short(1))


@pytest.mark.parametrize(("value", "wrapped"), [(2**31, -(2**31)), (-(2**31) - 1, 2**31 - 1), (5, 5)])
def test_int_wraps_like_javas(value: int, wrapped: int) -> None:
    assert wrapped == wrap_int(value)


@pytest.mark.parametrize("op", sorted(BODIES))
def test_unreadable_body_is_a_request_all_the_same(op: int) -> None:
    payload = struct.pack(">iib", 7, op, 0)
    if op in (Op.AUTH, Op.SASL):
        with pytest.raises(MalformedError):
            decode_request(payload)
    else:
        assert decode_request(payload).body is None


def test_short_header_and_connect_are_malformed() -> None:
    with pytest.raises(MalformedError):
        decode_request(b"\0\0\0\1\0\0\0")
    with pytest.raises(MalformedError):
        decode_connect(bytes(20))


def test_every_operation_of_a_client_has_a_name() -> None:
    assert set(Op) - {Op.NOTIFICATION, Op.ERROR} == set(OP_NAMES)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a.b", "/.a", "/..a", "/a b", "/ß"])
def test_good_paths(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/a/",
        "//",
        "/a//b",
        "/.",
        "/..",
        "/./a",
        "/a/..",
        "/\0",
        "/\x7f",
        "/\ud800",
        "/\ufff0",
        "/\n",
    ],
)
def test_bad_paths(path: str) -> None:
    with pytest.raises(OperationError):
        check_path(path)


def test_digest_is_zookeepers() -> None:
    # From ZooKeeper's documentation of DigestAuthenticationProvider: super:test
    assert r.Id("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=") == digest_id("super:test")


def test_one_permission_of_several_suffices() -> None:
    acl = (r.ACL(16, r.Id("digest", "x:y")),)

    assert may(acl, 1 | 16, [r.Id("digest", "x:y")])
    assert not may(acl, 1, [r.Id("digest", "x:y")])
    assert may((), 1, [])


def test_open_acls_are_one_object() -> None:
    assert fix_acl((r.ACL(31, r.Id("world", "anyone")),) * 2, []) is OPEN_ACL


@pytest.mark.parametrize("acl", [(), (r.ACL(1, r.Id("digest", "a:")),), (r.ACL(1, r.Id("ip", "1.2.3.256")),)])
def test_bad_acls(acl: tuple[r.ACL, ...]) -> None:
    with pytest.raises(OperationError) as caught:
        fix_acl(acl, [])

    assert Code.INVALID_ACL == caught.value.code


def test_session_passwords_differ_and_are_checked() -> None:
    tracker = SessionTracker(1000, 1, b"secret")

    assert tracker.password(1) != tracker.password(2)
    assert tracker.is_password(1, tracker.password(1))
    assert not tracker.is_password(1, tracker.password(2))
    assert not tracker.is_password(1, None)
    assert SessionTracker(1000, 1, b"other").password(1) != tracker.password(1)


def test_sessions_expire_in_ticks_and_touching_postpones() -> None:
    tracker = SessionTracker(1000, 1, b"")
    tracker.open(1, 2000, "", 0)
    tracker.open(2, 2500, "", 0)
    assert [(3000, [1, 2])] == tracker.by_due()
    tracker.touch(1, 2000, 1500)

    assert [2] == tracker.due(3999)
    assert (3000, 4000) == (tracker.next_due_ms(), tracker.sessions[1].due_ms)
    tracker.end(2)
    assert not tracker.touch(2, 2000, 0)
    assert 4000 == tracker.next_due_ms()
