"""
The znodes: a copy of the state that transactions build up.

Reads come straight from it; the only way to change it is :meth:`DataTree.apply`, which never fails for a
transaction that the leader prepared against the same state.

``cversion`` is kept as the number of creates below a node, which is what names sequential nodes. Clients see twice
that less the number of children: creates plus deletes. It never shrinks, so it freezes at 2147483647.

Source: ZooKeeper 3.8, ``DataTree``, ``DataNode``.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple, assert_never

from zkcoord.server.acl import OPEN_ACL, READ_ONLY_ACL
from zkcoord.server.codes import EventType, Op
from zkcoord.server.records import ACL, Stat
from zkcoord.server.transactions import (
    CONTAINER_OWNER,
    MAX_TTL_MS,
    TTL_OWNER,
    CheckNode,
    CreateNode,
    DeleteNode,
    EndSession,
    Failed,
    Multi,
    NodeChange,
    OpenSession,
    Result,
    SetNodeACL,
    SetNodeData,
    Transaction,
    is_session,
)
from zkcoord.server.wire import wrap_int


class TreeEvent(NamedTuple):
    """
    Something happened to a node: `CREATED`, `DELETED` or `DATA_CHANGED`.

    The ACLs of the node and of its parent decide who may be told.
    """

    type: EventType
    path: str
    acl: tuple[ACL, ...]
    parent_acl: tuple[ACL, ...]


class Node:
    """One znode. ``children`` is None until there was one: most nodes are leaves."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime_ms",
        "cversion",
        "czxid",
        "data",
        "mtime_ms",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(
        self,
        data: bytes | None = b"",
        acl: tuple[ACL, ...] = OPEN_ACL,
        owner: int = 0,
        zxid: int = 0,
        time_ms: int = 0,
    ) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = time_ms
        self.version = self.cversion = self.aversion = 0
        self.children: dict[str, Node] | None = None

    def child_count(self) -> int:
        """How many children there are now."""
        return len(self.children) if self.children else 0

    def child_names(self) -> tuple[str, ...]:
        """
        Return the children's names.

        Shapes: in an order that is neither that of creation nor sorted, but the same in every run: ZooKeeper
        promises none, and code that relies on one should fail here too.
        """
        if not self.children:
            return ()
        return tuple(
            sorted(self.children, key=lambda name: zlib.crc32(name.encode("utf-8", "surrogatepass")))
        )

    def stat(self) -> Stat:
        """Return what clients see."""
        children = self.child_count()
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            wrap_int(self.cversion * 2 - children),
            self.aversion,
            self.owner if is_session(self.owner) else 0,
            len(self.data) if self.data else 0,
            children,
            self.pzxid,
        )


