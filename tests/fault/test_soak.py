"""Nothing grows: threads, descriptors, watches, sessions and memory, whatever happens for however long."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from tests.fault.soak import Soak
from tests.support.waiting import wait_until

#: Seconds of work, besides the warm-up; ``python -m tests.full soak`` works for minutes.
SECONDS = int(os.environ.get("ZKCOORD_SOAK_S", "8"))

WARM_UP_S = 4.0

#: How much more there may be after the work: caches that were not full yet, and the allocator's habits.
MORE_OBJECTS = 500
MORE_BYTES = 4 * 1024 * 1024


@pytest.mark.timeout(SECONDS + 120)
def test_everything_is_flat_after_a_soak(caplog: pytest.LogCaptureFixture) -> None:
    for logger in (None, "zkcoord"):
        caplog.set_level(logging.ERROR, logger)  # pytest keeps what is logged: that would grow
    with Soak(seed=1) as soak:
        soak.work(WARM_UP_S)
        before = soak.rest()
        soak.work(SECONDS)
        wait_until(lambda: threading.active_count() <= before.threads)
        after = soak.rest()
        print(f"{before}\n{after}\n{dict(soak.did)}")

    assert [] == caplog.records
    assert [] == soak.late
    assert after.descriptors <= before.descriptors
    assert (0, 0, 0) == (after.watches, after.members, after.of_zkcoord)
    assert after.sessions == before.sessions
    assert after.objects - before.objects <= MORE_OBJECTS
    assert after.resident_bytes - before.resident_bytes <= MORE_BYTES
    for deed in (
        "granted",
        "came and went",
        "AcquireTimeoutError",
        "AcquireCancelledError",
        "GrantLostError",
    ):
        assert soak.did[deed], deed
