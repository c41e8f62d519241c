"""
A holder whose session ends sees LOST before anybody else can be granted its lock.

The black-hole scenarios record both moments on one clock in one process: when the holder's own `lost.wait()` woke up,
and when the second client's acquire returned; and what the holder's status was at that second moment.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.conftest import MakeClient
from tests.fault.conftest import SESSION_S, MakeCoordinator
from tests.support.faults import Background, add_member, end_session, is_verified, members
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from tests.support.zookeeper import Server, ZooKeeperServer, first_address
from zkcoord import Coordinator, Grant, GrantLostError, ZkLock

pytestmark = pytest.mark.fronts("threads", "asyncio")

#: The server looks for expired sessions once a tick, so another client is granted at most this much later than T.
GRANT_WITHIN_S = SESSION_S + 3.0


# --- ended on the server


def test_session_ended_on_the_server_while_held(
    direct: Coordinator, hosts: str, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=direct, timeout=10.0)
    told: list[tuple[Grant, str]] = []
    first = lock.acquire()
    first.on_lost(lambda grant, reason: told.append((grant, reason)))
    reentered = lock.acquire()
    reentered.on_lost(lambda grant, reason: told.append((grant, reason)))

    end_session(direct.client, hosts)

    assert first.lost.wait(1.0)
    assert "LOST" == first.status == reentered.status
    assert 0.0 == first.remaining()
    second = lock.acquire()
    assert second.token > first.token
    assert [second.name] == members(zk, lock.path)
    wait_until(lambda: len(told) == 2)
    assert {first, reentered} == {grant for grant, _ in told}
    assert {"expired"} == {reason for _, reason in told} or {"deleted"} == {reason for _, reason in told}
    assert "LOST" == first.status  # final, also now that the object holds again
    assert not first.release()
    assert not reentered.release()
    assert [second.name] == members(zk, lock.path)  # and it took nobody else's node along
    assert second.release()
    assert 2 == len(told)


def test_leaving_the_with_of_a_lost_grant_raises(direct: Coordinator, hosts: str, root: str) -> None:
    lock = ZkLock(f"{root}/lock", client=direct, timeout=10.0)

    def lose(error: Exception | None) -> None:
        with lock as grant:
            end_session(direct.client, hosts)
            assert grant.lost.wait(1.0)
            if error is not None:
                raise error

    with pytest.raises(GrantLostError):
        lose(None)
    with pytest.raises(KeyError) as kept:
        lose(KeyError("the body's own"))
    assert any("lost" in note for note in kept.value.__notes__)
    with lock as grant:
        assert "HELD" == grant.status


def test_sessions_that_end_again_and_again(
    direct: Coordinator, hosts: str, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=direct, timeout=10.0)
    tokens = []
    for _ in range(10):
        grant = lock.acquire()
        tokens.append(grant.token)
        end_session(direct.client, hosts)
        assert grant.lost.wait(1.0)
    with lock as grant:
        tokens.append(grant.token)
        assert [grant.name] == members(zk, lock.path)
    assert sorted(set(tokens)) == tokens


def test_waiter_queues_again_when_its_session_ends(
    direct: Coordinator, hosts: str, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=direct)
    ahead = add_member(zk, lock.path)
    acquiring = Background(lambda: lock.acquire(timeout=20.0))
    wait_until(lambda: len(members(zk, lock.path)) == 2)
    before = members(zk, lock.path)[1]

    end_session(direct.client, hosts)

    wait_until(lambda: len(members(zk, lock.path)) == 2 and members(zk, lock.path)[1] != before)
    zk.delete(ahead)
    grant = acquiring.result()
    assert [grant.name] == members(zk, lock.path)
    assert grant.release()


# --- a silent partition


@dataclass
class Moments:
    """What one black-hole scenario saw."""

    scenario: str
    lost_at: float
    granted_at: float
    status: str
    is_told_before: bool

    @property
    def margin_s(self) -> float:
        """How long before the second grant the first one's loss was seen."""
        return self.granted_at - self.lost_at


