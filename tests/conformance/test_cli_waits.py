"""``zkcoord why`` and ``deadlocks``, with threads that really wait."""

from __future__ import annotations

import json
import threading

import pytest

from tests.support.faults import Background, members
from tests.support.waiting import wait_until
from zkcoord import AcquireCancelledError, ZkLock
from zkcoord.cli import exit_codes
from zkcoord.cli.app import run

pytestmark = pytest.mark.servers("embedded")


@pytest.fixture
def zkcoord(capsys, hosts):
    def call(*arguments):
        capsys.readouterr()
        code = run(["--hosts", hosts, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


class Holders:
    """Threads that hold one lock each, and when all do, wait for another."""

    def __init__(self, zk, client, root):
        self._zk, self._client, self._root = zk, client, root
        self._pending, self._threads = [], []
        self._over, self._all_hold = threading.Event(), threading.Event()

    def lock(self, name):
        return ZkLock(f"{self._root}/{name}", client=self._client)

    def hold(self, held, wanted=None):
        second = self.lock(wanted) if wanted else None
        ready = threading.Event()

        def work():
            with self.lock(held):
                ready.set()
                if second is None:
                    self._over.wait(60)
                    return
                self._all_hold.wait(60)
                try:
                    if not self._over.is_set():
                        second.acquire()
                except AcquireCancelledError:
                    return

        if second:
            self._pending.append(second)
        self._threads.append(Background(work, name=f"holder of {held}"))
        assert ready.wait(30)

    def wait_for_waiters(self, **counts):
        """Let them wait, so many for each lock."""
        self._all_hold.set()
        for name, count in counts.items():
            path = f"{self._root}/{name}"
            wait_until(lambda path=path, count=count: len(members(self._zk, path)) == count + 1)

    def end(self):
        self._over.set()
        self._all_hold.set()
        for lock in self._pending:
            lock.cancel()
        # Who was about to wait when it was cancelled gets in once those ahead have gone.
        for thread in self._threads:
            thread.result()


@pytest.fixture
def holders(zk, coordinator, root):
    made = Holders(zk, coordinator, root)
    yield made
    made.end()


def test_deadlock_of_three_is_found_and_why_shows_it(zkcoord, holders, root):
    for held, wanted in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        holders.hold(held, wanted)
    holders.wait_for_waiters(a=2, b=1, c=1)

    code, out, _err = zkcoord("deadlocks", root, "--json")

    steps = json.loads(out)
    assert exit_codes.FAILED == code
    assert 3 == len(steps)
    assert {(1, True)} == {(step["deadlock"], step["certain"]) for step in steps}
    assert {f"{root}/{name}" for name in "abc"} == {step["waiter"]["path"] for step in steps}
    for step, after in zip(steps, steps[1:] + steps[:1], strict=True):
        assert step["blocker"]["thread"] == after["waiter"]["thread"]
    _code, out, _err = zkcoord("why", f"{root}/d", "--json")
    chain = json.loads(out)
    assert ["d", "a", "b", "c", "a"] == [link["path"][-1] for link in chain]
    assert [None, None, None, None, 2] == [link["same_as_step"] for link in chain]
    _code, out, _err = zkcoord("why", f"{root}/d", "-o", "table")
    assert "is that of step 2: a deadlock" in " ".join(out.split())


def test_chain_ends_at_the_process_that_does_not_wait(zkcoord, holders, root):
    holders.hold("b")
    holders.hold("a", "b")
    holders.wait_for_waiters(b=1)

    code, out, _err = zkcoord("why", f"{root}/a", "--root", root)

    assert exit_codes.OK == code
    rows = [line.split("\t") for line in out.splitlines()[1:]]
    assert [f"waits for {root}/b", "waits for no lock: look there"] == [row[7] for row in rows]
    assert ["holder of a", "holder of b"] == [row[5] for row in rows]
    assert (exit_codes.OK, "", f"no deadlock under {root}\n") == zkcoord("deadlocks", root)
    assert (exit_codes.OK, "") == zkcoord("why", f"{root}/none")[:2]


def test_session_that_dies_gives_one_line(zkcoord, holders, root, embedded_server):
    holders.hold("a", "b")
    holders.hold("b")
    holders.hold("c", "b")
    holders.wait_for_waiters(b=2)

    for command, path in (("deadlocks", root), ("why", f"{root}/b")):
        # Holders and waiters read members as well, but none of them lists now.
        with embedded_server.faults.expire(operation="getChildren*", path=f"{root}/b"):
            code, out, err = zkcoord(command, path)

        assert (exit_codes.UNAVAILABLE, "") == (code, out)
        assert 1 == len(err.splitlines())
