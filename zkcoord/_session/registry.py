"""
Who holds what in this process: re-entry, and one acquire at a time per owner and path.

Everything here is local. A hold is found again by its path, its rule's marker and its owner; a hold that is over is not
found. Two threads that use one owner name are one owner: the second waits until the first has its answer and then
re-enters, instead of queueing behind itself on the server.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from zkcoord._session.hold import Hold

#: Path(s), marker, and the owner's key.
Key = tuple[str, str, str]


class Claimant(Protocol):
    """A call that acquires."""

    @property
    def counted(self) -> list[Hold]: ...


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

    def claim(self, key: Key, on_settled: Callable[[], None], claimant: Claimant) -> Hold | bool:
        """
        Re-enter, or begin an acquire.

        Args:
            key: what is acquired, and by whom.
            on_settled: told once when False was returned and it is worth asking again. From any thread; must not block.
            claimant: the call that asks. Every count made on its behalf is noted in its `counted`, in the same breath,
                so that an interrupt at any moment leaves it known what to give back.

        Returns:
            The live hold, counted once more (give it back with `leave`); True when the caller may acquire now and must
            call `settle` when that is over; False when another thread is acquiring for the same owner.
        """
        with self._lock:
            slot = self._slots.get(key)
            if slot is not None and slot.claimant is not None:
                slot.waiting.append(on_settled)
                return False
            if slot is not None and slot.hold is not None and slot.hold.loss() is None:
                slot.hold.grants += 1
                claimant.counted.append(slot.hold)
                return slot.hold
            self._slots[key] = _Slot(claimant=claimant)
            return True

    def settle(self, key: Key, hold: Hold | None, claimant: Claimant) -> None:
        """End an acquire that `claimant` began; with its hold, counted once, when granted. Again does nothing."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None or slot.claimant is not claimant:
                return
            waiting = slot.waiting
            slot.claimant = None
            if hold is None:
                del self._slots[key]
            else:
                slot.hold = hold
                hold.grants = 1
                claimant.counted.append(hold)
        if hold is not None:
            hold.on_lost(lambda reason: self._forget(key, hold))
        for told in waiting:
            told()

    def leave(self, key: Key, claim: list[Hold]) -> Hold | None:
        """
        Give one count back, once.

        Args:
            key: of the hold.
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
            slot = self._slots.get(key)
            if slot is not None and slot.hold is hold:
                del self._slots[key]
            return hold

    def _forget(self, key: Key, hold: Hold) -> None:
        with self._lock:
            slot = self._slots.get(key)
            if slot is not None and slot.hold is hold:
                del self._slots[key]
