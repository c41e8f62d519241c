"""
Hostile bytes against the embedded server: whatever comes, that connection ends or is answered, the others go on.

Hypothesis looks for the sequences that break something; the loop behind it sends masses of broken frames and watches
the memory. ``python -m tests.full hostile`` sends 100,000.
"""

from __future__ import annotations

import logging
import os
import random
import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.zk_raw import ClosedError, RawClient, create, path_watch
from zkcoord.server import EmbeddedServer
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op
from zkcoord.server.requests import decode_connect, decode_request
from zkcoord.server.wire import MalformedError, encode, frame

FRAMES = int(os.environ.get("ZKCOORD_HOSTILE_FRAMES", "5000"))
# What a fuzz run may leave behind; a leak of one connection or frame at a time would be far above.
LEFT_BYTES = 4 * 1024 * 1024

OPS = [*sorted({int(op) for op in Op} - {Op.CLOSE_SESSION}), 99, -7, 1 << 30]
# Those that leave the connection open, so that a frame meets a session that others have prepared.
LASTING_OPS = [int(op) for op in Op if op not in (-1, -10, -11, 0, Op.AUTH, Op.SASL)]
SEEDS = [
    bytes(encode(create("/a", b"data", 1))),
    bytes(encode(r.SetWatches2Request(1, ("/a",), ("/b",), ("/c",), ("/d",), ("/e",)))),
    bytes(encode(r.SetACLRequest("/a", create("/").acl, -1))),
    bytes(encode(r.MultiHeader(1, False, -1)) + encode(create("/a")) + encode(r.MultiHeader(-1, True, -1))),
    bytes(encode(path_watch("/a", True))),
]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as embedded:
        yield embedded


def connect_then(data: bytes) -> bytes:
    """Bytes of a connection that first gets a session properly."""
    return frame(bytes(encode(r.ConnectRequest(0, 0, 10_000, 0, bytes(16)))) + b"\0") + data


LENGTHS = st.sampled_from([-1, -(2**31), 2**31 - 1, 0, 1, 3, 4, 7, 0x100000, 0xFFFFF])
GARBAGE = st.binary(max_size=200)
HEADED = st.builds(
    lambda xid, op, body: struct.pack(">ii", xid, op) + body,
    st.integers(-9, 9),
    st.sampled_from(OPS),
    GARBAGE,
)
CHUNKS = st.one_of(
    GARBAGE,
    GARBAGE.map(frame),
    HEADED.map(frame),
    st.builds(lambda length, data: struct.pack(">i", length) + data, LENGTHS, GARBAGE),
    st.builds(
        lambda seed, at, byte: frame(struct.pack(">ii", 1, 14) + seed[:at] + bytes([byte]) + seed[at + 1 :]),
        st.sampled_from(SEEDS),
        st.integers(0, 60),
        st.integers(0, 255),
    ),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(with_session=st.booleans(), chunks=st.lists(CHUNKS, min_size=1, max_size=6), is_ended=st.booleans())
def test_garbage_ends_at_most_its_own_connection(
    server: EmbeddedServer, with_session: bool, chunks: list[bytes], is_ended: bool
) -> None:
    data = b"".join(chunks)
    with RawClient(server.hosts) as witness:
        attacker = RawClient(server.hosts)
        try:
            attacker.sock.sendall(data if with_session else connect_then(data))
            if is_ended:
                attacker.sock.shutdown(1)
                attacker.is_closed_by_server()
        except OSError:
            pass  # closed by the server already
        finally:
            attacker.close()
        assert Code.OK == witness.call(Op.EXISTS, path_watch("/")).error
        witness.close_session()


@given(data=st.binary(max_size=300))
def test_decoders_raise_nothing_but_malformed(data: bytes) -> None:
    for decoder in (decode_request, decode_connect):
        try:
            decoder(data)
        except MalformedError:
            pass


@given(op=st.sampled_from(OPS), seed=st.sampled_from(SEEDS), cut=st.integers(0, 200), change=st.data())
def test_decoder_survives_changed_requests(op: int, seed: bytes, cut: int, change: st.DataObject) -> None:
    data = bytearray(seed)
    for _ in range(change.draw(st.integers(0, 3))):
        data[change.draw(st.integers(0, len(data) - 1))] = change.draw(st.integers(0, 255))
    try:
        decode_request(struct.pack(">ii", 1, op) + bytes(data[:cut]))
    except MalformedError:
        assert op in (Op.AUTH, Op.SASL)


@pytest.mark.timeout(max(120, FRAMES // 200))
def test_memory_stays_bounded_under_masses_of_broken_frames(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(1)
    caplog.set_level(logging.ERROR, "zkcoord.server")
    with RawClient(server.hosts) as witness:
        _attack(server, dice, FRAMES // 10)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        _attack(server, dice, FRAMES)
        assert Code.OK == witness.call(Op.EXISTS, path_watch("/")).error
        for session in server.sessions():
            if session != witness.response.session_id:
                server.expire(session)
        left = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()

    assert left < LEFT_BYTES
    assert [] == [record for record in caplog.records if record.name == "zkcoord.server"]


def test_client_that_reads_nothing_is_answered_as_it_reads(server: EmbeddedServer) -> None:
    requests, size = 2000, 500_000
    with RawClient(server.hosts) as client, RawClient(server.hosts) as witness:
        client.call(Op.CREATE, create("/big", bytes(size)))
        request = struct.pack(">ii", 1, Op.GET_DATA) + bytes(encode(path_watch("/big")))
        tracemalloc.start()
        client.sock.sendall(frame(request) * requests)
        for _ in range(20):
            assert Code.OK == witness.call(Op.PING).error
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        for _ in range(requests // 20):  # the rest is dropped with the connection
            assert size == len(client.receive(Op.GET_DATA).record.data)

    assert peak < 32 * 1024 * 1024


def _attack(server: EmbeddedServer, dice: random.Random, frames: int) -> None:
    """Send broken frames on connection after connection, reading nothing but what a full pipe needs."""
    sent = 0
    while sent < frames:
        try:
            with RawClient(server.hosts) as client:
                client.sock.settimeout(2.0)
                for _ in range(50):
                    client.sock.sendall(_broken(dice))
                    sent += 1
        except (ClosedError, OSError):
            sent += 1


def _broken(dice: random.Random) -> bytes:
    body = bytearray(dice.choice(SEEDS))
    for _ in range(dice.randrange(4)):
        body[dice.randrange(len(body))] = dice.randrange(256)
    payload = struct.pack(">ii", dice.randrange(-5, 100), dice.choice(LASTING_OPS)) + bytes(
        body[: dice.randrange(80)]
    )
    if dice.random() < 0.05:
        return struct.pack(">i", dice.choice([-1, 2**31 - 1, 3, 0])) + payload
    return frame(payload)
