"""
What a command has to show, apart from how it is shown: plain values, made from what ``zkcoord.queues`` read.

The keys of `View.objects` are the JSON output, which scripts depend on: keys are added, never renamed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from zkcoord.queues import LockView, Member, printable

#: Values of one JSON object: what the json module writes without help.
Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class View:
    """
    A list to show.

    Attributes:
        title: one line above a table.
        columns: headings.
        rows: one text a column; safe for a terminal, "-" where there is nothing.
        objects: the same for programs, one object a row.
        empty: what to say when there are no rows.
        wide_only: headings that a table leaves out on a narrow terminal.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    objects: tuple[Mapping[str, Json], ...]
    empty: str
    wide_only: tuple[str, ...] = ()


def locks_view(locks: Iterable[LockView], root: str, now: datetime, *, is_missing: bool = False) -> View:
    """
    Show every lock under a path, one row each.

    Args:
        locks: as ``find_locks`` gave them.
        root: where the search began.
        now: aware; ages are counted up to it.
        is_missing: the root does not exist.
    """
    locks = tuple(locks)
    return View(
        title=f"locks under {printable(root)}",
        columns=("LOCK", "KIND", "HOLDER", "WAITERS", "HOST", "PID", "THREAD", "AGE"),
        rows=tuple(_lock_row(lock, now) for lock in locks),
        objects=tuple(
            {
                "path": lock.path,
                "dialect": lock.dialect,
                "waiters": lock.waiters,
                "holders": [_member_object(member, now) for member in lock.holders],
            }
            for lock in locks
        ),
        empty=f"no locks under {printable(root)}{_missing(is_missing)}",
    )


def queue_view(members: Iterable[Member], path: str, now: datetime, *, is_missing: bool = False) -> View:
    """
    Show one queue, oldest member first.

    Args:
        members: as ``read_queue`` gave them.
        path: the lock's path.
        now: aware; ages are counted up to it.
        is_missing: the path does not exist.
    """
    members = tuple(members)
    return View(
        title=f"queue of {printable(path)}",
        columns=(
            (
                "POS",
                "STATE",
                "KIND",
                "TOKEN",
                "SESSION",
                "HOST",
                "PID",
                "THREAD/TASK",
                "LABEL",
                "SINCE",
                "AGE",
            )
        ),
        rows=tuple(_member_row(position, member, now) for position, member in enumerate(members, 1)),
        objects=tuple(
            {"position": position, **_member_object(member, now)}
            for position, member in enumerate(members, 1)
        ),
        empty=f"nobody holds or waits for {printable(path)}{_missing(is_missing)}",
        wide_only=("SESSION", "SINCE"),
    )


def _missing(is_missing: bool) -> str:
    # The directory of an idle lock goes too, so this is no error.
    return ": there is no such path now" if is_missing else ""


def holder_text(member: Member) -> str:
    """Name a member in a few words: its label or owner, else who runs it, else its session."""
    if member.label or member.owner:
        return member.label or member.owner or ""
    if member.host and member.pid is not None:
        return f"{member.host}:{member.pid}"
    return member.host or f"session {session_text(member.session)}"


def session_text(session: int) -> str:
    """Write a session id as ZooKeeper's own logs and tools do."""
    return f"0x{session & (2**64 - 1):x}"


def age_text(age_s: float | None) -> str:
    """Write an age in at most two units; "-" when unknown."""
    if age_s is None:
        return "-"
    seconds = int(age_s)
    for unit_s, unit, below_s, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= unit_s:
            return f"{seconds // unit_s}{unit}{seconds % unit_s // below_s:02}{below}"
    return f"{seconds}s"


def age_s(member: Member, now: datetime) -> float | None:
    """Return seconds since the member was granted, where recorded, else created; never negative."""
    since = member.held_since or member.since
    return None if since is None else max(0.0, (now - since).total_seconds())


def _lock_row(lock: LockView, now: datetime) -> tuple[str, ...]:
    first = lock.holders[0] if lock.holders else None
    if first is None:
        return (printable(lock.path, 1000), lock.dialect, "-", str(lock.waiters), "-", "-", "-", "-")
    more = f" +{len(lock.holders) - 1}" if len(lock.holders) > 1 else ""
    return (
        printable(lock.path, 1000),
        _kind(lock.dialect, first.kind),
        holder_text(first) + more,
        str(lock.waiters),
        first.host or "-",
        _number(first.pid),
        first.thread or "-",
        age_text(age_s(first, now)),
    )


def _kind(dialect: str, kind: str) -> str:
    return kind if dialect == "semaphore" else f"{dialect} {kind}"


def _member_row(position: int, member: Member, now: datetime) -> tuple[str, ...]:
    runner = "/".join(part for part in (member.thread, member.task) if part)
    return (
        str(position),
        "holds" if member.holds else "waits",
        member.kind,
        str(member.token),
        session_text(member.session),
        member.host or "-",
        _number(member.pid),
        runner or "-",
        member.label or member.owner or "-",
        "-" if member.since is None else member.since.strftime("%Y-%m-%d %H:%M:%SZ"),
        age_text(age_s(member, now)),
    )


def _member_object(member: Member, now: datetime) -> dict[str, Json]:
    age = age_s(member, now)
    return {
        "path": member.path,
        "name": member.name,
        "kind": member.kind,
        "sequence": member.sequence,
        "token": member.token,
        "holds": member.holds,
        "session": session_text(member.session),
        "host": member.host,
        "pid": member.pid,
        "thread": member.thread,
        "task": member.task,
        "owner": member.owner,
        "label": member.label,
        "since": _iso(member.since),
        "held_since": _iso(member.held_since),
        "age_s": None if age is None else round(age, 3),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
