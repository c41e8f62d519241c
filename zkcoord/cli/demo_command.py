"""The command line of the demo: options in, summary out."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from zkcoord.cli import exit_codes
from zkcoord.cli.connect import connected
from zkcoord.cli.demo import SESSION_TIMEOUT_S, Demo, Options
from zkcoord.cli.demo_checks import Findings
from zkcoord.cli.demo_live import Display
from zkcoord.cli.demo_process import DemoError
from zkcoord.cli.options import Settings, demo_options
from zkcoord.server import EmbeddedServer

#: Said behind the address of a server of the demo's own.
_EMBEDDED = ", embedded, started for this demo; --hosts names another"


@click.command()
@click.option("--processes", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--threads", type=click.IntRange(1, 64), default=2, show_default=True, help="In each process.")
@click.option("--orders", type=click.IntRange(1, 100_000), default=25, show_default=True, help="Each thread.")
@click.option("--no-lock", is_flag=True, help="Show the duplicates that come without the lock.")
@click.option("--no-kill", is_flag=True, help="Let all processes live.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one object; the rest goes to stderr.")
@demo_options
@click.pass_obj
def demo(
    settings: Settings, processes: int, threads: int, orders: int, no_lock: bool, no_kill: bool, as_json: bool
) -> int:
    """
    Draw order numbers in many processes, and kill one of them while it holds the lock.

    The counter is a znode that is read and written back: not atomic by itself. Exits with 1 if an order
    number came twice, or another property did not hold.

    Without --hosts or ZKCOORD_HOSTS it starts an embedded ZooKeeper for itself. On a server that is named it
    works below a new node of its own, which it removes.
    """
    as_json = as_json or settings.is_json
    out = sys.stderr if as_json else sys.stdout
    began = time.monotonic()
    with _sigterm_as_exception(), _hosts(settings) as hosts, connected(settings, hosts=hosts) as client:
        options = Options(hosts, processes, threads, orders, not no_lock, not (no_lock or no_kill))
        print(f"{_server(client)} at {hosts}{_EMBEDDED if not settings.is_given else ''}", file=out)
        print(_plan(options), file=out, flush=True)
        try:
            with Display(out, options.with_lock) as display:
                findings = Demo(client, options, display).run()
        except DemoError as error:
            print(f"zkcoord: the demo failed: {error}", file=sys.stderr)
            return exit_codes.FAILED
    took_s = time.monotonic() - began
    if as_json:
        print(json.dumps({**asdict(findings), "took_s": round(took_s, 3)}, indent=2))
    else:
        print(summary(findings, options, took_s))
    return exit_codes.FAILED if findings.failures else exit_codes.OK


class Terminated(BaseException):
    """SIGTERM; ends the demo as Ctrl-C does, so that it cleans up."""


@contextmanager
def _sigterm_as_exception() -> Iterator[None]:
    """Raise `Terminated` at the first SIGTERM, and pay no heed to more of them while that is cleaned up."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _hosts(settings: Settings) -> Iterator[str]:
    """Give the hosts that were named, or those of a server that lives as long as the demo."""
    if settings.is_given:
        yield settings.hosts
        return
    with EmbeddedServer() as server:
        yield server.hosts


def summary(findings: Findings, options: Options, took_s: float) -> str:
    """
    Say in words what a run showed.

    Args:
        findings: from ``judge``.
        options: what was run.
        took_s: seconds, connecting included.
    """
    lines = [f"{findings.issued} order numbers issued of {findings.expected}, in {took_s:.1f} s"]
    lines.append(f"  duplicates      {findings.duplicates}")
    if options.with_lock:
        lines += _lock_lines(findings)
    for failure in findings.failures:
        lines.append(f"FAILED: {failure}")
    if not findings.failures:
        lines.append(
            "all properties held"
            if options.with_lock
            else "as expected without the lock: order numbers were given out twice; run again without --no-lock"
        )
    return "\n".join(lines)


def _lock_lines(findings: Findings) -> list[str]:
    grow = "strictly growing" if findings.tokens_grow else "NOT growing"
    lines = [
        f"  gaps            {findings.gaps}{_gap_remark(findings)}",
        f"  fencing tokens  {grow} in the order of grants",
        f"  wait for a turn {findings.mean_wait_s:.2f} s on average, {findings.max_wait_s:.2f} s at most",
    ]
    kill = findings.kill
    if kill is not None and kill.moved_on_s is not None:
        lines.append(
            f"  killed holder   pid {kill.pid}; its lock moved on after {kill.moved_on_s:.2f} s"
            f" (session timeout {SESSION_TIMEOUT_S:g} s, which the server rounds up to its ticks)"
        )
    return lines


def _gap_remark(findings: Findings) -> str:
    if findings.kill is None:
        return ""
    return (
        " (the killed holder had read the counter and not written it, so its number went to the next; killed\n"
        "                  between write and report it would leave a gap: a lock prevents duplicates, not gaps)"
    )


def _plan(options: Options) -> str:
    text = (
        f"{options.processes} processes x {options.threads} threads draw {options.orders} order numbers each"
        f" from one read-and-write-back counter, {'under ZkLock' if options.with_lock else 'WITHOUT a lock'}"
    )
    return text + ("; one process will be killed while it holds" if options.with_kill else "")


def _server(client: KazooClient) -> str:
    """Name the server and its version, if it tells (``srvr`` may not be on its list of commands)."""
    try:
        answer = client.command(b"srvr")
    except (KazooException, OSError):
        return "ZooKeeper"
    first = answer.partition("\n")[0]
    prefix = "Zookeeper version: "
    return (
        f"ZooKeeper {first.removeprefix(prefix).partition('-')[0]}"
        if first.startswith(prefix)
        else "ZooKeeper"
    )
