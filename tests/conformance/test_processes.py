"""Forks, multiprocessing and exits: each process has its own session, and gives its locks back when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import ROOT, RunScript
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

#: A module that an application would have: the lock is made at import, in the parent.
APP = """
import os, sys, time, warnings
import zkcoord
from zkcoord import Coordinator, ForeignProcessError, Status, ZkLock
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
zkcoord.configure(hosts=HOSTS + ROOT, session_timeout=10.0)
lock = ZkLock("/lock", timeout=30.0)

def fork(work):
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)  # as a gunicorn worker ends
    return pid

def join(*pids):
    for pid in pids:
        status = os.waitpid(pid, 0)[1]
        assert status == 0, status

def say(*words):
    print(*words, flush=True)
"""


# --- forked workers


def test_module_level_lock_works_in_forked_workers_after_the_parent_used_it(run_script: RunScript) -> None:
    printed = run_script(
        APP
        + """
with lock as grant:
    parents_session = lock.queue()[0].session

def work():
    for _ in range(5):
        with lock as grant:
            (member,) = [member for member in lock.queue() if member.holds]
            assert member.pid == os.getpid() and member.session != parents_session
            say(grant.token)

join(*[fork(work) for _ in range(4)])
with lock as grant:
    grant.verify()
    assert lock.queue()[0].session == parents_session
"""
    )
    tokens = [int(line) for line in printed.splitlines()]
    assert 20 == len(tokens)
    assert sorted(set(tokens)) == tokens


def test_lock_that_only_the_children_use_works(run_script: RunScript) -> None:
    printed = run_script(
        APP
        + """
def work():
    with lock:
        say("held")

join(*[fork(work) for _ in range(3)])
"""
    )
    assert ["held"] * 3 == printed.splitlines()


def test_child_waits_for_the_parent_that_forked_it_inside_the_lock(run_script: RunScript) -> None:
    """The parent's grant is not the child's: same thread, same path, but another owner."""
    printed = run_script(
        APP
        + """
def work():
    assert lock.try_acquire() is None
    say("busy")
    with lock:
        say("child")

with lock as grant:
    pid = fork(work)
    while len(lock.queue()) < 2:
        time.sleep(0.01)
    grant.verify()
    say("parent")
join(pid)
"""
    )
    assert ["busy", "parent", "child"] == printed.splitlines()


def test_fork_while_other_threads_use_the_lock(run_script: RunScript) -> None:
    """Whatever lock inside the library another thread held at the fork must not hang the child."""
    printed = run_script(
        APP
        + """
import threading
is_over = threading.Event()

def churn(number):
    mine = ZkLock(f"/churn-{number}")
    while not is_over.is_set():
        with mine:
            pass

threads = [threading.Thread(target=churn, args=(number,), daemon=True) for number in range(3)]
for thread in threads:
    thread.start()

def work():
    with lock:
        say("held")

for _ in range(4):
    join(*[fork(work) for _ in range(2)])
is_over.set()
for thread in threads:
    thread.join()
"""
    )
    assert ["held"] * 8 == printed.splitlines()


def test_nothing_is_imported_late(run_script: RunScript) -> None:
    """A module half imported by another thread at the fork would hang the child when it needs it."""
    printed = run_script(
        """
import sys, threading
import zkcoord
zkcoord.Coordinator  # the first of its names loads all of it
before = set(sys.modules)
with zkcoord.Coordinator(HOSTS + ROOT) as coordinator:
    lock = zkcoord.ZkLock("/lock", client=coordinator)
    with lock as grant:
        waiter = threading.Thread(target=lambda: lock.try_acquire(timeout=0.1))
        waiter.start()
        waiter.join()
        grant.on_lost(print)
        grant.verify()
        lock.queue()
        with grant.transaction() as tx:
            tx.check("/lock")
print(sorted(set(sys.modules) - before))
"""
    )
    assert "[]\n" == printed


def test_forked_workers_lock_is_free_as_soon_as_it_exits(run_script: RunScript) -> None:
    """Not only when its session of ten seconds has run out."""
    run_script(
        APP
        + """
