"""
Watches: who is told about which node.

There are two tables, as in the real server: data (getData, exists and addWatch) and children (getChildren and
addWatch). A table keeps at most one watch for a watcher and a path, and the latest mode counts: a plain getData
watch on a path turns that watcher's persistent one into a one-shot. That, and `WatchTable.contains` looking at
everybody's watches, are how 3.8 behaves (both changed in 3.9: ZOOKEEPER-4466, 4471).

Source: ZooKeeper 3.8, ``WatchManager``, ``WatcherModeManager``, ``DataTree.setWatches``.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from zkcoord.server.codes import Code, EventType, OperationError, WatcherType
from zkcoord.server.records import ACL
from zkcoord.server.tree import DataTree, TreeEvent


class Mode(IntEnum):
    """How long a watch lasts, and how far it sees. The numbers are addWatch's; -1 is never on the wire."""

    ONE_SHOT = -1
    PERSISTENT = 0
    RECURSIVE = 1


class WatchEvent(NamedTuple):
    """What one watcher (a connection) is told, if it may read what has ``acl`` (none: it may)."""

    watcher: int
    type: EventType
    path: str
    acl: tuple[ACL, ...] = ()


class WatchTable:
    """Watches of one kind."""

    def __init__(self) -> None:
        self.by_path: dict[str, dict[int, None]] = {}
        # A watcher whose watches all fired stays, with no paths, until its connection ends: wchs counts it.
        self.by_watcher: dict[int, set[str]] = {}
        self._modes: dict[tuple[int, str], Mode] = {}
        self._recursive = 0

    def add(self, path: str, watcher: int, mode: Mode = Mode.ONE_SHOT) -> None:
        """Watch a path, or change the mode of a watch that is there."""
        self.by_path.setdefault(path, {})[watcher] = None
        self.by_watcher.setdefault(watcher, set()).add(path)
        self._set_mode(watcher, path, mode)

    def remove(self, path: str, watcher: int) -> bool:
        """Remove one watch; False when there was none."""
        paths = self.by_watcher.get(watcher)
        if paths is None or path not in paths:
            return False
        paths.discard(path)
        self._forget(path, watcher)
        self._set_mode(watcher, path, Mode.ONE_SHOT)
        return True

    def remove_watcher(self, watcher: int) -> None:
        """Remove all watches of a connection."""
        for path in self.by_watcher.pop(watcher, ()):
            self._forget(path, watcher)
            self._set_mode(watcher, path, Mode.ONE_SHOT)

    def contains(self, path: str) -> bool:
        """Whether anybody watches exactly this path. Nobody is ever found at "", though one may watch there."""
        return path != "" and path in self.by_path

    def fire(self, path: str, type_: EventType) -> list[int]:
        """
        Find whom to tell, and use one-shot watches up.

        Args:
            path: where it happened.
            type_: a recursive watch sees what happens below it, but no `CHILDREN_CHANGED`.

        Returns:
            The watchers, each once.
        """
        told: dict[int, None] = {}
        for watched in _self_and_parents(path) if self._recursive else (path,):
            for watcher in list(self.by_path.get(watched, ())):
                mode = self._modes.get((watcher, watched), Mode.ONE_SHOT)
                if mode is Mode.RECURSIVE:
                    if type_ != EventType.CHILDREN_CHANGED:
                        told[watcher] = None
                elif watched == path:
                    told[watcher] = None
                    if mode is Mode.ONE_SHOT:
                        self.by_watcher[watcher].discard(path)
                        self._forget(path, watcher)
        return list(told)

    def count(self) -> int:
        """How many watches there are."""
        return sum(len(paths) for paths in self.by_watcher.values())

    def _forget(self, path: str, watcher: int) -> None:
        watchers = self.by_path[path]
        del watchers[watcher]
        if not watchers:
            del self.by_path[path]

    def _set_mode(self, watcher: int, path: str, mode: Mode) -> None:
        old = self._modes.pop((watcher, path), Mode.ONE_SHOT)
        if mode is not Mode.ONE_SHOT:
            self._modes[watcher, path] = mode
        self._recursive += (mode is Mode.RECURSIVE) - (old is Mode.RECURSIVE)


