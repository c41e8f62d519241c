"""Three real servers. They are ours to kill and to stop, so only an installed ZooKeeper will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.ensemble import Ensemble
from tests.support.zookeeper import NoZooKeeperError, ServerStartError, find_zookeeper, is_real_required


@contextmanager
def started(*, tick_time_ms: int, sync_limit: int) -> Iterator[Ensemble]:
    """
    An ensemble, or the reason why there is none.

    That is a skip where another real ZooKeeper is in use (a container, somebody else's servers), or none is required.
    """
    ensemble = Ensemble(tick_time_ms=tick_time_ms, sync_limit=sync_limit)
    problem, is_fatal = "", is_real_required()
    try:
        ensemble.start()
    except NoZooKeeperError as error:
        problem = f"an ensemble of our own needs an installed ZooKeeper: {error}"
        is_fatal = is_fatal and not _has_another()
    except ServerStartError as error:
        problem = str(error)
    if problem and is_fatal:
        pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but: {problem}", pytrace=False)
    if problem:
        pytest.skip(problem)
    try:
        yield ensemble
    finally:
        ensemble.stop()


def _has_another() -> bool:
    try:
        find_zookeeper()
    except NoZooKeeperError:
        return False
    return True


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
