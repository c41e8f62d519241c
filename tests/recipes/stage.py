"""
Ten candidates, and round after round something happens to the leader: it is killed, paused, cut off, expired, deleted.

After each there is a new leader in time, tokens grow, and nobody believes in a term when the next one has begun: never
after a pause, a cut or a kill; when somebody else ended the session or deleted the member, a round trip later.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from recipes import LeaderElection
from tests.recipes.candidate import worker
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import Coordinator, Member
from zkcoord.server import EmbeddedServer

ROOT = Path(__file__).parents[2]
PATH = "/election"
THREADS, PROCESSES = 7, 3

#: A leader within one session time and this; the rest is room for a loaded machine.
LEADER_AFTER_S = 1.0
ROOM_S = 0.5

#: Until a leader is told that its member was deleted, or its session closed, by somebody else: the token's business.
TOLD_WITHIN_S = 0.5


class Place(Protocol):
    """
    The servers.

    Attributes:
        hosts: for those who only look.
        session_s: session time of the candidates.
    """

    hosts: str
    session_s: float

    def hosts_of(self, number: int) -> str:
        """Where a candidate connects to."""

    def expire(self, member: Member, coordinator: Coordinator) -> None:
        """End a session, as if its time were up."""

    def cut_off(self, member: Member) -> Cut | None:
        """Cut a candidate off, with its server if there are several; None if that cannot be done to this one."""

    def expire_at_next_look(self, member: Member) -> bool:
        """End a session with its next look at the queue; False where that cannot be done."""


@dataclass(frozen=True)
class Cut:
    """Cut off: how to end it, and how many candidates lose their sessions by it."""

    heal: Callable[[], object]
    sessions: int


class EmbeddedPlace:
    """One embedded server, which can do everything."""

    session_s = 1.0

    def __init__(self, server: EmbeddedServer) -> None:
        self.hosts = server.hosts
        self._server = server

    def hosts_of(self, number: int) -> str:
        return self.hosts

    def expire(self, member: Member, coordinator: Coordinator) -> None:
        self._server.expire(member.session)

    def cut_off(self, member: Member) -> Cut | None:
        return Cut(self._server.faults.stall(session=member.session).remove, 1)

    def expire_at_next_look(self, member: Member) -> bool:
        self._server.faults.expire(session=member.session, operation="getChildren*")
        return True


class Stage:
    """The candidates, what they have noted, and what was done to them."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.begun: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.coordinators: dict[str, Coordinator] = {}
        self.elections: dict[str, LeaderElection] = {}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.readers: list[threading.Thread] = []
        self.timers: list[threading.Timer] = []
        self.allowed_creates = 0
        self.earlier_creates = 0
        self.ended_from_outside: set[int] = set()
        self.admin = KazooClient(place.hosts)
        self.admin.start()
        self.watcher = LeaderElection(PATH, client=Coordinator.of(self.admin))
        for number in range(THREADS):
            self.add_thread(f"thread-{number}")
        for number in range(PROCESSES):
            self.add_process(f"process-{number}")

    def note(self, what: str, token: int, at: float) -> None:
        (self.begun if what == "begin" else self.ended)[token] = at

    def add_thread(self, name: str) -> None:
        hosts = self.place.hosts_of(len(self.coordinators))
        coordinator = self.coordinators[name] = Coordinator(hosts, session_timeout=self.place.session_s)
        election = self.elections[name] = LeaderElection(PATH, client=coordinator, name=name)
        self.allowed_creates += 1
        in_thread(election.run, worker(self.note), name=name)

    def add_process(self, name: str) -> None:
        self.allowed_creates += 1
        process = self.processes[name] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.recipes.candidate"),
                *(self.place.hosts, PATH, name, str(self.place.session_s)),
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert process.stdout is not None
        self.readers.append(threading.Thread(target=self.read, args=(process.stdout,), daemon=True))
        self.readers[-1].start()

    def read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                if line.endswith("\n"):  # else it was killed in the middle of it
                    what, token, at = line.split()
                    self.note(what, int(token), float(at))

    def creates(self) -> int:
        """How many members were ever made: each create and each delete counts in the directory's cversion."""
        stat = self.admin.exists(PATH)
        return self.earlier_creates + (0 if stat is None else (stat.cversion + stat.numChildren) // 2)

    # --- what happens

    def strike(self, members: tuple[Member, ...]) -> str:
        leader = members[0]
        assert leader.label is not None
        if leader.label in self.processes:
            return self.random.choice([self.kill, self.pause])(leader.label)
        faults = [
            self.expire,
            self.expire_two,
            self.delete,
            self.delete_parent,
            self.cut_off,
            self.expire_next,
        ]
        return self.random.choice(faults)(members)

    def kill(self, name: str) -> str:
        process = self.processes.pop(name)
        process.kill()
        process.wait(PATIENCE_S)
        self.add_process(name)
        return "killed"

    def pause(self, name: str) -> str:
        process = self.processes[name]
        process.send_signal(signal.SIGSTOP)
        self.allowed_creates += 1
        self.later(lambda: process.send_signal(signal.SIGCONT))
        return "paused"

    def later(self, heal: Callable[[], object]) -> None:
        """Heal when the session has ended for sure."""
        timer = threading.Timer(1.5 * self.place.session_s, heal)
        timer.daemon = True
        self.timers.append(timer)
        timer.start()

    def end(self, member: Member) -> None:
        self.ended_from_outside.add(member.token)
        assert member.label is not None
        self.place.expire(member, self.coordinators[member.label])
        self.allowed_creates += 1

    def expire(self, members: tuple[Member, ...]) -> str:
        self.end(members[0])
        return "expired"

    def expire_two(self, members: tuple[Member, ...]) -> str:
        """The second one is just being elected when its session ends."""
        for member in members[:2]:
            if member.label in self.coordinators:
                self.end(member)
        return "expired with the next one"

    def expire_next(self, members: tuple[Member, ...]) -> str:
        """The next one's session ends with its first request after its notification."""
        if not self.place.expire_at_next_look(members[1]):
            return self.expire_two(members)
        self.allowed_creates += 1
        return "the next one expired while it was elected, and " + self.delete(members)

    def delete(self, members: tuple[Member, ...]) -> str:
        self.ended_from_outside.add(members[0].token)
        self.admin.delete(f"{PATH}/{members[0].name}")
        self.allowed_creates += 1
        return "deleted"

    def delete_parent(self, members: tuple[Member, ...]) -> str:
        while True:
            for name in self.admin.get_children(PATH):
                try:
                    self.ended_from_outside.add(self.admin.get(f"{PATH}/{name}")[1].czxid)
                    self.admin.delete(f"{PATH}/{name}")
                    self.allowed_creates += 1
                except NoNodeError:
                    pass
            creates = self.creates()
            try:
                self.admin.delete(PATH)
            except NotEmptyError:
                continue
            self.earlier_creates = creates
            return "parent deleted"

    def cut_off(self, members: tuple[Member, ...]) -> str:
        cut = self.place.cut_off(members[0])
        if cut is None:
            return self.expire(members)
        self.allowed_creates += cut.sessions
        self.later(cut.heal)
        return "cut off"

    # --- the end

    def close(self) -> None:
        for timer in self.timers:
            timer.join(PATIENCE_S)
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(PATIENCE_S)
        for reader in self.readers:
            reader.join(PATIENCE_S)
        for election in self.elections.values():
            election.stop(0)
        for coordinator in self.coordinators.values():
            coordinator.close()
        self.admin.stop()
        self.admin.close()


def play(stage: Stage, rounds: int) -> None:
    """
    Play so many rounds, and close the stage.

    Raises:
        AssertionError: no leader in time, two at a time, or more creates than losses account for.
    """
    history: list[str] = []
    try:
        for _ in range(rounds):
            # All of them are back, so that those paused or cut off are struck but once.
            wait_until(lambda: THREADS + PROCESSES <= len(stage.watcher.candidates()), 2 * PATIENCE_S)
            wait_until(lambda: stage.watcher.candidates()[0].token in stage.begun)
            members = stage.watcher.candidates()
            token = members[0].token
            struck = time.monotonic()
            what = stage.strike(members)
            wait_until(lambda token=token: max(stage.begun) > token)  # type: ignore[misc]
            took_s = min(at for begun, at in stage.begun.items() if begun > token) - struck
            history.append(f"{members[0].label} {what}: a leader after {took_s:.2f} s")
            assert took_s < stage.place.session_s + LEADER_AFTER_S + ROOM_S, history
        creates, allowed = stage.creates(), stage.allowed_creates
    finally:
        stage.close()
    print(*history, sep="\n")
    print(f"{creates} creates, {allowed} allowed")
    for earlier, later in pairwise(sorted(stage.begun)):
        believed_until = max(stage.begun[earlier], stage.ended.get(earlier, 0.0))
        late_s = TOLD_WITHIN_S if earlier in stage.ended_from_outside else 0.0
        assert believed_until <= stage.begun[later] + late_s, (earlier, later, history)
    assert creates <= allowed, history
