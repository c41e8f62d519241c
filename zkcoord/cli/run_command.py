"""`zkcoord run`, `elect` and `lock-hold`: a lock for shell scripts and cron jobs."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from zkcoord import Grant
from zkcoord._core.paths import normalize
from zkcoord.cli import exit_codes
from zkcoord.cli.connect import make_coordinator
from zkcoord.cli.keeper_link import KeeperLink
from zkcoord.cli.look_commands import check_path
from zkcoord.cli.mailbox import ENDING, Mailbox
from zkcoord.cli.options import Settings, common_options, connection_options, duration, positive_duration
from zkcoord.cli.run_loop import (
    SESSION_TIMEOUT_S,
    Busy,
    Command,
    Holding,
    Interrupted,
    Plan,
    check_nested,
    outer_locks,
    say,
    under_lock,
)
from zkcoord.errors import AcquireTimeoutError, GrantLostError

#: Nobody waits longer for a session that is over, or a server that is gone, to be given back.
_CLOSE_S = 1.0

#: Characters of the command's name that operators see as the label.
_LABEL = 60


#: The JSON of `lock-hold`, in this order.
HOLD_KEYS = ("path", "name", "token", "session")


class _Runs(click.Command):
    """
    Takes ``[OPTIONS] PATH [OPTIONS] -- CMD…`` or ``[OPTIONS] PATH CMD…``.

    Without the two dashes all that follows the path is the command's, options and all.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and see that the command begins where the dashes say."""
        has_dashes = "--" in args
        wanted = tuple(args[args.index("--") + 1 :]) if has_dashes else None
        ctx.allow_interspersed_args = has_dashes
        rest = super().parse_args(ctx, args)
        if wanted is not None and ctx.params.get("command") != wanted and not ctx.resilient_parsing:
            raise click.UsageError(
                "write PATH -- CMD…, with only the path and options before the dashes", ctx
            )
        return rest


def _permits(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int | None] | None:
    if value is None:
        return None
    weight, slash, limit = value.partition("/")
    try:
        found = int(weight), int(limit) if slash else None
    except ValueError:
        raise click.BadParameter("write K/N: K permits of N, or K alone for the recorded limit") from None
    if found[0] < 1 or (found[1] is not None and found[1] < found[0]):
        raise click.BadParameter("write K/N with 1 ≤ K ≤ N")
    return found


def _lock_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--label", metavar="TEXT", help="Shown to operators.  [default: the command's name]"),
        click.option(
            "--dialect",
            type=click.Choice(["curator", "curator-latch", "kazoo"]),
            default="curator",
            show_default=True,
            help="Whose locks to take turns with.",
        ),
        click.option(
            "--max-hold",
            type=positive_duration,
            metavar="TIME",
            help="End the command, and the hold, by then.",
        ),
        click.option(
            "--permits",
            callback=_permits,
            metavar="K/N",
            help="Take K of the N permits of a semaphore; K alone takes the recorded N.",
        ),
        click.option("--exclusive", "-x", is_flag=True, help="The writing side of a read/write lock."),
        click.option("--shared", "-s", is_flag=True, help="The reading side of a read/write lock."),
        click.option(
            "--wait",
            "-w",
            type=duration,
            metavar="TIME",
            help="Wait at most so long, 0 for one try.  [default: ever]",
        ),
    ):
        command = option(command)
    return command


def _child_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--shell", is_flag=True, help="Give CMD, joined by spaces, to /bin/sh -c."),
        click.option(
            "--grace",
            type=duration,
            metavar="TIME",
            help="From TERM to KILL, before the lock is lost.  [default: 5, at most a third of the session timeout]",
        ),
    ):
        command = option(command)
    return command


@click.command(cls=_Runs)
@click.argument("path")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] CMD…")
@_lock_options
@click.option(
    "--min-hold",
    type=duration,
    default=0.0,
    metavar="TIME",
    help="Keep the lock for so long even if CMD ends sooner.",
)
@click.option(
    "--conflict-exit-code",
    "-E",
    type=click.IntRange(1, 255),
    metavar="N",
    help="When the lock was not to be had.  [default: 1 for --wait 0, else 124]",
)
@_child_options
@connection_options
@click.pass_obj
def run(settings: Settings, /, path: str, command: Sequence[str], **options: Any) -> int:
    """
    Run CMD while holding the lock at PATH. Without the two dashes all that follows PATH is CMD's.

    CMD has a process group of its own, our stdin, and ZKCOORD_LOCK_PATH and ZKCOORD_LOCK_TOKEN (the fencing token) in
    its environment. Signals are passed on to it; a second TERM or INT is a KILL. When the lock cannot be confirmed
    any more, the group gets TERM and then KILL in time for all its processes to be dead before anybody else can hold
    the lock. If the lock is broken by hand, KILL follows at once, but the next holder may start a round trip earlier.
    At the end what is left of the group is ended, and then the lock is given back.

    The exit code is CMD's, 128 + n if signal n ended it. Others: 64 wrong use, 69 no server, 75 the lock was lost and
    CMD ended, 124 the wait was over, 126 and 127 CMD cannot be executed or is not there. It is 0 only if CMD ran.

    \b
    Examples:
      zkcoord run /cron/report -- make-report --all
      zkcoord run --wait 0 --conflict-exit-code 75 /cron/report make-report --all
      zkcoord run --wait 30 --max-hold 1h /jobs/import -- ./import.sh
      zkcoord run --permits 1/4 /pools/gpu -- train
      zkcoord run --shell /jobs/dump -- 'pg_dump db | gzip > dump.gz'
    """
    plan = _plan(path, command[0], options)
    conflict = options["conflict_exit_code"]
    with _ready(settings, plan, _argv(command, options["shell"])) as (holding, keeper, argv):
        try:
            return under_lock(holding, lambda grant: Command(holding, keeper, argv).run(grant))
        except Busy:
            say(f"{plan.path} is held: zkcoord holders {plan.path}")
            return conflict or exit_codes.BUSY
        except AcquireTimeoutError as error:
            if error.position is None or not conflict:
                raise
            say(str(error))
            return int(conflict)


