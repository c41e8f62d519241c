"""
A ZooKeeper client of bare frames, for operations that kazoo lacks and for bytes that no client should send.

Blocking, no thread: one request, one reply; watch events that come in between are kept in order.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.support.zookeeper import first_address
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op
from zkcoord.server.requests import (
    MULTI_END,
    MultiRequest,
    MultiResponse,
    Record,
    SubRequest,
    SubResult,
    error_result,
)
from zkcoord.server.wire import Reader, decode, encode, frame

NO_PASSWORD = bytes(16)
OPEN = (r.ACL(31, r.Id("world", "anyone")),)
# Far more than any answer needs on a busy machine; a missing answer fails the test, it does not hang it.
ANSWER_TIMEOUT_S = 20.0
NOTIFICATION = -1

# What the servers of the conformance suite are told: sessions of 1 to 10 seconds.
TICK_S = 0.5

# Types of watch events.
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4

RESPONSES: dict[int, type[Record]] = {
    Op.CREATE: r.PathResponse,
    Op.CREATE2: r.Create2Response,
    Op.CREATE_CONTAINER: r.Create2Response,
    Op.CREATE_TTL: r.Create2Response,
    Op.EXISTS: r.StatResponse,
    Op.SET_DATA: r.StatResponse,
    Op.SET_ACL: r.StatResponse,
    Op.GET_DATA: r.GetDataResponse,
    Op.GET_ACL: r.GetACLResponse,
    Op.GET_CHILDREN: r.TextsResponse,
    Op.GET_CHILDREN2: r.GetChildren2Response,
    Op.GET_ALL_CHILDREN_NUMBER: r.IntResponse,
    Op.GET_EPHEMERALS: r.TextsResponse,
    Op.SYNC: r.PathResponse,
    Op.ADD_WATCH: r.IntResponse,
    Op.WHO_AM_I: r.WhoAmIResponse,
    Op.SASL: r.SaslResponse,
}


class ClosedError(Exception):
    """The server closed the connection."""


@dataclass(frozen=True)
class Answer:
    """One reply. ``rest`` is what came behind its record."""

    xid: int
    zxid: int
    error: int
    record: Any = None
    rest: bytes = b""


@dataclass
class RawClient:
    """
    One connection, with a session unless the server refuses it.

    ``response`` is the answer to the connect request; a ``session_id`` of 0 says the session is gone.
    """

    hosts: str
    session_id: int = 0
    password: bytes = NO_PASSWORD
    timeout_ms: int = 10_000
    last_zxid: int = 0
    tail: bytes = b"\0"  # readOnly; empty as from an old client
    answer_timeout: float = ANSWER_TIMEOUT_S
    events: list[r.WatcherEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._xid = 0
        self.sock = socket.create_connection(first_address(self.hosts), self.answer_timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(self.answer_timeout)
        request = r.ConnectRequest(0, self.last_zxid, self.timeout_ms, self.session_id, self.password)
        try:
            self.send_frame(bytes(encode(request)) + self.tail)
            self.connect_frame = self.receive_frame()
        except (ClosedError, OSError):
            self.sock.close()
            raise
        self.response = decode(r.ConnectResponse, Reader(self.connect_frame))

    def call(self, op: int, body: Record | None = None, raw: bytes = b"", xid: int | None = None) -> Answer:
        """Send a request and wait for the next reply."""
        self.send(op, body, raw, xid)
        return self.receive(op)

    def send(self, op: int, body: Record | None = None, raw: bytes = b"", xid: int | None = None) -> int:
        self._xid += 1
        number = self._xid if xid is None else xid
        payload = struct.pack(">ii", number, op)
        if isinstance(body, MultiRequest):
            payload += encode_multi(body)
        elif body is not None:
            payload += bytes(encode(body))
        self.send_frame(payload + raw)
        return number

    def receive(self, op: int) -> Answer:
        """Wait for the next reply; watch events before it go to ``events``."""
        while True:
            payload = self.receive_frame()
            reader = Reader(payload)
            header = decode(r.ReplyHeader, reader)
            if header.xid == NOTIFICATION:
                self.events.append(decode(r.WatcherEvent, reader))
                continue
            record: Any = None
            if header.error == 0:
                if op in (Op.MULTI, Op.MULTI_READ):
                    record = decode_multi(reader)
                elif op in RESPONSES:
                    record = decode(RESPONSES[op], reader)
            return Answer(header.xid, header.zxid, header.error, record, payload[reader.at :])

    def receive_event(self) -> r.WatcherEvent:
        """Wait for the next watch event, when no reply is due."""
        reader = Reader(self.receive_frame())
        header = decode(r.ReplyHeader, reader)
        assert header == r.ReplyHeader(NOTIFICATION, -1, 0)
        return decode(r.WatcherEvent, reader)

    def take_events(self) -> list[r.WatcherEvent]:
        """Return and forget the events so far: all that were sent before now, thanks to a ping."""
        self.call(Op.PING)
        taken, self.events = self.events, []
        return taken

    def send_frame(self, payload: bytes) -> None:
        self.sock.sendall(frame(payload))

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def is_closed_by_server(self) -> bool:
        """Wait for the server to close the connection. Raises TimeoutError when it does not."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                part = self.sock.recv(count - len(data))
            except ConnectionError as error:
                raise ClosedError from error
            if not part:
                raise ClosedError(f"after {len(data)} of {count} bytes")
            data += part
        return bytes(data)

    def close_session(self) -> Answer:
        """End the session; its connection is closed by both sides."""
        answer = self.call(Op.CLOSE_SESSION)
        self.close()
        return answer

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encode_multi(request: MultiRequest) -> bytes:
    out = bytearray()
    for op, body in request.operations:
        encode(r.MultiHeader(op, False, -1), out)
        encode(body, out)
    encode(MULTI_END, out)
    return bytes(out)


def decode_multi(reader: Reader) -> MultiResponse:
    results: list[SubResult] = []
    while True:
        header = decode(r.MultiHeader, reader)
        if header.done:
            return MultiResponse(tuple(results))
        if header.op == Op.ERROR:
            code = decode(r.IntResponse, reader).value
            assert code == header.error
            results.append(error_result(code))
        else:
            kind = RESPONSES.get(header.op)
            results.append(SubResult(header.op, header.error, decode(kind, reader) if kind else None))


def multi(*operations: tuple[int, Record]) -> MultiRequest:
    return MultiRequest(tuple(SubRequest(op, body) for op, body in operations))


def create(
    path: str, data: bytes | None = b"", flags: int = 0, acl: tuple[r.ACL, ...] = OPEN
) -> r.CreateRequest:
    return r.CreateRequest(path, data, acl, flags)


def digest_auth(credentials: str) -> r.AuthPacket:
    return r.AuthPacket(0, "digest", credentials.encode())


def path_watch(path: str, watch: bool = False) -> r.PathWatchRequest:
    return r.PathWatchRequest(path, watch)


def events_of(client: RawClient) -> list[tuple[int, str]]:
    return [(event.type, event.path) for event in client.take_events()]


def stat_of(client: RawClient, path: str) -> r.Stat:
    answer = client.call(Op.EXISTS, path_watch(path))
    assert answer.error == Code.OK
    stat: r.Stat = answer.record.stat
    return stat


Connect = Callable[..., RawClient]
