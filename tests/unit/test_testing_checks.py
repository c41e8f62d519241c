"""Each check of a history, on a sound one and on one that breaks just this promise."""

from __future__ import annotations

import pytest

from zkcoord.testing.checks import (
    assert_sound,
    completion,
    exclusion,
    one_holder,
    progress,
    token_order,
)
from zkcoord.testing.history import Event, Kind


def invoked(at: float, client: str, call: str = "acquire", token: int | None = None) -> Event:
    return Event(at, Kind.INVOKE, client, call, "/lock", token)


def granted(at: float, client: str, token: int | None, until: float | None = None) -> Event:
    return Event(at, Kind.OK, client, "acquire", "/lock", token, until)


def held(at: float, client: str, token: int, until: float | None = None) -> Event:
    return Event(at, Kind.HELD, client, "", "/lock", token, until)


def lost(at: float, client: str, token: int) -> Event:
    return Event(at, Kind.LOST, client, "", "/lock", token)


def released(at: float, client: str, token: int) -> list[Event]:
    return [
        invoked(at, client, "release", token),
        Event(at + 0.1, Kind.OK, client, "release", "/lock", token),
    ]


SOUND = [
    invoked(0.0, "a"),
    granted(1.0, "a", 10, until=6.0),
    invoked(1.5, "b"),
    held(2.0, "a", 10, until=7.0),
    *released(3.0, "a", 10),
    granted(3.05, "b", 11, until=8.0),
    invoked(4.0, "a"),
    lost(8.0, "b", 11),  # its deadline
    granted(8.5, "a", 12, until=14.0),
    granted(8.6, "a", 12, until=14.0),  # re-entry
    *released(9.0, "a", 12),
    held(9.5, "a", 12, until=14.0),
    *released(10.0, "a", 12),
    invoked(10.0, "c"),
    granted(10.2, "c", 13, until=16.0),  # and its process is killed
]


def names(events: list[Event]) -> set[str]:
    """Which checks find something."""
    return {violation.check for check in (exclusion, one_holder, token_order) for violation in check(events)}


def test_sound_history_passes_in_any_order_of_its_lines() -> None:
    assert set() == names(SOUND)
    assert_sound(reversed(SOUND))


def test_two_grants_before_their_deadlines() -> None:
    events = [granted(1.0, "a", 10, until=6.0), granted(5.9, "b", 11, until=12.0)]
    assert {"exclusion"} == names(events)
    assert set() == names([granted(1.0, "a", 10, until=6.0), granted(6.0, "b", 11, until=12.0)])
    with pytest.raises(AssertionError, match=r"exclusion of /lock: a \(token 10\) .* 0\.1000 s"):
        assert_sound(events)


def test_deadline_that_moved_counts_as_far_as_it_was_seen_to_move() -> None:
    first, rival = granted(1.0, "a", 10, until=6.0), granted(6.5, "b", 11, until=12.0)
    assert set() == names([first, rival])
    assert {"exclusion"} == names([first, held(4.0, "a", 10, until=9.0), rival])


def test_release_and_loss_end_a_claim_before_its_deadline() -> None:
    first, rival = granted(1.0, "a", 10, until=6.0), granted(3.0, "b", 11, until=9.0)
    assert set() == names([first, *released(2.0, "a", 10), rival])
    assert set() == names([first, lost(2.0, "a", 10), rival])
    assert {"exclusion"} == names([first, *released(3.5, "a", 10), rival])


def test_inner_release_of_a_reentered_hold_ends_nothing() -> None:
    twice = [granted(1.0, "a", 10, until=9.0), granted(1.1, "a", 10, until=9.0), *released(2.0, "a", 10)]
    assert {"exclusion"} == names([*twice, granted(3.0, "b", 11, until=9.0)])


def test_lock_without_deadlines_is_held_until_it_is_released() -> None:
    assert {"exclusion"} == names([granted(1.0, "a", 10), granted(99.0, "b", 11)])
    assert set() == names([granted(1.0, "a", 10), *released(98.0, "a", 10), granted(99.0, "b", 11)])


def test_other_paths_are_another_matter() -> None:
    elsewhere = Event(2.0, Kind.OK, "b", "acquire", "/other", 5, 9.0)
    assert set() == names([granted(1.0, "a", 10, until=6.0), elsewhere])


def test_holder_that_sees_itself_holding_after_another_one() -> None:
    events = [granted(1.0, "a", 10, until=3.0), granted(4.0, "b", 11, until=9.0)]
    assert set() == names(events)
    assert "one holder" in names([*events, held(5.0, "a", 10, until=5.5)])
    assert set() == names([*events, lost(5.0, "a", 10)])


def test_token_that_does_not_grow() -> None:
    first = [granted(1.0, "a", 10, until=6.0), *released(2.0, "a", 10)]
    assert {"token order"} == names([*first, granted(3.0, "b", 9, until=6.0)])
    assert {"token order"} == names([*first, granted(3.0, "b", 10, until=6.0)])
    assert {"token order"} == names([*first, granted(3.0, "b", None, until=6.0)])


def test_grant_that_was_lost_when_its_acquire_returned_claims_nothing() -> None:
    late = granted(5.0, "a", 10, until=5.0)  # its process had slept
    assert set() == names([granted(4.0, "b", 11, until=9.0), late])


def test_no_grant_in_time_after_a_fault() -> None:
    assert [] == progress(SOUND, after=8.0, within_s=0.5)
    assert ["progress"] == [violation.check for violation in progress(SOUND, after=8.0, within_s=0.4)]
    assert ["progress"] == [violation.check for violation in progress(SOUND, after=10.2, within_s=9.0)]


def test_call_that_never_ends() -> None:
    assert [] == completion(SOUND)
    hanging = [*SOUND, invoked(20.0, "d")]
    assert ["completion"] == [violation.check for violation in completion(hanging)]
    assert [] == completion(hanging, dead=["d"])


def test_history_without_a_grant_shows_nothing() -> None:
    with pytest.raises(AssertionError, match="nothing was granted"):
        assert_sound([invoked(1.0, "a")])
