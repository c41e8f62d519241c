"""`zkcoord break` and `revoke`: what an operator does to those who hold a lock."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from zkcoord import queues
from zkcoord._core.paths import normalize
from zkcoord._session import clock
from zkcoord._sync import operators
from zkcoord.cli import exit_codes, render, views
from zkcoord.cli.act_views import Deed, deeds_view
from zkcoord.cli.connect import connect, make_coordinator
from zkcoord.cli.look_commands import check_path
from zkcoord.cli.options import Settings, common_options, duration
from zkcoord.coordinator import Coordinator
from zkcoord.queues import Member, printable

#: Asked of the server by a command that holds nothing.
_SESSION_TIMEOUT_S = 10.0

#: Most seconds for closing, after the answer was given.
_CLOSE_S = 1.0


@click.command("break")
@click.argument("path")
@click.option(
    "--token", type=int, required=True, metavar="T", help="The holder's token, as `holders PATH` shows it."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common_options
@click.pass_obj
def break_(settings: Settings, path: str, token: int, yes: bool) -> int:
    """
    Take the lock at PATH away from the holder with token T, by deleting its znode. The next in line gets it at once.

    The broken holder is not stopped: it is told within a round trip, if its library tells it at all (zkcoord's does,
    kazoo's and Curator's do not), and may run on beside the new holder until then. Ask it first (`zkcoord revoke`), or
    stop its process, where you can. Whatever the lock protects is safe only if it checks the fencing token.

    Nothing is done, and the code is 1, unless that is still the holder. Of a lock on several paths only this one is
    broken.

    \b
    Example:
      zkcoord holders /locks/orders
      zkcoord break /locks/orders --token 4711
    """
    with _acting(settings, path) as act:
        holders = act.holders(token)
        if not holders:
            return act.nobody(token)
        holder = holders[0]
        _confirm(f"Break {_described(holder)}?", yes)
        if not operators.break_member(act.coordinator, holder, act.give_up()):
            click.echo("zkcoord: it gave the lock back by itself in the meantime", err=True)
            return exit_codes.FAILED
        act.show([Deed(holder, "broken")])
    return exit_codes.OK


@click.command()
@click.argument("path")
@click.option(
    "--token", type=int, metavar="T", help="Only the holder with this token.  [default: all holders]"
)
@click.option(
    "--wait",
    type=duration,
    default="0",
    metavar="TIME",
    help="Wait so long until they have given it back.  [default: 0]",
)
@click.option(
    "--then-break", is_flag=True, help="Break those who still hold after that; see `zkcoord break -h`."
)
@click.option("--yes", "-y", is_flag=True, help="With --then-break: do not ask.")
@common_options
@click.pass_obj
def revoke(settings: Settings, path: str, token: int | None, wait: float, then_break: bool, yes: bool) -> int:
    """
    Ask those who hold the lock at PATH to give it back.

    A holder that listens (zkcoord's `grant.on_revoke`, `zkcoord run`, Curator's revocable locks) is told within a round
    trip. All others ignore it; --then-break does not leave it at that. A broken holder may run on for a round trip, or
    longer if its library does not tell it.

    \b
    Exits with
      0    they were asked (without --wait), or none of them holds any more
      1    nobody holds it
      124  somebody still held it when the time to wait was over

    \b
    Examples:
      zkcoord revoke /locks/orders --wait 30
      zkcoord revoke /locks/orders --wait 30 --then-break --yes
    """
    with _acting(settings, path) as act:
        holders = act.holders(token)
        if not holders:
            return act.nobody(token)
        if then_break:
            whom = ", ".join(_described(holder) for holder in holders)
            _confirm(f"Ask, and after {wait:g} s break, {whom}?", yes)
        asked = [holder for holder in holders if operators.ask_back(act.coordinator, holder, act.give_up())]
        until = clock.now() + wait
        left = [holder for holder in asked if not operators.wait_gone(act.coordinator, holder, until)]
        deeds = []
        for holder in holders:
            if holder not in left:
                deeds.append(Deed(holder, "given back"))
            elif not then_break:
                deeds.append(Deed(holder, "still holds" if wait else "asked"))
            else:
                is_broken = operators.break_member(act.coordinator, holder, act.give_up())
                deeds.append(Deed(holder, "broken" if is_broken else "given back"))
        act.show(deeds)
    is_over = wait and not then_break and left
    return exit_codes.WAIT_ENDED if is_over else exit_codes.OK


@dataclass(frozen=True, slots=True)
class Act:
    """A connected coordinator, and the lock that something is done to."""

    settings: Settings
    coordinator: Coordinator
    path: str

    def give_up(self) -> float:
        """Return the deadline of a request that is sent now."""
        return clock.now() + self.settings.timeout

    def holders(self, token: int | None) -> list[Member]:
        """Read who holds the lock; only the one with a token if there is one."""
        found = queues.read_queue(self.coordinator.client, self.path, timeout=self.settings.timeout)
        return [member for member in found if member.holds and token in (None, member.token)]

    def nobody(self, token: int | None) -> int:
        """Say that nobody is there to act on."""
        others = [] if token is None else self.holders(None)
        shown = printable(self.path, views.PATH_LIMIT)
        if others:
            text = f"no holder of {shown} has token {token}; now it is {_described(others[0])}"
        elif token is not None:
            text = f"nobody holds {shown}, whatever token {token} was"
        else:
            text = f"nobody holds {shown}"
        click.echo(f"zkcoord: {text}", err=True)
        return exit_codes.FAILED

    def show(self, deeds: list[Deed]) -> None:
        """Write what was done to stdout."""
        view = deeds_view(deeds, self.path, datetime.now(UTC))
        render.show(view, output=self.settings.output, out=sys.stdout, err=sys.stderr)


@contextmanager
def _acting(settings: Settings, path: str) -> Iterator[Act]:
    check_path(path)
    coordinator = make_coordinator(settings, session_timeout=_SESSION_TIMEOUT_S)
    began = time.monotonic()
    try:
        connect(coordinator, settings.timeout)
        yield Act(settings, coordinator, normalize(path))
    finally:
        coordinator.close(timeout=min(_CLOSE_S, max(0.1, settings.timeout - (time.monotonic() - began))))


def _described(holder: Member) -> str:
    age = views.age_text(views.age_s(holder, datetime.now(UTC)))
    where = f" on {holder.host}" if holder.host else ""
    process = f", pid {holder.pid}" if holder.pid is not None else ""
    return (
        f"{views.holder_text(holder)}{where}{process}, which has held {printable(holder.path, views.PATH_LIMIT)}"
        f" for {age} (token {holder.token})"
    )


def _confirm(question: str, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is nobody to ask on this input: say --yes")
    if not click.confirm(question, err=True):
        click.echo("zkcoord: nothing was done", err=True)
        raise click.exceptions.Exit(exit_codes.FAILED)
