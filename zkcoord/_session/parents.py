"""
Making a lock's directory and what is missing above it.

Directories are container nodes, which the server removes once they have been empty for a while, so that a million
one-shot locks leave nothing. Servers before 3.5.1 get persistent nodes. A missing chroot is made too, persistent: it is
the application's root, not ours.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, UnimplementedError
from kazoo.protocol.serialization import Create
from kazoo.security import ACL

from zkcoord._core.paths import parent
from zkcoord._session.requests import Requests
from zkcoord._session.wire import CreateContainer

#: Called once: None when the directory exists (or did a moment ago), else what stood in the way.
OnMade = Callable[[Exception | None], None]


class Parents:
    """Makes directories through one client. Thread-safe; never blocks."""

    def __init__(self, client: KazooClient, requests: Requests) -> None:
        self._client = client
        self._requests = requests
        self._has_containers = True

    def make(self, directory: str, acl: Sequence[ACL], on_made: OnMade, *, data: bytes | None = None) -> None:
        """Make a directory (below the chroot) and its missing ancestors; a persistent one when it is given data."""
        chroot: str = self._client.chroot or ""
        self._make(chroot + directory, len(chroot), acl, on_made, data)

    def _make(
        self, path: str, chroot_length: int, acl: Sequence[ACL], on_made: OnMade, data: bytes | None = None
    ) -> None:
        """Try the directory first; only a missing parent costs more than one request."""

        def answered(value: Any, error: Exception | None) -> None:
            if error is None or isinstance(error, NodeExistsError):
                on_made(None)
            elif isinstance(error, UnimplementedError) and self._has_containers:
                self._has_containers = False
                self._make(path, chroot_length, acl, on_made, data)
            elif isinstance(error, NoNodeError) and parent(path) != "/":
                self._make(parent(path), chroot_length, acl, parent_made)
            else:
                on_made(error)

        def parent_made(error: Exception | None) -> None:
            if error is None:
                self._make(path, chroot_length, acl, on_made, data)
            else:
                on_made(error)

        is_ours = len(path) > chroot_length
        request: Any = (
            CreateContainer(path, b"", list(acl))
            if is_ours and self._has_containers and data is None
            else Create(path, data or b"", list(acl), 0)
        )
        self._requests.submit(request, answered, is_confirmed=True)
