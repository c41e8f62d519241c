"""
The body of an ``async with``: its task is cancelled when the grant is lost, and the loss comes out of it.

Cancellations are counted as `asyncio.timeout` counts them: the task knows how many were asked of it, ours is taken
back on leaving, and a `CancelledError` is ours only if none beyond those from before the body is left then. So an
outside cancellation that comes at the same time, before or after, is never swallowed.
"""

import asyncio
from types import TracebackType
from typing import Self

from zkcoord._core.grant import LossReason
from zkcoord._grants import BaseGrant
from zkcoord._session.loops import tell


class Scope:
    """
    From now until `close`, the running task is cancelled, once, when the grant is lost.

    As a context manager it also turns that cancellation into `GrantLostError`.
    """

    __slots__ = ("_before", "_grant", "_has_cancelled", "_is_open", "_loop", "_task", "_undo")

    def __init__(self, grant: BaseGrant) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._grant = grant
        self._loop = asyncio.get_running_loop()
        self._task = task
        self._before = task.cancelling()
        self._has_cancelled = False
        self._is_open = True
        self._undo = grant._hold.on_lost(self._tell)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_ours = self.close(error)
        reason = self._grant._hold.loss()
        if reason is not None and (is_ours or error is None):
            raise self._grant._lost_error(reason) from error

    def _tell(self, reason: LossReason) -> None:
        tell(self._loop, self._lost, reason)

    def _lost(self, reason: LossReason) -> None:
        # On the loop, so between two steps of the task: it is thrown into the body at once, or not at all.
        if self._is_open and not (self._grant.is_released and not self._grant._was_lost):
            self._has_cancelled = self._task.cancel(
                f"the grant of {self._grant.path} is lost: {reason.value}"
            )

    def close(self, error: BaseException | None) -> bool:
        """End it; whether `error`, with which the body ended, is our cancellation and nobody else's."""
        self._is_open = False
        self._undo()
        if not self._has_cancelled:
            return False
        self._has_cancelled = False
        is_alone = self._task.uncancel() <= self._before
        return is_alone and isinstance(error, asyncio.CancelledError) and _is_running(self._task)


def _is_running(task: "asyncio.Task[object]") -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False
