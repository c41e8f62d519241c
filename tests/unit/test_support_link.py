"""The proxy between two servers: it passes, it swallows without a word, and it is healed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.link import Link
from tests.support.waiting import wait_until


class Echo:
    """Sends everything back."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1024):
                    connection.sendall(data)
            except OSError:
                pass  # what it had not read was closed on it

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


def connect(link: Link) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", link.port), 5.0)
    client.settimeout(5.0)
    return client


def answers(client: socket.socket, timeout: float = 5.0) -> bool:
    """Whether one message comes back. False also if the connection was closed."""
    client.settimeout(timeout)
    try:
        client.sendall(b"hello")
        return client.recv(64) != b""
    except OSError:
        return False


def test_passes_both_ways_and_tells_of_an_end(echo: Echo) -> None:
    with Link(echo.port) as link, connect(link) as client:
        assert answers(client)
        assert 1 == link.connections
        client.shutdown(socket.SHUT_WR)
        assert b"" == client.recv(64)
        wait_until(lambda: link.connections == 0)


def test_black_hole_is_silent_and_keeps_connections_open(echo: Echo) -> None:
    with Link(echo.port) as link, connect(link) as client:
        assert answers(client)
        with link.black_holed():
            assert not answers(client, 0.1)
            with connect(link) as late:
                assert not answers(late, 0.1)
                assert 1 == link.connections
        assert not answers(client)  # what was swallowed is gone, and both sides know
        with connect(link) as again:
            assert answers(again)


def test_deserted_target_notices_nothing_until_it_is_healed() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, Link(listener.getsockname()[1]) as link, connect(link) as client:
        target, _ = listener.accept()
        target.settimeout(0.1)
        wait_until(lambda: link.connections == 1)
        link.desert()
        assert b"" == client.recv(64)
        with pytest.raises(TimeoutError):
            target.recv(64)
        link.restore()
        with target:
            assert not answers(target)


def test_who_connects_while_nobody_listens_yet_is_served_once_somebody_does(echo: Echo) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with Link(port) as link, connect(link) as client:
        client.sendall(b"hello")
        server = Echo(port)
        assert b"hello" == client.recv(64)
        server.close()


def test_nobody_listens_at_all() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        with Link(reserved.getsockname()[1]) as link, connect(link) as client:
            assert not answers(client)


def test_closing_ends_connections_and_thread_also_in_a_black_hole(echo: Echo) -> None:
    link = Link(echo.port)
    with connect(link) as client:
        assert answers(client)
        link.black_hole()
        client.sendall(b"x")
        link.close()
        link.close()
        assert not answers(client)
