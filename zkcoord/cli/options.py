"""Options that every command takes, before or after its name."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

#: Where a ZooKeeper listens when nobody configured anything.
DEFAULT_HOSTS = "127.0.0.1:2181"


@dataclass
class Settings:
    """
    What holds for every command.

    Attributes:
        hosts: as kazoo takes it.
        is_given: whether anybody said so, by option or environment.
        timeout: seconds for a whole command, connecting included.
    """

    hosts: str = DEFAULT_HOSTS
    is_given: bool = False
    timeout: float = 10.0


def _store(context: click.Context, parameter: click.Parameter, value: str | float | None) -> None:
    settings = context.ensure_object(Settings)
    if isinstance(value, float):
        if not (math.isfinite(value) and value > 0):
            raise click.BadParameter(f"{value} is not a number of seconds above 0", context, parameter)
        settings.timeout = value
    elif value is not None:
        settings.hosts, settings.is_given = value, True


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that can stand before or after a command's name; the later one counts."""
    timeout = click.option(
        "--timeout",
        type=float,
        metavar="SECONDS",
        expose_value=False,
        callback=_store,
        help="For the whole command.  [default: 10]",
    )
    hosts = click.option(
        "--hosts",
        metavar="HOST:PORT,…[/CHROOT]",
        expose_value=False,
        callback=_store,
        help=f"The ZooKeeper ensemble.  [env: ZKCOORD_HOSTS; default: {DEFAULT_HOSTS}]",
    )
    return hosts(timeout(command))
