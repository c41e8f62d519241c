"""``zkcoord break`` and ``revoke``: only the holder that was named, only when agreed, and it says what it did."""

from __future__ import annotations

import json

import pytest
from kazoo.recipe.lock import Lock as KazooLock

from tests.support import cli
from tests.support.faults import members
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import ZkLock, ZkReadWriteLock, ZkSemaphore
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


@pytest.fixture
def lock(coordinator, path):
    return ZkLock(path, client=coordinator, label="nightly report", timeout=10.0)


def test_break_ends_that_holder_and_lets_the_next_one_in(zkcoord, lock, make_coordinator, path):
    grant = lock.acquire()
    waiting = in_thread(ZkLock(path, client=make_coordinator(), timeout=10.0).acquire)

    code, out, _err = zkcoord("break", path, "--token", str(grant.token), "--yes", "--json")

    assert exit_codes.OK == code
    (deed,) = json.loads(out)
    assert ("broken", path, grant.token) == (deed["outcome"], deed["path"], deed["holder"]["token"])
    assert "nightly report" == deed["holder"]["label"]
    with waiting.result(PATIENCE_S) as second:
        assert second.token > grant.token
    assert grant.lost.wait(PATIENCE_S)
    assert "deleted" == grant.loss_reason


def test_break_does_nothing_to_another_holder(zkcoord, lock, zk, path):
    with lock.acquire() as earlier:
        pass
    with lock.acquire() as grant:
        before = members(zk, path)

        code, out, err = zkcoord("break", path, "--token", str(earlier.token), "--yes")

        assert (exit_codes.FAILED, "") == (code, out)
        assert f"has token {earlier.token}; now it is nightly report" in err
        assert f"token {grant.token}" in err
        assert before == members(zk, path)
    assert (exit_codes.FAILED, "") == zkcoord("break", path, "--token", str(grant.token), "--yes")[:2]
    assert (exit_codes.USAGE, "") == zkcoord("break", path, "--yes")[:2]
    assert (exit_codes.USAGE, "") == zkcoord("break", "/", "--token", "1", "--yes")[:2]


def test_break_takes_no_waiter_for_a_holder(zkcoord, lock, make_coordinator, zk, path):
    with lock.acquire():
        waiter = ZkLock(path, client=make_coordinator())
        waiting = in_thread(waiter.acquire)
        wait_until(lambda: 2 == len(members(zk, path)))
        behind = lock.queue()[1]

        code, _out, err = zkcoord("break", path, "--token", str(behind.token), "--yes")

        assert exit_codes.FAILED == code
        assert f"no holder of {path} has token {behind.token}" in err
        assert 2 == len(members(zk, path))
        waiter.cancel()
    assert waiting.exception(PATIENCE_S) is not None


def test_without_a_terminal_and_yes_nothing_is_done(hosts, lock, zk, path):
    with lock.acquire() as grant:
        for command in (
            ["break", path, "--token", str(grant.token)],
            ["revoke", path, "--then-break"],
        ):
            code, out, err = cli.finish(cli.start(hosts, *command))

            assert (exit_codes.USAGE, "") == (code, out)
            assert "say --yes" in err
        grant.verify()


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_it_asks_and_names_the_holder(hosts, lock, path, answer):
    grant = lock.acquire()
    terminal = cli.on_terminal(hosts, "break", path, "--token", str(grant.token))
    terminal.wait_for(b"[y/N]")
    assert b"Break nightly report on " in bytes(terminal.seen)
    terminal.type(answer.encode() + b"\n")

    code, seen = terminal.finish()

    is_broken = answer == "y"
    assert (exit_codes.OK if is_broken else exit_codes.FAILED) == code
    assert (b"nothing was done" in seen) is not is_broken
    assert is_broken is grant.lost.wait(PATIENCE_S if is_broken else 0.0)
    assert grant.release() is not is_broken


def test_revoke_asks_a_holder_that_listens(zkcoord, lock, path):
    grant = lock.acquire()
    grant.on_revoke(lambda grant: grant.release())

    code, out, _err = zkcoord("revoke", path, "--wait", "10", "-o", "plain")

    assert exit_codes.OK == code
    assert ["given back", path, str(grant.token), "nightly report"] == out.splitlines()[1].split("\t")[:4]
    assert grant.is_released


def test_revoke_that_is_ignored(zkcoord, lock, path):
    with lock.acquire() as grant:
        code, out, _err = zkcoord("revoke", path, "--json")
        assert (exit_codes.OK, "asked") == (code, json.loads(out)[0]["outcome"])

        code, out, _err = zkcoord("revoke", path, "--wait", "100ms", "--json")
        assert (exit_codes.WAIT_ENDED, "still holds") == (code, json.loads(out)[0]["outcome"])
        grant.verify()
    assert (exit_codes.FAILED, "") == zkcoord("revoke", path)[:2]


def test_revoke_then_break_ends_all_holders_of_any_library(zkcoord, coordinator, make_client, path):
    grants = [
        ZkReadWriteLock(path, client=coordinator).read.acquire(),
        ZkSemaphore(f"{path}-pool", permits=3, client=coordinator).acquire(permits=2),
    ]
    kazoos = KazooLock(make_client(), f"{path}-kazoo", "its owner")
    assert kazoos.acquire(timeout=10.0)

    for where in (path, f"{path}-pool", f"{path}-kazoo"):
        code, out, _err = zkcoord("revoke", where, "--wait", "50ms", "--then-break", "--yes", "--json")

        assert (exit_codes.OK, ["broken"]) == (code, [deed["outcome"] for deed in json.loads(out)])
        assert (exit_codes.FAILED, "") == zkcoord("revoke", where)[:2]
    for grant in grants:
        assert grant.lost.wait(PATIENCE_S)


def test_only_the_holder_with_the_token_is_asked(zkcoord, make_coordinator, path):
    first, second = (
        ZkSemaphore(path, permits=2, client=make_coordinator(), timeout=10.0).acquire() for _ in range(2)
    )
    for grant in (first, second):
        grant.on_revoke(lambda grant: grant.release())

    code, _out, _err = zkcoord("revoke", path, "--token", str(second.token), "--wait", "10")

    assert exit_codes.OK == code
    assert second.is_released
    assert not first.is_released
    first.release()


@pytest.mark.parametrize("command", ["break", "revoke"])
def test_session_that_dies_gives_one_line(zkcoord, lock, path, embedded_server, command):
    with lock.acquire() as grant:
        operation = "delete" if command == "break" else "setData"
        with embedded_server.faults.expire(operation=operation, path=f"{path}/*"):
            code, out, err = zkcoord(
                command, path, "--token", str(grant.token), *["--yes"][: command == "break"]
            )

        assert (exit_codes.UNAVAILABLE, "") == (code, out)
        assert 1 == len([line for line in err.splitlines() if line.startswith("zkcoord: ")]), err
        grant.verify()