def lose_by_partition(
    scenario: str, proxy: FaultProxy, grant: Grant, rival: ZkLock, break_it: Callable[[FaultProxy], None]
) -> Moments:
    """Break a holder's connection silently and let a rival in."""
    told: list[float] = []
    grant.on_lost(lambda grant, reason: told.append(time.monotonic()))

    def lose() -> float:
        assert grant.lost.wait(GRANT_WITHIN_S)
        return time.monotonic()

    def take() -> tuple[float, str, bool]:
        with rival.acquire(timeout=GRANT_WITHIN_S * 2) as second:
            at, status = time.monotonic(), grant.status
            assert second.token > grant.token
        return at, status, bool(told)

    losing, taking = Background(lose), Background(take)
    break_it(proxy)
    lost_at = losing.result()
    granted_at, status, is_told_before = taking.result()
    return Moments(scenario, lost_at, granted_at, status, is_told_before)


def idle(seconds: float) -> None:
    """Let time pass: the scenario is about what a session is worth after it."""
    threading.Event().wait(seconds)


@pytest.mark.fronts("threads", "asyncio", slow=True)
def test_holder_sees_its_loss_before_the_second_grant(
    zookeeper: Server, make_coordinator: MakeCoordinator, make_client: MakeClient, root: str
) -> None:
    """All scenarios side by side: each takes about a session time, most of it waiting."""
    host, port = first_address(zookeeper.hosts)
    stop = threading.Event()

    def in_black_hole(
        scenario: str,
        prepare: Callable[[Coordinator, str], Grant],
        break_it: Callable[[FaultProxy], None] = FaultProxy.black_hole,
        is_borrowed: bool = False,
    ) -> Background[Moments]:
        def run() -> Moments:
            path = f"{root}/{scenario.replace(' ', '-')}"
            with FaultProxy(host, port) as proxy:
                if is_borrowed:
                    client = make_client(hosts=proxy.hosts, timeout=SESSION_S)
                    coordinator = make_coordinator(kazoo=client)
                else:
                    coordinator = make_coordinator(hosts=proxy.hosts)
                try:
                    grant = prepare(coordinator, path)
                    rival = ZkLock(path, client=make_coordinator())
                    return lose_by_partition(scenario, proxy, grant, rival, break_it)
                finally:
                    proxy.restore()
                    coordinator.close(timeout=1.0)
                    if is_borrowed:
                        client.stop()

        return Background(run, name=scenario)

    def at_once(coordinator: Coordinator, path: str) -> Grant:
        return ZkLock(path, client=coordinator).acquire(timeout=10.0)

    def after(seconds: float) -> Callable[[Coordinator, str], Grant]:
        def prepare(coordinator: Coordinator, path: str) -> Grant:
            grant = at_once(coordinator, path)
            idle(seconds)
            return grant

        return prepare

    def with_traffic(coordinator: Coordinator, path: str) -> Grant:
        grant = at_once(coordinator, path)

        def chatter() -> None:
            while not stop.wait(0.02):
                coordinator.client.get_async("/")

        Background(chatter)
        idle(SESSION_S / 3)
        return grant

    def after_idling(coordinator: Coordinator, path: str) -> Grant:
        at_once(coordinator, f"{path}-first").release()
        idle(SESSION_S / 3)
        return at_once(coordinator, path)

    def after_waiting(coordinator: Coordinator, path: str) -> Grant:
        ahead = ZkLock(path, client=make_coordinator()).acquire(timeout=10.0)
        waiting = Background(lambda: at_once_within(coordinator, path, 4 * SESSION_S))
        idle(3 * SESSION_S)
        assert not waiting.is_done
        ahead.release()
        return waiting.result()

    running = [
        in_black_hole("at once", at_once),
        in_black_hole("after a while", after(SESSION_S / 8 * 2.9)),
        in_black_hole("replies lost", after(SESSION_S / 5), lambda proxy: proxy.black_hole(to_server=False)),
        in_black_hole("requests lost", after(SESSION_S / 5), lambda proxy: proxy.black_hole(to_client=False)),
        in_black_hole("unrelated traffic", with_traffic),
        in_black_hole("granted after idling", after_idling),
        in_black_hole("granted after waiting", after_waiting),
        in_black_hole("borrowed", at_once, is_borrowed=True),
        in_black_hole("borrowed with traffic", with_traffic, is_borrowed=True),
        in_black_hole("borrowed after idling", after_idling, is_borrowed=True),
        in_black_hole("cut", after(SESSION_S / 5), FaultProxy.cut),
    ]
    try:
        seen = [one.result(90.0) for one in running]
    finally:
        stop.set()

    for moments in seen:
        print(f"{moments.scenario}: LOST {moments.margin_s:.2f} s before the second grant")
    assert {"LOST"} == {moments.status for moments in seen}
    assert [] == [moments for moments in seen if moments.margin_s <= 0]
    assert [] == [moments for moments in seen if not moments.is_told_before]


