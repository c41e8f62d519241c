"""`zkcoord serve`: the embedded ZooKeeper on a port, until it is interrupted."""

import signal
import sys
import threading
import warnings

import click

from zkcoord.cli import exit_codes
from zkcoord.errors import ConfigError
from zkcoord.server import EmbeddedServer

DEFAULT_PORT = 2181


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="0 takes a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option(
    "--tick-time",
    type=click.FloatRange(0.001, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Sessions last 2 to 20 ticks.",
)
@click.option(
    "--allow-remote", is_flag=True, help="Needed for an ADDRESS that other machines can reach. Unsafe."
)
def serve(port: int, host: str, tick_time: float, allow_remote: bool) -> int:
    """
    Run a ZooKeeper server in this process. For development and tests; in memory.

    Any client of ZooKeeper can use it: kazoo, Curator, zkCli.sh. When it ends, everything in it is gone. Ctrl-C ends
    it.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        server = EmbeddedServer(port, host, tick_time=tick_time, allow_remote=allow_remote)
    for warning in caught:
        click.echo(f"zkcoord: warning: {warning.message}", err=True)
    ended = threading.Event()
    # Ctrl-C and a service manager end it the same way: in order, at any moment from here on, with code 0.
    for how in (signal.SIGINT, signal.SIGTERM):
        signal.signal(how, lambda *_: ended.set())
    try:
        server.start()
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    with server:
        print(f"embedded ZooKeeper on {server.hosts}, for development and tests; in memory", flush=True)
        print(f"  try: ZKCOORD_HOSTS={server.hosts} zkcoord locks", file=sys.stderr, flush=True)
        ended.wait()
    return exit_codes.OK
