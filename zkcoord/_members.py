"""
What a queue looks like to people: members, who of them holds, and what they wrote about themselves. No I/O.

Everything in a znode was written by somebody else, perhaps by somebody hostile. It is read as far as it makes
sense, shown escaped and cut, and never trusted: a wrong type is an absent value, not an error.
"""

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from zkcoord._core.names import ParsedName, parse

#: Bytes of a member's data that are kept in `Member.raw`: an identity has a few hundred; more is not for
#: people.
RAW_BYTES = 4096

#: Data beyond this is not even parsed: a znode may hold a megabyte, and a listing reads many of them.
_PARSE_BYTES = 65_536

#: Characters of foreign text shown: enough for any host, thread or label, and one line of a terminal.
TEXT_LIMIT = 120

#: Process ids and the like: beyond it the number is not one an operating system gave out.
_MAX_NUMBER = 2**63

#: In one queue, members of different families do not see each other; markers of one family are ordered
#: together.
FAMILIES = {
    "lock-": "mutex",
    "latch-": "latch",
    "__READ__": "read-write",
    "__WRIT__": "read-write",
    "__lock__": "kazoo",
    "__rlock__": "kazoo",
    "permit-": "permit",
}


@dataclass(frozen=True, slots=True)
class Member:
    """
    One member of a queue, holder or waiter, as it was at one moment.

    Attributes:
        path: the lock's path.
        name: the znode's name in it, as the server has it (not escaped).
        kind: "exclusive", "read", "write", "latch" or "permit".
        sequence: the server's number in the name.
        token: czxid of the znode: the fencing token of an exclusive holder.
        holds: whether it holds by its library's rule; everybody else waits.
        session: the session that owns the znode; 0 for a persistent one.
        host, pid, thread, task, owner, label: what the member says about itself, escaped and cut to one line;
            None where it says nothing. A foreign library's text is the label (Curator's address is the host).
        since: when the member was created, by its host's wall clock; by the server's when it does not say.
        held_since: when it was granted, where that was recorded.
        raw: its data, at most 4096 bytes.
    """

    path: str
    name: str
    kind: str
    sequence: int
    token: int
    holds: bool
    session: int
    host: str | None
    pid: int | None
    thread: str | None
    task: str | None
    owner: str | None
    label: str | None
    since: datetime | None
    held_since: datetime | None
    raw: bytes


@dataclass(frozen=True, slots=True)
class LockView:
    """
    One lock found in the tree.

    Attributes:
        path: the lock's path.
        dialect: "curator", "curator-latch", "kazoo" or "semaphore". A path that two dialects use, which is a
            mistake since they do not see each other, gives one view for each.
        holders: who holds it, oldest first; empty for a moment between two holders.
        waiters: how many wait.
    """

    path: str
    dialect: str
    holders: tuple[Member, ...]
    waiters: int


