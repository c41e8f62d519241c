"""Plays one cell: brings the victim to its point, lets the fault strike, and looks at everything afterwards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from kazoo.exceptions import NoNodeError

from tests.fault.matrix.actor import Actor, RemoteActor
from tests.fault.matrix.expected import Cell
from tests.fault.matrix.line import Struck
from tests.fault.matrix.metronome import Metronome
from tests.fault.matrix.points import AHEAD, Stage
from tests.fault.matrix.theatre import Theatre, delete_at_once
from tests.fault.matrix.work import CONNECT_S, SESSION_S, Outcome, directories
from tests.support.faults import ROOM_S, members
from tests.support.waiting import PATIENCE_S, wait_until

#: For an acquire that nothing answers.
TIMEOUT_S = 0.8

#: Sooner than the session could take a member along: it was the janitor, as soon as the connection was back.
BY_JANITOR_S = SESSION_S / 2

#: No cell takes so many requests on one connection, heartbeats included: more is a loop that spins.
MANY_REQUESTS = 150

GRANTED = ("same", "anew", "new")


class Play:
    """One cell; `run` it."""

    def __init__(self, cell: Cell, theatre: Theatre, actor: Actor, metronome: Metronome) -> None:
        self._cell = cell
        self._metronome = metronome
        self._point = cell.point
        self._theatre = theatre
        self._line = theatre.line
        self._admin = theatre.admin
        self._actor = actor
        self._directories = directories(theatre.root, cell.kind)
        self._ahead: list[str] = []
        self._first = ""
        self._session: int | None = None
        self._before: set[int] = set()
        self._sessions: set[int | None] = set()

    def run(self) -> None:
        """
        Play it.

        Raises:
            AssertionError: what came of it is not what the table says, or something is left.
        """
        self._before = self._theatre.sessions()
        try:
            self._prepare()
            played = {
                Stage.ACQUIRE: self._acquire,
                Stage.WAIT: self._wait,
                Stage.HOLD: self._hold,
                Stage.RELEASE: self._release,
            }[self._point.stage]()
            self._judge(played)
            self._line.restore()
            self._clean_up(played)
        finally:
            self._line.restore()
            closed = self._actor.begin("close").result(PATIENCE_S)
        self._check_bound(closed)
        assert "closed" == closed.word
        wait_until(self._is_without_threads)
        wait_until(self._is_without_sessions)

    # --- before

    def _prepare(self) -> None:
        cell, point = self._cell, self._point
        self._actor.start(cell.kind, self._theatre.root, self._line.hosts, point.is_borrowed, point.is_cold)
        self._session = self._actor.look().session
        self._sessions = {self._session}
        if not point.is_missing:
            is_recorded = cell.kind == "semaphore" and not point.is_unrecorded
            for directory in self._directories:
                self._admin.create(directory, b'{"v":1,"permits":1}' if is_recorded else b"")
        if point.stage is Stage.WAIT or point.waits_s:
            self._ahead = [
                self._admin.create(f"{directory}/{AHEAD[cell.kind]}", ephemeral=True, sequence=True)
                for directory in self._directories
            ]

    # --- the stages

    def _acquire(self) -> Outcome:
        timeout_s = TIMEOUT_S if self._cell.expected == "timeout" else CONNECT_S
        return self._disturb(lambda: self._actor.begin("acquire", timeout_s)).result(PATIENCE_S)

    def _wait(self) -> Outcome:
        timeout_s = TIMEOUT_S if self._cell.expected == "timeout" else CONNECT_S
        call = self._disturb(lambda: self._actor.begin("acquire", timeout_s))
        if self._cell.fault == "parent":
            self._clear_the_way()  # those of the first path are gone already
        elif self._cell.expected in GRANTED and not self._point.is_woken:
            wait_until(self._is_queued)
            assert not call.done(), call.result()
            self._clear_the_way()
        return call.result(PATIENCE_S)

    def _is_queued(self) -> bool:
        """Whether it waits in its place, or, as the table says, in another one."""
        own = self._theatre.own_members(self._directories[0])
        is_first = own == [self._first] if self._first else bool(own)
        return is_first == (self._cell.expected == "same") and bool(own) and self._actor.look().is_connected

    def _hold(self) -> Outcome:
        call = self._disturb(self._begin_hold)
        if self._cell.expected == "held":
            wait_until(lambda: self._actor.look().status == "HELD")
            assert not call.done(), call.result()
            assert "" == self._actor.leave()
        if self._cell.expected == "deadline":
            # Whoever sees the member gone could be granted: the victim must have stopped believing by then.
            wait_until(lambda: not members(self._admin, self._directories[0]))
            look = self._actor.look()  # "RELEASED" once the body has been left
            assert look.status in ("LOST", "RELEASED", ""), look
            assert not look.remaining_s
        return call.result(PATIENCE_S)

    def _begin_hold(self) -> Future[Outcome]:
        call = self._actor.begin("hold")
        if self._point.is_late:
            wait_until(lambda: self._actor.look().status == "HELD")
        return call

    def _release(self) -> Outcome:
        granted = self._actor.begin("acquire", CONNECT_S).result(PATIENCE_S)
        assert "granted" == granted.word
        return self._disturb(lambda: self._actor.begin("release")).result(PATIENCE_S)

    # --- the fault

    def _disturb(self, begin: Callable[[], Future[Outcome]]) -> Future[Outcome]:
        """Have a call begin, and the fault strike it at its point."""
        point, kind, fault = self._point, self._cell.kind, self._cell.fault
        call: list[Future[Outcome]] = []
        if point.is_late:
            call.append(begin())
        if point.after_lost_create:
            self._line.cut_after("multi" if kind == "multi" else "create2", 0)
        operation, skip = point.operation_of(kind), point.skip[kind]
        struck: Struck | None = None
        if operation is not None:
            arm = {"cut": self._line.cut_before, "lost": self._line.cut_after}.get(fault, self._line.hold)
            # Heartbeats are multis too, on the member: the request that records a limit names its directory.
            struck = arm(operation, skip, self._directories[0] if point.is_unrecorded else "")
        if not call:
            call.append(begin())
        self._lead_to_the_point()
        if struck is not None:
            struck.wait()
        own = self._theatre.own_members(self._directories[0])
        self._first = own[0] if own else ""
        if fault not in ("cut", "lost"):
            getattr(self, f"_strike_{fault}")(call[0])
            if struck is not None:
                self._let_go(struck)
        return call[0]

    def _lead_to_the_point(self) -> None:
        if not self._point.operation or self._point.is_woken or self._point.waits_s:
            count = (
                2 if self._cell.kind == "semaphore" else 1
            )  # its directory as well; a multi-lock, one by one
            wait_until(lambda: self._actor.look().watches == count and self._actor.look().is_settled)
        if self._point.waits_s:
            give_way = Future[None]()
            try:
                give_way.result(self._point.waits_s)
            except TimeoutError:
                self._clear_the_way()
        if self._point.is_woken:
            self._clear_the_way()

    def _let_go(self, struck: Struck) -> None:
        if self._cell.fault == "reconnect":
            struck.drop()
            wait_until(lambda: not self._actor.look().is_connected)
            self._line.restore()
        else:
            struck.release()
        if self._cell.fault == "stop":
            self._remote.resume()

    def _strike_reconnect(self, call: Future[Outcome]) -> None:
        self._line.break_down()
        if self._point.operation is None:
            wait_until(lambda: not self._actor.look().is_connected)
            self._line.restore()

    def _strike_expired(self, call: Future[Outcome]) -> None:
        look = self._actor.look()
        assert look.session is not None
        self._line.expire((look.session, bytes.fromhex(look.password)))

    def _strike_hole(self, call: Future[Outcome]) -> None:
        self._line.black_hole()

    def _strike_parent(self, call: Future[Outcome]) -> None:
        delete_at_once(self._admin, self._theatre.root if self._point.is_missing else self._directories[0])

    def _strike_node(self, call: Future[Outcome]) -> None:
        self._admin.delete(f"{self._directories[0]}/{self._first}")

    def _strike_data(self, call: Future[Outcome]) -> None:
        for path in (f"{self._directories[0]}/{self._first}", *self._ahead):
            if self._admin.exists(path):
                self._admin.set(path, b"overwritten")

    def _strike_cancel(self, call: Future[Outcome]) -> None:
        self._actor.cancel()
        if self._cell.expected == "cancelled":
            call.result(1.0)

    def _strike_interrupt(self, call: Future[Outcome]) -> None:
        self._remote.interrupt()
        call.result(PATIENCE_S)

    def _strike_fork(self, call: Future[Outcome]) -> None:
        assert "" == self._remote.fork("" if self._point.is_cold else self._theatre.hosts, self._theatre.root)

    def _strike_stop(self, call: Future[Outcome]) -> None:
        session = self._actor.look().session
        self._remote.stop()
        wait_until(lambda: session not in self._theatre.sessions())
        if self._point.operation is None:
            self._remote.resume()

    @property
    def _remote(self) -> RemoteActor:
        assert isinstance(self._actor, RemoteActor)
        return self._actor

    # --- after

    def _judge(self, outcome: Outcome) -> None:
        word = outcome.word
        if word == "granted":
            is_same = not self._first or self._first == outcome.name
            is_new = None is not self._session != outcome.session
            word = "new" if is_new else "same" if is_same else "anew"
        assert self._cell.expected == word, f"{word}: {outcome}"
        if self._cell.fault != "stop":
            self._check_bound(outcome)
        assert self._theatre.requests_of(outcome.session) < MANY_REQUESTS

    def _check_bound(self, outcome: Outcome) -> None:
        late_s = self._metronome.worst_since(outcome.began)
        assert outcome.took_s <= outcome.limit_s + ROOM_S + late_s, (outcome, late_s)

    def _clean_up(self, outcome: Outcome) -> None:
        """Nothing is left, and the same lock object works."""
        wait_until(lambda: self._actor.look().is_connected)
        self._sessions.add(self._actor.look().session)
        if outcome.word == "granted":
            self._release_now()
        wait_until(lambda: not any(map(self._theatre.own_members, self._directories)), timeout=BY_JANITOR_S)
        self._clear_the_way()
        again = self._actor.begin("acquire", CONNECT_S).result(PATIENCE_S)
        assert "granted" == again.word, again
        wait_until(lambda: [again.name] == members(self._admin, self._directories[0]))
        self._release_now()
        assert not any(members(self._admin, directory) for directory in self._directories)
        wait_until(lambda: not self._actor.look().in_use)
        wait_until(lambda: not self._theatre.watched())

    def _release_now(self) -> None:
        released = self._actor.begin("release").result(PATIENCE_S)
        self._check_bound(released)
        assert "true" == released.word, released

    def _clear_the_way(self) -> None:
        while self._ahead:
            try:
                self._admin.delete(self._ahead.pop())
            except NoNodeError:
                continue

    def _is_without_threads(self) -> bool:
        return not self._actor.threads()

    def _is_without_sessions(self) -> bool:
        """Whether the server has none of the victim's sessions any more; on a shared one, others come and go."""
        sessions = self._theatre.sessions()
        if self._theatre.is_shared:
            return not sessions & self._sessions
        return sessions <= self._before
