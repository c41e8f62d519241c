"""Fixtures for the suite that runs on the embedded server and on a real one, with the same expectations."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.zk_raw import TICK_S, ClosedError, Connect, RawClient, create
from tests.support.zookeeper import NoZooKeeperError, ZooKeeperServer, is_real_required
from zkcoord.server import EmbeddedServer
from zkcoord.server.codes import Code, Op

CONTAINER_CHECK_S = 0.5


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "embedded":
        with EmbeddedServer(tick_time=TICK_S, container_check_interval=CONTAINER_CHECK_S) as embedded:
            yield embedded
        return
    real = ZooKeeperServer(tick_time_ms=int(TICK_S * 1000), container_check_ms=int(CONTAINER_CHECK_S * 1000))
    try:
        real.start()
    except NoZooKeeperError as error:
        if is_real_required():
            pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {error}", pytrace=False)
        pytest.skip(str(error))
    yield real
    real.stop()


@pytest.fixture
def connect(server: Any) -> Iterator[Connect]:
    """``connect(**RawClient_arguments)``: clients whose sessions are ended after the test."""
    clients: list[RawClient] = []

    def make(**arguments: Any) -> RawClient:
        clients.append(RawClient(server.hosts, **arguments))
        return clients[-1]

    yield make
    for client in clients:
        try:
            client.close_session()
        except (ClosedError, OSError):
            client.close()


@pytest.fixture
def client(connect: Connect) -> RawClient:
    return connect()


@pytest.fixture
def base(client: RawClient) -> str:
    """A node of the test's own."""
    path = f"/protocol-{uuid.uuid4().hex[:8]}"
    assert client.call(Op.CREATE, create(path)).error == Code.OK
    return path
