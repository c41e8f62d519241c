"""
A candidate that notes when it believed that it led, alone (``python -m tests.recipes.candidate``) or beside a test.

Times are of ``time.monotonic``, which all processes of a machine share. ``begin TOKEN TIME`` is written when a term
begins, ``end TOKEN TIME`` when it is over, with the last moment at which it was still believed in.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from recipes import LeaderElection, Term
from zkcoord import Coordinator

Note = Callable[[str, int, float], object]

#: Seconds between two looks: often enough to catch a belief that lasts too long.
LOOK_S = 0.005


def worker(note: Note) -> Callable[[Term], None]:
    """Return a function for `LeaderElection.run`."""

    def work(term: Term) -> None:
        last = time.monotonic()
        note("begin", term.token, last)
        while True:
            now = time.monotonic()  # before the look: what it says was true at a later moment
            if term.lost.is_set():
                break
            last = now
            term.lost.wait(LOOK_S)
        note("end", term.token, last)

    return work


def main(hosts: str, path: str, name: str, session_s: float) -> None:
    with Coordinator(hosts, session_timeout=session_s) as coordinator:
        election = LeaderElection(path, client=coordinator, name=name)
        election.run(worker(lambda what, token, at: print(what, token, repr(at), flush=True)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
