"""The history recorder: what is written down, when, and that it survives the process."""

from __future__ import annotations

import io
from typing import Any

import pytest

from zkcoord import AcquireTimeoutError
from zkcoord.testing.history import Event, History, Kind


class Clock:
    """Time goes on by one second at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class FakeLost:
    def wait(self, timeout: float) -> bool:
        return True


class FakeGrant:
    """A grant with as much left as the test says."""

    path, token, is_released = "/lock", 7, False
    lost = FakeLost()

    def __init__(self, left_s: float = 5.0) -> None:
        self.left_s = left_s

    def remaining(self) -> float:
        return self.left_s

    def release(self) -> bool:
        return self.left_s > 0


class FakeLock:
    path = "/lock"

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    def acquire(self, *, timeout: float | None) -> Any:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


def test_hold_is_written_down_with_its_deadline_as_it_moves() -> None:
    history = History(Clock())
    grant = history.acquire(FakeLock(FakeGrant()), "a", timeout=1.0)
    assert history.look(grant, "a")
    assert history.release(grant, "a")

    assert [
        Event(1.0, Kind.INVOKE, "a", "acquire", "/lock"),
        Event(2.0, Kind.OK, "a", "acquire", "/lock", 7, 7.0),
        Event(3.0, Kind.HELD, "a", "", "/lock", 7, 8.0),
        Event(4.0, Kind.HELD, "a", "", "/lock", 7, 9.0),
        Event(5.0, Kind.INVOKE, "a", "release", "/lock", 7),
        Event(6.0, Kind.OK, "a", "release", "/lock", 7),
    ] == list(history.events)


def test_loss_is_seen_by_a_look() -> None:
    history = History(Clock())
    grant: Any = FakeGrant(0.0)
    assert not history.look(grant, "a")
    assert history.await_loss(grant, "a", 1.0)
    assert [Kind.LOST, Kind.LOST] == [event.kind for event in history.events]
    assert not history.release(grant, "a")
    assert Kind.FAIL == history.events[-1].kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [(AcquireTimeoutError("/lock", 1.0, None, None), Kind.FAIL), (KeyboardInterrupt(), Kind.UNKNOWN)],
)
def test_failed_acquire_is_written_down_and_raised(error: BaseException, kind: Kind) -> None:
    history = History(Clock())
    with pytest.raises(type(error)):
        history.acquire(FakeLock(error), "a", timeout=1.0)
    assert [Kind.INVOKE, kind] == [event.kind for event in history.events]


def test_history_of_a_killed_process_is_read_up_to_its_last_whole_line() -> None:
    sink = io.StringIO()
    child, parent = History(Clock(), sink), History()
    child.note("a fault, näive")
    child.invoke("a", "acquire", "/lock")
    torn = child.invoke("a", "acquire", "/lock").to_json()[:20]
    lines = sink.getvalue().splitlines(keepends=True)[:2]

    parent.read([*lines, torn])

    assert child.events[:2] == parent.events


def test_events_come_in_the_order_of_time() -> None:
    history = History()
    later, earlier = Event(2.0, Kind.NOTE, call="b"), Event(1.0, Kind.NOTE, call="a")
    history.add(later)
    history.add(earlier)
    assert (earlier, later) == history.events
    assert "1.000 note a" == str(earlier)
