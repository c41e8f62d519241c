"""
The records of the client port.

Source: ZooKeeper 3.8, ``zookeeper.jute`` (modules data and proto).
"""

from typing import NamedTuple

from zkcoord.server.wire import (
    BOOL,
    BUFFER,
    INT,
    LONG,
    NULLABLE_TEXT,
    TEXT,
    layout,
    nested,
    vector,
)


@layout(NULLABLE_TEXT, NULLABLE_TEXT)
class Id(NamedTuple):
    """Who an ACL entry is for, or who a client is: for instance ``digest`` and ``user:base64``."""

    scheme: str | None
    id: str | None


@layout(INT, nested(Id))
class ACL(NamedTuple):
    """Permission bits for one id."""

    perms: int
    id: Id


@layout(LONG, LONG, LONG, LONG, INT, INT, INT, LONG, INT, INT, LONG)
class Stat(NamedTuple):
    """What clients see of a znode besides its data."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


@layout(NULLABLE_TEXT, NULLABLE_TEXT)
class ClientInfo(NamedTuple):
    """One line of whoAmI's answer."""

    auth_scheme: str | None
    user: str | None


# --- headers -----------------------------------------------------------------------------------------------------


@layout(INT, INT)
class RequestHeader(NamedTuple):
    xid: int
    op: int


@layout(INT, LONG, INT)
class ReplyHeader(NamedTuple):
    xid: int
    zxid: int
    error: int


@layout(INT, BOOL, INT)
class MultiHeader(NamedTuple):
    op: int
    done: bool
    error: int


@layout(INT, LONG, INT, LONG, BUFFER)
class ConnectRequest(NamedTuple):
    """The first frame of a connection. A byte ``readOnly`` may follow it; old clients leave it out."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None


@layout(INT, INT, LONG, BUFFER)
class ConnectResponse(NamedTuple):
    """Session id 0 and timeout 0 mean that the session is gone."""

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes


# --- requests ----------------------------------------------------------------------------------------------------


@layout(INT, NULLABLE_TEXT, BUFFER)
class AuthPacket(NamedTuple):
    type: int
    scheme: str | None
    auth: bytes | None


@layout(BUFFER)
class SaslRequest(NamedTuple):
    token: bytes | None


@layout(BUFFER)
class SaslResponse(NamedTuple):
    token: bytes | None


@layout(TEXT, BUFFER, vector(nested(ACL)), INT)
class CreateRequest(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    flags: int


@layout(TEXT, BUFFER, vector(nested(ACL)), INT, LONG)
class CreateTTLRequest(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    flags: int
    ttl_ms: int


@layout(TEXT, INT)
class PathVersionRequest(NamedTuple):
    """delete and check."""

    path: str
    version: int


@layout(TEXT, BUFFER, INT)
class SetDataRequest(NamedTuple):
    path: str
    data: bytes | None
    version: int


@layout(TEXT, vector(nested(ACL)), INT)
class SetACLRequest(NamedTuple):
    path: str
    acl: tuple[ACL, ...]
    version: int


@layout(TEXT, BOOL)
class PathWatchRequest(NamedTuple):
    """exists, getData, getChildren, getChildren2."""

    path: str
    watch: bool


@layout(TEXT)
class PathRequest(NamedTuple):
    """getACL and getAllChildrenNumber."""

    path: str


@layout(NULLABLE_TEXT)
class NullablePathRequest(NamedTuple):
    """sync and getEphemerals, which take null too."""

    path: str | None


@layout(TEXT, INT)
class PathTypeRequest(NamedTuple):
    """addWatch (a mode), checkWatches and removeWatches (a watcher type)."""

    path: str
    type: int


@layout(LONG, vector(TEXT), vector(TEXT), vector(TEXT))
class SetWatchesRequest(NamedTuple):
    relative_zxid: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]


@layout(LONG, vector(TEXT), vector(TEXT), vector(TEXT), vector(TEXT), vector(TEXT))
class SetWatches2Request(NamedTuple):
    relative_zxid: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]
    persistent: tuple[str, ...]
    recursive: tuple[str, ...]


@layout(NULLABLE_TEXT, NULLABLE_TEXT, NULLABLE_TEXT, LONG)
class ReconfigRequest(NamedTuple):
    joining: str | None
    leaving: str | None
    members: str | None
    config_id: int


@layout()
class EmptyRequest(NamedTuple):
    """ping, whoAmI, closeSession."""


# --- replies -----------------------------------------------------------------------------------------------------


@layout(NULLABLE_TEXT)
class PathResponse(NamedTuple):
    """create and sync."""

    path: str | None


@layout(NULLABLE_TEXT, nested(Stat))
class Create2Response(NamedTuple):
    """create2, createContainer, createTTL."""

    path: str
    stat: Stat


@layout(nested(Stat))
class StatResponse(NamedTuple):
    """exists, setData, setACL."""

    stat: Stat


@layout(BUFFER, nested(Stat))
class GetDataResponse(NamedTuple):
    data: bytes | None
    stat: Stat


@layout(vector(nested(ACL)), nested(Stat))
class GetACLResponse(NamedTuple):
    acl: tuple[ACL, ...]
    stat: Stat


@layout(vector(TEXT))
class TextsResponse(NamedTuple):
    """getChildren and getEphemerals."""

    texts: tuple[str, ...]


@layout(vector(TEXT), nested(Stat))
class GetChildren2Response(NamedTuple):
    children: tuple[str, ...]
    stat: Stat


@layout(INT)
class IntResponse(NamedTuple):
    """getAllChildrenNumber (the number) and addWatch (an error code); an error within a multi."""

    value: int


@layout(vector(nested(ClientInfo)))
class WhoAmIResponse(NamedTuple):
    clients: tuple[ClientInfo, ...]


@layout(INT, INT, NULLABLE_TEXT)
class WatcherEvent(NamedTuple):
    type: int
    state: int
    path: str
