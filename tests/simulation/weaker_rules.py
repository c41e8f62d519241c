"""
Simpler ways to reckon until when a session lives, each of which somebody might think good enough.

They stand in for `zkcoord._core.lease.Lease` in a simulation, which must find every one of them unsafe; each fails in
the way for which ``docs/concepts/session-loss.md`` gives measurements.
"""

from zkcoord._core.lease import Lease, heartbeat_s, margin_s


class FromTheCreateAlone(Lease):
    """``c + T``: every answered confirmed request counts from when it was sent."""

    less_s = 0.0

    def answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        super().answered(sent, arrived, is_confirmed)
        if is_confirmed:
            self.basis = max(self.basis, sent - self.less_s)


class LessOneHeartbeat(FromTheCreateAlone):
    """``c + T - h``."""

    def __init__(self, timeout_s: float, tick_s: float | None = None) -> None:
        super().__init__(timeout_s, tick_s)
        self.less_s = heartbeat_s(timeout_s)


class LessHalfATick(FromTheCreateAlone):
    """``c + T - tick/2``, or more taken off: no session is shorter than two ticks."""

    def __init__(self, timeout_s: float, tick_s: float | None = None) -> None:
        super().__init__(timeout_s, tick_s)
        self.less_s = timeout_s / 4


class LessBoth(FromTheCreateAlone):
    """``c + T - h - tick/2``."""

    def __init__(self, timeout_s: float, tick_s: float | None = None) -> None:
        super().__init__(timeout_s, tick_s)
        self.less_s = heartbeat_s(timeout_s) + timeout_s / 4


class SendTimesOnly(Lease):
    """The pair rule with send times compared: what was sent early may have been received late."""

    def answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        super().answered(sent, sent, is_confirmed)


class FromTheReply(Lease):
    """The pair rule reckoned from when answers came."""

    def answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        super().answered(arrived, arrived, is_confirmed)


class ReadsConfirm(Lease):
    """Any answer counts as the leader's: a follower that is cut off goes on answering reads."""

    def answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        super().answered(sent, arrived, True)


class AConnectAlone(Lease):
    """A Connect counts by itself: a leader that the others have deserted goes on taking sessions back."""

    def connected(self, sent: float | None) -> None:
        super().connected(sent)
        if sent is not None:
            self.basis = max(self.basis, sent)


class NoGap(Lease):
    """The pair rule without its K: the report to the leader may be still to come."""

    def __init__(self, timeout_s: float, tick_s: float | None = None) -> None:
        super().__init__(timeout_s, 0.0)


class LateByTheMargin(Lease):
    """The margin added in place of taken off."""

    def __init__(self, timeout_s: float, tick_s: float | None = None) -> None:
        super().__init__(timeout_s, tick_s)
        self._margin_s = -margin_s(timeout_s)


WEAKER = (
    FromTheCreateAlone,
    LessOneHeartbeat,
    LessHalfATick,
    LessBoth,
    SendTimesOnly,
    FromTheReply,
    ReadsConfirm,
    AConnectAlone,
    NoGap,
    LateByTheMargin,
)
