"""The commands. Each reads what it needs, makes a view of it and hands it to ``render``."""

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord import queues
from zkcoord.cli import exit_codes, render, views
from zkcoord.cli.connect import connected
from zkcoord.cli.demo_command import Terminated, demo
from zkcoord.cli.options import DEFAULT_HOSTS, Settings, common_options
from zkcoord.cli.serve_command import serve
from zkcoord.errors import ConfigError, ZkCoordError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zkcoord", prog_name="zkcoord", message="%(prog)s %(version)s")
@common_options
@click.pass_context
def cli(context: click.Context) -> None:
    """Look at locks in ZooKeeper: zkcoord's, Curator's and kazoo's. Only the demo writes anything."""
    context.ensure_object(Settings)


@cli.command()
@click.argument("root", default="/")
@click.option("--json", "as_json", is_flag=True, help="A list of objects, for programs.")
@common_options
@click.pass_obj
def locks(settings: Settings, root: str, as_json: bool) -> None:
    """
    List every lock under ROOT, with its holder and the number of waiters.

    ROOT is "/" when left out. A lock's age is counted from its grant where that is recorded, else from the
    creation of the holder's znode.
    """
    ends_at = time.monotonic() + settings.timeout
    unreadable: list[str] = []
    with connected(settings.hosts, settings.timeout) as client, render.TreeProgress(sys.stderr) as progress:
        found = queues.find_locks(
            client,
            root,
            timeout=_left(ends_at),
            progress=progress,
            unreadable=unreadable.append,
        )
        is_missing = not found and _is_missing(client, root, _left(ends_at))
    if unreadable:
        first = queues.printable(unreadable[0])
        click.echo(
            f"left out, not readable with these credentials: {first} ({len(unreadable)} in all)", err=True
        )
    view = views.locks_view(found, root, datetime.now(UTC), is_missing=is_missing)
    render.show(view, as_json=as_json, out=sys.stdout, err=sys.stderr)


@cli.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="A list of objects, for programs.")
@common_options
@click.pass_obj
def holders(settings: Settings, path: str, as_json: bool) -> None:
    """
    Show the queue of the lock at PATH: who holds it and who waits, oldest first.

    TOKEN is the fencing token of an exclusive holder.
    """
    if not path.strip("/"):
        raise click.BadParameter("name a lock, for example /locks/orders", param_hint="PATH")
    ends_at = time.monotonic() + settings.timeout
    with connected(settings.hosts, settings.timeout) as client:
        members = queues.read_queue(client, path, timeout=_left(ends_at))
        is_missing = not members and _is_missing(client, path, _left(ends_at))
    view = views.queue_view(members, path, datetime.now(UTC), is_missing=is_missing)
    render.show(view, as_json=as_json, out=sys.stdout, err=sys.stderr)


def _is_missing(client: KazooClient, path: str, timeout: float) -> bool:
    """Whether a path that has nothing to show does not exist; False if that is not to be found out."""
    try:
        return client.exists_async(f"/{path.strip('/')}").get(timeout=timeout) is None
    except (KazooException, KazooTimeoutError):
        return False


def _left(ends_at: float) -> float:
    # At least a moment: a connection that came in the last instant still gets an answer or a proper error.
    return max(0.1, ends_at - time.monotonic())


cli.add_command(demo)
cli.add_command(serve)


def run(arguments: Sequence[str]) -> int:
    """
    Run one command.

    Args:
        arguments: without the program's name.

    Returns:
        The exit code; errors have been reported on stderr.
    """
    render.prepare_streams()
    hosts = os.environ.get("ZKCOORD_HOSTS")
    settings = Settings(hosts or DEFAULT_HOSTS, is_given=bool(hosts))
    try:
        result = cli.main(args=list(arguments), prog_name="zkcoord", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except click.UsageError as error:
        error.show()
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except Terminated:
        return exit_codes.TERMINATED
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit, which would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.PIPE_CLOSED
    except ConfigError as error:
        return _report(error, exit_codes.USAGE)
    except (ZkCoordError, KazooException, KazooTimeoutError) as error:
        return _report(error, exit_codes.UNAVAILABLE)
    return result if isinstance(result, int) else exit_codes.OK


def _report(error: Exception, code: int) -> int:
    click.echo(f"zkcoord: {str(error) or type(error).__name__}", err=True)
    return code