with lock:
    pass

def work():
    global kept
    kept = lock.acquire()

join(fork(work))
began = time.monotonic()
lock.acquire(timeout=2.0).release()
"""
    )


def test_grandchild_works_and_gives_back(run_script: RunScript) -> None:
    printed = run_script(
        APP
        + """
with lock:
    pass

def grandchild():
    global kept
    kept = lock.acquire()
    say("grandchild")

def child():
    with lock:
        say("child")
    join(fork(grandchild))
    with lock:
        say("child again")

join(fork(child))
lock.acquire(timeout=2.0).release()
"""
    )
    assert ["child", "grandchild", "child again"] == printed.splitlines()


def test_parents_coordinator_and_grant_are_refused_in_a_child_and_unharmed(run_script: RunScript) -> None:
    printed = run_script(
        APP
        + """
import gc
coordinator = Coordinator(HOSTS + ROOT)
explicit = ZkLock("/explicit", client=coordinator)
grant = explicit.acquire()
default_grant = lock.acquire()

def work():
    global explicit, coordinator, grant
    uses = [
        explicit.acquire, explicit.try_acquire, explicit.queue, coordinator.session, coordinator.__enter__,
        grant.release, grant.check, grant.verify, grant.remaining, grant.transaction, grant.__enter__,
        lambda: grant.status, lambda: grant.on_lost(print), lambda: grant.lost.is_set(), default_grant.release,
    ]
    for use in uses:
        try:
            use()
        except ForeignProcessError as error:
            assert str(os.getppid()) in str(error), error
        else:
            raise AssertionError(f"{use} works in the child")
    coordinator.close()
    del uses, use, explicit, coordinator, grant
    gc.collect()

join(fork(work))
grant.verify()
default_grant.verify()
assert grant.status is default_grant.status is Status.HELD
assert grant.release() and default_grant.release()
coordinator.close()
say("unharmed")
"""
    )
    assert "unharmed\n" == printed


def test_parents_borrowed_client_is_not_touched_by_a_child(run_script: RunScript) -> None:
    run_script(
        APP
        + """
from kazoo.client import KazooClient
client = KazooClient(HOSTS)
client.start()
borrowed = ZkLock(ROOT + "/borrowed", client=client)
grant = borrowed.acquire()

def work():
    with lock:  # the default coordinator is no business of the client's
        pass
    try:
        grant.release()
    except ForeignProcessError:
        os._exit(0)  # kazoo's own exit hooks are the user's business
    os._exit(1)

join(fork(work))
grant.verify()
grant.release()
client.stop()
client.close()
"""
    )


# --- multiprocessing


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_give_back_at_their_exit(
    run_script: RunScript, tmp_path: Path, hosts: str, root: str, method: str
) -> None:
    (tmp_path / "app.py").write_text(
        f"HOSTS, ROOT = {hosts!r}, {root!r}\n"
        + APP
        + """
def work(number):
    with lock:
        say("held", number)

def keep():
    global kept
    kept = lock.acquire()
"""
    )
    (tmp_path / "main.py").write_text(
        f"""
import multiprocessing
import app

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with app.lock:
        pass
    keeper = context.Process(target=app.keep)
    keeper.start()
    keeper.join(60)
    app.lock.acquire(timeout=2.0).release()  # at once, and not when the keeper's session has run out
    children = [context.Process(target=app.work, args=(number,)) for number in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0, child.exitcode
    app.lock.acquire(timeout=2.0).release()
"""
    )

    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert 0 == done.returncode, done.stderr
    assert ["held 0", "held 1", "held 2"] == sorted(done.stdout.splitlines())


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_coordinator_of_the_childs_own_main_module_gives_back_at_its_exit(
    tmp_path: Path, hosts: str, root: str, zk: KazooClient, method: str
) -> None:
    """Such a child imports the main module before multiprocessing clears the finalizers."""
    (tmp_path / "main.py").write_text(
        f"""
import multiprocessing
from zkcoord import Coordinator, ZkLock

lock = ZkLock({root + "/lock"!r}, client=Coordinator({hosts!r}))

def keep():
    global kept
    kept = lock.acquire()

if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=keep)
    child.start()
    child.join(60)
    assert child.exitcode == 0, child.exitcode
    lock.acquire(timeout=2.0).release()
