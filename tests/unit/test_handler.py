"""Our kazoo handler: `poll` in the place of `select`, and connects with a bound of their own."""

import contextlib
import os
import resource
import select
import socket

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from zkcoord._session.handler import Handler, _poll


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def both(*args):
    """What `select.select` says and what ours says; asked of the same state, neither reads anything."""
    return select.select(*args), tuple(_poll(*args))


def filled(sock):
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(b"x" * 65_536)


def test_nothing_ready_ends_with_the_timeout(pair):
    theirs, ours = both([pair[0]], [], [], 0.01)

    assert theirs == ours == ([], [], [])


def test_a_readable_socket_is_told(pair):
    pair[1].send(b"x")
    theirs, ours = both([pair[0], pair[1]], [], [], 0)

    assert theirs == ours == ([pair[0]], [], [])


def test_a_writable_socket_is_told_and_a_full_one_not(pair):
    assert ([], [pair[0]], []) == _poll([], [pair[0]], [], 0)
    filled(pair[0])
    theirs, ours = both([], [pair[0], pair[1]], [], 0)

    assert theirs == ours == ([], [pair[1]], [])


def test_one_socket_may_be_asked_for_both(pair):
    pair[1].send(b"x")
    theirs, ours = both([pair[0]], [pair[0]], [pair[0]], 0)

    assert theirs == ours == ([pair[0]], [pair[0]], [])


def test_an_unreadable_but_writable_socket_is_told_as_writable_only(pair):
    theirs, ours = both([pair[0]], [pair[0]], [], 0)

    assert theirs == ours == ([], [pair[0]], [])


def test_the_other_ends_close_is_readable(pair):
    pair[1].close()
    theirs, ours = both([pair[0]], [], [], 0)

    assert theirs == ours == ([pair[0]], [], [])


def test_an_end_without_data_is_readable_and_a_broken_pipe_writable():
    with contextlib.ExitStack() as stack:
        reader, gone_writer = (
            stack.enter_context(open(fd, mode, 0)) for fd, mode in zip(os.pipe(), ["rb", "wb"], strict=True)
        )
        gone_reader, writer = (
            stack.enter_context(open(fd, mode, 0)) for fd, mode in zip(os.pipe(), ["rb", "wb"], strict=True)
        )
        gone_writer.close()
        gone_reader.close()
        theirs, ours = both([reader], [writer], [], 0)

        assert theirs == ours == ([reader], [writer], [])


def test_no_timeout_waits_until_something_is_ready(pair):
    pair[1].send(b"x")

    assert ([pair[0]], [], []) == _poll([pair[0]], [], [])
    assert ([pair[0]], [], []) == _poll([pair[0]], [], [], None)


def test_a_negative_timeout_does_not_wait_for_ever(pair):
    assert ([], [], []) == _poll([pair[0]], [], [], -1)


def test_a_closed_socket_is_an_error_as_in_select(pair):
    pair[0].close()

    for wait in (select.select, _poll):
        with pytest.raises((OSError, ValueError)):
            wait([pair[0]], [], [], 0)


def test_descriptors_beyond_1023_are_no_problem(pair):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("the limit of open files is too low here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        sock = pair[0]
        while sock.fileno() < 1024:
            sock = stack.enter_context(pair[0].dup())
        pair[1].send(b"x")

        assert ([sock], [sock], []) == Handler(1.0).select([sock], [sock], [], 0)
        with pytest.raises(ValueError, match="out of range"):
            select.select([sock], [], [], 0)


def test_the_handler_polls(pair):
    pair[1].send(b"x")

    assert ([pair[0]], [], []) == Handler(1.0).select([pair[0]], [], [], 0.0)


class Recorder(SequentialThreadingHandler):
    """In kazoo's place: tells what it was asked for."""

    def create_connection(self, *args, **kwargs):
        return args, kwargs


class Probe(Handler, Recorder):
    """Our handler on top of the recorder."""


@pytest.mark.parametrize(
    ("asked", "bound"),
    [({}, 0.5), ({"timeout": None}, 0.5), ({"timeout": 10.0}, 0.5), ({"timeout": 0.25}, 0.25)],
)
def test_a_connect_has_our_bound_or_a_shorter_one(asked, bound):
    assert ((("zk1", 2181),), {"timeout": bound}) == Probe(0.5).create_connection(("zk1", 2181), **asked)