@click.command(cls=_Runs)
@click.argument("path")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] CMD…")
@click.option("--label", metavar="TEXT", help="Shown to operators.  [default: the command's name]")
@click.option(
    "--dialect",
    type=click.Choice(["curator", "curator-latch", "kazoo"]),
    default="curator",
    show_default=True,
    help="Whose elections to take part in.",
)
@_child_options
@connection_options
@click.pass_obj
def elect(settings: Settings, /, path: str, command: Sequence[str], **options: Any) -> int:
    """
    Run CMD whenever this candidate is the leader at PATH, and stand again when the leadership was lost.

    It waits for ever. CMD runs as under `zkcoord run`; ZKCOORD_LOCK_TOKEN is the number of the term, larger with each
    leader. When CMD ends by itself, or a signal ends it, the leadership is given up and the exit code is CMD's.

    \b
    Examples:
      zkcoord elect /app/leader -- ./scheduler
      zkcoord elect --dialect curator-latch /app/leader -- ./scheduler    (with Java's LeaderLatch)
    """
    plan = _plan(path, command[0], options)
    with _ready(settings, plan, _argv(command, options["shell"])) as (holding, keeper, argv):
        while True:
            try:
                code = under_lock(holding, lambda grant: Command(holding, keeper, argv).run(grant))
            except GrantLostError as error:
                say(str(error))
                continue
            if code != exit_codes.LOST:
                return code
            say(f"standing for {plan.path} again")


@click.command("lock-hold")
@click.argument("path")
@_lock_options
@common_options
@click.pass_obj
def lock_hold(settings: Settings, /, path: str, **options: Any) -> int:
    """
    Hold the lock at PATH until a signal, or until somebody asks for it back. For people, and for scripts' background.

    When it is held, one line (with --json: one object) tells the token. INT, TERM, HUP and QUIT give the lock back and
    end with 0; a loss ends with 75.

    \b
    Example:
      zkcoord lock-hold --label "schema change 42" /locks/orders
    """
    plan = _plan(path, "lock-hold", options)
    with _ready(settings, plan, None) as (holding, _keeper, _argv):

        def body(grant: Grant) -> int:
            _tell_held(settings, holding, grant)
            while grant.loss_reason is None and not holding.is_revoked:
                numbers, _ = holding.mailbox.wait(holding.tick_s())
                if ENDING.intersection(numbers):
                    return exit_codes.OK
            if grant.loss_reason is not None:
                say(f"lost {grant.path} ({grant.loss_reason})")
                return exit_codes.LOST
            say(f"{grant.path} was asked back")
            return exit_codes.OK

        try:
            return under_lock(holding, body)
        except Busy:
            say(f"{plan.path} is held: zkcoord holders {plan.path}")
            return exit_codes.BUSY


def _tell_held(settings: Settings, holding: Holding, grant: Grant) -> None:
    session = f"0x{(holding.coordinator.session_id or 0) & (2**64 - 1):x}"
    values = (grant.path, grant.name, grant.token, session)
    if settings.is_json:
        print(json.dumps(dict(zip(HOLD_KEYS, values, strict=True))), flush=True)
    else:
        print(f"held {grant.path} token {grant.token}", flush=True)


def _plan(path: str, name: str, options: dict[str, Any]) -> Plan:
    check_path(path)
    modes = [mode for mode in ("shared", "exclusive", "permits") if options.get(mode)]
    if len(modes) > 1:
        raise click.UsageError(f"--{modes[0]} and --{modes[1]} exclude each other")
    weight, limit = options.get("permits") or (1, None)
    return Plan(
        path=normalize(path),
        mode=modes[0] if modes else "lock",
        weight=weight,
        limit=limit,
        dialect=options["dialect"],
        # Of the command its name alone: arguments may hold secrets, and everybody can read a znode.
        label=options["label"] or os.path.basename(name)[:_LABEL] or None,
        wait_s=options.get("wait"),
        max_hold_s=options.get("max_hold"),
        min_hold_s=options.get("min_hold") or 0.0,
        grace_s=options.get("grace"),
    )


def _argv(command: Sequence[str], is_shell: bool) -> list[str]:
    return ["/bin/sh", "-c", " ".join(command)] if is_shell else list(command)


@contextmanager
def _ready(
    settings: Settings, plan: Plan, argv: list[str] | None
) -> Iterator[tuple[Holding, Any, list[str]]]:
    """Give what a command of this file works with; turn a signal into its exit code."""
    if not hasattr(os, "fork"):
        raise click.UsageError("this command needs a POSIX system")
    keeper = None if argv is None else KeeperLink()  # forks: before there are threads
    try:
        with Mailbox() as mailbox:
            coordinator = make_coordinator(settings, session_timeout=SESSION_TIMEOUT_S)
            try:
                if outer_locks():
                    check_nested(coordinator, plan.path)
                yield Holding(plan, coordinator, mailbox, settings.timeout), keeper, argv or []
            finally:
                coordinator.close(timeout=_CLOSE_S)
    except Interrupted as interrupt:
        sys.stdout.flush()
        raise click.exceptions.Exit(exit_codes.SIGNAL + interrupt.number) from None
    finally:
        if keeper is not None:
            keeper.close()
