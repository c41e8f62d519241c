"""
What a write becomes once the leader has checked it: facts that can be applied to any copy of the tree.

A transaction never fails when it is applied. A refused request is a transaction too (`Failed`): it uses up a zxid.
"""

from dataclasses import dataclass

from zkcoord.server.codes import Code
from zkcoord.server.records import ACL, Stat

#: Ephemeral owner of a container, as the tree keeps it; clients see 0.
CONTAINER_OWNER = -0x8000000000000000
#: The ephemeral owner of a TTL node is this plus its time to live in milliseconds; clients see 0.
TTL_OWNER = -0x0100000000000000
MAX_TTL_MS = 0xFFFFFFFFFF


def is_session(owner: int) -> bool:
    """Whether an ephemeral owner is a session: neither nobody, nor a mark of containers or TTL nodes."""
    return owner != 0 and owner != CONTAINER_OWNER and not TTL_OWNER <= owner < 0


@dataclass(frozen=True, slots=True)
class CreateNode:
    """
    Create a node.

    Attributes:
        owner: the ephemeral owner, 0 for none.
        parent_cversion: the parent's count of creates from now on.
        op: the operation that asked for it, which decides how the reply looks.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int
    parent_cversion: int
    op: int


@dataclass(frozen=True, slots=True)
class DeleteNode:
    path: str


@dataclass(frozen=True, slots=True)
class SetNodeData:
    """Set a node's data; ``version`` is the new one."""

    path: str
    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class SetNodeACL:
    """Set a node's ACL; ``aversion`` is the new one."""

    path: str
    acl: tuple[ACL, ...]
    aversion: int


@dataclass(frozen=True, slots=True)
class CheckNode:
    """Nothing: the check was the leader's."""

    path: str


@dataclass(frozen=True, slots=True)
class OpenSession:
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class EndSession:
    """Delete all ephemeral nodes of the transaction's session."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing: the request was refused."""

    code: Code


NodeChange = CreateNode | DeleteNode | SetNodeData | SetNodeACL | CheckNode | Failed


@dataclass(frozen=True, slots=True)
class Multi:
    """Either all changes, or nothing but `Failed`, one for each operation."""

    changes: tuple[NodeChange, ...]


Change = NodeChange | OpenSession | EndSession | Multi


@dataclass(frozen=True, slots=True)
class Transaction:
    """
    One place in the total order.

    Attributes:
        zxid: its number.
        session: who asked for it; 0 for the server itself.
        time_ms: the leader's clock, which becomes ctime and mtime.
        change: what to do.
    """

    zxid: int
    session: int
    time_ms: int
    change: Change


@dataclass(frozen=True, slots=True)
class Result:
    """What applying one change gave: enough for the reply."""

    op: int
    error: int = 0
    path: str | None = None
    stat: Stat | None = None
    results: tuple["Result", ...] = ()
