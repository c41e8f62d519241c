"""
What `run`, `elect` and `lock-hold` do: wait for the lock on a thread, then live under it, with one loop for everything.

The loop tells the keeper until when the lock is surely held; the keeper ends the command in time. Only when the command
and its group are gone is the lock given back. A signal while waiting ends the wait; one that comes before the command
has started means that it does not start.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from zkcoord import Grant, ZkLock, ZkReadWriteLock, ZkSemaphore
from zkcoord._session import clock
from zkcoord.cli import exit_codes
from zkcoord.cli.connect import connect
from zkcoord.cli.keeper_link import KeeperLink
from zkcoord.cli.mailbox import ENDING, Mailbox
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConfigError

#: Asked of the server: long enough that a short trouble of the network does not end a command.
SESSION_TIMEOUT_S = 15.0

#: From TERM to KILL when nothing is said; a third of the session timeout where that is less.
DEFAULT_GRACE_S = 5.0

#: A command that should be dead and is not is told of, this often.
_COMPLAIN_S = 5.0

#: Names of the locks that the surrounding `run` commands hold, as a JSON list.
NAMES_VARIABLE = "ZKCOORD_LOCK_NAMES"

AnyLock = Any  # ZkLock, a side of ZkReadWriteLock, or ZkSemaphore: what they share has no public name


@dataclass(frozen=True, slots=True)
class Plan:
    """
    What to hold, and how.

    Attributes:
        path: the lock's path.
        mode: "lock", "shared", "exclusive" (both sides of a read/write lock) or "permits".
        weight, limit: permits to take, and of how many (None = of as many as are recorded).
        dialect: of the members.
        label: for operators.
        wait_s: seconds to wait; None = for ever, 0 = one try.
        max_hold_s: the longest time under the lock.
        min_hold_s: the shortest time, also when the command ends sooner.
        grace_s: from TERM to KILL; None = chosen here.
    """

    path: str
    mode: str = "lock"
    weight: int = 1
    limit: int | None = None
    dialect: str = "curator"
    label: str | None = None
    wait_s: float | None = None
    max_hold_s: float | None = None
    min_hold_s: float = 0.0
    grace_s: float | None = None

    def lock(self, coordinator: Coordinator) -> AnyLock:
        """Make the lock object."""
        options: dict[str, Any] = {"client": coordinator, "label": self.label, "max_hold": self.max_hold_s}
        if self.mode == "permits":
            return ZkSemaphore(self.path, permits=self.limit, **options)
        if self.mode == "lock":
            return ZkLock(self.path, dialect=self.dialect, **options)
        both = ZkReadWriteLock(self.path, dialect=self.dialect, **options)
        return both.read if self.mode == "shared" else both.write


class Busy(Exception):
    """`--wait 0`, and somebody is ahead."""


class Interrupted(Exception):
    """A signal ended the wait, or came before the command had started; `number` says which."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


def say(text: str) -> None:
    """Tell people something."""
    click.echo(f"zkcoord: {text}", err=True)


