"""Helpers for coroutines in tests: every kind of loop there is, waiting without blocking it, and what is left over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.support.waiting import PATIENCE_S
from zkcoord import (
    AsyncGrant,
    Coordinator,
)

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def loops() -> Iterator[Any]:
    yield pytest.param(None, id="asyncio")
    try:
        import uvloop
    except ImportError:
        return
    yield pytest.param(uvloop.new_event_loop, id="uvloop")


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is true, without blocking the loop."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.005)


def session_is_clean(coordinator: Coordinator) -> bool:
    """Whether the session neither keeps, nor watches, nor waits for anything of ours."""
    session = coordinator.session()
    left = (
        session.guard._members,
        session.guard._holds,
        session._waiting,
        session.watches._entries,
        coordinator.registry._slots,
        session.guard.wards._clean_ups,
        session.guard.unfinished,
    )
    return not any(left) and not len(session.janitor)


async def within(waiting: Coroutine[Any, Any, Any]) -> None:
    async with asyncio.timeout(0.05):
        await waiting


async def body_of(lock: Any, body: Callable[[AsyncGrant], Coroutine[Any, Any, None]]) -> None:
    async with lock as grant:
        await body(grant)


async def lose(zk: KazooClient, grant: AsyncGrant) -> None:
    await asyncio.to_thread(zk.delete, f"{grant.path}/{grant.name}")
