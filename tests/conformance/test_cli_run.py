"""``zkcoord run``, ``elect`` and ``lock-hold`` as real processes, with pipes and on a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import cli
from tests.support.faults import members
from tests.support.processes import is_alive
from tests.support.waiting import wait_until
from zkcoord import ZkLock, ZkReadWriteLock, ZkSemaphore
from zkcoord.cli import exit_codes
from zkcoord.cli.run_loop import NAMES_VARIABLE

pytestmark = [
    pytest.mark.servers("embedded"),
    pytest.mark.skipif(os.name != "posix", reason="the command needs POSIX"),
]


@pytest.fixture
def zkcoord(hosts):
    """``zkcoord(*arguments, stdin=None, **environment)``: run it as a process; gives exit code, stdout, stderr."""

    def call(*arguments, stdin=None, **env):
        pipe = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        return cli.finish(cli.start(hosts, *map(str, arguments), env=env, stdin=pipe), stdin)

    return call


@pytest.fixture
def start(hosts):
    """``start(*arguments)``: a process that is killed at the test's end."""
    started = []

    def begin(*arguments, **env):
        process = cli.start(hosts, *map(str, arguments), env=env)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def wait_for_members(zk, path, count):
    wait_until(lambda: len(members(zk, path)) == count)


# --- a run that goes well


def test_command_runs_with_stdin_environment_and_its_exit_code(zkcoord, zk, path):
    script = "cat; printenv ZKCOORD_LOCK_PATH ZKCOORD_LOCK_TOKEN ZKCOORD_LOCK_MODE; exit 7"

    code, out, err = zkcoord(
        "run",
        path,
        "--",
        "sh",
        "-c",
        script,
        stdin="from stdin\n",
        ZKCOORD_LOCK_TOKEN="old",
        ZKCOORD_LOCK_PATH="x",
    )

    first, given_path, token, mode = out.splitlines()
    assert (7, "", "from stdin", path, "lock") == (code, err, first, given_path, mode)
    assert int(token) > 0
    assert [] == members(zk, path)


