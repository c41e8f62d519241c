"""
Fixtures for the conformance tests: both kinds of server, and coordinators that end before the znodes are deleted.

A test runs on the servers that ``pytest.mark.servers(...)`` names, its own mark before its module's; on a real one only
if nothing is said. What takes processes of its own, or counts what crosses the wire, needs only one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.loops import Run, loops
from tests.support.zookeeper import NoZooKeeperError, ZooKeeperServer, is_real_required
from zkcoord import Coordinator
from zkcoord.server import EmbeddedServer
from zkcoord.testing.loops import run as run_checked

MakeCoordinator = Callable[..., Coordinator]
RunScript = Callable[..., str]

ROOT = Path(__file__).parents[2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("servers")
    if mark is not None and "hosts" in metafunc.fixturenames:
        metafunc.parametrize("hosts", mark.args, indirect=True)


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[EmbeddedServer]:
    """One embedded server for the whole run."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> str:
    """The connection string of the server that the test runs on, "embedded" or "real"."""
    is_embedded = getattr(request, "param", "real") == "embedded"
    server = request.getfixturevalue("embedded_server" if is_embedded else "zookeeper")
    connection: str = server.hosts
    return connection


@pytest.fixture
def make_coordinator(hosts: str, root: str) -> Iterator[MakeCoordinator]:
    """``make_coordinator(hosts=None, **Coordinator_arguments)``; each is closed after the test."""
    made: list[Coordinator] = []

    def make(where: str | None = None, **arguments: Any) -> Coordinator:
        if "kazoo" not in arguments:
            arguments["hosts"] = where or hosts
        coordinator = Coordinator(**arguments)
        made.append(coordinator)
        return coordinator

    yield make
    for coordinator in made:
        coordinator.close()


@pytest.fixture
def coordinator(make_coordinator: MakeCoordinator) -> Coordinator:
    """A coordinator on the test's server, with the default ten seconds of session timeout."""
    return make_coordinator()


@pytest.fixture
def path(root: str) -> str:
    """A lock's path that no other test uses."""
    return f"{root}/lock"


@pytest.fixture
def run_script(hosts: str, root: str) -> RunScript:
    """
    ``run_script(source, timeout=60, **environment)``: run Python source in a process of its own; returns its stdout.

    The script finds ``HOSTS`` and ``ROOT`` defined. Anything but exit code 0 fails the test with its stderr.
    """

    def run(source: str, *, timeout: float = 60.0, where: str = hosts, **environment: str) -> str:
        head = f"HOSTS, ROOT = {where!r}, {root!r}\n"
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-c", head + source],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=ROOT,
            env={**os.environ, **environment},
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout

    return run


@pytest.fixture(params=loops())
def run(request: pytest.FixtureRequest) -> Run:
    """``run(coroutine)`` in debug mode, on each kind of loop there is; nothing may be left behind."""
    return lambda main: run_checked(main, loop_factory=request.param)


@pytest.fixture
def container_server() -> Iterator[ZooKeeperServer]:
    """A real server that removes empty containers every few milliseconds instead of every minute."""
    server = ZooKeeperServer(container_check_ms=20, java_options=("-Dznode.container.maxPerMinute=600000",))
    try:
        server.start()
    except NoZooKeeperError as error:
        if is_real_required():
            pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {error}", pytrace=False)
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def reaping_hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    """The connection string of a server of either kind that removes empty containers every few milliseconds."""
    if request.param == "real":
        yield request.getfixturevalue("container_server").hosts
        return
    with EmbeddedServer(container_check_interval=0.02) as server:
        yield server.hosts
