"""The moments at which Python gives no way to guard against Ctrl-C, and which the tests of it leave out."""

from __future__ import annotations

from types import FrameType

from zkcoord._sync.base import Lock
from zkcoord._sync.commit import HeldTransaction
from zkcoord._sync.grants import Grant

#: The very entry of an ``__exit__``, and a `Grant` that is returned but not entered yet.
UNGUARDED = frozenset(
    each.__code__ for each in (Lock.__exit__, Grant.__exit__, Grant.__enter__, HeldTransaction.__exit__)
)


def is_finalizing(frame: FrameType | None) -> bool:
    """Whether an object is being thrown away: Python reports what is raised there, and goes on."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None