def test_lock_is_held_and_labelled_while_the_command_runs(start, coordinator, path, tmp_path):
    ready = tmp_path / "ready"
    process = start("run", path, "--", "sh", "-c", trap(ready, "TERM", "exit 0"))
    wait_until(ready.exists)

    (member,) = ZkLock(path, client=coordinator).queue()

    assert ("sh", process.pid, "MainThread") == (member.label, member.pid, member.thread)
    process.terminate()
    assert 0 == cli.finish(process)[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_death_by_a_signal_is_128_and_its_number(zkcoord, path, number):
    assert 128 + number == zkcoord("run", path, "--", "sh", "-c", f"kill -{int(number)} $$")[0]


def test_command_that_cannot_run_is_never_a_success(zkcoord, zk, path, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("no script\n")

    assert exit_codes.NOT_FOUND == zkcoord("run", path, "no-such-command-anywhere")[0]
    assert exit_codes.NOT_EXECUTABLE == zkcoord("run", path, plain)[0]
    assert exit_codes.NOT_EXECUTABLE == zkcoord("run", path, tmp_path)[0]
    assert exit_codes.USAGE == zkcoord("run", path)[0]
    assert exit_codes.USAGE == zkcoord("run", "/", "true")[0]
    assert exit_codes.USAGE == zkcoord("run", path, "true", "--", "true")[0]
    assert exit_codes.USAGE == zkcoord("run", "--shared", "--permits", "1/2", path, "true")[0]
    assert exit_codes.USAGE == zkcoord("run", "--grace", "60", path, "true")[0]
    assert exit_codes.USAGE == zkcoord("run", "--conflict-exit-code", "0", path, "true")[0]
    assert (
        exit_codes.UNAVAILABLE
        == zkcoord("run", "--hosts", "127.0.0.1:1", "--timeout", "0.5", path, "true")[0]
    )
    assert [] == members(zk, path)


def test_shell_is_off_until_asked_for(zkcoord, path):
    assert (0, "a | b; $HOME\n", "") == zkcoord("run", path, "--", "echo", "a | b; $HOME")
    assert (0, "A\n", "") == zkcoord("run", "--shell", path, "--", "echo a | tr a-z A-Z")


def test_options_of_the_command_are_its_own(zkcoord, path):
    assert (0, "--wait -x\n", "") == zkcoord("run", path, "echo", "--wait", "-x")
    assert (0, "-- --shell\n", "") == zkcoord("run", path, "--wait", "5", "--", "echo", "--", "--shell")


def test_shared_exclusive_and_permits_take_the_locks_of_the_library(zkcoord, coordinator, path):
    both = ZkReadWriteLock(path, client=coordinator)
    with both.read.acquire():
        assert 0 == zkcoord("run", "-s", "-w", "0", path, "true")[0]
        assert exit_codes.BUSY == zkcoord("run", "-x", "-w", "0", path, "true")[0]
        assert exit_codes.USAGE == zkcoord("run", "-w", "0", path, "true")[0]  # not the same kind of lock
    with both.write.acquire():
        assert exit_codes.BUSY == zkcoord("run", "-s", "-w", "0", path, "true")[0]
    pool = ZkSemaphore(f"{path}-pool", permits=3, client=coordinator)
    with pool.acquire(permits=2):
        assert 0 == zkcoord("run", "--permits", "1/3", "-w", "0", pool.path, "true")[0]
        assert 0 == zkcoord("run", "--permits", "1", "-w", "0", pool.path, "true")[0]
        assert exit_codes.BUSY == zkcoord("run", "--permits", "2/3", "-w", "0", pool.path, "true")[0]
        assert exit_codes.USAGE == zkcoord("run", "--permits", "1/4", "-w", "0", pool.path, "true")[0]


def test_busy_codes(zkcoord, coordinator, zk, path):
    with ZkLock(path, client=coordinator).acquire():
        for arguments, code in (
            (["--wait", "0"], exit_codes.BUSY),
            (["--wait", "0", "-E", "9"], 9),
            (["--wait", "2"], exit_codes.WAIT_ENDED),
            (["--wait", "500ms", "--conflict-exit-code", "9"], 9),
        ):
            found, out, err = zkcoord("run", *arguments, path, "echo", "ran")

            assert (code, "") == (found, out)
            assert 1 == len(err.splitlines())
        assert 1 == len(members(zk, path))


def test_shortest_time_is_kept_although_the_command_ended(zkcoord, path):
    began = time.monotonic()

    assert 0 == zkcoord("run", "--min-hold", "1", path, "true")[0]

    assert time.monotonic() - began >= 1.0


def test_longest_time_ends_the_command_and_the_hold(zkcoord, zk, path):
    began = time.monotonic()

    code, _out, err = zkcoord("run", "--max-hold", "1", path, "sleep", "100")

    assert exit_codes.LOST == code
    assert "1 s at most" in err
    assert time.monotonic() - began < 20
    assert [] == members(zk, path)


def test_nested_run_of_the_same_lock_is_refused(zkcoord, path):
    inner = [*cli.PROGRAM, "run", path, "--", "echo", "inner"]

    code, out, err = zkcoord("run", path, "--", *inner)
    assert (exit_codes.USAGE, "") == (code, out)
    assert NAMES_VARIABLE in err
    assert (0, "inner\n", "") == zkcoord("run", f"{path}-outer", "--", *inner)


def test_what_is_left_of_the_group_is_ended_before_the_release(zkcoord, path, tmp_path):
    script = "(trap '' TERM; echo $$ > /dev/null; while :; do sleep 0.05; done) & echo $!"

    code, out, _err = zkcoord("run", "--grace", "0.2", path, "--", "sh", "-c", f"{script}; exit 3")

    assert 3 == code
    assert not is_alive(int(out))


def test_twenty_shells_never_overlap(start, path, tmp_path):
    place, log = tmp_path / "place", tmp_path / "log"
    script = f"mkdir {place} || echo overlap >> {log}; echo $ZKCOORD_LOCK_TOKEN >> {log}; sleep 0.02; rmdir {place}"
    started = [start("run", path, "--", "sh", "-c", script) for _ in range(20)]

    assert {(0, "", "")} == {cli.finish(process) for process in started}
    tokens = [int(line) for line in log.read_text().splitlines()]
    assert 20 == len(tokens)
    assert sorted(set(tokens)) == tokens


# --- signals


def trap(path: Path, number: str, then: str) -> str:
    return f"trap '{then}' {number}; echo ready > {path}; while :; do sleep 0.05; done"


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_are_passed_on_to_the_command(start, path, tmp_path, name):
    ready = tmp_path / "ready"
    process = start("run", path, "--", "sh", "-c", trap(ready, name, "exit 42"))
    wait_until(ready.exists)

    process.send_signal(getattr(signal, f"SIG{name}"))

    assert 42 == cli.finish(process)[0]


def test_second_term_kills(start, path, tmp_path):
    ready, seen = tmp_path / "ready", tmp_path / "seen"
    process = start("run", path, "--", "sh", "-c", trap(ready, "TERM", f"echo x >> {seen}"))
    wait_until(ready.exists)

    process.terminate()
    wait_until(seen.exists)
    process.terminate()

    assert 128 + 9 == cli.finish(process)[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_wait_and_leaves_nothing(start, coordinator, zk, path, number):
    with ZkLock(path, client=coordinator).acquire():
        process = start("run", path, "echo", "ran")
        wait_for_members(zk, path, 2)

        process.send_signal(number)

        assert (128 + number, "") == cli.finish(process)[:2]
        wait_for_members(zk, path, 1)


def test_kill_of_run_takes_the_command_and_its_children_along(start, path, tmp_path):
    pids = tmp_path / "pids"
    child = f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 0.05; done"
    script = f"trap '' TERM; sh -c \"{child.replace('$', chr(92) + '$')}\" & echo $$ >> {pids}; wait"
    process = start("run", path, "--", "sh", "-c", script)
    wait_until(lambda: pids.exists() and 2 == len(pids.read_text().splitlines()))

    process.kill()

    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().splitlines()))


def test_request_to_give_the_lock_back_is_term_to_the_command(start, coordinator, zk, path, tmp_path):
    ready = tmp_path / "ready"
    process = start("run", path, "--", "sh", "-c", trap(ready, "TERM", "exit 5"))
    wait_until(ready.exists)

    assert ZkLock(path, client=coordinator).revoke(wait=30)

    code, _out, err = cli.finish(process)
    assert 5 == code
    assert "asked back" in err


def test_broken_lock_kills_the_command(start, coordinator, path, tmp_path):
    ready = tmp_path / "ready"
    process = start("run", path, "--", "sh", "-c", trap(ready, "TERM", "true"))
    wait_until(ready.exists)
    lock = ZkLock(path, client=coordinator)

    assert lock.break_holder(lock.queue()[0].token)

    code, _out, err = cli.finish(process)
    assert exit_codes.LOST == code
    assert "lost" in err


# --- elect and lock-hold


def test_candidate_stands_again_after_a_loss(start, coordinator, path, tmp_path):
    terms = tmp_path / "terms"
    # The first term lasts until it is ended; the second one ends by itself.
    script = f"echo $ZKCOORD_LOCK_TOKEN >> {terms}; [ $(wc -l < {terms}) -gt 1 ] && exit 6; sleep 100"
    process = start("elect", path, "--", "sh", "-c", script)
    wait_until(terms.exists)
    lock = ZkLock(path, client=coordinator)
    wait_until(terms.read_text)

    assert lock.break_holder(lock.queue()[0].token)

    assert 6 == cli.finish(process)[0]
    first, second = map(int, terms.read_text().splitlines())
    assert first < second


def test_lock_is_held_by_hand_until_a_signal(start, zk, path):
    process = start("lock-hold", "--json", "--label", "by hand", path)
    told = json.loads(process.stdout.readline())

    assert [told["name"]] == members(zk, path)
    assert zk.exists(f"{path}/{told['name']}").czxid == told["token"]
    process.terminate()
    assert (0, "", "") == cli.finish(process)
    assert [] == members(zk, path)


def test_lock_held_by_hand_ends_with_75_when_it_is_broken(start, coordinator, path):
    process = start("lock-hold", path)
    token = int(process.stdout.readline().split()[-1])

    assert ZkLock(path, client=coordinator).break_holder(token)

    assert exit_codes.LOST == cli.finish(process)[0]


# --- on a terminal


def test_terminal_is_the_commands_and_ctrl_c_ends_it(hosts, path):
    # dash itself can miss a ^C while it forks, hence the exec.
    script = "read line; echo got $line; stty size > /dev/null && echo tty; echo wait; exec sleep 100"
    terminal = cli.on_terminal(hosts, "run", path, "--", "sh", "-c", script)

    terminal.type(b"hello\n")
    terminal.wait_for(b"got hello")
    terminal.wait_for(b"wait\r\n")
    terminal.type(b"\x03")

    code, shown = terminal.finish()
    assert 130 == code
    assert b"tty" in shown
    assert b"Traceback" not in shown


def test_job_control_in_a_shell(hosts, path):
    terminal = cli.on_terminal(hosts, command=["/bin/bash", "--norc", "-i"], PS1="$ ")
    command = f"{' '.join(cli.PROGRAM)} run {path} -- sh -c 'echo be''gun; read a; echo got $a'"

    terminal.type(command.encode() + b"\n")
    terminal.wait_for(b"begun")
    terminal.type(b"\x1a")
    terminal.wait_for(b"Stopped")
    terminal.type(b"fg\n")
    terminal.type(b"word\n")
    terminal.wait_for(b"got word")
    terminal.type(b"echo code $?\n")
    terminal.wait_for(b"code 0")
    terminal.type(b"exit\n")
    assert 0 == terminal.finish()[0]


def test_output_into_a_pipe_leaves_the_terminal_to_the_reader(hosts, path):
    command = (
        f"{' '.join(cli.PROGRAM)} run {path} -- sh -c 'echo one; read a; echo $a' | sed s/^/=/; echo done"
    )
    terminal = cli.on_terminal(hosts, command=["/bin/bash", "--norc", "-i"], PS1="$ ")

    terminal.type(command.encode() + b"\n")
    terminal.wait_for(b"=one")
    terminal.type(b"two\n")
    terminal.wait_for(b"=two")
    terminal.type(b"exit\n")
    terminal.finish()
