"""The program: its commands, the options they share, and how errors become exit codes."""

import os
import sys
from collections.abc import Sequence

import click
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord import errors
from zkcoord.cli import exit_codes, render
from zkcoord.cli.act_commands import break_, revoke
from zkcoord.cli.demo_command import Terminated, demo
from zkcoord.cli.doctor_command import doctor
from zkcoord.cli.look_commands import holders, locks, waiters
from zkcoord.cli.options import Settings, common_options, read_environment, show_environment
from zkcoord.cli.run_command import elect, lock_hold
from zkcoord.cli.run_command import run as run_command
from zkcoord.cli.serve_command import serve
from zkcoord.cli.wait_commands import deadlocks, why

#: Errors that the caller has to mend: waiting and trying again would not help.
_WRONG_USE = (
    errors.ConfigError,
    errors.QueueConflictError,
    errors.LimitMismatchError,
    errors.AlreadyHeldError,
    errors.UpgradeError,
)


class OutputClosedError(Exception):
    """Whoever read our output went away."""


class Program(click.Group):
    """The group of all commands. It keeps click from ending the process by itself when a pipe is closed."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosedError from error


@click.group(
    cls=Program, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "ZKCOORD"}
)
@click.version_option(
    package_name="zkcoord", prog_name="zkcoord", message="%(prog)s %(version)s", allow_from_autoenv=False
)
@common_options
@click.pass_context
def cli(context: click.Context) -> None:
    """
    Look at locks in ZooKeeper, act on them, and run commands under them: zkcoord's, Curator's and kazoo's.

    Results go to stdout and everything else to stderr. Shared options may stand before or after the command.

    \b
    Completion of commands and options in a shell, for example bash:
      eval "$(_ZKCOORD_COMPLETE=bash_source zkcoord)"
    """
    context.ensure_object(Settings)


for command in (
    locks,
    holders,
    waiters,
    why,
    deadlocks,
    break_,
    revoke,
    doctor,
    run_command,
    elect,
    lock_hold,
    demo,
    serve,
):
    show_environment(command)
    cli.add_command(command)
read_environment(cli)


def run(arguments: Sequence[str]) -> int:
    """
    Run one command.

    Args:
        arguments: without the program's name.

    Returns:
        The exit code; errors have been reported on stderr.
    """
    render.prepare_streams()
    try:
        result = cli.main(args=list(arguments), prog_name="zkcoord", standalone_mode=False, obj=Settings())
        sys.stdout.flush()
    except click.UsageError as error:
        error.show()
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except Terminated:
        return exit_codes.TERMINATED
    except (OutputClosedError, BrokenPipeError):
        # The interpreter flushes stdout once more at exit, which would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.PIPE_CLOSED
    except _WRONG_USE as error:
        return _report(error, exit_codes.USAGE)
    except errors.AcquireTimeoutError as error:
        return _report(error, exit_codes.UNAVAILABLE if error.position is None else exit_codes.WAIT_ENDED)
    except errors.GrantLostError as error:
        return _report(error, exit_codes.LOST)
    except (errors.ZkCoordError, KazooException, KazooTimeoutError) as error:
        return _report(error, exit_codes.UNAVAILABLE)
    return result if isinstance(result, int) else exit_codes.OK


def _report(error: Exception, code: int) -> int:
    click.echo(f"zkcoord: {str(error) or type(error).__name__}", err=True)
    return code
