"""What a queue looks like to people: who holds by its library's rule, and how foreign data is read."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkcoord._members import RAW_BYTES, TEXT_LIMIT, holding, member, ordered, printable

CURATOR = "_c_01234567-89ab-4cde-8f01-23456789abcd"
KAZOO = "0123456789abcdef0123456789abcdef"

IDENTITY = {
    "v": 1,
    "host": "node-1",
    "boot": "b",
    "pid": 123,
    "thread": {"id": 7, "name": "MainThread", "key": "k"},
    "task": None,
    "owner": None,
    "label": "nightly",
    "lib": "zkcoord/0.1.0",
    "since": "2026-11-30T12:00:00.123456Z",
}


@dataclass
class Stat:
    czxid: int = 17
    ctime: int = 1_700_000_000_000
    ephemeralOwner: int = 0x1234


def holders(names, limit=None):
    return [name for name in ordered(names) if name in holding(ordered(names), limit)]


def made(data):
    name = f"{CURATOR}-lock-0000000003"
    return member("/locks/a", name, ordered([name])[name], True, data, Stat())


def test_members_are_ordered_by_number_and_other_children_left_out():
    names = [f"{CURATOR}-lock-0000000010", "config", f"{CURATOR}-lock-0000000002", "lock-5"]

    assert [f"{CURATOR}-lock-0000000002", f"{CURATOR}-lock-0000000010"] == list(ordered(names))


def test_negative_numbers_come_first_as_lock_libraries_sort_them():
    names = ["x-lock-0000000001", "x-lock--2147483648", "x-lock--000000005"]

    assert ["x-lock--000000005", "x-lock--2147483648", "x-lock-0000000001"] == list(ordered(names))


@pytest.mark.parametrize("marker", ["-lock-", "-latch-", "-__WRIT__"])
def test_first_in_the_queue_holds(marker):
    names = [f"{CURATOR}{marker}{number:010}" for number in (4, 2, 3)]

    assert [f"{CURATOR}{marker}0000000002"] == holders(names)


def test_readers_hold_until_a_writer_is_ahead():
    names = [f"r{n}-{kind}{n:010}" for n, kind in enumerate(["__READ__", "__READ__", "__WRIT__", "__READ__"])]

    assert names[:2] == holders(names)


def test_a_writers_own_read_node_holds_with_it():
    names = ["a-__WRIT__0000000003", "a-__READ__0000000003", "b-__READ__0000000004"]

    assert names[:2] == holders(names)


def test_kazoo_readers_hold_together_and_a_lock_behind_them_waits():
    names = [f"{KAZOO}__rlock__0000000000", f"{KAZOO}__rlock__0000000001", f"{KAZOO}__lock__0000000002"]

    assert names[:2] == holders(names)


def test_libraries_that_do_not_see_each_other_hold_at_once():
    names = [f"{CURATOR}-lock-0000000000", f"{KAZOO}__lock__0000000001"]

    assert names == holders(names)


@pytest.mark.parametrize(("limit", "expected"), [(None, 1), (1, 1), (2, 1), (4, 2), (5, 3), (9, 3)])
def test_permits_hold_while_all_weights_up_to_theirs_fit(limit, expected):
    names = ["x-permit-0000000000", "x-permit3-0000000001", "x-permit-0000000002"]

    assert names[:expected] == holders(names, limit)


def test_identity_of_our_own_members_is_read():
    found = made(json.dumps({**IDENTITY, "held_since": "2026-11-30T13:00:00+01:00"}).encode())

    assert ("node-1", 123, "MainThread", "nightly") == (found.host, found.pid, found.thread, found.label)
    assert (17, 0x1234, 3, "exclusive") == (found.token, found.session, found.sequence, found.kind)
    assert datetime(2026, 11, 30, 12, 0, 0, 123456, UTC) == found.since
    assert datetime(2026, 11, 30, 12, tzinfo=UTC) == found.held_since


def test_creation_time_is_the_servers_when_the_member_does_not_say():
    assert datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC) == made(b"").since


@pytest.mark.parametrize("address", ["127.0.0.1", "2001:db8::1"])
def test_curators_address_is_the_host(address):
    found = made(address.encode())

    assert (address, None) == (found.host, found.label)


def test_foreign_text_is_a_label():
    found = made("büro 17".encode())

    assert (None, "büro 17") == (found.host, found.label)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00",
        b"{" * 100_000,
        b'{"v":1,"x":' + b"[" * 60_000,
        b'{"v":1,"pid":' + b"9" * 5_000 + b"}",
        b'{"v":1,"pid":-1,"host":{"a":1},"thread":[1],"task":{"name":5},"owner":7,"label":["x"],"since":5}',
        b'{"v":1,"pid":true,"since":"yesterday","held_since":"0001-01-01T00:00:00+14:00","thread":{}}',
        b'{"v":2,"host":"other version"}',
        b'{"v":1,"label":"\\ud800","host":NaN}',
        b"x" * 1_000_000,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_hostile_data_is_shown_short_and_never_fails(data):
    found = made(data)

    assert found.pid is None
    assert len(found.raw) <= RAW_BYTES
    for text in (found.host, found.thread, found.task, found.owner, found.label):
        assert text is None or (text.isprintable() and len(text) <= TEXT_LIMIT)


def test_thread_without_a_name_is_shown_by_its_id():
    assert "7" == made(b'{"v":1,"thread":{"id":7,"name":null}}').thread


def test_control_characters_and_escape_sequences_are_shown_escaped():
    assert r"\x1b[31mred\n\u202e" == printable("\x1b[31mred\n\u202e")


@given(st.text(alphabet=st.characters(), max_size=300))
def test_printable_is_one_short_printable_line(text):
    shown = printable(text)

    assert shown.isprintable()
    assert len(shown) <= TEXT_LIMIT


@given(st.binary(max_size=200))
def test_any_data_makes_a_member(data):
    assert data == made(data).raw


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5)
)
def test_any_json_in_any_field_makes_a_member(value):
    found = made(json.dumps(dict.fromkeys(IDENTITY, value) | {"v": 1}).encode())

    assert "exclusive" == found.kind
