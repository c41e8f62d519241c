"""
The one clock of deadlines: monotonic, and running on while the machine is suspended.

``time.monotonic()`` stops during suspend on Linux, so a laptop that wakes up would still believe in its grants.
"""

import sys
import time
from collections.abc import Callable


def _suspend_aware() -> Callable[[], float]:
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None and sys.platform == "darwin":
        boottime = time.CLOCK_MONOTONIC  # on macOS this one counts sleep; time.monotonic() does not
    if boottime is None:
        return time.monotonic
    return lambda: time.clock_gettime(boottime)


now: Callable[[], float] = _suspend_aware()
