"""
One value in one znode that many change: read, decide, write by version, again if somebody was faster.

The decisions, common to threads and asyncio. A change is applied exactly once, also when the answer to a write is lost:
each carries an id, the last ids stand in the znode with what came of them, and whoever is unsure looks them up.
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recipes._znodes import Found, Record, Znodes, is_over, left, pause, pause_s
from recipes._znodes_aio import AsyncZnodes
from recipes.errors import WaitTimeoutError
from zkcoord import ConnectionLostError

#: Changes whose ids stand in the znode. Who is cut off for more changes of others than that cannot know any more.
REMEMBERED = 32

#: A value before a change, None when there is none yet; returns the one after it, or None to leave it alone.
Change = Callable[[Any | None], Any | None]


@dataclass(frozen=True)
class Form:
    """
    A bare value without room for anything else, as other libraries write it. In place of a `Record`.

    Attributes:
        path: the znode.
        decode: from data; raises `QueueConflictError` for anything else.
        encode: to data.
    """

    path: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def read(record: Record | Form, found: Found) -> Any | None:
    """Return the value that was found; None when there is none yet."""
    if found is None:
        return None
    if isinstance(record, Form):
        return record.decode(found[0])
    return (record.found(found) or {}).get("value")


@dataclass
class Applying:
    """
    One change on its way. `look` at what is stored, write what it says, tell it by `lost` if no answer came.

    Attributes:
        record: whose znode it is.
        change: the decision; may be called again.
        is_done: it was applied, or `change` left the value alone.
        is_hopeless: nobody can know any more whether it was applied.
        value: what the change made, once `is_done`; None when it left the value alone.
    """

    record: Record | Form
    change: Change
    is_done: bool = False
    value: Any | None = None
    is_hopeless: bool = False
    _id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _unsure_at: int | None = None
    _pending: Any | None = None

    def look(self, found: Found) -> bytes | None:
        """
        Say what to write, on the version that was found (None: create it); None when there is nothing to write.

        Raises:
            ConnectionLostError: a write may have been applied, and too much has happened since to know.
        """
        if isinstance(self.record, Form):
            return self._look_at_value(self.record, found)
        fields = self.record.found(found) or {}
        recent = fields.get("recent", [])
        mine = next((entry for entry in recent if entry[0] == self._id), None)
        if mine is not None:
            self.is_done, self.value = True, mine[1]
            return None
        version = -1 if found is None else found[1].version
        if self._unsure_at is not None and version - self._unsure_at > REMEMBERED:
            self.is_hopeless = True
            raise ConnectionLostError(
                f"no answer came to a change of {self.record.path}, and {version - self._unsure_at} others have"
                " followed: it may have been applied",
                maybe_applied=True,
            )
        changed = self.change(fields.get("value"))
        if changed is None:
            self.is_done = True
            return None
        kept = [[self._id, changed], *recent[: REMEMBERED - 1]]
        self._pending = changed
        return self.record.encode(value=changed, recent=kept)

    def _look_at_value(self, form: Form, found: Found) -> bytes | None:
        if self._unsure_at is not None:
            self.is_hopeless = True
            raise ConnectionLostError(
                f"no answer came to a change of {form.path}: it may have been applied", maybe_applied=True
            )
        changed = self.change(read(form, found))
        if changed is None:
            self.is_done = True
            return None
        self._pending = changed
        return form.encode(changed)

    def written(self) -> None:
        """The write was answered: it is applied."""
        self.is_done, self.value = True, self._pending

    def lost(self, found: Found) -> None:
        """No answer came to the write on what was found."""
        if self._unsure_at is None:
            self._unsure_at = -1 if found is None else found[1].version

    def ended(self, error: ConnectionLostError) -> ConnectionLostError:
        """Return what to raise when the time is up without an answer."""
        if self._unsure_at is None:
            return error
        return ConnectionLostError(f"{error}; an earlier write may have been applied", maybe_applied=True)


def apply(znodes: Znodes, record: Record | Form, change: Change, give_up: float | None) -> Any | None:
    """
    Change the value; return the new one, or None when `change` left it alone.

    Raises:
        ConnectionLostError: no answer in time; it may have been applied if it says so.
        WaitTimeoutError: others were faster each time. Nothing was applied.
        QueueConflictError: the znode is another recipe's.
    """
    applying, began, tries = Applying(record, change), time.monotonic(), 0
    while True:
        try:
            found = znodes.get(record.path, give_up)
            data = applying.look(found)
            if data is None:
                return applying.value
            if found is None:
                is_written = znodes.create(record.path, data, give_up)
            else:
                is_written = znodes.set(record.path, data, found[1].version, give_up) is not None
        except ConnectionLostError as error:
            if error.maybe_applied:
                applying.lost(found)
            if is_over(give_up) or applying.is_hopeless:
                raise applying.ended(error) from error
            is_written = False
        if is_written:
            applying.written()
            return applying.value
        tries += 1
        if is_over(give_up):
            raise WaitTimeoutError(
                record.path, time.monotonic() - began, "others changed it first, each time,"
            )
        pause(tries, give_up)


async def apply_async(
    znodes: AsyncZnodes, record: Record | Form, change: Change, give_up: float | None
) -> Any | None:
    """As `apply`, for a task."""
    applying, began, tries = Applying(record, change), time.monotonic(), 0
    while True:
        try:
            found = await znodes.get(record.path, give_up)
            data = applying.look(found)
            if data is None:
                return applying.value
            if found is None:
                is_written = await znodes.create(record.path, data, give_up)
            else:
                is_written = await znodes.set(record.path, data, found[1].version, give_up) is not None
        except ConnectionLostError as error:
            if error.maybe_applied:
                applying.lost(found)
            if is_over(give_up) or applying.is_hopeless:
                raise applying.ended(error) from error
            is_written = False
        if is_written:
            applying.written()
            return applying.value
        tries += 1
        if is_over(give_up):
            raise WaitTimeoutError(
                record.path, time.monotonic() - began, "others changed it first, each time,"
            )
        await asyncio.sleep(min(pause_s(tries), left(give_up) or 0.0) if give_up else pause_s(tries))
