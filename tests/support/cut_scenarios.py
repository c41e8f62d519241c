"""
What a holder has just done when its follower is cut off from the leader, while the holder stays connected to it.

One cut serves all scenarios and session times at once: each aims at the moment of the cut, and waits for the others.
The rival, on the leader, asks for the lock right after the cut, and gets it when the leader has expired the session.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tests.support.ensemble import Ensemble, Member
from tests.support.faults import Background
from tests.support.holder_process import HolderProcess, confirm_until
from tests.support.proxy import FaultProxy
from zkcoord import Coordinator, Grant, ZkLock
from zkcoord.testing.history import History, Kind

#: How long before the cut everything is ready, in seconds.
READY_S = 0.05

#: A pause or stall, as a part of the session time.
STALL = 0.6

#: Seconds in which a holder confirms all the time before it is paused, so that its proof is as new as can be.
BUSY_S = 3.0

#: Seconds that its process may take to start, on top of that.
START_S = 10.0

HOLDER, RIVAL = "holder", "rival"


@dataclass(frozen=True)
class Outcome:
    """
    What one holder and its rival saw.

    Attributes:
        margin_s: from the holder's LOST to the rival's grant.
        is_early: the holder had lost its grant before the cut, so that it shows nothing about it.
        age_s: from the scenario's last step to the cut.
    """

    scenario: str
    session_s: float
    margin_s: float
    is_early: bool
    age_s: float


class Round:
    """
    One cut of one follower, with all that leads up to it.

    Args:
        at: the moment of the cut, of the monotonic clock.
        root: a path that no other round uses.
        sessions_s: the session times.
    """

    def __init__(
        self, ensemble: Ensemble, follower: Member, at: float, root: str, sessions_s: tuple[float, ...]
    ) -> None:
        self.ensemble = ensemble
        self.follower = follower
        self.at = at
        self.root = root
        self.history = History()
        self.cut_at = 0.0
        self.cleanup = ExitStack()
        self._is_cut = threading.Event()
        self._cases = [(name, session_s) for name in SCENARIOS for session_s in sessions_s]
        self._ready = threading.Barrier(len(self._cases) + 1)

    def run(self, one_at_a_time: threading.Lock) -> list[Outcome]:
        """Lead up to the cut, cut, let all rivals in, heal, and clean up."""
        leader = self.ensemble.leader()
        with self.cleanup:
            self.other = self.coordinator(leader.hosts, 10.0)
            running = [Background(lambda case=case: self._run(*case), name=str(case)) for case in self._cases]
            try:
                self._ready.wait(max(0.0, self.at - time.monotonic()) + 10.0)
                with one_at_a_time, self.ensemble.cut_off(self.follower):
                    self.cut_at = self.history.note(f"server {self.follower.number} is cut off").at
                    self._is_cut.set()
                    outcomes = [one.result(60.0) for one in running]
                    assert "leader" == leader.mode(), "the leader has changed: nothing was measured"
                self.history.note("healed")
            except threading.BrokenBarrierError as error:
                raise self._cause(running) from error
            finally:
                self._ready.abort()
        return outcomes

    def _cause(self, running: list[Background[Outcome]]) -> BaseException:
        """Why not everybody was ready in time."""
        late = []
        for case, one in zip(self._cases, running, strict=True):
            try:
                one.result(10.0)
            except threading.BrokenBarrierError:
                pass  # it was ready, and somebody else was not
            except AssertionError as error:
                late.append(f"{case}: {error}")
            except Exception as error:
                return error
        return AssertionError("not ready in time: " + "; ".join(late))

    def coordinator(self, hosts: str, session_s: float) -> Coordinator:
        """A coordinator that is closed when the round is over."""
        return self.cleanup.enter_context(Coordinator(hosts, session_timeout=session_s))

    def acquire(self, path: str, coordinator: Coordinator) -> Grant:
        """Acquire for the holder."""
        return self.history.acquire(ZkLock(path, client=coordinator), HOLDER, timeout=90.0)

    def _run(self, name: str, session_s: float) -> Outcome:
        path = f"{self.root}/{name}-{session_s:g}".replace(" ", "-")
        try:
            holder = SCENARIOS[name](self, path, session_s)
            ready_at = time.monotonic()
            self._ready.wait(120.0)
        except BaseException:
            self._ready.abort()
            raise
        assert self._is_cut.wait(60.0)
        losing = Background(lambda: holder.await_loss(self.history, 3 * session_s + 10.0))
        lock = ZkLock(path, client=self.other, owner=RIVAL)
        rival = self.history.acquire(lock, RIVAL, timeout=3 * session_s + 10.0)
        holder.look(self.history)
        losing.result()
        self.history.release(rival, RIVAL)
        events = [event for event in self.history.events if event.path == path]
        lost_at = min(event.at for event in events if event.kind is Kind.LOST)
        granted_at = min(event.at for event in events if (event.client, event.kind) == (RIVAL, Kind.OK))
        return Outcome(name, session_s, granted_at - lost_at, lost_at < self.cut_at, self.cut_at - ready_at)


class Here:
    """A holder in this process."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    def look(self, history: History) -> None:
        history.look(self._grant, HOLDER)

    def await_loss(self, history: History, timeout: float) -> None:
        assert history.await_loss(self._grant, HOLDER, timeout)


