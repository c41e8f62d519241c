"""
A break of the connection that is shorter than T/4 never costs a grant, as long as the servers are well.

Each kind of break has holders of its own, each behind a proxy of its own, and all go on side by side.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import own_server
from tests.fault.conftest import MakeCoordinator
from tests.support.faults import Background, is_verified
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from tests.support.zookeeper import ZooKeeperServer
from zkcoord import ZkLock

SESSIONS_S = (6.0, 15.0)

#: Breaks for each session time, of all kinds together.
BLIPS = int(os.environ.get("ZKCOORD_BLIPS", "10"))

#: Holders for each kind and session time.
HOLDERS = 2

#: The longest break, and the time from one to the next, as parts of the session time.
LONGEST, SETTLED = 0.24, 0.65

KINDS: dict[str, tuple[Callable[[FaultProxy], None], bool]] = {
    "closed and refused": (FaultProxy.cut, False),
    "silent, then closed": (FaultProxy.black_hole, False),
    "silent, then late": (FaultProxy.black_hole, True),
    "requests lost": (lambda proxy: proxy.black_hole(to_client=False), False),
    "replies lost": (lambda proxy: proxy.black_hole(to_server=False), False),
}


@pytest.fixture
def usual_zookeeper() -> Iterator[ZooKeeperServer]:
    """A server with the usual tick of 2 s, which grants sessions of up to 40 s."""
    yield from own_server(ZooKeeperServer(tick_time_ms=2000))


@pytest.mark.fronts("threads", "asyncio", slow=True)
@pytest.mark.slow
@pytest.mark.timeout(60 + 12 * BLIPS)
def test_no_break_shorter_than_a_quarter_of_the_session_costs_a_grant(
    usual_zookeeper: ZooKeeperServer, make_coordinator: MakeCoordinator
) -> None:
    each = -(-BLIPS // (len(KINDS) * HOLDERS))

    def hold(kind: str, session_s: float, number: int) -> float:
        """Hold through some breaks; returns the least that was left of the grant at the end of one."""
        begin, is_delivered = KINDS[kind]
        chance, told, left_s = random.Random(random.random()), [], session_s
        with FaultProxy("127.0.0.1", usual_zookeeper.port or 0) as proxy:
            coordinator = make_coordinator(hosts=proxy.hosts, session_timeout=session_s)
            grant = ZkLock(f"/{kind}/{session_s}/{number}", client=coordinator).acquire(timeout=20.0)
            assert session_s == coordinator.session_timeout
            grant.on_lost(lambda grant, reason: told.append(reason))
            for _ in range(each):
                # By then the proof is that of heartbeats, not that of a new connection, which is worth more.
                threading.Event().wait(session_s * SETTLED)
                threading.Event().wait(
                    session_s * chance.uniform(0.0, 1 / 8)
                )  # anywhere between two heartbeats
                assert "HELD" == grant.status
                begin(proxy)
                threading.Event().wait(session_s * chance.uniform(0.05, LONGEST))
                left_s = min(left_s, grant.remaining())
                proxy.restore(deliver=is_delivered)
                wait_until(lambda: grant.status != "UNCERTAIN")
                assert "HELD" == grant.status, f"{kind}, T = {session_s}: {told}"
            wait_until(lambda: is_verified(grant))
            assert grant.release()
            coordinator.close()
        assert [] == told
        return left_s

    running = [
        (kind, session_s, Background(lambda case=(kind, session_s, number): hold(*case)))  # type: ignore[misc]
        for kind in KINDS
        for session_s in SESSIONS_S
        for number in range(HOLDERS)
    ]
    print()
    for kind, session_s, one in running:
        left_s = one.result(60.0 + 12 * BLIPS)
        print(f"T = {session_s:g} s, {kind}: {each} breaks, at least {left_s:.2f} s left")
