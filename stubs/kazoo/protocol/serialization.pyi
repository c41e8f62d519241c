from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, ClassVar, NamedTuple, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import ZookeeperError
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.security import ACL

bool_struct: Struct
int_struct: Struct
int_int_struct: Struct
int_int_long_struct: Struct
int_long_int_long_struct: Struct
long_struct: Struct
multiheader_struct: Struct
reply_header_struct: Struct
stat_struct: Struct

_Watcher = Callable[[WatchedEvent], object]
_Bytes = bytes | bytearray | memoryview

class _Operation(Protocol):
    type: ClassVar[int]
    def serialize(self) -> bytes | bytearray: ...

def read_string(buffer: _Bytes, offset: int) -> tuple[str | None, int]: ...
def read_acl(bytes: _Bytes, offset: int) -> tuple[ACL, int]: ...
def write_string(bytes: str | None) -> bytes: ...
def write_buffer(bytes: bytes | None) -> bytes: ...
def read_buffer(bytes: _Bytes, offset: int) -> tuple[bytes | None, int]: ...

# NamedTuple does not allow a class variable without a default in a stub, hence `= ...`.
class Close(NamedTuple):
    type: ClassVar[int] = ...
    @classmethod
    def serialize(cls) -> bytes: ...

class Ping(NamedTuple):
    type: ClassVar[int] = ...
    @classmethod
    def serialize(cls) -> bytes: ...

CloseInstance: Close
PingInstance: Ping

class Connect(NamedTuple):
    protocol_version: int
    last_zxid_seen: int
    time_out: int
    session_id: int
    passwd: bytes
    read_only: bool | None
    type: ClassVar[None] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[Connect, int]: ...

class Create(NamedTuple):
    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> str: ...

class Create2(NamedTuple):
    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[str, ZnodeStat]: ...

class Delete(NamedTuple):
    path: str
    version: int
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> bool: ...

class Exists(NamedTuple):
    path: str
    watcher: _Watcher | None
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> ZnodeStat | None: ...

class GetData(NamedTuple):
    path: str
    watcher: _Watcher | None
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[bytes | None, ZnodeStat]: ...

class SetData(NamedTuple):
    path: str
    data: bytes | None
    version: int
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> ZnodeStat: ...

class GetACL(NamedTuple):
    path: str
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[list[ACL], ZnodeStat]: ...

class GetChildren(NamedTuple):
    path: str
    watcher: _Watcher | None
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> list[str]: ...

class GetChildren2(NamedTuple):
    path: str
    watcher: _Watcher | None
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[list[str], ZnodeStat]: ...

class Sync(NamedTuple):
    path: str
    type: ClassVar[int] = ...
    def serialize(self) -> bytes: ...
    @classmethod
    def deserialize(cls, buffer: _Bytes, offset: int) -> str: ...

class CheckVersion(NamedTuple):
    path: str
    version: int
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...

class Transaction(NamedTuple):
    operations: Sequence[_Operation]
    type: ClassVar[int] = ...
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> list[str | bool | ZnodeStat | ZookeeperError]: ...
    @staticmethod
    def unchroot(client: KazooClient, response: list[Any]) -> list[Any]: ...

class Auth(NamedTuple):
    auth_type: int
    scheme: str
    auth: str
    type: ClassVar[int] = ...
    def serialize(self) -> bytes: ...

class Watch(NamedTuple):
    type: int
    state: int
    path: str
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[Watch, int]: ...

class ReplyHeader(NamedTuple):
    xid: int
    zxid: int
    err: int
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[ReplyHeader, int]: ...

class MultiHeader(NamedTuple):
    type: int | None
    done: bool
    err: int
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[MultiHeader, int]: ...
