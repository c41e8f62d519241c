"""``zkcoord demo`` on a real ZooKeeper: real processes, one of them killed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from zkcoord.cli import exit_codes
from zkcoord.cli.demo import remove_tree

# Bound on one run: the defaults finish within 20 s on two cores, and a test machine may be busy.
RUN_S = 60.0


@pytest.fixture
def demo(hosts):
    """``demo(*arguments)``: run the demo in a process of its own; gives what ended."""

    def call(*arguments):
        command = [sys.executable, "-m", "zkcoord.cli", "demo", "--hosts", hosts, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)

    return call


def demo_roots(client):
    return {name for name in client.get_children("/") if name.startswith("zkcoord-demo-")}


def test_defaults_kill_a_holder_and_every_property_holds(demo, zk):
    before = demo_roots(zk)
    began = time.monotonic()

    ended = demo("--json")

    found = json.loads(ended.stdout)
    assert (exit_codes.OK, []) == (ended.returncode, found["failures"]), ended.stderr
    assert time.monotonic() - began < 20.0
    assert (200, 0, 0, True) == (found["issued"], found["duplicates"], found["gaps"], found["tokens_grow"])
    assert 0.0 < found["kill"]["moved_on_s"] < 12.0
    assert "killed process 3" in ended.stderr
    assert demo_roots(zk) <= before


def test_text_names_the_server_first_and_sums_up(demo, hosts):
    ended = demo("--processes", "2", "--threads", "1", "--orders", "4")

    lines = ended.stdout.splitlines()
    assert exit_codes.OK == ended.returncode, ended.stderr
    assert lines[0].startswith("ZooKeeper")
    assert lines[0].endswith(hosts)
    assert "all properties held" == lines[-1]
    assert any("moved on after" in line for line in lines)
    assert "\x1b" not in ended.stdout


def test_a_single_process_is_replaced(demo):
    ended = demo("--processes", "1", "--threads", "2", "--orders", "3", "--json")

    assert (exit_codes.OK, 6) == (ended.returncode, json.loads(ended.stdout)["issued"]), ended.stderr


def test_without_a_kill_nobody_waits_for_a_session(demo):
    ended = demo("--no-kill", "--json")

    found = json.loads(ended.stdout)
    assert (exit_codes.OK, None, 200) == (ended.returncode, found["kill"], found["issued"]), ended.stderr


def test_without_the_lock_there_are_duplicates_and_it_says_so(demo):
    ended = demo("--no-lock")

    assert exit_codes.OK == ended.returncode, ended.stderr
    assert "WITHOUT a lock" in ended.stdout
    assert "as expected without the lock" in ended.stdout


def test_unreachable_hosts_are_reported(demo):
    ended = demo("--hosts", "127.0.0.1:1", "--timeout", "1")

    assert exit_codes.UNAVAILABLE == ended.returncode
    assert "127.0.0.1:1" in ended.stderr


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize(
    ("how", "code"),
    [(signal.SIGINT, exit_codes.INTERRUPTED), (signal.SIGTERM, exit_codes.TERMINATED)],
    ids=["ctrl-c", "sigterm"],
)
def test_signal_ends_the_workers_and_cleans_up(hosts, zk, how, code):
    before = demo_roots(zk)
    command = [sys.executable, "-m", "zkcoord.cli", "demo", "--hosts", hosts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # The kill: from now on everybody waits for the session to expire.
        assert any(line.startswith("  killed") for line in iter(process.stdout.readline, ""))
        process.send_signal(how)
        _out, err = process.communicate(timeout=RUN_S)

    assert (code, "") == (process.returncode, err.strip())
    assert demo_roots(zk) <= before


def test_remove_tree_removes_all_and_takes_what_is_gone(zk, root):
    zk.create(f"{root}/a/b", b"", makepath=True)
    zk.create(f"{root}/c", b"", ephemeral=True)

    remove_tree(zk, root)
    remove_tree(zk, root)

    assert zk.exists(root) is None


def test_without_hosts_it_brings_its_own_server():
    environment = {name: value for name, value in os.environ.items() if name != "ZKCOORD_HOSTS"}
    command = [sys.executable, "-m", "zkcoord.cli", "demo", "--orders", "4"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=environment)

    lines = ended.stdout.splitlines()
    assert exit_codes.OK == ended.returncode, ended.stderr
    assert "embedded, started for this demo" in lines[0]
    assert "all properties held" == lines[-1]