def at_once_within(coordinator: Coordinator, path: str, timeout_s: float) -> Grant:
    """Acquire with a long patience."""
    return ZkLock(path, client=coordinator).acquire(timeout=timeout_s)


HOLDER = """
import sys
from zkcoord import Coordinator, ZkLock
hosts, path, session_s = sys.argv[1:]
grant = ZkLock(path, client=Coordinator(hosts, session_timeout=float(session_s))).acquire(timeout=10)
print(grant.token, flush=True)
for line in sys.stdin:
    print(grant.status, flush=True)
"""


@pytest.mark.fronts("threads")
def test_paused_process_finds_its_grant_lost_at_its_first_look(
    hosts: str, direct: Coordinator, root: str
) -> None:
    path = f"{root}/lock"
    command = [sys.executable, "-c", HOLDER, hosts, path, "4"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            token = int(holder.stdout.readline())
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert "HELD" == holder.stdout.readline().strip()

            holder.send_signal(signal.SIGSTOP)
            with ZkLock(path, client=direct).acquire(timeout=GRANT_WITHIN_S) as second:
                assert second.token > token
                holder.stdin.write("\n")
                holder.stdin.flush()
                holder.send_signal(signal.SIGCONT)
                assert "LOST" == holder.stdout.readline().strip()
        finally:
            holder.kill()


# --- no loss


@pytest.mark.parametrize("how", ["cut", "drop", "black hole"])
def test_short_break_is_uncertain_and_then_held_again(
    proxied: Coordinator, proxy: FaultProxy, root: str, how: str
) -> None:
    told: list[Any] = []
    with ZkLock(f"{root}/lock", client=proxied).acquire(timeout=10.0) as grant:
        grant.on_lost(lambda *arguments: told.append(arguments))
        if how == "drop":
            proxy.drop_connections()
        else:
            proxy.cut() if how == "cut" else proxy.black_hole()
            wait_until(lambda: grant.status != "HELD")
            assert "UNCERTAIN" == grant.status
            grant.check()
            proxy.restore()

        wait_until(lambda: grant.status == "HELD")
        wait_until(lambda: grant.remaining() > SESSION_S / 2)
        assert not grant.lost.is_set()
        wait_until(lambda: is_verified(grant))
    assert [] == told


@pytest.mark.fronts("threads", "asyncio", slow=True)
def test_many_breaks_in_a_row_are_no_loss(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    with ZkLock(f"{root}/lock", client=proxied).acquire(timeout=10.0) as grant:
        for count in range(1, 16):
            proxy.reset_counts()
            proxy.drop_connections()
            assert proxy.wait_for_connections(1), count
        wait_until(lambda: grant.status == "HELD")
        assert [grant.name] == members(zk, grant.path)


def test_works_again_after_a_restart_of_the_server(
    own_zookeeper: ZooKeeperServer, make_coordinator: MakeCoordinator
) -> None:
    coordinator = make_coordinator(hosts=own_zookeeper.hosts)
    lock = ZkLock("/lock", client=coordinator)
    first = lock.acquire(timeout=10.0)

    own_zookeeper.restart()

    if first.status != "LOST":
        wait_until(lambda: first.status in ("HELD", "LOST"))
    first.release()
    second = lock.acquire(timeout=20.0)
    assert second.token > first.token
    second.verify(timeout=5.0)
    assert second.release()
