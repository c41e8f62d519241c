"""`zkcoord why` and `deadlocks`: what waits for what. They only read."""

from datetime import UTC, datetime

import click

from zkcoord import queues
from zkcoord._core.paths import normalize
from zkcoord._waits import Step, WaitGraph
from zkcoord.cli import exit_codes
from zkcoord.cli.look_commands import Look, check_path, reading
from zkcoord.cli.options import Settings, common_options
from zkcoord.cli.wait_views import chain, deadlocks_view, why_view


@click.command()
@click.argument("path")
@click.option("--root", default="/", metavar="PATH", help="Follow waits below this path only.  [default: /]")
@common_options
@click.pass_obj
def why(settings: Settings, /, path: str, root: str) -> None:
    """
    Say why PATH does not move: its holder, what that one waits for, who holds that, and so on.

    The chain ends at a process that waits for no lock: look there. Or it comes back to itself: a deadlock. Only waits
    for locks are seen; a process may as well wait for a database.

    \b
    Example:
      zkcoord why /locks/orders
    """
    check_path(path)
    with reading(settings) as look:
        members = queues.read_queue(look.client, path, timeout=look.left())
        graph = WaitGraph(look.contended(root))
        # Of a lock that nobody waits for the graph knows nothing.
        holders = [member for member in members if member.holds]
        look.show(why_view(chain(graph, holders), normalize(path), datetime.now(UTC)))


@click.command()
@click.argument("root", default="/")
@common_options
@click.pass_obj
def deadlocks(settings: Settings, /, root: str) -> int:
    """
    Find processes that wait for each other, over all locks under ROOT. Exits with 1 if there are some, else with 0.

    Each cycle is shown once. It is certain when all members are zkcoord's, which say whose thread they are; of kazoo's
    and Curator's only the session is known, and another of its threads may move. `zkcoord break` ends one.

    \b
    Examples:
      zkcoord deadlocks
      zkcoord deadlocks /app --json
    """
    with reading(settings) as look:
        cycles = WaitGraph(look.contended(root)).cycles()
        # The queues were read one after the other; a deadlock is still there at a second look.
        cycles = [cycle for cycle in cycles if _is_still_there(look, cycle)]
        count = look.show(deadlocks_view(cycles, root, datetime.now(UTC)))
    return exit_codes.FAILED if count else exit_codes.OK


def _is_still_there(look: Look, cycle: tuple[Step, ...]) -> bool:
    seen = {
        _place(member)
        for path in {step.waiter.path for step in cycle}
        for member in queues.read_queue(look.client, path, timeout=look.left())
    }
    return all({_place(step.waiter), _place(step.blocker)} <= seen for step in cycle)


def _place(member: queues.Member) -> tuple[str, str, bool]:
    return member.path, member.name, member.holds