@dataclass
class Holding:
    """One lock, from the wait for it to its release; a signal ends it in order."""

    plan: Plan
    coordinator: Coordinator
    mailbox: Mailbox
    connect_s: float
    is_revoked: bool = field(default=False, init=False)

    def acquire(self) -> Grant:
        """
        Wait for the lock.

        Raises:
            Busy, Interrupted: not held, and nothing of ours is left.
            ZkCoordError: as the lock's acquire raises it.
        """
        done: list[Grant | BaseException | None] = []

        def enter() -> None:
            try:
                connect(self.coordinator, self.connect_s)
                lock = self.plan.lock(self.coordinator)
                weight = {"permits": self.plan.weight} if self.plan.mode == "permits" else {}
                done.append(
                    lock.try_acquire(**weight)
                    if self.plan.wait_s == 0
                    else lock.acquire(timeout=self.plan.wait_s, **weight)
                )
            except BaseException as error:  # raised again by the loop
                done.append(error)
            self.mailbox.poke()

        # It carries the name that operators see.
        worker = threading.Thread(target=enter, name="MainThread", daemon=True)
        worker.start()
        while not done:
            self.check_signals(self.mailbox.wait(_COMPLAIN_S)[0])
        if isinstance(done[0], BaseException):
            raise done[0]
        if done[0] is None:
            raise Busy
        done[0].on_lost(lambda *_: self.mailbox.poke())
        done[0].on_revoke(self._revoked)
        return done[0]

    def check_signals(self, numbers: "list[int] | tuple[int, ...] | Any") -> None:
        """Raise `Interrupted` for the first signal that ends things; a stop from the terminal is carried out."""
        for number in numbers:
            if number in ENDING:
                raise Interrupted(number)
            if number == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _revoked(self, _grant: Grant) -> None:
        self.is_revoked = True
        self.mailbox.poke()

    def grace_s(self) -> float:
        """
        Return the seconds from TERM to KILL.

        Raises:
            ConfigError: `--grace` leaves too little of the session timeout.
        """
        session_s = self.coordinator.session_timeout or SESSION_TIMEOUT_S
        limit_s = min(session_s, self.plan.max_hold_s or session_s) / 3
        if self.plan.grace_s is None:
            return min(DEFAULT_GRACE_S, limit_s)
        if self.plan.grace_s > limit_s:
            raise ConfigError(
                f"--grace can be a third of the session timeout ({session_s:g} s granted) and of --max-hold at most,"
                f" here {limit_s:.2f} s: give less, or a longer --session-timeout"
            )
        return self.plan.grace_s

    def tick_s(self) -> float:
        """Return how often the keeper hears of the deadline."""
        return min(0.5, (self.coordinator.session_timeout or SESSION_TIMEOUT_S) / 20)

    def wait_ready(self, grant: Grant, grace_s: float) -> None:
        """Wait until the first heartbeats have made the deadline so late that the command can start."""
        while grant.remaining() < grace_s * 1.2 and grant.loss_reason is None:
            self.check_signals(self.mailbox.wait(self.tick_s())[0])
        self.check_signals(self.mailbox.wait(0)[0])
        grant.check()

    def stay(self, grant: Grant, held_from: float) -> None:
        """Keep the lock until its shortest time is over; a signal ends that."""
        while (
            left_s := held_from + self.plan.min_hold_s - time.monotonic()
        ) > 0 and grant.loss_reason is None:
            numbers, _ = self.mailbox.wait(min(left_s, _COMPLAIN_S))
            if ENDING.intersection(numbers):
                return


