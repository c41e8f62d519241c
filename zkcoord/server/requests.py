"""
Requests and replies as frames: the codec that the transport puts around the engine.

A body that cannot be read is not a reason to close: the real server answers it with a marshalling error. Only a
header that is too short, or a broken auth or SASL packet, closes the connection.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from zkcoord.server.codes import Code, Op
from zkcoord.server.records import (
    AuthPacket,
    ConnectRequest,
    CreateRequest,
    CreateTTLRequest,
    EmptyRequest,
    IntResponse,
    MultiHeader,
    NullablePathRequest,
    PathRequest,
    PathTypeRequest,
    PathVersionRequest,
    PathWatchRequest,
    ReconfigRequest,
    ReplyHeader,
    RequestHeader,
    SaslRequest,
    SetACLRequest,
    SetDataRequest,
    SetWatches2Request,
    SetWatchesRequest,
)
from zkcoord.server.wire import MalformedError, Reader, decode, encode, frame

Record = tuple[Any, ...]

BODIES: dict[int, type[Record]] = {
    Op.CREATE: CreateRequest,
    Op.CREATE2: CreateRequest,
    Op.CREATE_CONTAINER: CreateRequest,
    Op.CREATE_TTL: CreateTTLRequest,
    Op.DELETE: PathVersionRequest,
    Op.CHECK: PathVersionRequest,
    Op.SET_DATA: SetDataRequest,
    Op.SET_ACL: SetACLRequest,
    Op.EXISTS: PathWatchRequest,
    Op.GET_DATA: PathWatchRequest,
    Op.GET_CHILDREN: PathWatchRequest,
    Op.GET_CHILDREN2: PathWatchRequest,
    Op.GET_ACL: PathRequest,
    Op.GET_ALL_CHILDREN_NUMBER: PathRequest,
    Op.SYNC: NullablePathRequest,
    Op.GET_EPHEMERALS: NullablePathRequest,
    Op.ADD_WATCH: PathTypeRequest,
    Op.CHECK_WATCHES: PathTypeRequest,
    Op.REMOVE_WATCHES: PathTypeRequest,
    Op.SET_WATCHES: SetWatchesRequest,
    Op.SET_WATCHES2: SetWatches2Request,
    Op.RECONFIG: ReconfigRequest,
    Op.AUTH: AuthPacket,
    Op.SASL: SaslRequest,
}
NO_BODY = EmptyRequest()

TRANSACTION_OPS = frozenset(
    {
        Op.CREATE,
        Op.CREATE2,
        Op.CREATE_CONTAINER,
        Op.CREATE_TTL,
        Op.DELETE,
        Op.SET_DATA,
        Op.CHECK,
    }
)
READ_OPS = frozenset({Op.GET_CHILDREN, Op.GET_DATA})

MULTI_END = MultiHeader(-1, True, -1)


class SubRequest(NamedTuple):
    """One operation of a multi or multiRead."""

    op: int
    body: Record


class MultiRequest(NamedTuple):
    """The operations of a multi or multiRead, all of one kind."""

    operations: tuple[SubRequest, ...]


class SubResult(NamedTuple):
    """One result of a multi: the operation (-1 = error), the error code, and what else it says."""

    op: int
    error: int
    record: Record | None


class MultiResponse(NamedTuple):
    """The results of a multi or multiRead, in the order of its operations."""

    results: tuple[SubResult, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """
    One decoded request.

    Attributes:
        xid: the client's number for it.
        op: the operation.
        body: its record; None when its bytes were not one.
    """

    xid: int
    op: int
    body: Record | None


def decode_request(payload: bytes) -> Request:
    """
    Read a request: header and body.

    Raises:
        MalformedError: the connection must be closed.
    """
    reader = Reader(payload)
    xid, op = decode(RequestHeader, reader)
    kind = BODIES.get(op)
    try:
        if kind is not None:
            return Request(xid, op, decode(kind, reader))
        if op in (Op.MULTI, Op.MULTI_READ):
            return Request(xid, op, _decode_multi(reader))
    except MalformedError:
        if op in (Op.AUTH, Op.SASL):
            raise
        return Request(xid, op, None)
    return Request(xid, op, NO_BODY)


def decode_connect(payload: bytes) -> tuple[ConnectRequest, bool]:
    """
    Read a connection's first frame.

    Returns:
        The request, and whether the client is a modern one, which expects ``readOnly`` in the answer.

    Raises:
        MalformedError: the connection must be closed.
    """
    reader = Reader(payload)
    request = decode(ConnectRequest, reader)
    return request, reader.at < reader.end


def _decode_multi(reader: Reader) -> MultiRequest:
    operations: list[SubRequest] = []
    while True:
        header = decode(MultiHeader, reader)
        if header.done:
            break
        if header.op not in TRANSACTION_OPS and header.op not in READ_OPS:
            raise MalformedError(f"operation {header.op} in a multi")
        operations.append(SubRequest(header.op, decode(BODIES[header.op], reader)))
    if len({operation.op in READ_OPS for operation in operations}) > 1:
        raise MalformedError("reads and writes in one multi")
    return MultiRequest(tuple(operations))


def encode_reply(xid: int, zxid: int, error: int, record: Record | None) -> bytes:
    """Write a reply, or a watch event, as a frame."""
    out = encode(ReplyHeader(xid, zxid, error))
    if isinstance(record, MultiResponse):
        _encode_multi(record, out)
    elif record is not None:
        encode(record, out)
    return frame(out)


def _encode_multi(response: MultiResponse, out: bytearray) -> None:
    for op, error, record in response.results:
        encode(MultiHeader(op, False, error), out)
        if record is not None:
            encode(record, out)
    encode(MULTI_END, out)


def error_result(code: int) -> SubResult:
    """One error within a multi: the code stands in its header and again in its body."""
    return SubResult(Op.ERROR, code, IntResponse(code))


def ok_result(op: int, record: Record | None) -> SubResult:
    """One success within a multi."""
    return SubResult(op, Code.OK, record)