class Stat(Protocol):
    """The part of a znode's stat that a member needs (kazoo's ``ZnodeStat`` has it)."""

    @property
    def czxid(self) -> int: ...
    @property
    def ctime(self) -> int: ...
    @property
    def ephemeralOwner(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Identity:
    host: str | None = None
    pid: int | None = None
    thread: str | None = None
    task: str | None = None
    owner: str | None = None
    label: str | None = None
    since: datetime | None = None
    held_since: datetime | None = None


def ordered(children: Iterable[str]) -> dict[str, ParsedName]:
    """
    Pick the members from a directory's children.

    Args:
        children: names in any order; those that no lock library made are left out.

    Returns:
        Names taken apart, oldest first. At a tie (a writer's own read node, or a counter at its end) a writer
        comes first, then the smaller name. Negative numbers come first, as every library sorts them: as text.
    """
    members = [(name, parsed) for name in children if (parsed := parse(name)) is not None]
    members.sort(key=lambda item: (_key(*item), item[1].kind == "read", item[0]))
    return dict(members)


def _key(name: str, parsed: ParsedName) -> str:
    return name[-11:] if parsed.sequence < 0 and name[-11] == "-" else name[-10:]


def holding(members: Mapping[str, ParsedName], limit: int | None) -> frozenset[str]:
    """
    Tell who holds, each by its own library's rule.

    Args:
        members: as :func:`ordered` returns them.
        limit: permits of a semaphore; None = not recorded or not readable, then only its oldest member
            counts.

    Returns:
        Names: a mutex', latch's and writer's first in the queue; readers with no writer ahead; permits as
        long as all weights up to theirs fit, and the oldest in any case. After a semaphore was shrunk, other
        holders beyond the new limit count as waiters.
    """
    holders = set()
    ahead: dict[str, int] = {}
    writer: dict[str, str] = {}  # family -> the key of the oldest writer in it
    for name, parsed in members.items():
        family = FAMILIES[parsed.marker]
        before = ahead.get(family, 0)
        key = _key(name, parsed)
        if parsed.kind == "read":
            # Equal to the writer's key: the read node that a writer made for itself. It holds with its
            # writer.
            first_writer = writer.get(family)
            holds = first_writer is None or (first_writer == key and parsed.dialect == "curator")
        elif parsed.kind == "permit" and limit is not None:
            holds = not before or before + parsed.weight <= limit
        else:
            holds = before == 0
        if parsed.kind != "read":
            writer.setdefault(family, key)
        ahead[family] = before + parsed.weight
        if holds:
            holders.add(name)
    return frozenset(holders)


def member(path: str, name: str, parsed: ParsedName, holds: bool, data: bytes, stat: Stat) -> Member:
    """
    Put a member together.

    Args:
        path: the lock's path.
        name: the znode's name, taken apart as `parsed`.
        holds: as :func:`holding` said.
        data: the znode's data, any bytes.
        stat: its stat.
    """
    identity = _identity(data)
    return Member(
        path=path,
        name=name,
        kind=parsed.kind,
        sequence=parsed.sequence,
        token=stat.czxid,
        holds=holds,
        session=stat.ephemeralOwner,
        host=identity.host,
        pid=identity.pid,
        thread=identity.thread,
        task=identity.task,
        owner=identity.owner,
        label=identity.label,
        since=identity.since or _server_time(stat.ctime),
        held_since=identity.held_since,
        raw=data[:RAW_BYTES],
    )


def printable(text: str, limit: int = TEXT_LIMIT) -> str:
    """
    Make foreign text safe for one line of a terminal.

    Control and format characters (escape sequences, line ends, bidirectional overrides, lone surrogates) are
    shown as Python escapes; what is longer than `limit` characters is cut and ends in ``…``.
    """
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _identity(data: bytes) -> _Identity:
    fields = _json_object(data)
    if fields is None or fields.get("v") != 1:
        return _foreign(data)
    return _Identity(
        host=_text(fields.get("host")),
        pid=_number(fields.get("pid")),
        thread=_name(fields.get("thread")),
        task=_name(fields.get("task")),
        owner=_text(fields.get("owner")),
        label=_text(fields.get("label")),
        since=_time(fields.get("since")),
        held_since=_time(fields.get("held_since")),
    )


def _foreign(data: bytes) -> _Identity:
    text = data[:RAW_BYTES].decode("utf-8", "backslashreplace")
    if not text:
        return _Identity()
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _Identity(label=printable(text))
    return _Identity(host=printable(text))


def _json_object(data: bytes) -> dict[str, object] | None:
    if len(data) > _PARSE_BYTES or not data.lstrip().startswith(b"{"):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # also bad UTF-8 and numbers of thousands of digits; deep nesting
        return None
    return value if isinstance(value, dict) else None


def _text(value: object) -> str | None:
    return printable(value) if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int) and 0 <= value < _MAX_NUMBER else None


def _name(value: object) -> str | None:
    """Return a thread's or task's name: given as text, or as an object with a name, else an id."""
    if not isinstance(value, dict):
        return _text(value)
    number = _number(value.get("id"))
    return _text(value.get("name")) or (None if number is None else str(number))


def _time(value: object) -> datetime | None:
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # not a time; a time zone that moves it out of the calendar
        return None


def _server_time(ctime_ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(ctime_ms / 1000, UTC) if ctime_ms > 0 else None
    except (ValueError, OverflowError, OSError):  # outside of the calendar, or of the platform's
        return None
