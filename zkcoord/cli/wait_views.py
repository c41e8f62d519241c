"""Views of waits: the chain behind one, and deadlocks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from zkcoord._waits import Step, WaitGraph
from zkcoord.cli import views
from zkcoord.cli.views import PATH_LIMIT, Entry, View
from zkcoord.queues import Member, printable


@dataclass(frozen=True, slots=True)
class Link:
    """
    One link of the chain behind a wait.

    Attributes:
        step: from 1.
        holder: who holds the lock, or stands ahead of it.
        waits_for: paths that the holder itself waits for; empty for a process that moves.
        closes: the step at which the same holder was met before: a deadlock.
    """

    step: int
    holder: Member
    waits_for: tuple[str, ...]
    closes: int | None


def chain(graph: WaitGraph, holders: Iterable[Member]) -> Iterator[Link]:
    """Follow waits from the holders of one lock to those who do not wait, nearest first; each actor once."""
    pending = list(holders)
    met: dict[tuple[str, ...], int] = {}
    step = 0
    while pending:
        holder = pending.pop(0)
        actor = graph.actor(holder)
        waits = graph.waits_of(actor)
        step += 1
        closes = met.get(actor.key)
        yield Link(step, holder, tuple(wait.member.path for wait in waits), closes)
        if closes is not None:
            continue
        met[actor.key] = step
        for wait in waits:
            ahead = [member for member, _ in wait.ahead if member.holds] or [
                member for member, _ in wait.ahead
            ]
            pending += ahead


def why_view(links: Iterable[Link], path: str, now: datetime) -> View:
    """Show the chain behind the waits for a lock."""
    return View(
        title=f"why {printable(path, PATH_LIMIT)} does not move",
        columns=(
            "STEP",
            "LOCK",
            "HELD BY",
            "HOST",
            "PID",
            "THREAD/TASK",
            "AGE",
            "AND THAT",
            "TOKEN",
            "SESSION",
        ),
        entries=[Entry(_link_row(link, now), _link_object(link, now)) for link in links],
        empty=lambda: f"nobody holds {printable(path, PATH_LIMIT)}",
        wide_only=("TOKEN", "SESSION"),
    )


def deadlocks_view(cycles: Iterable[tuple[Step, ...]], root: str, now: datetime) -> View:
    """Show deadlocks, one row for each wait in them."""
    return View(
        title=f"deadlocks under {printable(root, PATH_LIMIT)}",
        columns=(
            "NO",
            "CERTAIN",
            "WHO",
            "WAITS FOR",
            "HELD BY",
            "HOST",
            "PID",
            "THREAD/TASK",
            "AGE",
            "TOKEN",
        ),
        entries=[
            Entry(_step_row(number, step, now), _step_object(number, place, step, now))
            for number, cycle in enumerate(cycles, 1)
            for place, step in enumerate(_mark(cycle), 1)
        ],
        empty=lambda: f"no deadlock under {printable(root, PATH_LIMIT)}",
        wide_only=("TOKEN",),
    )


def _mark(cycle: tuple[Step, ...]) -> list[Step]:
    """A deadlock is certain if all its links are."""
    is_exact = all(step.is_exact for step in cycle)
    return [Step(step.waiter, step.blocker, is_exact) for step in cycle]


def _link_row(link: Link, now: datetime) -> tuple[str, ...]:
    holder = link.holder
    return (
        str(link.step),
        printable(holder.path, PATH_LIMIT),
        views.holder_text(holder),
        holder.host or "-",
        views.number_text(holder.pid),
        views.runner_text(holder),
        views.age_text(views.age_s(holder, now)),
        _and_that(link),
        str(holder.token),
        views.session_text(holder.session),
    )


def _and_that(link: Link) -> str:
    if link.closes is not None:
        return f"is that of step {link.closes}: a deadlock"
    if not link.waits_for:
        return "waits for no lock: look there" if link.holder.holds else "is next in line"
    return "waits for " + ", ".join(printable(path, PATH_LIMIT) for path in link.waits_for)


def _link_object(link: Link, now: datetime) -> dict[str, views.Json]:
    return {
        "step": link.step,
        "path": link.holder.path,
        "holder": views.member_object(link.holder, now),
        "waits_for": list(link.waits_for),
        "same_as_step": link.closes,
    }


def _step_row(number: int, step: Step, now: datetime) -> tuple[str, ...]:
    waiter, blocker = step.waiter, step.blocker
    return (
        str(number),
        "yes" if step.is_exact else "possible",
        views.holder_text(waiter),
        printable(waiter.path, PATH_LIMIT),
        views.holder_text(blocker),
        blocker.host or "-",
        views.number_text(blocker.pid),
        views.runner_text(blocker),
        views.age_text(views.age_s(waiter, now)),
        str(blocker.token),
    )


def _step_object(number: int, place: int, step: Step, now: datetime) -> dict[str, views.Json]:
    return {
        "deadlock": number,
        "step": place,
        "certain": step.is_exact,
        "waiter": views.member_object(step.waiter, now),
        "blocker": views.member_object(step.blocker, now),
    }
