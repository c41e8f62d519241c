"""The fault proxy against a fake server that speaks the framing and nothing else."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.proxy import FaultProxy, Op

TIMEOUT_S = 5.0
CONNECT = b"\0" * 44


class FakeServer:
    """Answers each frame of a connection: the first with itself, later ones with their xid, a zxid and no error."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._changed = threading.Condition()
        self._seen: list[int] = []
        self._ended = 0
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def seen(self) -> list[int]:
        """Opcodes of the requests that arrived."""
        with self._changed:
            return list(self._seen)

    def wait_seen(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self._seen) >= count, TIMEOUT_S)

    def wait_ended(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ended >= count, TIMEOUT_S)

    def notify(self) -> None:
        """Send a watch event on the newest connection."""
        self._sockets[-1].sendall(frame(struct.pack(">iqi", -1, -1, 0)))

    def close(self) -> None:
        for end in (self._listener, *self._sockets):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            first = read_frame(connection)
            if first is not None:
                connection.sendall(frame(first))
            while (request := read_frame(connection)) is not None:
                xid, opcode = struct.unpack_from(">ii", request)
                with self._changed:
                    self._seen.append(opcode)
                    self._changed.notify_all()
                connection.sendall(frame(struct.pack(">iqi", xid, 1, 0)))
        except OSError:
            pass
        with self._changed:
            self._ended += 1
            self._changed.notify_all()


