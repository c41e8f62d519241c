"""
What a command has to show, apart from how it is shown: plain values, made from what ``zkcoord.queues`` read.

The keys of `View.objects` are the JSON output, which scripts depend on: keys are added, never renamed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from zkcoord.queues import LockView, Member, printable

#: Characters of a path shown: paths may be long, and are cut only where they would drown a screen.
PATH_LIMIT = 1000

#: Values of one JSON object: what the json module writes without help.
Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One line of a view.

    Attributes:
        row: one text a column; safe for a terminal, "-" where there is nothing.
        data: the same for programs.
    """

    row: tuple[str, ...]
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class View:
    """
    A list to show.

    Attributes:
        title: one line above a table.
        columns: headings.
        entries: the lines; may be an iterator that is still finding them.
        empty: says what to tell when there are none; asked only then, at the end.
        wide_only: headings that a table leaves out on a narrow terminal.
    """

    title: str
    columns: tuple[str, ...]
    entries: Iterable[Entry]
    empty: Callable[[], str]
    wide_only: tuple[str, ...] = ()

    @property
    def objects(self) -> tuple[Mapping[str, Json], ...]:
        """What programs are given; for tests, since it uses an iterator up."""
        return tuple(entry.data for entry in self.entries)


def locks_view(
    locks: Iterable[LockView], root: str, now: datetime, *, is_missing: Callable[[], bool] = bool
) -> View:
    """
    Show every lock under a path, one row each.

    Args:
        locks: as ``iter_locks`` gives them.
        root: where the search began.
        now: aware; ages are counted up to it.
        is_missing: finds out whether the root does not exist, when there are none.
    """
    return View(
        title=f"locks under {printable(root)}",
        columns=("LOCK", "KIND", "HOLDER", "WAITERS", "HOST", "PID", "THREAD", "AGE", "TOKEN", "SINCE"),
        entries=(Entry(_lock_row(lock, now), _lock_object(lock, now)) for lock in locks),
        empty=lambda: f"no locks under {printable(root)}{_missing(is_missing())}",
        wide_only=("TOKEN", "SINCE"),
    )


def queue_view(
    members: Iterable[Member],
    path: str,
    now: datetime,
    *,
    only_waiters: bool = False,
    is_missing: Callable[[], bool] = bool,
) -> View:
    """
    Show one queue, oldest member first.

    Args:
        members: as ``read_queue`` gave them.
        path: the lock's path.
        now: aware; ages are counted up to it.
        only_waiters: leave the holders out.
        is_missing: finds out whether the path does not exist, when there are none.
    """
    shown = [
        (place, member) for place, member in enumerate(members, 1) if not (only_waiters and member.holds)
    ]
    what = "waits for" if only_waiters else "holds or waits for"
    return View(
        title=f"{'waiters' if only_waiters else 'queue'} of {printable(path, PATH_LIMIT)}",
        columns=(
            *("POS", "STATE", "KIND", "TOKEN", "SESSION", "HOST", "PID"),
            *("THREAD/TASK", "LABEL", "SINCE", "AGE"),
        ),
        entries=[
            Entry(_member_row(place, member, now), {"position": place, **member_object(member, now)})
            for place, member in shown
        ],
        empty=lambda: f"nobody {what} {printable(path, PATH_LIMIT)}{_missing(is_missing())}",
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


def runner_text(member: Member) -> str:
    """Name the thread and task of a member."""
    return "/".join(part for part in (member.thread, member.task) if part) or "-"


def since_text(moment: datetime | None) -> str:
    """Write a moment to the second, in UTC; "-" when unknown."""
    return "-" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%SZ")


def _lock_row(lock: LockView, now: datetime) -> tuple[str, ...]:
    first = lock.holders[0] if lock.holders else None
    if first is None:
        return (printable(lock.path, PATH_LIMIT), lock.dialect, "-", str(lock.waiters), *6 * ("-",))
    more = f" +{len(lock.holders) - 1}" if len(lock.holders) > 1 else ""
    return (
        printable(lock.path, PATH_LIMIT),
        _kind(lock.dialect, first.kind),
        holder_text(first) + more,
        str(lock.waiters),
        first.host or "-",
        number_text(first.pid),
        runner_text(first),
        age_text(age_s(first, now)),
        str(first.token),
        since_text(first.held_since or first.since),
    )


def _lock_object(lock: LockView, now: datetime) -> dict[str, Json]:
    return {
        "path": lock.path,
        "dialect": lock.dialect,
        "waiters": lock.waiters,
        "holders": [member_object(member, now) for member in lock.holders],
    }


def _kind(dialect: str, kind: str) -> str:
    return kind if dialect == "semaphore" else f"{dialect} {kind}"


def _member_row(position: int, member: Member, now: datetime) -> tuple[str, ...]:
    return (
        str(position),
        "holds" if member.holds else "waits",
        member.kind,
        str(member.token),
        session_text(member.session),
        member.host or "-",
        number_text(member.pid),
        runner_text(member),
        member.label or member.owner or "-",
        since_text(member.since),
        age_text(age_s(member, now)),
    )


def member_object(member: Member, now: datetime) -> dict[str, Json]:
    """Return a member for programs."""
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


def number_text(value: int | None) -> str:
    """Write a number; "-" when unknown."""
    return "-" if value is None else str(value)
