"""
Who holds what in this process: re-entry, and one acquire at a time per owner and path.

Everything here is local. A hold is found again by its path, its rule's marker and its owner; a hold that is over is not
found. Two threads that use one owner name are one owner: the second waits until the first has its answer and then
re-enters, instead of queueing behind itself on the server.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from zkcoord._session.hold import Hold

#: Path(s), marker, and the owner's key.
Key = tuple[str, str, str]


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

    def claim(self, key: Key, on_settled: Callable[[], None]) -> Hold | bool:
        """
        Re-enter, or begin an acquire.

        Args:
            key: what is acquired, and by whom.
            on_settled: told once when False was returned and it is worth asking again. From any thread; must not block.

        Returns:
            The live hold, counted once more (give it back with `leave`); True when the caller may acquire now and must
            call `settle` when that is over; False when another thread is acquiring for the same owner.
        """
        with self._lock:
            slot = self._slots.get(key)
            if slot is not None and slot.is_pending:
                slot.waiting.append(on_settled)
                return False
            if slot is not None and slot.hold is not None and slot.hold.loss() is None:
                slot.hold.grants += 1
                return slot.hold
            self._slots[key] = _Slot(is_pending=True)
            return True

    def settle(self, key: Key, hold: Hold | None) -> None:
        """End an acquire begun with `claim`; with its hold, counted once, when it was granted."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None or not slot.is_pending:
                return
            waiting, slot.waiting = slot.waiting, []
            slot.is_pending = False
            if hold is None:
                del self._slots[key]
            else:
                slot.hold = hold
                hold.grants = 1
        if hold is not None:
            hold.on_lost(lambda reason: self._forget(key, hold))
        for told in waiting:
            told()

    def find(self, key: Key) -> Hold | None:
        """Return the owner's live hold, if it has one."""
        with self._lock:
            slot = self._slots.get(key)
            hold = slot.hold if slot is not None else None
            return hold if hold is not None and hold.loss() is None else None

    def leave(self, key: Key, hold: Hold) -> bool:
        """Give one grant back; True when it was the hold's last, which the caller must end now."""
        with self._lock:
            hold.grants -= 1
            if hold.grants:
                return False
            slot = self._slots.get(key)
            if slot is not None and slot.hold is hold:
                del self._slots[key]
            return True

    def _forget(self, key: Key, hold: Hold) -> None:
        with self._lock:
            slot = self._slots.get(key)
            if slot is not None and slot.hold is hold:
                del self._slots[key]
