"""
Who holds what in this process: re-entry, and one acquire at a time per owner and path.

Everything here is local. A hold is found again by its path, its rule's marker and its owner; a hold that is over is not
found. Two threads that use one owner name are one owner: the second waits until the first has its answer and then
re-enters, instead of queueing behind itself on the server.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from zkcoord._session.hold import Hold, Key


class Claimant(Protocol):
    """A call that acquires."""

    @property
    def counted(self) -> list[Hold]: ...


class Claim(Enum):
    """What `Registry.claim` answers when there is nothing to re-enter."""

    FREE = auto()
    PENDING = auto()
    PARTIAL = auto()


@dataclass(slots=True)
class _Slot:
    hold: Hold | None = None
    claimant: object = None
    waiting: list[Callable[[], None]] = field(default_factory=list)


class Registry:
    """The holds of one coordinator. Thread-safe; never blocks."""

    def __init__(self) -> None:
        # Re-entrant: looking at a hold may find it lost, which forgets its slot.
        self._lock = threading.RLock()
        self._slots: dict[Key, _Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def claim(self, keys: Sequence[Key], on_settled: Callable[[], None], claimant: Claimant) -> Hold | Claim:
        """
        Re-enter, or begin an acquire.

        Args:
            keys: what is acquired, and by whom; several for a multi-lock.
            on_settled: told once after `Claim.PENDING`, when it is worth asking again. From any thread; must not block.
            claimant: the call that asks. Every count made on its behalf is noted in its `counted`, in the same breath,
                so that an interrupt at any moment leaves it known what to give back.

        Returns:
            The live hold, counted once more (give it back with `leave`), when it is the hold of all keys;
            `Claim.FREE` when the caller may acquire now, and must call `settle` when that is over;
            `Claim.PENDING` when another thread is acquiring for the same owner;
            `Claim.PARTIAL` when the owner holds some of the keys, or all but not as one hold.
        """
        with self._lock:
            holds: list[Hold | None] = []
            for key in keys:
                slot = self._slots.get(key)
                if slot is not None and slot.claimant is not None:
                    slot.waiting.append(on_settled)
                    return Claim.PENDING
                hold = slot.hold if slot is not None else None
                holds.append(hold if hold is not None and _is_live(hold) else None)
            first = holds[0]
            if first is not None and all(hold is first for hold in holds):
                first.grants += 1
                claimant.counted.append(first)
                return first
            if any(hold is not None for hold in holds):
                return Claim.PARTIAL
            for key in keys:
                self._slots[key] = _Slot(claimant=claimant)
            return Claim.FREE

    def settle(self, keys: Sequence[Key], hold: Hold | None, claimant: Claimant) -> None:
        """End an acquire that `claimant` began; with its hold, counted once, when granted. Again does nothing."""
        waiting: list[Callable[[], None]] = []
        with self._lock:
            slots = [(key, self._slots.get(key)) for key in keys]
            begun = [(key, slot) for key, slot in slots if slot is not None and slot.claimant is claimant]
            if begun and hold is not None:
                hold.keys = tuple(keys)
                hold.grants = 1
                claimant.counted.append(hold)
            for key, slot in begun:
                waiting += slot.waiting
                slot.waiting = []
                if hold is None:
                    del self._slots[key]
                else:
                    slot.hold = hold
                slot.claimant = None
        if begun and hold is not None:
            hold.on_lost(lambda reason: self.forget(hold))
        for told in waiting:
            told()

    def find(self, key: Key) -> Hold | None:
        """Return the owner's live hold, if it has one."""
        with self._lock:
            slot = self._slots.get(key)
            hold = slot.hold if slot is not None else None
            return hold if hold is not None and _is_live(hold) else None

    def leave(self, claim: list[Hold]) -> Hold | None:
        """
        Give one count back, once.

        Args:
            claim: a claimant's `counted`; emptied in the same breath as the count goes down. Empty: nothing to do.

        Returns:
            The hold when that was its last count, and the caller must end it now.
        """
        with self._lock:
            if not claim:
                return None
            hold = claim[0]
            # No call between these two: an interrupt can only strike after both.
            hold.grants -= 1
            del claim[:]
            if hold.grants:
                return None
            self.forget(hold)
            return hold

    def forget(self, hold: Hold) -> None:
        """Take a hold off that is over. Again does nothing."""
        with self._lock:
            for key in hold.keys:
                slot = self._slots.get(key)
                if slot is not None and slot.hold is hold:
                    del self._slots[key]


def _is_live(hold: Hold) -> bool:
    return hold.loss() is None and not hold.is_over