"""
    )

    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert 0 == done.returncode, done.stderr
    assert [] == zk.get_children(f"{root}/lock")


# --- exit


@pytest.mark.parametrize(
    "ending",
    ["", "sys.exit(0)", "raise SystemExit", "coordinator.close(); coordinator.close()"],
    ids=["end", "exit", "raise", "closed"],
)
def test_exit_gives_held_locks_back(run_script: RunScript, zk: KazooClient, root: str, ending: str) -> None:
    began = time.monotonic()
    run_script(
        APP
        + f"""
coordinator = Coordinator(HOSTS + ROOT)
kept = [ZkLock(f"/kept-{{number}}", client=coordinator).acquire() for number in range(3)]
kept.append(lock.acquire())
{ending}
"""
    )
    took_s = time.monotonic() - began
    for name in ("lock", "kept-0", "kept-1", "kept-2"):
        assert [] == zk.get_children(f"{root}/{name}")
    assert took_s < 2.0 + PATIENCE_S / 2


def test_exit_with_a_pending_acquire_in_a_daemon_thread(
    run_script: RunScript, zk: KazooClient, root: str
) -> None:
    run_script(
        APP
        + """
import threading
kept = lock.acquire()
threading.Thread(target=lambda: lock.acquire(timeout=None), daemon=True).start()
while len(lock.queue()) < 2:
    time.sleep(0.01)
"""
    )
    assert [] == zk.get_children(f"{root}/lock")


def test_lock_used_while_the_interpreter_ends_is_refused_instead_of_hanging(run_script: RunScript) -> None:
    said = run_script("""
from zkcoord import ConfigError, Coordinator, ZkLock

class Late:
    def __init__(self, **more):
        self.lock = ZkLock(ROOT + "/l", timeout=1.0, **more)
    def __del__(self):
        for use in (self.lock.acquire, self.lock.try_acquire, self.lock.queue):
            try:
                use()
            except ConfigError as error:
                print(error)

never_used = Late()
used = Late(client=Coordinator(HOSTS))
used.lock.acquire().release()
""")
    assert 6 == len(said.splitlines())
    assert 3 <= said.count("the interpreter is shutting down")


def test_exit_is_bounded_while_the_server_says_nothing(own_zookeeper: ZooKeeperServer) -> None:
    script = f"""
import sys
from zkcoord import Coordinator, ZkLock
coordinators = [Coordinator({own_zookeeper.hosts!r}) for _ in range(2)]
kept = [ZkLock("/lock-%d" % number, client=one).acquire() for number, one in enumerate(coordinators)]
print("held", flush=True)
sys.stdin.readline()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert "held\n" == child.stdout.readline()
        with own_zookeeper.paused():
            began = time.monotonic()
            child.communicate("\n", timeout=PATIENCE_S)
            took_s = time.monotonic() - began
    finally:
        child.kill()
        child.communicate()
    assert 0 == child.returncode
    assert took_s < 2.0 + 1.0  # the promise, and room for Python's own exit


def test_killed_process_frees_its_lock_when_its_session_ends(hosts: str, root: str, zk: KazooClient) -> None:
    script = f"""
import sys
from zkcoord import Coordinator, ZkLock
kept = ZkLock({root + "/lock"!r}, client=Coordinator({hosts!r}, session_timeout=1.0)).acquire()
print("held", flush=True)
sys.stdin.readline()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert "held\n" == child.stdout.readline()
    child.kill()
    child.communicate()
    wait_until(lambda: not zk.get_children(f"{root}/lock"), timeout=1.0 + PATIENCE_S)
