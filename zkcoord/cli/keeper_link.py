"""The side of ``zkcoord run`` of the link to its keeper."""

import json
import os
import socket
import time
from typing import Any

from zkcoord.cli.keeper import Keeper
from zkcoord.cli.mailbox import ignored_signals

#: The keeper has nothing to do when its link closes, unless a command refuses to die.
_END_S = 5.0


class KeeperLink:
    """
    Forks the keeper and talks to it. Make it before there is any other thread.

    Attributes:
        socket: readable when there are events.
    """

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self._received = b""
        owner_group, ignored = os.getpgrp(), ignored_signals()
        self._pid = os.fork()
        if self._pid == 0:
            self.socket.close()
            Keeper(theirs, owner_group, ignored).run()
        theirs.close()

    def spawn(self, argv: list[str], env: dict[str, str], until: float, grace_s: float) -> None:
        """Start a command that may run until a moment of the clock of deadlines."""
        self._tell(do="spawn", argv=argv, env=env, until=until, grace=grace_s)

    def may_run_until(self, at: float) -> None:
        """Move the moment by which the command must be gone."""
        self._tell(do="until", at=at)

    def signal(self, number: int) -> None:
        """Send a signal to the command's group."""
        self._tell(do="signal", number=number)

    def resume(self) -> None:
        """Give the command the terminal again, and let it go on."""
        self._tell(do="continue")

    def events(self) -> list[dict[str, Any]]:
        """
        Read what the keeper tells; blocks until there is something.

        Raises:
            EOFError: the keeper is gone.
        """
        try:
            data = self.socket.recv(65_536)
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError("the process that keeps the command has ended")
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """End the keeper, and with it a command that still runs."""
        self.socket.close()
        give_up = time.monotonic() + _END_S
        while time.monotonic() < give_up:
            try:
                if os.waitpid(self._pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:
                return
            time.sleep(0.005)

    def _tell(self, **message: object) -> None:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # gone; `events` says so
