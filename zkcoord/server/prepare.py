"""
The leader's half of a write: check a request against the tree and turn it into a transaction.

Nothing is changed here. The operations of a multi see what the ones before them will do through an `Overlay`, which
is thrown away when one of them is refused. The order of the checks is the real server's, since it decides which
error a client gets.

Source: ZooKeeper 3.8, ``PrepRequestProcessor.pRequest2Txn``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zkcoord.server.acl import check_acl, fix_acl
from zkcoord.server.codes import Code, Op, OperationError, Perm
from zkcoord.server.paths import SPECIAL_PATHS, check_path, parent_of
from zkcoord.server.records import (
    ACL,
    CreateRequest,
    CreateTTLRequest,
    Id,
    PathVersionRequest,
    SetACLRequest,
    SetDataRequest,
)
from zkcoord.server.requests import READ_OPS, MultiRequest, Record, SubRequest
from zkcoord.server.transactions import (
    CONTAINER_OWNER,
    MAX_TTL_MS,
    TTL_OWNER,
    Change,
    CheckNode,
    CreateNode,
    DeleteNode,
    Failed,
    Multi,
    NodeChange,
    SetNodeACL,
    SetNodeData,
    is_session,
)
from zkcoord.server.tree import DataTree
from zkcoord.server.wire import wrap_int

ANY_VERSION = -1

# CreateMode's flags.
EPHEMERAL, SEQUENTIAL = 1, 2
CONTAINER, TTL, TTL_SEQUENTIAL = 4, 5, 6


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a session and the ids of its connection."""

    session: int
    auth: Sequence[Id]


@dataclass(frozen=True, slots=True)
class NodeView:
    """What later checks need to know of a node."""

    version: int
    cversion: int
    aversion: int
    owner: int
    child_count: int
    acl: tuple[ACL, ...]


class Overlay:
    """A tree with the changes of a multi so far in front of it."""

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree
        self._changed: dict[str, NodeView | None] = {}

    def exists(self, path: str) -> bool:
        if path in self._changed:
            return self._changed[path] is not None
        return self._tree.find(path) is not None

    def view(self, path: str) -> NodeView:
        """Raises OperationError when there is no such node."""
        if path in self._changed:
            changed = self._changed[path]
            if changed is None:
                raise OperationError(Code.NO_NODE)
            return changed
        node = self._tree.find(path)
        if node is None:
            raise OperationError(Code.NO_NODE)
        return NodeView(node.version, node.cversion, node.aversion, node.owner, node.child_count(), node.acl)

    def put(self, path: str, view: NodeView | None) -> None:
        """Remember a change; None is a deleted node."""
        self._changed[path] = view


def prepare(tree: DataTree, op: int, body: Record | None, asker: Asker) -> Change:
    """
    Check one write.

    Args:
        tree: the state it meets; not changed.
        op: a writing operation.
        body: its record; None when it could not be read.
        asker: who asks. That the session is alive was checked before.

    Returns:
        What to do; `Failed` when it was refused.
    """
    if isinstance(body, MultiRequest):
        return _prepare_multi(tree, body, asker)
    try:
        if body is None:
            raise OperationError(Code.MARSHALLING_ERROR)
        return _CHECKS[op](Overlay(tree), op, body, asker)
    except OperationError as error:
        return Failed(error.code)


def prepare_reap(tree: DataTree, path: str) -> Change:
    """Check that a container or TTL node may still be deleted by the server itself."""
    node = tree.find(path)
    if node is None:
        return Failed(Code.NO_NODE)
    return Failed(Code.NOT_EMPTY) if node.children else DeleteNode(path)


def _prepare_multi(tree: DataTree, request: MultiRequest, asker: Asker) -> Change:
    overlay = Overlay(tree)
    changes: list[NodeChange] = []
    failed_at: int | None = None
    for index, operation in enumerate(request.operations):
        if operation.op in READ_OPS:
            return Failed(Code.MARSHALLING_ERROR)
        if failed_at is not None:
            changes.append(Failed(Code.RUNTIME_INCONSISTENCY))
            continue
        try:
            op, body = _as_in_multi(operation)
            changes.append(_CHECKS[op](overlay, op, body, asker))
        except OperationError as error:
            if error.code == Code.MARSHALLING_ERROR:
                return Failed(error.code)
            failed_at = index
            changes.append(Failed(error.code))
    if failed_at is not None:
        # What was fine by itself is reported as rolled back, with code 0.
        changes[:failed_at] = [Failed(Code.OK)] * failed_at
    return Multi(tuple(changes))


def _as_in_multi(operation: SubRequest) -> tuple[int, Record]:
    """
    Return the operation a multi really runs.

    A create in a multi is what its flags say, not what its number says: 3.8.0 answers create2 like create. (3.8.2
    and later give create2 its Stat, ZOOKEEPER-4026.)
    """
    op, body = operation
    if isinstance(body, CreateTTLRequest):
        if body.flags in (TTL, TTL_SEQUENTIAL):
            return Op.CREATE_TTL, body
        body = CreateRequest(body.path, body.data, body.acl, body.flags)
    if isinstance(body, CreateRequest):
        if body.flags in (TTL, TTL_SEQUENTIAL):
            raise OperationError(Code.MARSHALLING_ERROR)
        return (Op.CREATE_CONTAINER if body.flags == CONTAINER else Op.CREATE), body
    return op, body


