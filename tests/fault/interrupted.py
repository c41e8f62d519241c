"""
The child process of ``test_interrupts.py``: ``python -m tests.fault.interrupted MODE HOSTS PATH``.

It does one thing that is interrupted by SIGINT, says what came of it, and then shows that the same lock object still
works. One line of output for each step; it goes on with each line of input.
"""

from __future__ import annotations

import faulthandler
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from kazoo.client import KazooClient

from tests.fault.unguarded import UNGUARDED, is_finalizing
from zkcoord import Coordinator, ZkLock, hold_until_commit, locked

interrupts = 0
is_armed = False
strikes = 0

#: What is promised: a second interrupt while the first is dealt with does no harm either.
MOST_AT_ONCE = 2


def interrupt(signum: int, frame: FrameType | None) -> None:
    """As Python's own handler, but only where nothing may be left behind: see `unguarded`."""
    global strikes
    is_spared = is_finalizing(frame) or (frame is not None and frame.f_code in UNGUARDED)
    if is_armed and strikes < MOST_AT_ONCE and not is_spared:
        strikes += 1
        raise KeyboardInterrupt


def say(text: object) -> None:
    print(text, flush=True)


def survive(call: Callable[[], object]) -> object:
    """Do something under any number of interrupts; None when it was interrupted."""
    global interrupts, is_armed, strikes
    try:
        try:
            strikes = 0
            is_armed = True
            return call()
        finally:
            is_armed = False
    except KeyboardInterrupt:
        is_armed = False
        interrupts += 1
    return None


def begin(call: Callable[[], object]) -> object:
    say("begin")
    return call()


def acquire(hosts: str, path: str, is_borrowed: bool) -> None:
    if is_borrowed:
        client = KazooClient(hosts, timeout=6.0)
        client.start(timeout=20)
        coordinator = Coordinator(kazoo=client)
    else:
        coordinator = Coordinator(hosts, session_timeout=6.0)
    lock = ZkLock(path, client=coordinator)
    say("interrupted" if survive(lambda: begin(lock.acquire)) is None else "acquired")
    for _ in sys.stdin:
        with lock.acquire(timeout=10.0) as grant:
            say(grant.token)
    coordinator.close()


def release(hosts: str, path: str) -> None:
    coordinator = Coordinator(hosts, session_timeout=6.0, release_timeout=20.0)
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire(timeout=10.0)
    say("interrupted" if survive(lambda: begin(grant.release)) is None else "released")
    say(grant.status)
    for _ in sys.stdin:
        with lock.acquire(timeout=10.0) as grant:
            say(grant.token)
    coordinator.close()


def storm(hosts: str, path: str, way: str) -> None:
    """Acquire and release for as long as input comes, interrupted at any moment."""
    coordinator = Coordinator(hosts, session_timeout=6.0)
    lock = ZkLock(path, client=coordinator)
    connection = sqlite3.connect(":memory:")

    def use_with() -> None:
        with lock:
            pass

    @locked(path, client=coordinator)
    def use_decorator() -> None: ...

    def use_commit() -> None:
        connection.rollback()  # what an interrupted rollback has left open
        with hold_until_commit(lock, connection):
            pass

    use = {"with": use_with, "locked": use_decorator, "commit": use_commit}[way]
    rounds = 0
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), is_over.set()), daemon=True).start()

    def go() -> bool:
        nonlocal rounds
        while not is_over.is_set():
            use()
            rounds += 1
        return True

    say("begin")
    while not survive(go):
        pass
    say(f"{rounds} {interrupts}")
    with lock.acquire(timeout=10.0) as grant:
        say(grant.token)
    say("ended")
    tracked = coordinator.session().guard._members  # one too many would take a live member's heartbeats
    until = time.monotonic() + 10.0
    while tracked and time.monotonic() < until:
        time.sleep(0.01)
    say(len(tracked))
    sys.stdin.readline()
    coordinator.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, interrupt)
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # for whoever has to find out why it hangs
    mode, *arguments = sys.argv[1:]
    if mode == "acquire":
        acquire(*arguments, is_borrowed=False)
    elif mode == "acquire-borrowed":
        acquire(*arguments, is_borrowed=True)
    elif mode == "release":
        release(*arguments)
    else:
        storm(*arguments)
