"""
Numbers of the client protocol: operations, error codes, events, modes.

Source: ZooKeeper 3.8, ``ZooDefs.OpCode``, ``KeeperException.Code``, ``Watcher``, ``CreateMode``.
"""

from enum import IntEnum


class Op(IntEnum):
    """Operations, as a request's header names them."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    ERROR = -1
    CREATE_SESSION = -10
    CLOSE_SESSION = -11


# As ZooKeeper spells them, for people: in fault rules, in four-letter words, in logs.
OP_NAMES: dict[int, str] = {
    Op.CREATE: "create",
    Op.DELETE: "delete",
    Op.EXISTS: "exists",
    Op.GET_DATA: "getData",
    Op.SET_DATA: "setData",
    Op.GET_ACL: "getACL",
    Op.SET_ACL: "setACL",
    Op.GET_CHILDREN: "getChildren",
    Op.SYNC: "sync",
    Op.PING: "ping",
    Op.GET_CHILDREN2: "getChildren2",
    Op.CHECK: "check",
    Op.MULTI: "multi",
    Op.CREATE2: "create2",
    Op.RECONFIG: "reconfig",
    Op.CHECK_WATCHES: "checkWatches",
    Op.REMOVE_WATCHES: "removeWatches",
    Op.CREATE_CONTAINER: "createContainer",
    Op.DELETE_CONTAINER: "deleteContainer",
    Op.CREATE_TTL: "createTTL",
    Op.MULTI_READ: "multiRead",
    Op.AUTH: "auth",
    Op.SET_WATCHES: "setWatches",
    Op.SASL: "sasl",
    Op.GET_EPHEMERALS: "getEphemerals",
    Op.GET_ALL_CHILDREN_NUMBER: "getAllChildrenNumber",
    Op.SET_WATCHES2: "setWatches2",
    Op.ADD_WATCH: "addWatch",
    Op.WHO_AM_I: "whoAmI",
    Op.CREATE_SESSION: "connect",
    Op.CLOSE_SESSION: "closeSession",
}


class Code(IntEnum):
    """Error codes in reply headers and in the results of a multi."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NO_WATCHER = -121
    RECONFIG_DISABLED = -123


class EventType(IntEnum):
    """What a watch event says."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatcherType(IntEnum):
    """Which watches checkWatches and removeWatches mean."""

    CHILDREN = 1
    DATA = 2
    ANY = 3


class Perm:
    """Permission bits of an ACL."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


#: Only state a server ever reports in a watch event.
SYNC_CONNECTED = 3

NOTIFICATION_XID = -1
PING_XID = -2


class OperationError(Exception):
    """A request the server refuses; the code goes to the client."""

    def __init__(self, code: Code) -> None:
        self.code = code
        super().__init__(code.name)