def _check_create(overlay: Overlay, op: int, body: Record, asker: Asker) -> NodeChange:
    assert isinstance(body, CreateRequest | CreateTTLRequest)
    flags = body.flags
    if not 0 <= flags <= TTL_SEQUENTIAL:
        raise OperationError(Code.BAD_ARGUMENTS)
    ttl_ms = body.ttl_ms if isinstance(body, CreateTTLRequest) else -1
    is_ttl = flags >= TTL
    # The real server lets createTTL through with other flags and a negative time, and then falls over it.
    if (is_ttl or op == Op.CREATE_TTL) and not 0 < ttl_ms <= MAX_TTL_MS:
        raise OperationError(Code.BAD_ARGUMENTS)
    if not is_ttl and ttl_ms >= 0:
        raise OperationError(Code.BAD_ARGUMENTS)
    path = body.path
    parent_path = parent_of(path)
    acl = fix_acl(body.acl, asker.auth)
    parent = overlay.view(parent_path)
    check_acl(parent.acl, Perm.CREATE, asker.auth)
    if flags in (SEQUENTIAL, EPHEMERAL | SEQUENTIAL, TTL_SEQUENTIAL):
        path = f"{path}{parent.cversion:010d}"
    check_path(path)
    if overlay.exists(path):
        raise OperationError(Code.NODE_EXISTS)
    if is_session(parent.owner):
        raise OperationError(Code.NO_CHILDREN_FOR_EPHEMERALS)
    cversion = wrap_int(parent.cversion + 1)
    is_ephemeral = flags in (EPHEMERAL, EPHEMERAL | SEQUENTIAL)
    if op == Op.CREATE_CONTAINER:
        owner = CONTAINER_OWNER
    elif op == Op.CREATE_TTL:
        owner = TTL_OWNER + ttl_ms
    else:
        owner = asker.session if is_ephemeral else 0
    overlay.put(parent_path, replace(parent, cversion=cversion, child_count=parent.child_count + 1))
    overlay.put(path, NodeView(0, 0, 0, owner, 0, acl))
    return CreateNode(path, body.data, acl, owner, cversion, op)


def _check_delete(overlay: Overlay, op: int, body: Record, asker: Asker) -> NodeChange:
    assert isinstance(body, PathVersionRequest)
    path, version = body
    parent_path = parent_of(path)
    if path in SPECIAL_PATHS:
        raise OperationError(Code.BAD_ARGUMENTS)
    parent = overlay.view(parent_path)
    check_acl(parent.acl, Perm.DELETE, asker.auth)
    node = overlay.view(path)
    _next_version(node.version, version)
    if node.child_count > 0:
        raise OperationError(Code.NOT_EMPTY)
    overlay.put(parent_path, replace(parent, child_count=parent.child_count - 1))
    overlay.put(path, None)
    return DeleteNode(path)


def _check_set_data(overlay: Overlay, op: int, body: Record, asker: Asker) -> NodeChange:
    assert isinstance(body, SetDataRequest)
    check_path(body.path)
    node = overlay.view(body.path)
    check_acl(node.acl, Perm.WRITE, asker.auth)
    version = _next_version(node.version, body.version)
    overlay.put(body.path, replace(node, version=version))
    return SetNodeData(body.path, body.data, version)


def _check_set_acl(overlay: Overlay, op: int, body: Record, asker: Asker) -> NodeChange:
    assert isinstance(body, SetACLRequest)
    check_path(body.path)
    acl = fix_acl(body.acl, asker.auth)
    node = overlay.view(body.path)
    check_acl(node.acl, Perm.ADMIN, asker.auth)
    return SetNodeACL(body.path, acl, _next_version(node.aversion, body.version))


def _check_check(overlay: Overlay, op: int, body: Record, asker: Asker) -> NodeChange:
    assert isinstance(body, PathVersionRequest)
    check_path(body.path)
    node = overlay.view(body.path)
    check_acl(node.acl, Perm.READ, asker.auth)
    _next_version(node.version, body.version)
    return CheckNode(body.path)


def _refuse(code: Code) -> Callable[[Overlay, int, Record, Asker], NodeChange]:
    def check(overlay: Overlay, op: int, body: Record, asker: Asker) -> NodeChange:
        raise OperationError(code)

    return check


def _next_version(current: int, expected: int) -> int:
    if expected not in (ANY_VERSION, current):
        raise OperationError(Code.BAD_VERSION)
    return wrap_int(current + 1)


_CHECKS: dict[int, Callable[[Overlay, int, Record, Asker], NodeChange]] = {
    Op.CREATE: _check_create,
    Op.CREATE2: _check_create,
    Op.CREATE_CONTAINER: _check_create,
    Op.CREATE_TTL: _check_create,
    Op.DELETE: _check_delete,
    Op.SET_DATA: _check_set_data,
    Op.SET_ACL: _check_set_acl,
    Op.CHECK: _check_check,
    # Only the server itself deletes containers; a client's attempt always looks like a bad path.
    Op.DELETE_CONTAINER: _refuse(Code.BAD_ARGUMENTS),
    Op.RECONFIG: _refuse(Code.RECONFIG_DISABLED),
}

#: Operations that are prepared here and take a place in the total order.
WRITES = frozenset(_CHECKS) | {Op.MULTI}
