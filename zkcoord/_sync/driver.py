"""Sleeping in a thread until a contender, or a request, has its answer. No decisions here."""

import threading
from typing import Any

from zkcoord._core.messages import Event, Node, Outcome, Stop, Stopped, Won
from zkcoord._refusals import refusal, refused_turn
from zkcoord._session import clock, kazoo_private
from zkcoord._session.hold import Hold
from zkcoord._session.registry import Claim
from zkcoord._session.requests import LinkLostError
from zkcoord._session.runner import Cancelled
from zkcoord._session.session import Session
from zkcoord._spec import OUTCOME_S, AcquireCall, TimedOut
from zkcoord.errors import ConfigError


class Signal:
    """A one-shot event with an absolute deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._is_set = False

    def set(self) -> None:
        """Wake the waiter; again does nothing."""
        self._is_set = True
        try:
            self._lock.release()
        except RuntimeError:
            return

    def wait(self, give_up: float | None) -> bool:
        """Sleep until set, or until `give_up` on the lease's clock; whether it was set."""
        while not self._is_set:
            left = -1.0 if give_up is None else max(0.0, give_up - clock.now())
            if not self._lock.acquire(timeout=min(left, threading.TIMEOUT_MAX)) and left <= 0:
                return self._is_set
        return True


class _Turn(Signal):
    """The wait for another thread that acquires for the same owner; stopped like any pending acquire."""

    def __init__(self) -> None:
        super().__init__()
        self.why: object = None

    def post(self, event: Event) -> None:
        """Take an event in, as a runner does; only the order to stop matters."""
        if isinstance(event, Stop):
            self.why = event.why
            self.set()


def acquire(ask: AcquireCall, session: Session) -> Hold | None:
    """
    Acquire, or re-enter.

    What the call has got at any moment is noted in `ask`; after an exception the caller must call `ask.undo`.

    Returns:
        The hold, counted for one more grant; None when a try found somebody ahead and the call wants None then.

    Raises:
        As documented at `ZkLock.acquire`.
    """
    if kazoo_private.is_kazoo_thread(session.client, threading.current_thread()):
        raise ConfigError(
            "a lock cannot be acquired on one of kazoo's own threads (a listener or watch callback), which would"
            " have to deliver the answer: hand the work to a thread of your own"
        )
    started = clock.now()
    give_up = ask.give_up(started)
    while True:
        turn = _Turn()
        claim = ask.claim(turn.set)
        if isinstance(claim, Hold):
            return claim
        if claim is Claim.FREE:
            break
        _wait_for_turn(ask, session, turn, started, give_up)
    hold = _contend(ask, ask.companion(), started, give_up)
    ask.coordinator.registry.settle(ask.keys, hold, ask)
    return hold


def _wait_for_turn(
    ask: AcquireCall, session: Session, turn: _Turn, started: float, give_up: float | None
) -> None:
    try:
        ask.pending.add(turn)
        session.join(turn)
        is_settled = turn.wait(give_up)
    finally:
        ask.pending.discard(turn)
        session.forget(turn)
    if isinstance(turn.why, Cancelled) or not is_settled:
        raise refused_turn(ask, turn.why, clock.now() - started, "thread")


def _contend(ask: AcquireCall, companion: Node | None, started: float, give_up: float | None) -> Hold | None:
    done = Signal()
    outcomes: list[Outcome] = []

    def ended(outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    runner = ask.start(companion, ended)
    if not done.wait(give_up):
        runner.post(Stop(TimedOut.TIMED_OUT))
        done.wait(clock.now() + OUTCOME_S)
    ask.pending.discard(runner)
    outcome = outcomes[0] if outcomes else Stopped(TimedOut.TIMED_OUT, runner.position)
    if isinstance(outcome, Won):
        return ask.won[0]
    if ask.is_worth_another(outcome):
        return _contend(ask, ask.companion(), started, give_up)
    error = refusal(ask, outcome, runner, clock.now() - started)
    if error is not None:
        raise error
    return None


def call(session: Session, request: Any, give_up: float, *, is_confirmed: bool = False) -> Any:
    """
    Send one request and wait for its answer.

    Raises:
        LinkLostError: no answer by `give_up`.
        Exception: the server's error, one of kazoo's.
    """
    done = Signal()
    answers: list[tuple[Any, Exception | None]] = []

    def answered(value: Any, error: Exception | None) -> None:
        answers.append((value, error))
        done.set()

    sent = session.requests.submit(request, answered, is_confirmed=is_confirmed)
    if not done.wait(give_up):
        raise LinkLostError(maybe_applied=not session.requests.cancel(sent))
    value, error = answers[0]
    if error is not None:
        raise error
    return value
