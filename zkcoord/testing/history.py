"""
What the clients of a lock did and saw, written down for `zkcoord.testing.checks` to judge.

A history is a list of events. A call is an ``invoke``, followed by ``ok``, ``fail`` (certainly without effect),
``unknown`` (nobody can say), or by nothing, if its process died. While a client holds a lock, each look is a ``held``
event with the local deadline as it stood then, or ``lost`` when the grant was found lost.

All times are of one monotonic clock, which on one machine all processes share. The moment of a look is read *before*
the look: a grant that is held at the look was held at that moment too, however long the process slept in between.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TextIO

from zkcoord.errors import ZkCoordError

if TYPE_CHECKING:  # loading the test kit loads no lock
    from zkcoord import Grant


class Kind(StrEnum):
    """What an event says."""

    INVOKE = "invoke"
    """A call begins."""
    OK = "ok"
    """It returned; for an acquire with `token` and `until`."""
    FAIL = "fail"
    """It certainly had no effect."""
    UNKNOWN = "unknown"
    """It may have had its effect, or may have it later."""
    HELD = "held"
    """A look at a grant: held, surely up to `until`."""
    LOST = "lost"
    """A look at a grant: lost."""
    NOTE = "note"
    """Something else that happened, such as a fault."""


@dataclass(frozen=True, slots=True)
class Event:
    """
    One line of a history.

    Attributes:
        at: when, in seconds of the history's clock.
        client: who; one name for each thread or task that may hold a lock by itself.
        call: ``acquire`` or ``release``; the text of a note.
        token: of the grant that it is about; None where there is none.
        until: the local deadline as it stood then, on the same clock; None if the lock has none.
    """

    at: float
    kind: Kind
    client: str = ""
    call: str = ""
    path: str = ""
    token: int | None = None
    until: float | None = None
    detail: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({name: value for name, value in asdict(self).items() if value not in (None, "")})

    @classmethod
    def from_json(cls, line: str) -> "Event":
        """Read what `to_json` wrote."""
        fields = json.loads(line)
        return cls(**{**fields, "kind": Kind(fields["kind"])})

    def __str__(self) -> str:
        token = "" if self.token is None else f" token {self.token}"
        until = "" if self.until is None else f" until {self.until:.3f}"
        what = " ".join(filter(None, (self.client, self.kind, self.call, self.path)))
        return f"{self.at:.3f} {what}{token}{until} {self.detail}".rstrip()


class Lock(Protocol):
    """What is asked of a lock that `History.acquire` takes; `ZkLock` and its kin have it."""

    @property
    def path(self) -> str: ...
    def acquire(self, *, timeout: float | None) -> "Grant": ...


class History:
    """
    The record of one process. Thread-safe.

    Args:
        clock: a monotonic clock.
        sink: where each event goes as a line of JSON at once, so that the record outlives the process.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, sink: TextIO | None = None) -> None:
        self.clock = clock
        self._sink = sink
        self._lock = threading.Lock()
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far, in the order of time."""
        with self._lock:
            return tuple(sorted(self._events, key=lambda event: event.at))

    def add(self, event: Event) -> Event:
        """Write one event down."""
        with self._lock:
            self._events.append(event)
            if self._sink is not None:
                self._sink.write(event.to_json() + "\n")
                self._sink.flush()
        return event

    def read(self, lines: Iterable[str]) -> None:
        """Take in what another process wrote to its sink. Its last line may be cut short, if it was killed."""
        for line in lines:
            if line.endswith("\n"):
                self.add(Event.from_json(line))

    # --- any lock

    def invoke(self, client: str, call: str, path: str, token: int | None = None) -> Event:
        """A call begins."""
        return self.add(Event(self.clock(), Kind.INVOKE, client, call, path, token))

    def ended(
        self, kind: Kind, client: str, call: str, path: str, token: int | None = None, detail: str = ""
    ) -> Event:
        """A call has ended, as ``ok``, ``fail`` or ``unknown``."""
        return self.add(Event(self.clock(), kind, client, call, path, token, detail=detail))

    def note(self, text: str) -> Event:
        """Something happened that no client did."""
        return self.add(Event(self.clock(), Kind.NOTE, call=text))

    # --- zkcoord's locks

    def acquire(self, lock: Lock, client: str, timeout: float | None) -> "Grant":
        """
        Acquire, and write it down.

        Raises:
            what `lock.acquire` does, after it was written down.
        """
        self.invoke(client, "acquire", lock.path)
        try:
            grant = lock.acquire(timeout=timeout)
        except BaseException as error:
            # No error of zkcoord's ever means "held".
            kind = Kind.FAIL if isinstance(error, ZkCoordError) else Kind.UNKNOWN
            self.ended(kind, client, "acquire", lock.path, detail=repr(error))
            raise
        at = self.clock()
        self.add(Event(at, Kind.OK, client, "acquire", lock.path, grant.token, at + grant.remaining()))
        return grant

    def look(self, grant: "Grant", client: str) -> bool:
        """Look at a grant, write down what was seen, and return whether it is held."""
        at = self.clock()
        left_s = grant.remaining()
        kind = Kind.HELD if left_s > 0 else Kind.LOST
        until = at + left_s if left_s > 0 else None
        self.add(Event(at, kind, client, path=grant.path, token=grant.token, until=until))
        return left_s > 0

    def await_loss(self, grant: "Grant", client: str, timeout: float) -> bool:
        """Wait until a grant is lost, at most `timeout` seconds, and write down what is seen then."""
        grant.lost.wait(timeout)
        if grant.is_released:
            return False
        return not self.look(grant, client)

    def release(self, grant: "Grant", client: str) -> bool:
        """Look once more, give a grant back, and write both down."""
        self.look(grant, client)
        self.invoke(client, "release", grant.path, grant.token)
        try:
            is_ended = grant.release()
        except BaseException as error:
            self.ended(Kind.UNKNOWN, client, "release", grant.path, grant.token, repr(error))
            raise
        self.ended(Kind.OK if is_ended else Kind.FAIL, client, "release", grant.path, grant.token)
        return is_ended


def stdout_history() -> History:
    """A history of a child process: its events go to stdout, for the parent to `read`."""
    return History(sink=sys.stdout)
