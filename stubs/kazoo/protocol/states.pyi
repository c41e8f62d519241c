from collections.abc import Callable
from typing import Any, NamedTuple

class KazooState:
    SUSPENDED: str
    CONNECTED: str
    LOST: str

class KeeperState:
    AUTH_FAILED: str
    CONNECTED: str
    CONNECTED_RO: str
    CONNECTING: str
    CLOSED: str
    EXPIRED_SESSION: str

class EventType:
    CREATED: str
    DELETED: str
    CHANGED: str
    CHILD: str
    NONE: str

EVENT_TYPE_MAP: dict[int, str]

class WatchedEvent(NamedTuple):
    type: str
    state: str
    path: str

class Callback(NamedTuple):
    type: str
    func: Callable[..., object]
    args: tuple[Any, ...]

class ZnodeStat(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeralOwner: int
    dataLength: int
    numChildren: int
    pzxid: int
    @property
    def acl_version(self) -> int: ...
    @property
    def children_version(self) -> int: ...
    @property
    def created(self) -> float: ...
    @property
    def last_modified(self) -> float: ...
    @property
    def owner_session_id(self) -> int | None: ...
    @property
    def creation_transaction_id(self) -> int: ...
    @property
    def last_modified_transaction_id(self) -> int: ...
    @property
    def data_length(self) -> int: ...
    @property
    def children_count(self) -> int: ...
