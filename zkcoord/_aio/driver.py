"""Sleeping in a task until a contender, or a request, has its answer. No decisions here."""

import asyncio
import threading
from typing import Any

from zkcoord._core.messages import Event, Node, Outcome, Stop, Stopped, Up, Won
from zkcoord._refusals import refusal, refused_turn
from zkcoord._session import clock, kazoo_private
from zkcoord._session.hold import Hold
from zkcoord._session.loops import off_loop, tell
from zkcoord._session.registry import Claim
from zkcoord._session.requests import LinkLostError
from zkcoord._session.runner import Cancelled
from zkcoord._session.session import Session
from zkcoord._spec import OUTCOME_S, AcquireCall, TimedOut
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConfigError

#: Longest sleep of a timer: a day, since event loops refuse some longer ones.
_MAX_SLEEP_S = 86_400.0


class Signal:
    """A one-shot event of the running loop, set from any thread, with an absolute deadline."""

    __slots__ = ("_future", "_is_set", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._is_set = False

    def set(self) -> None:
        """Wake the waiter; again does nothing."""
        if not self._is_set:
            self._is_set = True
            tell(self._loop, self._wake)

    async def wait(self, give_up: float | None) -> bool:
        """Sleep until set, or until `give_up` on the lease's clock; whether it was set."""
        while not self._is_set:
            left = _MAX_SLEEP_S if give_up is None else min(_MAX_SLEEP_S, give_up - clock.now())
            if left <= 0:
                return self._is_set
            self._future = self._loop.create_future()
            timer = None if give_up is None else self._loop.call_later(left, self._wake)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        return True

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class _Turn(Signal):
    """The wait for another task that acquires for the same owner; stopped like any pending acquire."""

    __slots__ = ("why",)

    def __init__(self) -> None:
        super().__init__()
        self.why: object = None

    def post(self, event: Event) -> None:
        """Take an event in, as a runner does; only the order to stop matters."""
        if isinstance(event, Stop):
            self.why = event.why
            self.set()


class _Connected(Signal):
    """The wait for a connection, which no more comes once the session is stopped."""

    __slots__ = ("is_up",)

    def __init__(self) -> None:
        super().__init__()
        self.is_up = False

    def post(self, event: Event) -> None:
        """Take an event in, as a runner does; only a connection and the order to stop matter."""
        if isinstance(event, Up | Stop):
            self.is_up = isinstance(event, Up)
            self.set()


async def session_of(coordinator: Coordinator) -> Session:
    """Return a coordinator's session; connecting begins off the loop if need be."""
    return coordinator.session() if coordinator.is_started else await off_loop(coordinator.session)


async def wait_connected(session: Session, give_up: float) -> bool:
    """Wait for a connection; whether there is one."""
    connected = _Connected()
    try:
        is_up = session.join(connected) is not None
        return is_up or (await connected.wait(give_up) and connected.is_up)
    finally:
        session.forget(connected)


async def acquire(ask: AcquireCall, session: Session) -> Hold | None:
    """
    Acquire, or re-enter.

    What the call has got at any moment is noted in `ask`; after an exception the caller must call `ask.undo`.

    Returns:
        The hold, counted for one more grant; None when a try found somebody ahead and the call wants None then.

    Raises:
        As documented at `AsyncZkLock.acquire`.
    """
    if kazoo_private.is_kazoo_thread(session.client, threading.current_thread()):
        raise ConfigError(
            "a lock cannot be acquired on one of kazoo's own threads (a listener or watch callback), which would"
            " have to deliver the answer: run the loop on a thread of your own"
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
        await _wait_for_turn(ask, session, turn, started, give_up)
    hold = await _contend(ask, ask.companion(), started, give_up)
    ask.coordinator.registry.settle(ask.keys, hold, ask)
    return hold


async def _wait_for_turn(
    ask: AcquireCall, session: Session, turn: _Turn, started: float, give_up: float | None
) -> None:
    try:
        ask.pending.add(turn)
        session.join(turn)
        is_settled = await turn.wait(give_up)
    finally:
        ask.pending.discard(turn)
        session.forget(turn)
    if isinstance(turn.why, Cancelled) or not is_settled:
        raise refused_turn(ask, turn.why, clock.now() - started, "task")


async def _contend(
    ask: AcquireCall, companion: Node | None, started: float, give_up: float | None
) -> Hold | None:
    done = Signal()
    outcomes: list[Outcome] = []

    def ended(outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    runner = ask.start(companion, ended)
    if not await done.wait(give_up):
        runner.post(Stop(TimedOut.TIMED_OUT))
        await done.wait(clock.now() + OUTCOME_S)
    ask.pending.discard(runner)
    outcome = outcomes[0] if outcomes else Stopped(TimedOut.TIMED_OUT, runner.position)
    if isinstance(outcome, Won):
        return ask.won[0]
    if ask.is_worth_another(outcome):
        return await _contend(ask, ask.companion(), started, give_up)
    error = refusal(ask, outcome, runner, clock.now() - started)
    if error is not None:
        raise error
    return None


async def call(session: Session, request: Any, give_up: float, *, is_confirmed: bool = False) -> Any:
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
    try:
        is_answered = await done.wait(give_up)
    except BaseException:
        session.requests.cancel(sent)
        raise
    if not is_answered:
        raise LinkLostError(maybe_applied=not session.requests.cancel(sent))
    value, error = answers[0]
    if error is not None:
        raise error
    return value
