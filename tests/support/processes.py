"""Looking at processes that are not our children."""

from __future__ import annotations

import os
from pathlib import Path

#: A Python program that writes its process ids to a file. It ignores TERM, and so do a child in the same group and one
#: that has left for a session of its own.
FAMILY = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for leaves in (False, True):
    if os.fork() == 0:
        if leaves:
            os.setsid()
        break
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    time.sleep(0.01)
"""


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        if Path("/proc/self").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return text.rpartition(b")")[2].split()[0] not in (b"Z", b"X")
