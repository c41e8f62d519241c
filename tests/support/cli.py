"""Runs the command line: here, as a process, and as a process on a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]

#: Most seconds to the end of a process: many are started at a time, and each is an interpreter.
END_S = 4 * PATIENCE_S

#: A process of its own, whatever is installed on the path.
PROGRAM = [sys.executable, "-m", "zkcoord.cli"]


def environment(hosts: str, **more: str) -> dict[str, str]:
    """The environment of a process: the hosts, this code, and nothing else that the program reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZKCOORD_")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "ZKCOORD_HOSTS": hosts, **more}


def start(
    hosts: str, *arguments: str, env: Mapping[str, str] | None = None, stdin: int | None = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Start ``zkcoord`` with pipes for its output."""
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(hosts, **(env or {})),
    )


def finish(process: subprocess.Popen[str], stdin: str | None = None) -> tuple[int, str, str]:
    """Wait for a process; give its exit code, stdout and stderr."""
    try:
        out, err = process.communicate(stdin, timeout=END_S)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


@dataclass
class Terminal:
    """A process on a pseudo-terminal, in a session of its own whose controlling terminal that is."""

    pid: int
    fd: int
    seen: bytearray = field(default_factory=bytearray)

    def type(self, text: bytes) -> None:
        """Press keys."""
        os.write(self.fd, text)

    def wait_for(self, wanted: bytes) -> None:
        """Read until something has been shown."""
        self._read(lambda: wanted in self.seen)
        assert wanted in self.seen, bytes(self.seen)

    def finish(self) -> tuple[int, bytes]:
        """Read to the end; give the exit code (minus the signal) and all that was shown."""
        self._read(lambda: False)
        _pid, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status), bytes(self.seen)

    def _read(self, is_enough: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while not is_enough():
            assert time.monotonic() < give_up, bytes(self.seen)
            if not select.select([self.fd], [], [], 0.5)[0]:
                continue
            try:
                data = os.read(self.fd, 65_536)
            except OSError:  # Linux: the other end is closed
                return
            if not data:
                return
            self.seen += data


def on_terminal(hosts: str, *arguments: str, command: list[str] | None = None, **env: str) -> Terminal:
    """Start ``zkcoord`` (or a command) on a terminal of 100 columns."""
    argv = command or [*PROGRAM, *arguments]
    variables = environment(hosts, **{"COLUMNS": "100", "LINES": "40", "TERM": "xterm", **env})
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.execve(argv[0], argv, variables)
        finally:
            os._exit(99)
    return Terminal(pid, fd)