class DataTree:
    """
    All znodes.

    They hang below one another and know no paths: with a table of paths, a hundred thousand small nodes would take
    a third more memory.
    """

    def __init__(self) -> None:
        config = Node(acl=READ_ONLY_ACL)
        config.aversion = -1
        system = Node()
        system.children = {"quota": Node(), "config": config}
        self.root = Node()
        self.root.children = {"zookeeper": system}
        #: How many nodes there are, without the root.
        self.count = 3
        self.last_zxid = 0
        # By session, in order of creation, so that a session's end is the same in every run.
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttl_nodes: dict[str, None] = {}

    def find(self, path: str) -> Node | None:
        """Return a node; None when there is none. The root is found at "/" and, as what is before a slash, at ""."""
        node: Node | None = self.root
        if path in ("", "/"):
            return node
        first, *names = path.split("/")
        if first:
            return None
        for name in names:
            if node is None or node.children is None:
                return None
            node = node.children.get(name)
        return node

    def apply(self, transaction: Transaction) -> tuple[Result, list[TreeEvent]]:
        """
        Do what a transaction says.

        Returns:
            The result, and what happened to nodes, in order: give it to the watches.
        """
        events: list[TreeEvent] = []
        change = transaction.change
        match change:
            case OpenSession():
                result = Result(Op.CREATE_SESSION)
            case EndSession():
                for path in self.ephemerals.pop(transaction.session, {}):
                    self._delete(path, transaction.zxid, events)
                result = Result(Op.CLOSE_SESSION)
            case Multi(changes):
                results = tuple([self._apply_node(part, transaction, events) for part in changes])
                result = Result(Op.MULTI, results=results)
            case _:
                result = self._apply_node(change, transaction, events)
        self.last_zxid = max(self.last_zxid, transaction.zxid)
        return result, events

    def all_children_number(self, path: str) -> int:
        """Count all nodes below a path. The real server finds its root below ""."""
        if path in ("", "/"):
            return self.count + (path == "")
        return sum(1 for _ in self._below(self._must_find(path)))

    def _below(self, top: Node) -> Iterator[tuple[str, Node]]:
        waiting = [top]
        while waiting:
            children = waiting.pop().children
            if children:
                yield from children.items()
                waiting += children.values()

    def _must_find(self, path: str) -> Node:
        node = self.find(path)
        assert node is not None, path
        return node

    def reapable(self, now_ms: int) -> Iterator[str]:
        """Yield containers that had children and lost them, and TTL nodes past their time."""
        for path in self.containers:
            node = self._must_find(path)
            if not node.children and node.cversion > 0:
                yield path
        for path in self.ttl_nodes:
            node = self._must_find(path)
            if not node.children and now_ms - node.mtime_ms > node.owner - TTL_OWNER:
                yield path

    def data_bytes(self) -> int:
        """Roughly what is kept: names and data."""
        return sum(len(name) + len(node.data or b"") for name, node in self._below(self.root))

    def _apply_node(self, change: NodeChange, transaction: Transaction, events: list[TreeEvent]) -> Result:
        match change:
            case CreateNode():
                return self._create(change, transaction, events)
            case DeleteNode(path):
                owner = self._must_find(path).owner
                self._delete(path, transaction.zxid, events)
                if is_session(owner):
                    del self.ephemerals[owner][path]
                return Result(Op.DELETE, path=path)
            case SetNodeData(path, data, version):
                node = self._must_find(path)
                node.data, node.version = data, version
                node.mzxid, node.mtime_ms = transaction.zxid, transaction.time_ms
                events.append(TreeEvent(EventType.DATA_CHANGED, path, node.acl, ()))
                return Result(Op.SET_DATA, path=path, stat=node.stat())
            case SetNodeACL(path, acl, aversion):
                node = self._must_find(path)
                node.acl, node.aversion = acl, aversion
                return Result(Op.SET_ACL, path=path, stat=node.stat())
            case CheckNode(path):
                return Result(Op.CHECK, path=path)
            case Failed(code):
                return Result(Op.ERROR, code)
        assert_never(change)

    def _create(self, change: CreateNode, transaction: Transaction, events: list[TreeEvent]) -> Result:
        parent_path, _, name = change.path.rpartition("/")
        parent = self._must_find(parent_path)
        # Past 2147483647 the count would wrap to negative numbers, which are not larger: it stays for ever.
        if change.parent_cversion > parent.cversion:
            parent.cversion, parent.pzxid = change.parent_cversion, transaction.zxid
        acl = parent.acl if parent.acl == change.acl else change.acl
        node = Node(change.data, acl, change.owner, transaction.zxid, transaction.time_ms)
        if parent.children is None:
            parent.children = {}
        parent.children[name] = node
        self.count += 1
        if change.owner == CONTAINER_OWNER:
            self.containers[change.path] = None
        elif TTL_OWNER <= change.owner <= TTL_OWNER + MAX_TTL_MS:
            self.ttl_nodes[change.path] = None
        elif change.owner:
            self.ephemerals.setdefault(change.owner, {})[change.path] = None
        events.append(TreeEvent(EventType.CREATED, change.path, acl, parent.acl))
        return Result(change.op, path=change.path, stat=node.stat())

    def _delete(self, path: str, zxid: int, events: list[TreeEvent]) -> None:
        parent_path, _, name = path.rpartition("/")
        parent = self._must_find(parent_path)
        assert parent.children is not None
        node = parent.children.pop(name)
        self.count -= 1
        parent.pzxid = max(parent.pzxid, zxid)
        self.containers.pop(path, None)
        self.ttl_nodes.pop(path, None)
        events.append(TreeEvent(EventType.DELETED, path, node.acl, parent.acl))
