"""The recorded limit of a semaphore, as data of its directory."""

import pytest

from zkcoord._core.limits import MAX_PERMITS, decode_limit, encode_limit


@pytest.mark.parametrize("permits", [1, 4, MAX_PERMITS])
def test_a_limit_is_read_as_it_was_written(permits):
    assert permits == decode_limit(encode_limit(permits))


def test_the_form_on_the_server_stays():
    assert b'{"v":1,"permits":4}' == encode_limit(4)


def test_no_data_hold_no_limit():
    assert None is decode_limit(b"")


@pytest.mark.parametrize(
    "data",
    [
        b"127.0.0.1",
        b"{",
        b"[4]",
        b"4",
        b"null",
        b'{"v":1}',
        b'{"permits":"4"}',
        b'{"permits":true}',
        b'{"permits":0}',
        b'{"permits":-1}',
        b'{"permits":2147483648}',
        b'{"permits":4.0}',
        b"\xff\xfe",
        b"[" * 4_000,
        b'{"permits":4' + b" " * 4_096 + b"}",
    ],
)
def test_data_that_hold_something_else_are_somebody_elses(data):
    assert 0 == decode_limit(data)
