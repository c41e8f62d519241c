"""
One server's copy of the state, and the reads and watches of its clients.

An engine has one. A simulation of an ensemble has several, and applies the leader's transactions to them as late as
it likes: all a client may see of that is old data, never events and data out of order.

Source: ZooKeeper 3.8, ``FinalRequestProcessor``.
"""

from collections.abc import Callable, Sequence

from zkcoord.server.acl import check_acl, client_infos, masked
from zkcoord.server.codes import Code, Op, OperationError, Perm
from zkcoord.server.records import (
    Create2Response,
    GetACLResponse,
    GetChildren2Response,
    GetDataResponse,
    Id,
    IntResponse,
    NullablePathRequest,
    PathRequest,
    PathResponse,
    PathTypeRequest,
    PathWatchRequest,
    SetWatches2Request,
    SetWatchesRequest,
    StatResponse,
    TextsResponse,
    WhoAmIResponse,
)
from zkcoord.server.requests import (
    READ_OPS,
    MultiRequest,
    MultiResponse,
    Record,
    SubResult,
    error_result,
    ok_result,
)
from zkcoord.server.transactions import Result, Transaction
from zkcoord.server.tree import DataTree, Node
from zkcoord.server.watches import Mode, Watches, WatchEvent, watch_mode, watcher_type


class Reading:
    """One read: who asks, what it answers, and the events that go out before the answer."""

    __slots__ = ("auth", "events", "session", "watcher")

    def __init__(self, watcher: int, session: int, auth: Sequence[Id]) -> None:
        self.watcher = watcher
        self.session = session
        self.auth = auth
        self.events: list[WatchEvent] = []


class Replica:
    """A tree with its watches. A watcher is the number of a connection."""

    def __init__(self) -> None:
        self.tree = DataTree()
        self.watches = Watches()

    def apply(self, transaction: Transaction) -> tuple[Result, list[WatchEvent]]:
        """Apply the next transaction; the events go out before the reply to whoever asked."""
        result, events = self.tree.apply(transaction)
        return result, self.watches.fire(events)

    def read(self, op: int, body: Record | None, reading: Reading) -> Record | None:
        """
        Answer a read.

        Returns:
            The reply's record; None when its header says everything.

        Raises:
            OperationError: the reply is an error.
        """
        if body is None:
            raise OperationError(Code.MARSHALLING_ERROR)
        return _READS[op](self, body, reading)

    def node(self, path: str) -> Node:
        """Raises OperationError when there is no such node."""
        node = self.tree.find(path)
        if node is None:
            raise OperationError(Code.NO_NODE)
        return node

    def readable(self, path: str, reading: Reading, perm: int = Perm.READ) -> Node:
        """Raises OperationError when there is no such node, or this client may not read it."""
        node = self.node(path)
        check_acl(node.acl, perm, reading.auth)
        return node


def write_record(result: Result) -> Record | None:
    """Return the record of the reply to a write."""
    match result.op:
        case Op.CREATE:
            return PathResponse(result.path)
        case Op.CREATE2 | Op.CREATE_CONTAINER | Op.CREATE_TTL:
            assert result.path is not None
            assert result.stat is not None
            return Create2Response(result.path, result.stat)
        case Op.SET_DATA | Op.SET_ACL:
            assert result.stat is not None
            return StatResponse(result.stat)
        case Op.MULTI:
            return MultiResponse(tuple([_sub_result(part) for part in result.results]))
        case _:
            return None


def _sub_result(result: Result) -> SubResult:
    if result.op == Op.ERROR:
        return error_result(result.error)
    # Results know one name for everything that carries a Stat of a created node.
    op = Op.CREATE2 if result.op in (Op.CREATE_CONTAINER, Op.CREATE_TTL) else result.op
    return ok_result(op, write_record(result))


# --- reads -------------------------------------------------------------------------------------------------------


def _exists(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, PathWatchRequest)
    path, watch = body
    if "\0" in path:
        raise OperationError(Code.BAD_ARGUMENTS)
    if watch:  # also when there is no such node: then it waits for the creation
        replica.watches.data.add(path, reading.watcher)
    return StatResponse(replica.node(path).stat())


def _get_data(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, PathWatchRequest)
    path, watch = body
    node = replica.readable(path, reading)
    if watch:
        replica.watches.data.add(path, reading.watcher)
    return GetDataResponse(node.data, node.stat())


def _children(replica: Replica, body: Record, reading: Reading) -> Node:
    assert isinstance(body, PathWatchRequest)
    path, watch = body
    node = replica.readable(path, reading)
    if watch:
        replica.watches.children.add(path, reading.watcher)
    return node


