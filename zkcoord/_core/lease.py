"""
How long a session is surely alive: the deadline rule.

The server ends a session T after its *leader* last heard of it. A follower reports the sessions it heard from only in
its answers to the leader's pings, every half tick; a forwarded write does not count as hearing. The chain of proof is

    a request heard by the follower (its answer proves that)
    → a report to the leader within the next K ≥ tick/2
    → a request sent after that and answered by the leader's quorum, which travels behind the report on one stream.

Let ``c`` be the send time of the newest answered *leader-confirmed* request. The proof reaches back to ``b``, the send
time of the newest request of any kind whose answer had arrived at least K before ``c`` was sent, on the same
connection, or the send time of this connection's Connect (the leader itself revalidates the session) if that is later
and something leader-confirmed was answered on this connection: a leader that the others have deserted goes on
revalidating sessions until it notices, and only a quorum's answer shows that it led, then and at the Connect.
Until ``b + T - margin`` the session cannot have ended by itself, whatever the network or the process does.

Simpler rules (``c + T``, ``c + T - h - tick/2``, comparing send times only) gave two believers for seconds after a
pause or a stall; ``docs/concepts/session-loss.md`` has the measurements.
"""

from collections import deque
from dataclasses import dataclass

#: Answers that arrive closer together than this are kept as one. Forgetting one only makes the proof older.
SAMPLE_S = 0.01

#: Subtracted from every deadline: room for timer granularity and for the drift of clock rates over one session time.
MIN_MARGIN_S = 0.1

#: The most that K is when the tick time is not stated; covers tickTime ≤ 2.8 s, with 5 % for the leader's own timers.
#: Where K is T/4 instead, that is half a tick or more as long as a server grants no session of less than two ticks
#: (``minSessionTimeout``).
MAX_PAIR_GAP_S = 1.5


def margin_s(timeout_s: float) -> float:
    """Return the safety margin for a session timeout, in seconds."""
    return max(MIN_MARGIN_S, timeout_s / 50)


def heartbeat_s(timeout_s: float) -> float:
    """Return ``h``, the time between two heartbeats of a session that owns members, in seconds."""
    return timeout_s / 8


def pair_gap_s(timeout_s: float, tick_s: float | None = None) -> float:
    """
    Return ``K``, the least time between the two requests of a pair, in seconds.

    Args:
        timeout_s: negotiated session timeout.
        tick_s: the ensemble's tickTime, if known.
    """
    if tick_s is not None:
        return tick_s / 2 * 1.05
    return min(timeout_s / 4, MAX_PAIR_GAP_S)


@dataclass(slots=True)
class _Answer:
    sent: float
    arrived: float


class Lease:
    """
    The proof for one session, fed with its connects and answers. Not thread-safe: the guard locks.

    All times are of one clock that counts system suspend; the caller passes them in.
    """

    __slots__ = (
        "_answers",
        "_connect_sent",
        "_margin_s",
        "_pair_gap_s",
        "_timeout_s",
        "basis",
        "confirmed_sent",
    )

    def __init__(self, timeout_s: float, tick_s: float | None = None) -> None:
        self._timeout_s = timeout_s
        self._pair_gap_s = pair_gap_s(timeout_s, tick_s)
        self._margin_s = margin_s(timeout_s)
        self._answers: deque[_Answer] = deque()
        self._connect_sent: float | None = None
        self.basis = float("-inf")
        self.confirmed_sent = float("-inf")

    @property
    def deadline(self) -> float:
        """The moment up to which the session is surely alive; -inf before the first proof."""
        return self.basis + self._timeout_s - self._margin_s

    def connected(self, sent: float | None) -> None:
        """
        Start a new connection of the same session: answers of an earlier one prove nothing about this one.

        By itself it proves nothing either; the first confirmed answer makes its Connect count.

        Args:
            sent: when its Connect was sent, or an earlier moment; None if nobody saw it.
        """
        self._answers.clear()
        self.confirmed_sent = float("-inf")
        self._connect_sent = sent

    def answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        """
        Take in one answer on this connection, in the order of arrival.

        Args:
            sent: when the request was handed to the connection, or an earlier moment.
            arrived: when its answer was read, or a later moment.
            is_confirmed: whether only a leader with a quorum could answer it: a create, delete or multi that succeeded;
                never a read or a ping.
        """
        if is_confirmed and sent > self.confirmed_sent:
            self.confirmed_sent = sent
            if self._connect_sent is not None:
                self.basis = max(self.basis, self._connect_sent)
                self._connect_sent = None
            self._advance(sent - self._pair_gap_s)
        if not self._answers or arrived - self._answers[-1].arrived >= SAMPLE_S:
            self._answers.append(_Answer(sent, arrived))

    def next_proof(self) -> float | None:
        """The earliest send time of a confirmed request that would move the basis; None with no answer to pair."""
        if self._connect_sent is not None:
            return self._connect_sent
        return self._answers[0].arrived + self._pair_gap_s if self._answers else None

    def _advance(self, arrived_by: float) -> None:
        """Move the basis to the newest answer that had arrived in time; older ones are of no more use."""
        answers = self._answers
        while answers and answers[0].arrived <= arrived_by:
            self.basis = max(self.basis, answers.popleft().sent)