class Elsewhere:
    """A holder in a process of its own, which looks by itself."""

    def __init__(self, process: HolderProcess) -> None:
        self._process = process

    def look(self, history: History) -> None:
        pass

    def await_loss(self, history: History, timeout: float) -> None:
        self._process.wait_for(Kind.LOST, timeout=timeout)
        for event in self._process.history.events:
            history.add(event)


# --- the scenarios: each returns when its holder has done its last step, a moment before the cut


def any_moment(this: Round, path: str, session_s: float) -> Here:
    """It holds for a while, and nothing else happens."""
    grant = this.acquire(path, this.coordinator(this.follower.hosts, session_s))
    sleep_until(this.at - READY_S)
    return Here(grant)


def after_idling(this: Round, path: str, session_s: float) -> Here:
    """Its session was idle for T/3, then it created its member."""
    coordinator = this.coordinator(this.follower.hosts, session_s)
    sleep_until(this.at - READY_S - session_s / 3)
    with ZkLock(f"{path}-first", client=coordinator, timeout=10.0):
        pass
    sleep_until(this.at - READY_S)
    return Here(this.acquire(path, coordinator))


def after_waiting(this: Round, path: str, session_s: float) -> Here:
    """It had waited for 3 T, then the lock was handed over to it."""
    lock = ZkLock(path, client=this.other, owner="ahead")
    ahead = this.history.acquire(lock, "ahead", timeout=10.0)
    coordinator = this.coordinator(this.follower.hosts, session_s)
    sleep_until(this.at - READY_S - 3 * session_s)
    waiting = Background(lambda: this.acquire(path, coordinator))
    sleep_until(this.at - READY_S)
    assert not waiting.is_done
    this.history.release(ahead, "ahead")
    return Here(waiting.result())


def after_stall(this: Round, path: str, session_s: float) -> Here:
    """Its traffic was stalled for 0.6 T and then delivered, and one heartbeat was answered after that."""
    proxy = this.cleanup.enter_context(FaultProxy("127.0.0.1", this.follower.client_port))
    stall_at = this.at - READY_S - STALL * session_s
    sleep_until(stall_at - BUSY_S)
    grant = this.acquire(path, this.coordinator(proxy.hosts, session_s))
    confirm_until(grant, lambda: time.monotonic() >= stall_at)
    proxy.black_hole()
    sleep_until(this.at - READY_S)
    proxy.restore(deliver=True)
    confirm_until(grant, lambda: True)
    return Here(grant)


def after_pause(this: Round, path: str, session_s: float) -> Elsewhere:
    """Its process was stopped for 0.6 T, and one heartbeat was answered after that."""
    pause_at = this.at - READY_S - STALL * session_s
    sleep_until(pause_at - BUSY_S - START_S)
    process = HolderProcess(this.follower.hosts, path, session_s, HOLDER)
    this.cleanup.enter_context(process)
    process.wait_for(Kind.OK, "acquire")
    assert time.monotonic() < pause_at, "the holder's process took too long to start"
    sleep_until(pause_at)
    process.pause(until=this.at - READY_S)
    process.wait_for(Kind.NOTE, "confirmed")
    return Elsewhere(process)


Scenario = Callable[[Round, str, float], Here | Elsewhere]

SCENARIOS: dict[str, Scenario] = {
    "any moment": any_moment,
    "after idling": after_idling,
    "after waiting": after_waiting,
    "after a stall": after_stall,
    "after a pause": after_pause,
}

#: Those that may lose their grant before the cut: a stall or pause of 0.6 T leaves it hardly anything.
MAY_BE_EARLY = frozenset({"after a stall", "after a pause"})


def sleep_until(moment: float) -> None:
    """Let time pass up to a moment of the monotonic clock: the scenario is about what a session is worth then."""
    threading.Event().wait(max(0.0, moment - time.monotonic()))
