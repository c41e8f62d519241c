"""The pytest plugin: a ZooKeeper for tests, and what one does to it. See `zkcoord.testing`."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from zkcoord.coordinator import Coordinator
from zkcoord.server import EmbeddedServer, Faults
from zkcoord.testing.find import ExternalServer, find_zookeeper, is_real_required
from zkcoord.testing.loops import run
from zkcoord.testing.probe import NoZooKeeperError, Server, ServerStartError
from zkcoord.testing.sessions import expire

#: Seconds that a client may take to connect.
_CONNECT_S = 15.0

#: Tries to remove a test's nodes, while sessions that are dying still take theirs away.
_REMOVE_TRIES = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--zk-server``."""
    parser.getgroup("zkcoord").addoption(
        "--zk-server",
        default="embedded",
        metavar="embedded|real|HOST:PORT",
        help="the ZooKeeper of the zk_* fixtures: embedded (default; in memory, in this process), real (a container or"
        " an installed one, started for the run), or servers that run already",
    )


@pytest.fixture(scope="session")
def zk_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer | Server]:
    """The ZooKeeper of this run, started; has at least ``hosts``. Which one it is, ``--zk-server`` says."""
    choice = request.config.getoption("--zk-server")
    if choice == "embedded":
        with EmbeddedServer() as embedded:
            yield embedded
        return
    problem = ""
    try:
        server = find_zookeeper() if choice == "real" else ExternalServer(choice, "--zk-server")
        server.start()
    except (NoZooKeeperError, ServerStartError) as error:
        problem = str(error)
    if problem and (is_real_required() or choice != "real"):
        pytest.fail(problem, pytrace=False)
    if problem:
        pytest.skip(problem)
    yield server
    server.stop()


@pytest.fixture
def zk_hosts(zk_server: EmbeddedServer | Server) -> Iterator[str]:
    """The connection string, with a chroot that only this test uses; empty at first, removed afterwards."""
    root = f"/test-{uuid.uuid4().hex[:12]}"
    hosts = zk_server.hosts.partition("/")[0]
    admin = KazooClient(hosts)
    admin.start(timeout=_CONNECT_S)
    try:
        admin.create(root, b"")
        yield hosts + root
        _remove(admin, root)
    finally:
        admin.stop()
        admin.close()


@pytest.fixture
def zk_client(zk_hosts: str) -> Iterator[KazooClient]:
    """A started KazooClient for ``zk_hosts``; stopped and closed after the test."""
    client = KazooClient(zk_hosts)
    client.start(timeout=_CONNECT_S)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def zk_coordinator(zk_hosts: str) -> Iterator[Coordinator]:
    """A `Coordinator` for ``zk_hosts``, for locks of threads and of tasks alike; closed after the test."""
    with Coordinator(zk_hosts) as coordinator:
        yield coordinator


@pytest.fixture
def zk_run() -> Callable[..., Any]:
    """``zk_run(coroutine, timeout=60)``: run it in a new loop in debug mode; what it leaves behind is an error."""
    return run


@pytest.fixture
def expire_session() -> Callable[[KazooClient], None]:
    """``expire_session(client)``: end the session of a connected client on the server, as its expiry would."""
    return expire


@pytest.fixture
def zk_faults(zk_server: EmbeddedServer | Server) -> Iterator[Faults]:
    """The faults of the embedded server, all of them ended after the test. With another server the test is skipped."""
    if not isinstance(zk_server, EmbeddedServer):
        pytest.skip("faults need the embedded server: leave --zk-server at its default")
    faults = _Faults(zk_server.faults)
    yield faults
    faults.remove_all()


class _Faults(Faults):
    """Faults that know which of them are in force."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults._install, faults._remove)
        self._added: list[Any] = []

    def add(self, rule: Any) -> Any:
        fault = super().add(rule)
        self._added.append(fault)
        return fault

    def remove_all(self) -> None:
        while self._added:
            self._added.pop().remove()


def _remove(client: KazooClient, root: str) -> None:
    for _ in range(_REMOVE_TRIES):
        try:
            client.delete(root, recursive=True)
        except NoNodeError:
            return
        except NotEmptyError:
            continue
        return
