"""Fixtures for the recipes: those of the conformance tests, and an embedded server of a test's own for faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import (
    coordinator,
    embedded_server,
    hosts,
    make_coordinator,
    path,
    pytest_generate_tests,
    run_script,
)
from zkcoord.server import EmbeddedServer

__all__ = [
    "coordinator",
    "embedded_server",
    "hosts",
    "make_coordinator",
    "path",
    "pytest_generate_tests",
    "run_script",
]


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """An embedded server of the test's own, with sessions from a fifth of a second on."""
    with EmbeddedServer(tick_time=0.1) as own:
        yield own