class Command:
    """One run of the command under a grant."""

    def __init__(self, holding: Holding, keeper: KeeperLink, argv: list[str]) -> None:
        self._holding = holding
        self._keeper = keeper
        self._argv = argv
        self._pid = 0
        self._endings = 0
        self._began = time.monotonic()
        self._code: int | None = None
        self._is_loss_told = False
        self._complain_at = float("inf")

    def run(self, grant: Grant) -> int:
        """
        Run it, to the end of its process group; return the exit code.

        Raises:
            Interrupted: a signal came before it had started.
            GrantLostError: so did the loss.
        """
        grace_s = self._holding.grace_s()
        self._holding.wait_ready(grant, grace_s)
        env = child_environment(grant, self._holding)
        self._keeper.spawn(self._argv, env, clock.now() + grant.remaining(), grace_s)
        has_asked = False
        while self._code is None:
            numbers, has_news = self._holding.mailbox.wait(self._holding.tick_s(), self._keeper.socket)
            for number in numbers:
                self._forward(number)
            if self._holding.is_revoked and not has_asked:
                has_asked = True
                say(f"{grant.path} was asked back: TERM to the command")
                self._keeper.signal(signal.SIGTERM)
            self._keeper.may_run_until(clock.now() + grant.remaining())
            self._look(grant)
            if has_news:
                self._take_events(grant)
        return self._code

    def _forward(self, number: int) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            self._endings += 1
            number = signal.SIGKILL if self._endings > 1 else number
        if number == signal.SIGCONT:
            self._keeper.resume()
        else:
            self._keeper.signal(number)

    def _look(self, grant: Grant) -> None:
        reason = grant.loss_reason
        if reason is not None and not self._is_loss_told:
            self._is_loss_told = True
            say(f"lost {grant.path} ({reason}): KILL to the command")
            self._complain_at = time.monotonic() + _COMPLAIN_S
        if time.monotonic() > self._complain_at:
            say(f"the command (process group {self._pid}) does not die")
            self._complain_at = time.monotonic() + _COMPLAIN_S

    def _take_events(self, grant: Grant) -> None:
        try:
            events = self._keeper.events()
        except EOFError as error:
            if self._pid:
                _kill_group(self._pid)
            say(str(error))
            self._code = exit_codes.INTERNAL
            return
        for event in events:
            match event["event"]:
                case "started":
                    self._pid = event["pid"]
                case "failed":
                    self._code = self._not_run(event["errno"])
                case "stopped":
                    os.kill(os.getpid(), signal.SIGSTOP)
                case "ended":
                    self._code = self._ended(grant, event["status"], event["is_ended_by_us"])

    def _not_run(self, number: int) -> int:
        say(f"{self._argv[0]}: {os.strerror(number)}")
        is_missing = number in (2, 20)  # ENOENT, ENOTDIR
        return exit_codes.NOT_FOUND if is_missing else exit_codes.NOT_EXECUTABLE

    def _why(self, grant: Grant) -> str:
        longest_s = self._holding.plan.max_hold_s
        ran_s = time.monotonic() - self._began
        if longest_s is not None and ran_s > longest_s - self._holding.grace_s() - 1.0:
            return f"it may hold {grant.path} for {longest_s:g} s at most"
        if grant.loss_reason is not None:
            return f"{grant.path} was lost ({grant.loss_reason})"
        return f"the ensemble did not confirm in time that {grant.path} is still held"

    def _ended(self, grant: Grant, status: int, is_ended_by_us: bool) -> int:
        if is_ended_by_us or grant.loss_reason is not None:
            say(f"the command was ended: {self._why(grant)}")
            return exit_codes.LOST
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else exit_codes.SIGNAL - code


def child_environment(grant: Grant, holding: Holding) -> dict[str, str]:
    """Return the environment for a command: ours, with what it may want to know of its lock, whatever was there."""
    session = holding.coordinator.session_id or 0
    return {
        **os.environ,
        "ZKCOORD_LOCK_PATH": grant.path,
        "ZKCOORD_LOCK_NODE": f"{grant.path}/{grant.name}",
        "ZKCOORD_LOCK_TOKEN": str(grant.token),
        "ZKCOORD_LOCK_SESSION": f"0x{session & (2**64 - 1):x}",
        "ZKCOORD_LOCK_MODE": holding.plan.mode,
        NAMES_VARIABLE: json.dumps([*outer_locks(), qualified(holding.coordinator, grant.path)]),
    }


def check_nested(coordinator: Coordinator, path: str) -> None:
    """
    Refuse a lock that a surrounding `run` holds: the wait for it could never end.

    Raises:
        ConfigError: it does.
    """
    if qualified(coordinator, path) in outer_locks():
        raise ConfigError(
            f"{path} is held by a `zkcoord run` around this one, which would wait for itself for ever; unset"
            f" {NAMES_VARIABLE} if that is another ensemble's lock"
        )


def outer_locks() -> list[str]:
    """Return the locks of the surrounding `run` commands, outermost first."""
    try:
        names = json.loads(os.environ.get(NAMES_VARIABLE) or "[]")
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def qualified(coordinator: Coordinator, path: str) -> str:
    """Return a lock's path with the chroot."""
    return (coordinator.client.chroot or "") + path


def under_lock(holding: Holding, body: Callable[[Grant], int]) -> int:
    """Acquire, do something under the grant, keep the shortest time, give back; return the exit code."""
    grant = holding.acquire()
    held_from = time.monotonic()
    try:
        code = body(grant)
        holding.stay(grant, held_from)
        return code
    finally:
        grant.release()


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
