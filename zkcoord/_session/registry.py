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

from zkcoord._session.hold import Hold, Key


class Claim(Enum):
    """What `Registry.claim` answers when there is nothing to re-enter."""

    FREE = auto()
    PENDING = auto()
    PARTIAL = auto()


@dataclass(slots=True)
class _Slot:
    hold: Hold | None = None
    is_pending: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)


class Registry:
    """The holds of one coordinator. Thread-safe; never blocks."""

    def __init__(self) -> None:
        # Re-entrant: looking at a hold may find it lost, which forgets its slot.
        self._lock = threading.RLock()
        self._slots: dict[Key, _Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def claim(self, keys: Sequence[Key], on_settled: Callable[[], None]) -> Hold | Claim:
        """
        Re-enter, or begin an acquire.

        Args:
            keys: what is acquired, and by whom; several for a multi-lock.
            on_settled: told once after `Claim.PENDING`, when it is worth asking again. From any thread; must not block.

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
                if slot is not None and slot.is_pending:
                    slot.waiting.append(on_settled)
                    return Claim.PENDING
                hold = slot.hold if slot is not None else None
                holds.append(hold if hold is not None and hold.loss() is None else None)
            first = holds[0]
            if first is not None and all(hold is first for hold in holds):
                first.grants += 1
                return first
            if any(hold is not None for hold in holds):
                return Claim.PARTIAL
            for key in keys:
                self._slots[key] = _Slot(is_pending=True)
            return Claim.FREE

    def settle(self, keys: Sequence[Key], hold: Hold | None) -> None:
        """End an acquire begun with `claim`; with its hold, counted once, when it was granted."""
        waiting: list[Callable[[], None]] = []
        with self._lock:
            for key in keys:
                slot = self._slots.get(key)
                if slot is None or not slot.is_pending:
                    continue
                waiting += slot.waiting
                slot.waiting = []
                slot.is_pending = False
                if hold is None:
                    del self._slots[key]
                else:
                    slot.hold = hold
            if hold is not None:
                hold.grants = 1
                hold.keys = tuple(keys)
        if hold is not None:
            hold.on_lost(lambda reason: self._forget(hold))
        for told in waiting:
            told()

    def find(self, key: Key) -> Hold | None:
        """Return the owner's live hold, if it has one."""
        with self._lock:
            slot = self._slots.get(key)
            hold = slot.hold if slot is not None else None
            return hold if hold is not None and hold.loss() is None else None

    def leave(self, hold: Hold) -> bool:
        """Give one grant back; True when it was the hold's last, which the caller must end now."""
        with self._lock:
            hold.grants -= 1
            if hold.grants:
                return False
            self._forget(hold)
            return True

    def _forget(self, hold: Hold) -> None:
        with self._lock:
            for key in hold.keys:
                slot = self._slots.get(key)
                if slot is not None and slot.hold is hold:
                    del self._slots[key]