class Client:
    """A client that sends frames and reads replies."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._xid = 0

    def connect(self) -> bytes | None:
        self.socket.sendall(frame(CONNECT))
        return read_frame(self.socket)

    def send(self, opcode: int, payload: bytes = b"") -> int:
        self._xid += 1
        self.socket.sendall(frame(struct.pack(">ii", self._xid, opcode) + payload))
        return self._xid

    def reply(self) -> int | None:
        """The next reply's xid; None when the connection has ended."""
        try:
            body = read_frame(self.socket)
        except ConnectionError:
            return None
        return None if body is None else struct.unpack_from(">i", body)[0]

    def is_silent(self, seconds: float = 0.1) -> bool:
        """Whether nothing arrives for a while."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)
        return False

    def close(self) -> None:
        self.socket.close()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def read_frame(connection: socket.socket) -> bytes | None:
    head = _read(connection, 4)
    return None if head is None else _read(connection, struct.unpack(">i", head)[0])


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return data


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


@pytest.fixture
def proxy(server: FakeServer) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", server.port) as fault_proxy:
        yield fault_proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    one = Client(proxy.port)
    assert CONNECT == one.connect()
    yield one
    one.close()


def test_frames_pass_and_are_counted(proxy: FaultProxy, client: Client) -> None:
    assert [client.send(Op.CREATE), client.send(Op.PING)] == [client.reply(), client.reply()]

    assert {Op.CREATE: 1, Op.PING: 1} == proxy.requests
    proxy.reset_counts()
    assert {} == proxy.requests


def test_frame_in_pieces_passes_whole(proxy: FaultProxy, client: Client) -> None:
    for byte in frame(struct.pack(">ii", 7, Op.CREATE)):
        client.socket.sendall(bytes([byte]))

    assert 7 == client.reply()


def test_large_frames_pass(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    xids = [client.send(Op.SET_DATA, os.urandom(300_000)) for _ in range(10)]

    assert xids == [client.reply() for _ in xids]
    assert [Op.SET_DATA] * 10 == server.seen


def test_cut_closes_both_ends_and_refuses(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    proxy.cut()

    assert client.reply() is None
    assert server.wait_ended(1)
    with pytest.raises(ConnectionRefusedError):
        Client(proxy.port)


def test_restore_after_cut_listens_on_the_same_port(proxy: FaultProxy, client: Client) -> None:
    hosts = proxy.hosts
    proxy.cut()
    proxy.cut()
    proxy.restore()
    proxy.restore()

    again = Client(proxy.port)

    assert hosts == proxy.hosts
    assert CONNECT == again.connect()
    again.close()


def test_drop_connections_lets_clients_come_back(proxy: FaultProxy, client: Client) -> None:
    proxy.drop_connections()

    assert client.reply() is None
    again = Client(proxy.port)
    assert CONNECT == again.connect()
    again.close()


def test_black_hole_passes_nothing_and_drops_on_restore(
    proxy: FaultProxy, client: Client, server: FakeServer
) -> None:
    proxy.black_hole()
    client.send(Op.CREATE)
    new = Client(proxy.port)
    new.socket.sendall(frame(CONNECT))

    assert client.is_silent()
    assert new.is_silent()
    assert [] == server.seen
    proxy.restore()
    assert client.reply() is None
    assert new.reply() is None
    assert [] == server.seen
    new.close()


def test_quiet_connection_survives_a_black_hole(proxy: FaultProxy, client: Client) -> None:
    proxy.black_hole()
    proxy.restore()

    assert client.send(Op.PING) == client.reply()


def test_stall_delivers_late_also_to_connections_made_meanwhile(proxy: FaultProxy, client: Client) -> None:
    proxy.black_hole()
    xid = client.send(Op.CREATE)
    new = Client(proxy.port)
    new.socket.sendall(frame(CONNECT))
    assert client.is_silent()

    proxy.restore(deliver=True)

    assert xid == client.reply()
    assert CONNECT == read_frame(new.socket)
    new.close()


def test_one_way_black_hole_lets_requests_through(
    proxy: FaultProxy, client: Client, server: FakeServer
) -> None:
    proxy.black_hole(to_server=False)

    client.send(Op.CREATE)

    assert server.wait_seen(1)
    assert client.is_silent()


def test_client_that_leaves_during_a_black_hole_is_not_told_to_the_server(
    proxy: FaultProxy, client: Client, server: FakeServer
) -> None:
    proxy.black_hole()
    client.close()

    assert not server._ended
    assert 1 == proxy.connections
    proxy.restore()
    assert server.wait_ended(1)


def test_dropped_reply_was_applied(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    proxy.drop_reply(Op.CREATE)
    first = client.send(Op.GET_DATA)
    client.send(Op.CREATE)

    assert first == client.reply()
    assert client.reply() is None
    assert [Op.GET_DATA, Op.CREATE] == server.seen


def test_drop_reply_counts_down(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    proxy.drop_reply(Op.CREATE, count=1)
    client.send(Op.CREATE)
    assert client.reply() is None

    again = Client(proxy.port)
    again.connect()

    assert again.send(Op.CREATE) == again.reply()
    again.close()


def test_cut_before_never_reaches_the_server(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    proxy.cut_before(Op.CREATE)

    client.send(Op.CREATE)

    assert client.reply() is None
    assert server.wait_ended(1)
    assert [] == server.seen
    assert 1 == proxy.requests[Op.CREATE]


@pytest.mark.parametrize("fault", ["cut_before", "drop_reply"])
def test_faults_let_some_go_by_first(
    proxy: FaultProxy, client: Client, server: FakeServer, fault: str
) -> None:
    getattr(proxy, fault)(Op.CREATE, skip=1)

    assert client.send(Op.CREATE) == client.reply()
    client.send(Op.CREATE)

    assert client.reply() is None
    assert [Op.CREATE] * (1 if fault == "cut_before" else 2) == server.seen


@pytest.mark.parametrize("fault", ["cut_before", "drop_reply"])
def test_faults_for_one_path_let_the_others_go_by(proxy: FaultProxy, client: Client, fault: str) -> None:
    rule = getattr(proxy, fault)(Op.CREATE, path="/a")

    for path in (b"/ab", b"/b/a"):
        assert client.send(Op.CREATE, struct.pack(">i", len(path)) + path) == client.reply()
    assert not rule.struck
    client.send(Op.CREATE, b"before it" + struct.pack(">i", 2) + b"/a")

    assert client.reply() is None
    assert 1 == rule.struck


def test_answers_are_counted_when_they_have_come(proxy: FaultProxy, client: Client) -> None:
    with proxy.hold_reply(Op.CREATE) as hold:
        client.send(Op.CREATE)
        assert hold.wait()
        assert (1, 0) == (proxy.requests[Op.CREATE], proxy.answers[Op.CREATE])
    assert proxy.wait_for_answers(Op.CREATE)


def test_hold_lets_some_go_by_first(proxy: FaultProxy, client: Client) -> None:
    with proxy.hold(Op.CREATE, skip=1) as hold:
        assert client.send(Op.CREATE) == client.reply()
        assert not hold.is_set()
        xid = client.send(Op.CREATE)
        assert hold.wait()
    assert xid == client.reply()


def test_corrupted_reply_says_an_unknown_error_once(proxy: FaultProxy, client: Client) -> None:
    proxy.corrupt_reply(Op.CREATE)
    errors = []
    for opcode in (Op.GET_DATA, Op.CREATE, Op.CREATE):
        client.send(opcode)
        body = read_frame(client.socket)
        assert body is not None
        errors.append(struct.unpack(">iqi", body)[2])

    assert [0, -999, 0] == errors


def test_hold_keeps_the_request_and_those_behind_it(
    proxy: FaultProxy, client: Client, server: FakeServer
) -> None:
    hold = proxy.hold(Op.CREATE)
    xids = [client.send(Op.PING), client.send(Op.CREATE), client.send(Op.PING)]

    assert hold.wait()
    assert xids[0] == client.reply()
    assert client.is_silent()
    assert [Op.PING] == server.seen
    hold.release()
    hold.release()
    assert xids[1:] == [client.reply(), client.reply()]
    assert 1 == proxy.requests[Op.CREATE]


def test_hold_that_is_cut_never_reaches_the_server(
    proxy: FaultProxy, client: Client, server: FakeServer
) -> None:
    with proxy.hold(Op.CREATE) as hold:
        client.send(Op.CREATE)
        assert hold.wait()
        hold.cut()

    assert client.reply() is None
    assert [] == server.seen


def test_held_reply_was_applied(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    hold = proxy.hold_reply(Op.CREATE)
    xid = client.send(Op.CREATE)

    assert hold.wait()
    assert [Op.CREATE] == server.seen
    assert client.is_silent()
    proxy.clear()
    assert xid == client.reply()


def test_hold_that_sees_nothing_times_out(proxy: FaultProxy, client: Client) -> None:
    hold = proxy.hold(Op.CREATE)

    assert not hold.wait(0.05)
    assert not hold.is_set()


def test_delay_keeps_order(proxy: FaultProxy, client: Client) -> None:
    proxy.delay(to_server=0.1, to_client=0.1)
    start = time.monotonic()

    xids = [client.send(Op.PING) for _ in range(3)]

    assert xids == [client.reply() for _ in xids]
    assert time.monotonic() - start >= 0.2


def test_watch_events_are_counted_apart(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    server.notify()

    assert -1 == client.reply()
    assert 1 == proxy.notifications
    assert {} == proxy.requests


def test_requests_and_connections_can_be_waited_for(proxy: FaultProxy, client: Client) -> None:
    client.send(Op.CREATE)

    assert proxy.wait_for_requests(Op.CREATE)
    assert not proxy.wait_for_requests(Op.CREATE, 2, timeout=0.05)
    assert proxy.wait_for_connections(1)


def test_client_leaving_is_told_to_the_server(proxy: FaultProxy, client: Client, server: FakeServer) -> None:
    client.close()

    assert server.wait_ended(1)


def test_dead_target_closes_the_client(server: FakeServer, proxy: FaultProxy) -> None:
    server.close()

    client = Client(proxy.port)

    assert client.reply() is None
    client.close()


def test_closed_proxy_has_no_thread_and_says_so(server: FakeServer) -> None:
    proxy = FaultProxy("127.0.0.1", server.port)
    with pytest.raises(RuntimeError, match="not running"):
        proxy.cut()
    proxy.start()
    proxy.close()
    proxy.close()

    assert not [thread for thread in threading.enumerate() if thread is proxy._thread]
    with pytest.raises(RuntimeError, match="not running"):
        proxy.cut()
