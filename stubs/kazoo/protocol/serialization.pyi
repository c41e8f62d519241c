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

# As in kazoo: each request is a subclass of its named tuple, which cannot hold the class variable itself.
class _Close(NamedTuple): ...

class Close(_Close):
    type: ClassVar[int]
    @classmethod
    def serialize(cls) -> bytes: ...

class _Ping(NamedTuple): ...

class Ping(_Ping):
    type: ClassVar[int]
    @classmethod
    def serialize(cls) -> bytes: ...

CloseInstance: Close
PingInstance: Ping

class _Connect(NamedTuple):
    protocol_version: int
    last_zxid_seen: int
    time_out: int
    session_id: int
    passwd: bytes
    read_only: bool | None

class Connect(_Connect):
    type: ClassVar[None]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[Connect, int]: ...

class _Create(NamedTuple):
    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int

class Create(_Create):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> str: ...

class _Create2(NamedTuple):
    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int

class Create2(_Create2):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[str, ZnodeStat]: ...

class _Delete(NamedTuple):
    path: str
    version: int

class Delete(_Delete):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> bool: ...

class _Exists(NamedTuple):
    path: str
    watcher: _Watcher | None

class Exists(_Exists):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> ZnodeStat | None: ...

class _GetData(NamedTuple):
    path: str
    watcher: _Watcher | None

class GetData(_GetData):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[bytes | None, ZnodeStat]: ...

class _SetData(NamedTuple):
    path: str
    data: bytes | None
    version: int

class SetData(_SetData):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> ZnodeStat: ...

class _GetACL(NamedTuple):
    path: str

class GetACL(_GetACL):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[list[ACL], ZnodeStat]: ...

class _GetChildren(NamedTuple):
    path: str
    watcher: _Watcher | None

class GetChildren(_GetChildren):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> list[str]: ...

class _GetChildren2(NamedTuple):
    path: str
    watcher: _Watcher | None

class GetChildren2(_GetChildren2):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> tuple[list[str], ZnodeStat]: ...

class _Sync(NamedTuple):
    path: str

class Sync(_Sync):
    type: ClassVar[int]
    def serialize(self) -> bytes: ...
    @classmethod
    def deserialize(cls, buffer: _Bytes, offset: int) -> str: ...

class _CheckVersion(NamedTuple):
    path: str
    version: int

class CheckVersion(_CheckVersion):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...

class _Transaction(NamedTuple):
    operations: Sequence[_Operation]

class Transaction(_Transaction):
    type: ClassVar[int]
    def serialize(self) -> bytearray: ...
    @classmethod
    def deserialize(cls, bytes: _Bytes, offset: int) -> list[str | bool | ZnodeStat | ZookeeperError]: ...
    @staticmethod
    def unchroot(client: KazooClient, response: list[Any]) -> list[Any]: ...

class _Auth(NamedTuple):
    auth_type: int
    scheme: str
    auth: str

class Auth(_Auth):
    type: ClassVar[int]
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
