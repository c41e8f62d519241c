"""Requests that kazoo lacks, their limits, and paths under the client's chroot."""

from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.protocol.serialization import CheckVersion, Create2, Transaction, int_struct, write_string
from kazoo.security import ACL

EPHEMERAL = 1
EPHEMERAL_SEQUENTIAL = 3
_CONTAINER = 4
_WATCHER_TYPE_DATA = 2

#: Requests longer than this are refused by servers with the usual ``jute.maxbuffer``, header included.
USUAL_REQUEST_BYTES = 1_048_575


class CreateContainer(NamedTuple):
    """Create a node that the server removes once its last child is gone (``OpCode.createContainer``, 3.5.1)."""

    path: str
    data: bytes
    acl: list[ACL]

    @property
    def type(self) -> int:
        """The operation's number."""
        return 19

    def serialize(self) -> bytes:
        """The same record as Create2, with the container flag."""
        return bytes(Create2(self.path, self.data, self.acl, _CONTAINER).serialize())

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> object:
        """The reply has the shape of Create2's."""
        return Create2.deserialize(data, offset)


class RemoveWatches(NamedTuple):
    """Take back this session's data watch on a path (``OpCode.removeWatches``, type Data)."""

    path: str

    @property
    def type(self) -> int:
        """The operation's number."""
        return 18

    def serialize(self) -> bytes:
        """Path and watcher type."""
        return write_string(self.path) + int_struct.pack(_WATCHER_TYPE_DATA)

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        """The reply is empty."""
        return True


def catch_up(client: KazooClient) -> Transaction:
    """
    Return a request after whose answer the server knows everything that was committed before.

    A check of the root, which changes nothing and goes through the leader's quorum, whatever it answers. Not a
    ``sync``: a leader that the others have deserted answers that by itself until it notices, and knows nothing new.
    """
    return Transaction([CheckVersion(full_path(client, "/"), -1)])


def full_path(client: KazooClient, path: str) -> str:
    """Return a path as the server knows it."""
    chroot: str = client.chroot or ""
    return f"{chroot}{path}" if path != "/" else (chroot or "/")