def _get_children(replica: Replica, body: Record, reading: Reading) -> Record:
    return TextsResponse(_children(replica, body, reading).child_names())


def _get_children2(replica: Replica, body: Record, reading: Reading) -> Record:
    node = _children(replica, body, reading)
    return GetChildren2Response(node.child_names(), node.stat())


def _get_all_children_number(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, PathRequest)
    replica.readable(body.path, reading)
    return IntResponse(replica.tree.all_children_number(body.path))


def _get_acl(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, PathRequest)
    node = replica.readable(body.path, reading, Perm.READ | Perm.ADMIN)
    try:
        check_acl(node.acl, Perm.ADMIN, reading.auth)
    except OperationError:
        return GetACLResponse(masked(node.acl), node.stat())
    return GetACLResponse(node.acl, node.stat())


def _get_ephemerals(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, NullablePathRequest)
    paths = tuple(replica.tree.ephemerals.get(reading.session, ()))
    prefix = body.path or ""
    if prefix.strip() in ("", "/"):
        return TextsResponse(paths)
    return TextsResponse(tuple(path for path in paths if path.startswith(prefix)))


def _sync(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, NullablePathRequest)
    return PathResponse(body.path)


def _nothing(replica: Replica, body: Record, reading: Reading) -> None:
    return None


def _who_am_i(replica: Replica, body: Record, reading: Reading) -> Record:
    return WhoAmIResponse(client_infos(reading.auth))


def _set_watches(replica: Replica, body: Record, reading: Reading) -> None:
    assert isinstance(body, SetWatchesRequest | SetWatches2Request)
    watches, watcher = replica.watches, reading.watcher
    reading.events += watches.restore(
        replica.tree, watcher, body.relative_zxid, body.data, body.exist, body.child
    )
    if isinstance(body, SetWatches2Request):
        for path in body.persistent:
            watches.add(path, watcher, Mode.PERSISTENT)
        for path in body.recursive:
            watches.add(path, watcher, Mode.RECURSIVE)


def _add_watch(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, PathTypeRequest)
    replica.watches.add(body.path, reading.watcher, watch_mode(body.type))
    return IntResponse(Code.OK)


def _check_watches(replica: Replica, body: Record, reading: Reading) -> None:
    assert isinstance(body, PathTypeRequest)
    type_ = watcher_type(body.type)
    if body.path and "/" not in body.path:
        raise OperationError(Code.MARSHALLING_ERROR)
    if not replica.watches.contains(body.path, type_):
        raise OperationError(Code.NO_WATCHER)


def _remove_watches(replica: Replica, body: Record, reading: Reading) -> None:
    assert isinstance(body, PathTypeRequest)
    if not replica.watches.remove(body.path, watcher_type(body.type), reading.watcher):
        raise OperationError(Code.NO_WATCHER)


def _multi_read(replica: Replica, body: Record, reading: Reading) -> Record:
    assert isinstance(body, MultiRequest)
    if any(operation.op not in READ_OPS for operation in body.operations):
        raise OperationError(Code.MARSHALLING_ERROR)
    results: list[SubResult] = []
    for op, part in body.operations:
        assert isinstance(part, PathWatchRequest)
        try:
            # A multiRead sets no watches, whatever its parts say.
            record = _READS[op](replica, PathWatchRequest(part.path, False), reading)
            results.append(ok_result(op, record))
        except OperationError as error:
            results.append(error_result(error.code))
    return MultiResponse(tuple(results))


_READS: dict[int, Callable[[Replica, Record, Reading], Record | None]] = {
    Op.EXISTS: _exists,
    Op.GET_DATA: _get_data,
    Op.GET_CHILDREN: _get_children,
    Op.GET_CHILDREN2: _get_children2,
    Op.GET_ALL_CHILDREN_NUMBER: _get_all_children_number,
    Op.GET_ACL: _get_acl,
    Op.GET_EPHEMERALS: _get_ephemerals,
    Op.SYNC: _sync,
    Op.PING: _nothing,
    Op.WHO_AM_I: _who_am_i,
    Op.SET_WATCHES: _set_watches,
    Op.SET_WATCHES2: _set_watches,
    Op.ADD_WATCH: _add_watch,
    Op.CHECK_WATCHES: _check_watches,
    Op.REMOVE_WATCHES: _remove_watches,
    Op.MULTI_READ: _multi_read,
}

#: Operations that any server answers from its own copy.
READS = frozenset(_READS)