def _self_and_parents(path: str) -> Iterator[str]:
    yield path
    while path != "/":
        path = path[: path.rfind("/")] or "/"
        yield path


class Watches:
    """Both tables of one server."""

    def __init__(self) -> None:
        self.data = WatchTable()
        self.children = WatchTable()

    def add(self, path: str, watcher: int, mode: Mode) -> None:
        """addWatch: in both tables."""
        self.children.add(path, watcher, mode)
        self.data.add(path, watcher, mode)

    def remove_watcher(self, watcher: int) -> None:
        """A connection ended."""
        self.data.remove_watcher(watcher)
        self.children.remove_watcher(watcher)

    def remove(self, path: str, type_: WatcherType, watcher: int) -> bool:
        """removeWatches: False when nothing was removed."""
        return any([table.remove(path, watcher) for table in self._tables(type_)])

    def contains(self, path: str, type_: WatcherType) -> bool:
        """checkWatches."""
        return any(table.contains(path) for table in self._tables(type_))

    def _tables(self, type_: WatcherType) -> list[WatchTable]:
        match type_:
            case WatcherType.CHILDREN:
                return [self.children]
            case WatcherType.DATA:
                return [self.data]
            case WatcherType.ANY:
                return [self.children, self.data]

    def fire(self, events: Iterable[TreeEvent]) -> list[WatchEvent]:
        """
        Turn what happened into what watchers are told.

        Shapes: in the order in which the events have to be sent. One-shot watches are used up even when the ACL
        then keeps an event from its watcher.
        """
        told: list[WatchEvent] = []
        for type_, path, acl, parent_acl in events:
            watchers = self.data.fire(path, type_)
            told += [WatchEvent(watcher, type_, path, acl) for watcher in watchers]
            if type_ == EventType.DATA_CHANGED:
                continue
            if type_ == EventType.DELETED:
                # A client that watched both data and children hears of the end once.
                also = self.children.fire(path, type_)
                told += [WatchEvent(watcher, type_, path, acl) for watcher in also if watcher not in watchers]
            parent = path[: path.rfind("/")] or "/"
            for watcher in self.children.fire(parent, EventType.CHILDREN_CHANGED):
                told.append(WatchEvent(watcher, EventType.CHILDREN_CHANGED, parent, parent_acl))
        return told

    def restore(
        self,
        tree: DataTree,
        watcher: int,
        relative_zxid: int,
        data: Iterable[str],
        exist: Iterable[str],
        child: Iterable[str],
    ) -> list[WatchEvent]:
        """
        setWatches: arm a reconnected client's watches again, or tell it what it missed.

        Args:
            tree: the nodes.
            watcher: the connection.
            relative_zxid: the last the client saw.
            data: paths of getData watches, and of exists watches on nodes that existed.
            exist: paths of exists watches on nodes that did not exist.
            child: paths of getChildren watches.
        """
        told: list[WatchEvent] = []
        for path in data:
            node = tree.find(path)
            if node is None:
                told.append(WatchEvent(watcher, EventType.DELETED, path))
            elif node.mzxid > relative_zxid:
                told.append(WatchEvent(watcher, EventType.DATA_CHANGED, path))
            else:
                self.data.add(path, watcher)
        for path in exist:
            if tree.find(path) is not None:
                told.append(WatchEvent(watcher, EventType.CREATED, path))
            else:
                self.data.add(path, watcher)
        for path in child:
            node = tree.find(path)
            if node is None:
                told.append(WatchEvent(watcher, EventType.DELETED, path))
            elif node.pzxid > relative_zxid:
                told.append(WatchEvent(watcher, EventType.CHILDREN_CHANGED, path))
            else:
                self.children.add(path, watcher)
        return told


def watcher_type(number: int) -> WatcherType:
    """Raises OperationError when there is no such type."""
    try:
        return WatcherType(number)
    except ValueError:
        raise OperationError(Code.MARSHALLING_ERROR) from None


def watch_mode(number: int) -> Mode:
    """Raises OperationError when addWatch knows no such mode."""
    if number not in (Mode.PERSISTENT, Mode.RECURSIVE):
        raise OperationError(Code.MARSHALLING_ERROR)
    return Mode(number)
