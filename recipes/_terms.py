"""
What leading is: the leader as others see it, and the term as the leader itself sees it.

The part of `recipes.leader_election` that is the same however one campaigns.
"""

import threading
import time
from dataclasses import dataclass

from recipes._znodes import Record, check_value, left
from zkcoord import ConfigError, Grant, Member, Status


@dataclass(frozen=True, slots=True)
class Leader:
    """
    Who leads, as one look found it.

    Attributes:
        name: the candidate's name; a Curator participant's id. None when it gave none.
        token: of its term.
        value: what it proclaimed in this term; None if nothing.
        member: the candidate in full.
    """

    name: str | None
    token: int
    value: str | None
    member: Member

    def __eq__(self, other: object) -> bool:
        # Not the member: a stamp for display that its holder adds later makes no other leader.
        return isinstance(other, Leader) and (self.token, self.value) == (other.token, other.value)

    def __hash__(self) -> int:
        return hash((self.token, self.value))


# --- decisions, common to threads and asyncio


def leader_of(members: tuple[Member, ...], proclaimed: dict[str, object] | None) -> Leader | None:
    """Say who leads. What was proclaimed in an earlier term is not the leader's."""
    first = next((member for member in members if member.holds), None)
    if first is None:
        return None
    value = proclaimed.get("value") if proclaimed and proclaimed.get("token") == first.token else None
    return Leader(first.label, first.token, value if isinstance(value, str) else None, first)


class TermSignal:
    """The end of a term: lost, resigned, or asked for by `LeaderElection.stop`. Computed at each look."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._changed = threading.Event()
        self._is_asked = False

    def is_set(self) -> bool:
        """Whether the leader must stop leading. It never goes back."""
        return self._is_asked or self._grant.status in (Status.LOST, Status.RELEASED)

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until it is set, at most `timeout` seconds; whether it is. A loss is seen without any network."""
        give_up = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            rest = left(give_up)
            if rest == 0:
                return False
            # Its deadline moves on with each heartbeat: look again when it would have passed.
            until_deadline = self._grant.remaining() + 0.001
            self._changed.wait(until_deadline if rest is None else min(rest, until_deadline))
        return True

    def set(self) -> None:
        """End the term for those who look at it. The lock is still held."""
        self._is_asked = True
        self._changed.set()

    def look(self) -> None:
        """Wake those who wait, to look again."""
        self._changed.set()


class Term:
    """
    One time of leading.

    Attributes:
        path: the election's path.
        token: larger than that of every earlier term; hand it to whatever the leader writes to.
        lost: set when the leader must stop, for whatever reason.
        grant: the lock underneath, for `transaction`, `verify` and `on_lost`.
    """

    def __init__(self, grant: Grant, record: Record) -> None:
        self.path = grant.path
        self.token = grant.token
        self.grant = grant
        self.lost = TermSignal(grant)
        self._record = record
        self._unsubscribe = grant.on_lost(lambda grant, reason: self.lost.look())

    def __repr__(self) -> str:
        return f"<Term {self.path} token={self.token} {'over' if self.lost.is_set() else 'leading'}>"

    def check(self, min_remaining: float = 0.0) -> None:
        """Return if this surely is the leader for `min_remaining` more seconds; else `GrantLostError`. No I/O."""
        self.grant.check(min_remaining)

    def remaining(self) -> float:
        """Seconds for which this surely is the leader if nothing is heard any more; 0 when it is not."""
        return self.grant.remaining()

    def proclaim(self, value: str, *, timeout: float | None = None) -> None:
        """
        Publish a value, such as an address, for `LeaderElection.leader` and `observe`. It ends with the term.

        Raises:
            ConfigError: not text, or more than 1 MB.
            GrantLostError: no longer the leader; nothing was published.
            ConnectionLostError: no answer came; it may have been published.
        """
        if not isinstance(value, str):
            raise ConfigError(f"value must be str, not {type(value).__name__}")
        data = check_value("value", self._record.encode(token=self.token, value=value))
        with self.grant.transaction(timeout) as writes:
            writes.set_data(self.path, data)

    def resign(self) -> bool:
        """
        Give the leadership up at once. `lost` is set before anybody else can lead.

        For the code that leads, when it has stopped what it did. From elsewhere use `LeaderElection.stop`, which waits.

        Returns:
            False when the term was over already.
        """
        self.lost.set()
        return self.grant.release()

    def _close(self) -> None:
        self._unsubscribe()
        self.lost.set()
