"""Fixtures for all tests: a real ZooKeeper, clients that are cleaned up, a fault proxy, a check for leaked threads."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError
from kazoo.protocol.connection import ConnectionHandler

import zkcoord
from tests.support.fronts import IS_FULL, Front, Tasks, of_threads, stand_ins
from tests.support.proxy import FaultProxy
from tests.support.zookeeper import (
    NoZooKeeperError,
    Server,
    ServerStartError,
    ZooKeeperServer,
    find_zookeeper,
    first_address,
    is_real_required,
)

REAL_FIXTURES = frozenset({"zookeeper", "hosts", "zk", "root", "make_client", "proxy"})

# kazoo's and a pool's threads end a moment after their owner's stop() returns.
THREAD_END_S = 5.0

HAS_FAILED = pytest.StashKey[bool]()

MakeClient = Callable[..., KazooClient]


def pytest_configure() -> None:
    # A run that was started in the background ignores Ctrl-C, and under nohup the end of its terminal; so would all its
    # children.
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("fronts")
    if mark is not None:
        metafunc.parametrize("front", mark.args, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not _is_left_out(item)]
    for item in items:
        is_embedded = isinstance(item, pytest.Function) and "embedded" == _parameter(item, "hosts")
        if REAL_FIXTURES & set(getattr(item, "fixturenames", ())) and not is_embedded:
            item.add_marker("real")


def _is_left_out(item: pytest.Item) -> bool:
    """Whether it is not to be run on asyncio: the embedded server will do, and what is slow is for the full run."""
    mark = item.get_closest_marker("fronts")
    if not isinstance(item, pytest.Function) or mark is None or "asyncio" != _parameter(item, "front"):
        return False
    if "run_script" in item.fixturenames:
        return True  # another process, which knows of no front end
    is_real = "real" == _parameter(item, "hosts") and not mark.kwargs.get("real")
    return not IS_FULL and (is_real or bool(mark.kwargs.get("slow")))


def _parameter(item: pytest.Function, name: str) -> object:
    return item.callspec.params.get(name) if hasattr(item, "callspec") else None


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[Server]:
    """A real ZooKeeper, one for the whole run. Tests that stop or pause a server take ``own_zookeeper``."""
    try:
        server = find_zookeeper()
        server.start()
    except (NoZooKeeperError, ServerStartError) as error:
        if is_real_required():
            pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {error}", pytrace=False)
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def own_zookeeper() -> Iterator[ZooKeeperServer]:
    """A real server of the test's own, to pause, kill or restart. Needs an installed ZooKeeper."""
    yield from own_server(ZooKeeperServer())


def own_server(server: ZooKeeperServer) -> Iterator[ZooKeeperServer]:
    """Start an installed server for a fixture, and stop it afterwards; skip where there is none."""
    try:
        server.start()
    except NoZooKeeperError as error:
        if is_real_required():
            pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {error}", pytrace=False)
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def front(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """
    The front end under test: that of threads, or of asyncio if ``pytest.mark.fronts`` says so.

    During the test the module's own ``ZkLock`` and so on are those of the front end; helpers take its `locks`.
    """
    if "asyncio" != getattr(request, "param", "threads"):
        yield Front("threads", of_threads())
        return
    with Tasks() as tasks:
        locks = stand_ins(tasks)
        for name, make in locks.items():
            if getattr(request.module, name, None) is getattr(zkcoord, name):
                monkeypatch.setattr(request.module, name, make)
        yield Front("asyncio", locks)
    if not request.node.stash.get(HAS_FAILED, False):
        assert tasks.made, "the test has made no lock of asyncio: pytest.mark.fronts('threads')"


@pytest.fixture
def hosts(zookeeper: Server) -> str:
    """The connection string of the real ZooKeeper."""
    return zookeeper.hosts


@pytest.fixture
def make_client(hosts: str) -> Iterator[MakeClient]:
    """``make_client(start=True, **KazooClient_arguments)``: clients that are stopped and closed afterwards."""
    clients: list[KazooClient] = []

    def make(*, start: bool = True, **arguments: Any) -> KazooClient:
        client = KazooClient(**{"hosts": hosts, "timeout": 10.0, **arguments})
        clients.append(client)
        if start:
            client.start(timeout=20)
        return client

    yield make
    for client in clients:
        client.stop()
        client.close()


@pytest.fixture
def root(hosts: str) -> Iterator[str]:
    """A path that no other test uses; not created, deleted with all below it afterwards."""
    path = f"/zkcoord-test-{uuid.uuid4().hex[:12]}"
    yield path
    client = KazooClient(hosts, timeout=10.0)
    client.start(timeout=20)
    try:
        _delete_tree(client, path)
    finally:
        client.stop()
        client.close()


@pytest.fixture
def zk(make_client: MakeClient, root: str) -> KazooClient:
    """A started plain client to look at the server with."""
    return make_client()


@pytest.fixture
def proxy(hosts: str) -> Iterator[FaultProxy]:
    """A fault proxy in front of the real ZooKeeper, passing everything at first."""
    with FaultProxy(*first_address(hosts)) as fault_proxy:
        yield fault_proxy


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _no_leaked_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves non-daemon threads behind: they would keep a user's process from ending."""
    before = set(threading.enumerate())
    yield
    if request.node.stash.get(HAS_FAILED, False):
        _stop_clients(set(threading.enumerate()) - before)
    deadline = time.monotonic() + THREAD_END_S
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
    leaked = [t for t in threading.enumerate() if t not in before and not t.daemon and t.is_alive()]
    assert [] == leaked


def _stop_clients(threads: set[threading.Thread]) -> None:
    """Stop the clients whose threads these are: they would go on reconnecting beside all later tests."""
    for thread in threads:
        owner = getattr(getattr(thread, "_target", None), "__self__", None)
        if isinstance(owner, ConnectionHandler):
            owner.client.stop()


def _delete_tree(client: KazooClient, path: str) -> None:
    # Ephemeral nodes of dying sessions come and go while we delete: try again, a bounded number of times.
    for _ in range(20):
        try:
            client.delete(path, recursive=True)
        except NoNodeError:
            return
        except NotEmptyError as error:  # a client of the test is still busy
            last = error
        else:
            return
    raise AssertionError(f"{path} could not be deleted after the test") from last
