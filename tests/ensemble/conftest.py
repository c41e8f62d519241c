"""Three real servers. They are ours to kill and to stop, so only an installed ZooKeeper will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.ensemble import Ensemble
from tests.support.zookeeper import (
    NoZooKeeperError,
    ServerStartError,
    find_classpath,
    find_java,
    is_real_required,
)


@contextmanager
def started(*, tick_time_ms: int, sync_limit: int) -> Iterator[Ensemble]:
    """An ensemble, or the reason why there is none: a skip, or a failure where a real ZooKeeper is required."""
    ensemble = Ensemble(tick_time_ms=tick_time_ms, sync_limit=sync_limit)
    problem = ""
    try:
        ensemble.start()
    except (NoZooKeeperError, ServerStartError) as error:
        problem = f"an ensemble needs an installed ZooKeeper, not a container or somebody else's: {error}"
    if problem and is_real_required() and (find_java() is None or find_classpath() is None):
        pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {problem}", pytrace=False)
    if problem:
        pytest.skip(problem)
    try:
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture(scope="module")
def slow_ensemble() -> Iterator[Ensemble]:
    """
    With the usual tick of 2 s, which the deadline rule has to bridge, and sessions from 4 s.

    A follower that is cut off goes on serving reads for 20 s, longer than any session here.
    """
    with started(tick_time_ms=2000, sync_limit=10) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def quick_ensemble() -> Iterator[Ensemble]:
    """With a tick of half a second: servers notice the silence of another one within 2 s."""
    with started(tick_time_ms=500, sync_limit=4) as ensemble:
        yield ensemble
