"""Where a cell is played: a server with a path of its own, a line to it for the victim, and a client to look at it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from tests.fault.matrix.line import EmbeddedLine, Line, ProxiedLine
from tests.fault.matrix.points import FOREIGN
from tests.support.faults import members
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from tests.support.zookeeper import first_address, four_letter
from zkcoord.server import EmbeddedServer

#: Short, so that sessions end soon after their time.
TICK_S = 0.1

#: For the client that looks: it must not expire on a busy machine.
ADMIN_SESSION_S = 30.0


@dataclass(frozen=True)
class Theatre:
    """
    See the module.

    Attributes:
        hosts: the server itself.
        root: above everything of this cell; it exists.
        is_shared: others use the server as well.
    """

    hosts: str
    root: str
    admin: KazooClient
    line: Line
    is_shared: bool = False

    def own_members(self, directory: str) -> list[str]:
        """Return the victim's members, oldest first."""
        return [name for name in members(self.admin, directory) if not name.startswith(FOREIGN)]

    def sessions(self) -> set[int]:
        """Return the server's live sessions."""
        dump = four_letter(*first_address(self.hosts), "dump").partition("ephemeral nodes dump:")[0]
        return {int(line, 16) for line in dump.splitlines() if line.strip().startswith("0x")}

    def requests_of(self, session: int | None) -> int:
        """Return how many requests have come on a session's connection."""
        lines = four_letter(*first_address(self.hosts), "cons").splitlines()
        return sum(
            int(line.partition("recved=")[2].partition(",")[0])
            for line in lines
            if f"sid=0x{session or 0:x}," in line
        )

    def watched(self) -> list[str]:
        """Return this cell's paths that the server keeps data watches on."""
        return [
            line
            for line in four_letter(*first_address(self.hosts), "wchp").splitlines()
            if line.startswith(self.root)
        ]


def delete_tree(client: KazooClient, path: str) -> None:
    """Delete a directory and all in it, however often something new comes in between."""
    while True:
        try:
            client.delete(path, recursive=True)
        except NotEmptyError:
            continue
        except NoNodeError:
            pass
        return


def delete_at_once(client: KazooClient, path: str) -> None:
    """Delete a directory and its members in one transaction: nobody sees some of them gone and others not."""

    def is_deleted() -> bool:
        transaction = client.transaction()
        for name in client.get_children(path):
            transaction.delete(f"{path}/{name}")
        transaction.delete(path)
        return not any(isinstance(result, Exception) for result in transaction.commit())

    wait_until(is_deleted)


Session = Callable[[], int | None]


@contextmanager
def embedded(session: Session) -> Iterator[Theatre]:
    """On an embedded server of its own."""
    server = EmbeddedServer(tick_time=TICK_S, max_session_timeout=ADMIN_SESSION_S)
    with server, _admin(server.hosts) as admin:
        root = "/matrix"
        admin.create(root)
        yield Theatre(server.hosts, root, admin, EmbeddedLine(server, session))


@contextmanager
def proxied(hosts: str) -> Iterator[Theatre]:
    """Through a proxy of its own on a server that others use too."""
    with FaultProxy(*first_address(hosts)) as proxy, _admin(hosts) as admin:
        root = f"/matrix-{uuid.uuid4().hex[:12]}"
        admin.create(root)
        try:
            yield Theatre(hosts, root, admin, ProxiedLine(proxy, hosts), is_shared=True)
        finally:
            for path in (root, f"{root}-warm-up", f"{root}-fork"):
                delete_tree(admin, path)


@contextmanager
def _admin(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts, timeout=ADMIN_SESSION_S)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()
