"""
What a hold is, and whether it is still one.

A hold begins when a contender is granted and ends once: released by its owner, or lost. `HoldState` owns that one
transition; `status` computes what a user sees from it, the lease and the connection, at the moment of asking.
"""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What a grant is worth at the moment of asking."""

    HELD = "HELD"
    """Surely held; the leader confirmed it lately."""
    UNCERTAIN = "UNCERTAIN"
    """Still surely held, but the connection is down or a confirmation is late; the deadline is ahead."""
    LOST = "LOST"
    """Not surely held any more; final."""
    RELEASED = "RELEASED"
    """Given back by its owner; final."""


class LossReason(StrEnum):
    """Why a hold ended without its owner's release."""

    EXPIRED = "expired"
    DEADLINE = "deadline"
    DELETED = "deleted"
    REVOKED = "revoked"
    MAX_HOLD = "max_hold"
    CLOSED = "closed"


@dataclass(slots=True)
class HoldState:
    """
    The end of one hold. The first ending wins and stays.

    Attributes:
        lost: why it was lost; None while held or released.
        is_released: whether its owner gave it back.
    """

    lost: LossReason | None = None
    is_released: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it was released or lost."""
        return self.is_released or self.lost is not None

    def lose(self, reason: LossReason) -> bool:
        """End it as lost; False if it was over already."""
        if self.is_over:
            return False
        self.lost = reason
        return True

    def release(self) -> bool:
        """End it as released; False if it was over already."""
        if self.is_over:
            return False
        self.is_released = True
        return True


def loss_at(state: HoldState, deadline: float, now: float, until: float = float("inf")) -> LossReason | None:
    """
    Return why the hold is lost at `now`; None if it is not lost.

    Args:
        state: the hold's ending, if any.
        deadline: until when the session is surely alive.
        now: the moment of asking, on the lease's clock.
        until: when its `max_hold` ends it, whatever the session does.
    """
    if state.lost is not None:
        return state.lost
    if state.is_released or now < min(deadline, until):
        return None
    return LossReason.MAX_HOLD if until <= deadline else LossReason.DEADLINE


def status(state: HoldState, deadline: float, now: float, is_connected: bool, late_after: float) -> Status:
    """
    Compute what the grant is worth at `now`.

    Args:
        state: the hold's ending, if any.
        deadline: until when the session is surely alive.
        now: the moment of asking, on the lease's clock.
        is_connected: whether the session has a connection.
        late_after: the moment from which the next confirmation counts as late.
    """
    if state.is_released:
        return Status.RELEASED
    if loss_at(state, deadline, now) is not None:
        return Status.LOST
    return Status.HELD if is_connected and now < late_after else Status.UNCERTAIN
