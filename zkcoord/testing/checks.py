"""
What a history of an exclusive lock must show. Pure: events in, violations out.

* `exclusion`: two clients' grants of one path, each counted up to its own local deadline, never overlap;
* `one_holder`: no client sees itself holding after somebody else did;
* `token_order`: later grants of a path have larger tokens;
* `progress`: after a fault has ended, somebody is granted the path in time;
* `completion`: every call that began has ended.

A check can only judge what was written down: `assert_sound` refuses a history in which nothing was granted.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zkcoord.testing.history import Event, Kind

_INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken: which check found it, on which path, and what happened."""

    check: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.check} of {self.path}: {self.text}"


@dataclass(slots=True)
class Claim:
    """
    One hold as its client saw it: a grant, and those of re-entries.

    Attributes:
        began: when the acquire had returned.
        until: the furthest local deadline that was seen; infinite for a lock that has none.
        ended: when its client gave it up or found it lost; infinite if it never did.
    """

    client: str
    path: str
    token: int | None
    began: float
    until: float
    ended: float = _INFINITE
    grants: int = 1

    @property
    def end(self) -> float:
        """Up to when its client claims to hold."""
        return min(self.until, self.ended)

    def __str__(self) -> str:
        return f"{self.client} (token {self.token}) from {self.began:.4f} to {self.end:.4f}"


_Item = TypeVar("_Item", Claim, Event)


def claims(events: Iterable[Event]) -> list[Claim]:
    """Every hold of a history, in the order of their acquires' return."""
    found: list[Claim] = []
    open_claims: dict[tuple[str, str, int | None], Claim] = {}
    for event in _sorted(events):
        key = (event.path, event.client, event.token)
        claim = open_claims.get(key)
        if event.kind is Kind.OK and event.call == "acquire":
            until = _INFINITE if event.until is None else event.until
            if claim is not None:
                claim.grants += 1
                claim.until = max(claim.until, until)
            else:
                claim = open_claims[key] = Claim(event.client, event.path, event.token, event.at, until)
                found.append(claim)
        elif claim is None:
            continue
        elif event.kind is Kind.HELD and event.until is not None:
            claim.until = max(claim.until, event.until)
        elif event.kind is Kind.LOST or (event.kind is Kind.INVOKE and event.call == "release"):
            claim.grants -= 1
            if event.kind is Kind.LOST or not claim.grants:
                claim.ended = event.at
                del open_claims[key]
    return found


def exclusion(events: Iterable[Event]) -> list[Violation]:
    """Two clients' claims to one path overlap."""
    broken = []
    for path, group in _by_path(claims(events)).items():
        longest: Claim | None = None
        for claim in group:
            if longest is not None and claim.client != longest.client:
                over_s = min(longest.end, claim.end) - claim.began
                if over_s > 0:
                    broken.append(Violation("exclusion", path, f"{longest} and {claim}: {over_s:.4f} s"))
            if longest is None or claim.end > longest.end:
                longest = claim
    return broken


def one_holder(events: Iterable[Event]) -> list[Violation]:
    """A client sees itself holding although another one has seen itself holding since."""
    broken = []
    for path, looks in _by_path(_looks(events)).items():
        overtaken: dict[tuple[str, int | None], Event] = {}
        last: Event | None = None
        for look in looks:
            me = (look.client, look.token)
            if me in overtaken:
                broken.append(Violation("one holder", path, f"{look}, after {overtaken[me]}"))
            if last is not None and (last.client, last.token) != me:
                overtaken[(last.client, last.token)] = look
            last = look
    return broken


def token_order(events: Iterable[Event]) -> list[Violation]:
    """A later grant's token is not larger; grants of one client may share theirs (re-entry)."""
    broken = []
    for path, granted in _by_path(look for look in _looks(events) if look.kind is Kind.OK).items():
        highest: Event | None = None
        for grant in granted:
            if grant.token is None:
                broken.append(Violation("token order", path, f"{grant}: no token"))
                continue
            if highest is not None and highest.token is not None:
                is_shared = grant.token == highest.token and grant.client == highest.client
                if grant.token <= highest.token and not is_shared:
                    broken.append(Violation("token order", path, f"{grant}, after {highest}"))
                    continue
            highest = grant
    return broken


def progress(events: Iterable[Event], after: float, within_s: float) -> list[Violation]:
    """A path for which acquires were made is not granted to anybody in the `within_s` seconds after `after`."""
    acquires = [event for event in _sorted(events) if event.call == "acquire"]
    served = {
        event.path for event in acquires if event.kind is Kind.OK and after < event.at <= after + within_s
    }
    return [
        Violation("progress", path, f"no grant between {after:.4f} and {after + within_s:.4f}")
        for path in sorted({event.path for event in acquires} - served)
    ]


def completion(events: Iterable[Event], dead: Iterable[str] = ()) -> list[Violation]:
    """A call that began has not ended. The clients in `dead` were killed: their last calls may be open."""
    running: dict[tuple[str, str, str], Event] = {}
    for event in _sorted(events):
        key = (event.client, event.call, event.path)
        if event.kind is Kind.INVOKE:
            running[key] = event
        elif event.kind in (Kind.OK, Kind.FAIL, Kind.UNKNOWN):
            running.pop(key, None)
    gone = set(dead)
    return [
        Violation("completion", event.path, f"{event} never ended")
        for event in running.values()
        if event.client not in gone
    ]


def assert_sound(events: Iterable[Event]) -> None:
    """
    Check exclusion, one holder and token order.

    Raises:
        AssertionError: one is broken, or nothing was ever granted.
    """
    known = _sorted(events)
    if not claims(known):
        raise AssertionError("nothing was granted in this history, so it shows nothing")
    broken = [*exclusion(known), *one_holder(known), *token_order(known)]
    if broken:
        raise AssertionError("the history is unsound:\n" + "\n".join(map(str, broken)))


def _sorted(events: Iterable[Event]) -> Sequence[Event]:
    return sorted(events, key=lambda event: event.at)


def _looks(events: Iterable[Event]) -> list[Event]:
    """The moments at which a client surely saw itself holding, an acquire's return among them; in order."""
    return [
        event
        for event in _sorted(events)
        if (event.kind is Kind.OK and event.call == "acquire") or event.kind is Kind.HELD
        if event.until is None or event.until > event.at
    ]


def _by_path(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        groups[item.path].append(item)
    return groups
