"""The view of what was done to holders."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from zkcoord.cli import views
from zkcoord.cli.views import PATH_LIMIT, Entry, View
from zkcoord.queues import Member, printable


@dataclass(frozen=True, slots=True)
class Deed:
    """
    What came of one holder.

    Attributes:
        holder: as it was read before.
        outcome: ``broken``, ``asked``, ``given back`` or ``still holds``.
    """

    holder: Member
    outcome: str


def deeds_view(deeds: Iterable[Deed], path: str, now: datetime) -> View:
    """Show what was done, a row for each holder."""
    return View(
        title=f"holders of {printable(path, PATH_LIMIT)}",
        columns=("OUTCOME", "LOCK", "TOKEN", "HOLDER", "HOST", "PID", "THREAD/TASK", "AGE"),
        entries=[Entry(_row(deed, now), _object(deed, now)) for deed in deeds],
        empty=lambda: f"nobody holds {printable(path, PATH_LIMIT)}",
    )


def _row(deed: Deed, now: datetime) -> tuple[str, ...]:
    holder = deed.holder
    return (
        deed.outcome,
        printable(holder.path, PATH_LIMIT),
        str(holder.token),
        views.holder_text(holder),
        holder.host or "-",
        views.number_text(holder.pid),
        views.runner_text(holder),
        views.age_text(views.age_s(holder, now)),
    )


def _object(deed: Deed, now: datetime) -> dict[str, views.Json]:
    return {
        "outcome": deed.outcome,
        "path": deed.holder.path,
        "holder": views.member_object(deed.holder, now),
    }
