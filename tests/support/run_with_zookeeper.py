"""
Run a command with a real ZooKeeper around it: ``python -m tests.support.run_with_zookeeper -- COMMAND [ARGUMENT…]``.

Says in one line which ZooKeeper is used, sets ``ZKCOORD_HOSTS``, runs the command, stops what it started and returns
the command's exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from tests.support.zookeeper import ExternalServer, NoZooKeeperError, Server, ServerStartError, find_zookeeper

EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h
EXIT_USAGE = 64


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] != "--" or len(arguments) == 1:
        print("usage: python -m tests.support.run_with_zookeeper -- COMMAND [ARGUMENT...]", file=sys.stderr)
        return EXIT_USAGE
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )  # so that a server is not left behind
    try:
        server = find_zookeeper()
        server.start()
    except (NoZooKeeperError, ServerStartError) as error:
        print(f"zkcoord: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    try:
        print(f"zkcoord: using {server.description}", flush=True)
        return _run(arguments[1:], server)
    finally:
        if not isinstance(server, ExternalServer):
            server.stop()


def _run(command: list[str], server: Server) -> int:
    child = subprocess.Popen(command, env={**os.environ, "ZKCOORD_HOSTS": server.hosts})

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    # Ctrl-C reaches the child by the terminal itself; a SIGTERM is for us alone and must not orphan child or server.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, pass_on)
    code = child.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
