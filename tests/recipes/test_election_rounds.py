"""
Ten candidates, and round after round something happens to the leader: it is killed, paused, cut off, expired, deleted.

After each there is a new leader in time, tokens grow, and nobody believes in a term when the next one has begun: never
after a pause, a cut or a kill; when somebody else ended the session or deleted the member, a round trip later.
``ZKCOORD_ELECTION_ROUNDS`` sets how many rounds; ``python -m tests.full election`` plays the full count.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from recipes import LeaderElection
from tests.recipes.candidate import worker
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import Coordinator, Member
from zkcoord.server import EmbeddedServer

ROOT = Path(__file__).parents[2]
PATH = "/election"
SESSION_S = 1.0
THREADS, PROCESSES = 7, 3

#: A leader within one session time and a second; the rest is room for a loaded machine.
LEADER_WITHIN_S = SESSION_S + 1.0
ROOM_S = 0.5

#: Until a leader is told that its member was deleted, or its session closed, by somebody else: the token's business.
TOLD_WITHIN_S = 0.5


class Stage:
    """The candidates, what they have noted, and what was done to them."""

    def __init__(self, server: EmbeddedServer, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.begun: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.coordinators: dict[str, Coordinator] = {}
        self.elections: dict[str, LeaderElection] = {}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.readers: list[threading.Thread] = []
        self.allowed_creates = 0
        self.earlier_creates = 0
        self.ended_from_outside: set[int] = set()
        self.admin = KazooClient(server.hosts)
        self.admin.start()
        self.watcher = LeaderElection(PATH, client=Coordinator.of(self.admin))
        for number in range(THREADS):
            self.add_thread(f"thread-{number}")
        for number in range(PROCESSES):
            self.add_process(f"process-{number}")

    def note(self, what: str, token: int, at: float) -> None:
        (self.begun if what == "begin" else self.ended)[token] = at

    def add_thread(self, name: str) -> None:
        coordinator = self.coordinators[name] = Coordinator(self.server.hosts, session_timeout=SESSION_S)
        election = self.elections[name] = LeaderElection(PATH, client=coordinator, name=name)
        self.allowed_creates += 1
        in_thread(election.run, worker(self.note), name=name)

    def add_process(self, name: str) -> None:
        self.allowed_creates += 1
        process = self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "tests.recipes.candidate", self.server.hosts, PATH, name, str(SESSION_S)],
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
        timer = threading.Timer(1.5 * SESSION_S, process.send_signal, [signal.SIGCONT])
        timer.daemon = True
        timer.start()
        return "paused"

    def end(self, member: Member) -> None:
        self.ended_from_outside.add(member.token)
        self.server.expire(member.session)
        self.allowed_creates += 1

    def expire(self, members: tuple[Member, ...]) -> str:
        self.end(members[0])
        return "expired"

    def expire_two(self, members: tuple[Member, ...]) -> str:
        """The second one is just being elected when its session ends."""
        for member in members[:2]:
            self.end(member)
        return "expired with the next one"

    def expire_next(self, members: tuple[Member, ...]) -> str:
        """The next one's session ends with its first request after its notification."""
        self.server.faults.expire(session=members[1].session, operation="getChildren*")
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
        fault = self.server.faults.stall(session=members[0].session)
        self.allowed_creates += 1
        timer = threading.Timer(1.5 * SESSION_S, fault.remove)
        timer.daemon = True
        timer.start()
        return "cut off"

    # --- the end

    def close(self) -> None:
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


@pytest.mark.timeout(3600 if "ZKCOORD_ELECTION_ROUNDS" in os.environ else 120)
def test_one_leader_at_a_time_whatever_happens_to_it(server: EmbeddedServer) -> None:
    rounds = int(os.environ.get("ZKCOORD_ELECTION_ROUNDS", "16"))
    seed = int(os.environ.get("ZKCOORD_FULL_DONE", "0"))
    stage = Stage(server, seed)
    history: list[str] = []
    try:
        wait_until(lambda: THREADS + PROCESSES <= len(stage.watcher.candidates()), 2 * PATIENCE_S)
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
            assert took_s < LEADER_WITHIN_S + ROOM_S, history
        creates, allowed = stage.creates(), stage.allowed_creates
    finally:
        stage.close()
    print(*history, sep="\n")
    print(f"{creates} creates, {allowed} allowed")
    terms = sorted(stage.begun)
    for earlier, later in pairwise(terms):
        believed_until = max(stage.begun[earlier], stage.ended.get(earlier, 0.0))
        late_s = TOLD_WITHIN_S if earlier in stage.ended_from_outside else 0.0
        assert believed_until <= stage.begun[later] + late_s, (earlier, later, history)
    assert creates <= allowed, history
