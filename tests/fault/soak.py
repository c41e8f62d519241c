"""
Everything at once, for a while: acquires of all kinds, contention, timeouts, cancels, and a network that breaks.

Several coordinators and their threads work on a few paths of one embedded server, with sessions a tenth as long as
usual, so that a minute holds what else takes ten; a nemesis cuts, stalls, expires and deletes meanwhile. `rest` lets
all of it come to an end and tells what is in use then.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.fault.matrix.metronome import Metronome
from tests.support.faults import ROOM_S, Background, members
from tests.support.waiting import wait_until
from tests.support.zookeeper import first_address, four_letter
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    ConnectionLostError,
    Coordinator,
    Grant,
    GrantLostError,
    ZkLock,
    ZkMultiLock,
    ZkReadWriteLock,
    ZkSemaphore,
)
from zkcoord.server import EmbeddedServer

SESSION_S = 1.0
COORDINATORS = 3
THREADS_EACH = 3

#: A semaphore's directory, which lasts.
POOL = "/soak-pool"
LASTING = {"zookeeper", POOL[1:]}

#: Between two deeds of the nemesis.
PAUSE_S = 0.05

Lock = ZkLock | ZkMultiLock | ZkSemaphore


@dataclass(frozen=True)
class Use:
    """What is in use, by the process, the server and zkcoord, while nothing is held or awaited."""

    threads: int
    descriptors: int
    watches: int
    sessions: int
    members: int
    of_zkcoord: int
    objects: int
    resident_bytes: int


class Soak:
    """One soak; `seed` repeats its choices. A context manager; `work` and `rest` in turn."""

    def __init__(self, seed: int) -> None:
        self.did: Counter[str] = Counter()
        self.late: list[str] = []
        self._seed = seed
        self._server = EmbeddedServer(
            tick_time=0.1, max_session_timeout=30.0, container_check_interval=0.5, seed=seed
        )
        self._metronome = Metronome()
        self._is_over = threading.Event()
        self._rounds = 0

    def __enter__(self) -> Soak:
        self._server.start()
        self._metronome.start()
        self._admin = KazooClient(self._server.hosts, timeout=30.0)
        self._admin.start(timeout=20)
        self._coordinators = [
            Coordinator(self._server.hosts, session_timeout=SESSION_S, release_timeout=SESSION_S)
            for _ in range(COORDINATORS)
        ]
        self._locks = [self._make_locks(coordinator) for coordinator in self._coordinators]
        return self

    def __exit__(self, *error: object) -> None:
        for coordinator in self._coordinators:
            coordinator.close()
        self._admin.stop()
        self._admin.close()
        self._metronome.stop()
        self._server.stop()

    def work(self, seconds: float) -> None:
        """
        Work for that long.

        Raises:
            Exception: what no user should ever see, from any of the threads.
        """
        self._is_over.clear()
        self._rounds += 1
        workers = [
            Background(lambda locks=locks, number=number: self._work(locks, number), "soak")
            for number, locks in enumerate(self._locks * THREADS_EACH)
        ]
        nemesis = Background(self._be_nasty, "soak-nemesis")
        self._is_over.wait(seconds)
        self._is_over.set()
        nemesis.result()
        for worker in workers:
            worker.result(30.0)

    def rest(self) -> Use:
        """Wait until everything is given back, and tell what is in use."""
        wait_until(lambda: not self._in_use())
        expected = len(self._coordinators) + 1
        wait_until(lambda: len(self._server.sessions()) == expected)
        wait_until(lambda: set(self._admin.get_children("/")) <= LASTING)  # the containers, and all in them
        wait_until(lambda: not self._members())
        gc.collect()
        return Use(
            threading.active_count(),
            len(os.listdir("/proc/self/fd")),
            self._watches(),
            len(self._server.sessions()),
            self._members(),
            self._in_use(),
            len(gc.get_objects()),
            int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        )

    # --- the workers

    def _work(self, locks: list[Lock], number: int) -> None:
        chance = random.Random(f"{self._seed} {self._rounds} {number}")
        while not self._is_over.is_set():
            if chance.random() < 0.005:
                self._come_and_go()
            lock = chance.choice(locks)
            timeout_s = chance.choice([0.0, 0.01, 0.05, 0.5, 2.0])
            if chance.random() < 0.1:
                chance.choice(locks).cancel()  # those of the other threads of this coordinator
            began = time.monotonic()
            try:
                grant = lock.acquire(timeout=timeout_s)
            except (AcquireTimeoutError, AcquireCancelledError, ConnectionLostError) as error:
                self.did[type(error).__name__] += 1
                # One try may wait for a third of the session.
                self._check_bound("acquire", began, timeout_s or SESSION_S / 3)
                continue
            self.did["granted"] += 1
            self._hold(grant, chance)

    def _hold(self, grant: Grant, chance: random.Random) -> None:
        unsubscribe = grant.on_lost(lambda grant, reason: self.did.update([reason]))
        grant.lost.wait(chance.choice([0.0, 0.0, 0.0, 0.005, 0.06]))
        try:
            grant.check()
            if chance.random() < 0.1:
                grant.verify(timeout=0.5)
        except (GrantLostError, ConnectionLostError) as error:
            self.did[type(error).__name__] += 1
        if chance.random() < 0.5:
            unsubscribe()
        began = time.monotonic()
        grant.release()
        self._check_bound("release", began, SESSION_S)

    def _check_bound(self, what: str, began: float, limit_s: float) -> None:
        took_s = time.monotonic() - began
        if took_s > limit_s + ROOM_S + self._metronome.worst_since(began):
            self.late.append(f"{what} took {took_s:.3f} s, not {limit_s} s")

    def _come_and_go(self) -> None:
        """A coordinator of its own for one acquire."""
        with Coordinator(self._server.hosts, session_timeout=SESSION_S) as coordinator:
            grant = ZkLock("/soak-guest", client=coordinator).try_acquire(timeout=2.0)
            if grant:
                grant.release()
        self.did["came and went"] += 1

    def _make_locks(self, coordinator: Coordinator) -> list[Lock]:
        both = ZkReadWriteLock("/soak-rw", client=coordinator)
        return [
            ZkLock("/soak-lock", client=coordinator),
            ZkLock("/soak-own", client=coordinator, max_hold=0.05),
            both.read,
            both.write,
            ZkMultiLock(["/soak-a", "/soak-b"], client=coordinator),
            ZkSemaphore(POOL, permits=2, client=coordinator),
            ZkMultiLock(["/soak-b", "/soak-lock"], client=coordinator),
        ]

    # --- the nemesis

    def _be_nasty(self) -> None:
        chance = random.Random(f"{self._seed} {self._rounds} nemesis")
        faults = self._server.faults
        while not self._is_over.wait(PAUSE_S):
            session = chance.choice(self._coordinators).session_id
            deed = chance.choice(["cut", "lost", "stall", "hole", "expire", "delete", "delay", "nothing"])
            self.did[f"nemesis: {deed}"] += 1
            if session is None or deed == "nothing":
                continue
            if deed == "cut":
                with faults.cut_before(session=session):
                    self._is_over.wait(chance.uniform(0.01, 0.1))
            elif deed == "lost":
                operation = chance.choice(["create2", "multi", "getChildren", "delete", "*"])
                with faults.cut_after(session=session, operation=operation):
                    self._is_over.wait(chance.uniform(0.01, 0.2))
            elif deed == "stall":
                with faults.stall(session=session):
                    self._is_over.wait(chance.uniform(0.01, SESSION_S / 2))
            elif deed == "hole" and chance.random() < 0.2:
                with faults.stall(session=session):
                    self._is_over.wait(SESSION_S * 1.5)
            elif deed == "expire" and chance.random() < 0.3:
                self._server.expire(session)
            elif deed == "delay":
                with faults.delay(0.05, session=session):
                    self._is_over.wait(chance.uniform(0.01, 0.2))
            elif deed == "delete":
                self._delete_somebody(chance)

    def _delete_somebody(self, chance: random.Random) -> None:
        try:
            path = chance.choice(["/soak-lock", "/soak-rw", "/soak-a"])
            for name in chance.sample(self._admin.get_children(path), 1):
                self._admin.delete(f"{path}/{name}")
        except (NoNodeError, ValueError):
            return  # nobody is there

    # --- what is in use

    def _in_use(self) -> int:
        count = 0
        for coordinator in self._coordinators:
            session = coordinator.session()
            tables = coordinator.client._data_watchers.copy().values()
            count += len(session.guard._members) + len(session.guard._holds) + len(session.watches)
            count += len(session.janitor) + len(coordinator.registry) + len(session._waiting)
            count += (
                len(session.requests._backlog) + len(session.requests._outstanding) + sum(map(len, tables))
            )
            count += (
                len(session.guard._unwatched) + len(session.guard._bounded) + len(session.guard._unstamped)
            )
        return count

    def _members(self) -> int:
        return len(members(self._admin, POOL))

    def _watches(self) -> int:
        return int(four_letter(*first_address(self._server.hosts), "wchs").rpartition(":")[2])
