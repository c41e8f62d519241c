"""Fixtures for faults: coordinators that are closed afterwards, directly or through the proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.proxy import FaultProxy
from zkcoord import Coordinator, ZkLock

#: Session time asked for: long enough for every bound to be told from the next, short enough to be waited for.
SESSION_S = 6.0

MakeCoordinator = Callable[..., Coordinator]


@pytest.fixture
def make_coordinator(hosts: str) -> Iterator[MakeCoordinator]:
    """``make_coordinator(**arguments)``: coordinators that are closed afterwards."""
    made: list[Coordinator] = []

    def make(**arguments: Any) -> Coordinator:
        if "kazoo" not in arguments:
            arguments = {"hosts": hosts, "session_timeout": SESSION_S, **arguments}
        coordinator = Coordinator(**arguments)
        made.append(coordinator)
        return coordinator

    yield make
    for coordinator in made:
        coordinator.close()


@pytest.fixture
def direct(make_coordinator: MakeCoordinator) -> Coordinator:
    """A coordinator that no fault touches."""
    return make_coordinator()


@pytest.fixture
def proxied(make_coordinator: MakeCoordinator, proxy: FaultProxy, root: str) -> Iterator[Coordinator]:
    """A coordinator behind the proxy, connected and with the parents of `root` made; the proxy is mended at the end."""
    coordinator = make_coordinator(hosts=proxy.hosts)
    with ZkLock(f"{root}/warm-up", client=coordinator, timeout=10.0):
        pass
    yield coordinator
    proxy.clear()
    proxy.restore()
