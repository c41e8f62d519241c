"""``zkcoord locks`` and ``zkcoord holders`` on a real ZooKeeper, with the members of every lock library."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from importlib import metadata

import pytest
from kazoo.security import make_digest_acl

from zkcoord import Coordinator, ZkLock
from zkcoord.cli import exit_codes
from zkcoord.cli.app import run

# Bound on waiting for another thread or process; nothing here takes a second on an idle machine.
PATIENCE_S = 30.0


@pytest.fixture
def zkcoord(capsys, hosts):
    """``zkcoord(*arguments)``: run the command line here; gives exit code, stdout and stderr."""

    def call(*arguments, hosts=hosts):
        capsys.readouterr()
        code = run(["--hosts", hosts, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def add_member(client, path, marker="-lock-", data=b"127.0.0.1", acl=None):
    """Join a queue as Curator does; give the name."""
    made = client.create(
        f"{path}/_c_{uuid.uuid4()}{marker}", data, acl=acl, ephemeral=True, sequence=True, makepath=True
    )
    return made.rpartition("/")[2]


def wait_for_children(client, path, count):
    deadline = time.monotonic() + PATIENCE_S
    while len(client.get_children(path)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def tree(client, path):
    """All paths below one, to see that nothing was created."""
    children = client.get_children(path)
    return {path} | {below for child in children for below in tree(client, f"{path}/{child}")}


def test_locks_of_curator_and_kazoo_are_listed(zkcoord, zk, root):
    add_member(zk, f"{root}/curator")
    add_member(zk, f"{root}/curator")
    add_member(zk, f"{root}/leader", "-latch-", b"instance-7")
    zk.create(f"{root}/config/db", b"x", makepath=True)
    with zk.Lock(f"{root}/deep/er/kazoo", "job 17"):
        before = tree(zk, root)
        code, out, _err = zkcoord("locks", root)

    rows = [line.split("\t") for line in out.splitlines()[1:]]
    assert exit_codes.OK == code
    assert [
        [f"{root}/curator", "curator exclusive", "127.0.0.1", "1", "127.0.0.1"],
        [f"{root}/deep/er/kazoo", "kazoo exclusive", "job 17", "0", "-"],
        [f"{root}/leader", "curator-latch latch", "instance-7", "0", "-"],
    ] == [row[:5] for row in rows]
    assert {name for name in before if "__lock__" in name} == before ^ tree(zk, root)


def test_kazoo_contenders_of_a_read_lock_are_shown_in_order(zkcoord, zk, make_client, root):
    path = f"{root}/rw"
    other = make_client()
    first, second = zk.ReadLock(path, "reader 1"), other.ReadLock(path, "reader 2")
    assert first.acquire()
    assert second.acquire()
    writer = threading.Thread(target=lambda: zk.WriteLock(path, "writer").acquire(timeout=PATIENCE_S))
    writer.start()
    wait_for_children(zk, path, 3)

    code, out, _err = zkcoord("holders", path, "--json")

    members = json.loads(out)
    assert exit_codes.OK == code
    assert [("reader 1", True), ("reader 2", True), ("writer", False)] == [
        (member["label"], member["holds"]) for member in members
    ]
    assert [1, 2, 3] == [member["position"] for member in members]
    assert f"0x{other.client_id[0]:x}" == members[1]["session"]
    assert members[0]["token"] < members[1]["token"] < members[2]["token"]
    first.release()
    second.release()
    writer.join(PATIENCE_S)


def test_curators_read_write_lock_and_token(zkcoord, zk, root):
    path = f"{root}/rw"
    writer = add_member(zk, path, "-__WRIT__")
    add_member(zk, path, "-__READ__")

    _code, out, _err = zkcoord("holders", path, "--json")

    members = json.loads(out)
    assert [("write", True), ("read", False)] == [(m["kind"], m["holds"]) for m in members]
    assert zk.exists(f"{path}/{writer}").czxid == members[0]["token"]


def test_zklocks_holder_and_waiter_say_who_they_are(zkcoord, hosts, zk, root):
    path = f"{root}/orders"
    with Coordinator(hosts=hosts) as first, Coordinator(hosts=hosts) as second:
        waiting = threading.Thread(
            target=lambda: ZkLock(path, client=second, timeout=PATIENCE_S).acquire().release(), name="waiting"
        )
        with ZkLock(path, client=first, label="nightly export") as grant:
            waiting.start()
            wait_for_children(zk, path, 2)
            _code, out, _err = zkcoord("holders", path, "--json")
            _code, row, _err = zkcoord("locks", root)
        waiting.join(PATIENCE_S)

    holder, waiter = json.loads(out)
    assert (True, grant.token, "nightly export") == (holder["holds"], holder["token"], holder["label"])
    assert (os.getpid(), socket.gethostname(), "MainThread") == (
        holder["pid"],
        holder["host"],
        holder["thread"],
    )
    assert (False, "waiting") == (waiter["holds"], waiter["thread"])
    assert 0.0 <= holder["age_s"] < PATIENCE_S
    assert [path, "curator exclusive", "nightly export", "1"] == row.splitlines()[1].split("\t")[:4]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\x00\x1b[2J\x1b]0;title\x07", b"{" * 9000, b'{"v":1,"host":{},"pid":"x"}', b"x" * 900_000],
    ids=["empty", "escapes", "braces", "types", "huge"],
)
def test_hostile_data_is_shown_escaped_on_one_line(zkcoord, zk, root, data):
    add_member(zk, f"{root}/l", data=data)

    for arguments in (("holders", f"{root}/l"), ("locks", root)):
        code, out, _err = zkcoord(*arguments)

        assert exit_codes.OK == code
        assert 2 == len(out.splitlines())
        assert out.replace("\t", "").replace("\n", "").isprintable()
        assert all(len(line) < 600 for line in out.splitlines())


def test_missing_path_is_an_empty_queue_and_is_not_created(zkcoord, zk, root):
    assert (exit_codes.OK, "[]\n") == zkcoord("holders", f"{root}/none", "--json")[:2]
    code, out, err = zkcoord("holders", f"{root}/none")

    assert (exit_codes.OK, "") == (code, out)
    assert f"nobody holds or waits for {root}/none: there is no such path now\n" == err
    code, out, err = zkcoord("locks", f"{root}/none")
    assert (exit_codes.OK, "") == (code, out)
    assert f"no locks under {root}/none: there is no such path now\n" == err
    assert zk.exists(root) is None


def test_path_without_locks_is_not_said_to_be_missing(zkcoord, zk, root):
    zk.create(f"{root}/idle", b"", makepath=True)

    assert f"nobody holds or waits for {root}/idle\n" == zkcoord("holders", f"{root}/idle")[2]
    assert f"no locks under {root}\n" == zkcoord("locks", root)[2]


def test_paths_count_from_the_chroot(zkcoord, zk, hosts, root):
    add_member(zk, f"{root}/app/orders")

    code, out, _err = zkcoord("locks", "--json", hosts=f"{hosts}{root}")

    assert exit_codes.OK == code
    assert ["/app/orders"] == [lock["path"] for lock in json.loads(out)]


def test_hosts_after_the_command_win_and_the_environment_counts(capsys, monkeypatch, hosts, root):
    monkeypatch.setenv("ZKCOORD_HOSTS", hosts)

    assert exit_codes.OK == run(["locks", root])
    assert exit_codes.OK == run(["--hosts", "127.0.0.1:1", "locks", root, "--hosts", hosts])


def test_unreadable_directories_are_told(zkcoord, zk, root):
    add_member(zk, f"{root}/open")
    zk.create(f"{root}/secret", b"", acl=[make_digest_acl("u", "p", read=True, delete=True)])

    code, out, err = zkcoord("locks", root, "--json")

    assert exit_codes.OK == code
    assert [f"{root}/open"] == [lock["path"] for lock in json.loads(out)]
    assert f"left out, not readable with these credentials: {root}/secret" in err
    zk.add_auth("digest", "u:p")
    assert exit_codes.USAGE == zkcoord("holders", f"{root}/secret")[0]
    zk.delete(f"{root}/secret")


def test_a_queue_of_a_thousand_is_read_quickly(zkcoord, zk, root):
    zk.ensure_path(f"{root}/l")
    made = [
        zk.create_async(f"{root}/l/x-lock-", b"127.0.0.1", ephemeral=True, sequence=True) for _ in range(1000)
    ]
    for answer in made:
        answer.get(timeout=PATIENCE_S)

    began = time.monotonic()
    _code, out, _err = zkcoord("holders", f"{root}/l", "--json")

    assert 1000 == len(json.loads(out))
    assert time.monotonic() - began < 5.0


@pytest.fixture
def silent_server():
    """A listener that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


def address_of(listener):
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_unreachable_hosts_are_named_within_the_timeout(zkcoord, silent_server):
    for unreachable in ("127.0.0.1:1", address_of(silent_server), "host.invalid:2181"):
        began = time.monotonic()
        code, out, err = zkcoord("locks", "--timeout", "1", hosts=unreachable)

        assert (exit_codes.UNAVAILABLE, "") == (code, out)
        assert unreachable in err
        assert "--hosts" in err
        assert time.monotonic() - began < 1.0 + 1.5  # stopping kazoo is given a second more


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["holders"],
        ["holders", "/"],
        ["locks", "--timeout", "0"],
        ["locks", "--timeout", "nan"],
        ["locks", "--hosts", "a:b"],
        ["locks", "--hosts", ""],
        ["locks", "--hosts", "foo bar"],
        ["locks", "--hosts", "zk1:2181 zk2:2181"],
        ["demo", "--processes", "0"],
    ],
)
def test_wrong_use_exits_with_64_and_says_why(capsys, monkeypatch, arguments):
    monkeypatch.setenv("ZKCOORD_HOSTS", "127.0.0.1:1")

    assert exit_codes.USAGE == run(arguments)

    captured = capsys.readouterr()
    assert captured.err
    assert "Traceback" not in captured.err


def test_version_is_that_of_the_package(capsys):
    assert exit_codes.OK == run(["--version"])

    assert f"zkcoord {metadata.version('zkcoord')}\n" == capsys.readouterr().out


def test_bad_paths_are_refused(zkcoord):
    for path in ("/a/../b", "/a\x01"):
        code, _out, err = zkcoord("holders", path)

        assert exit_codes.USAGE == code
        assert "path" in err


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_ends_quietly_with_130(silent_server):
    command = [sys.executable, "-m", "zkcoord.cli", "locks", "--hosts", address_of(silent_server)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        connection, _address = silent_server.accept()  # now it waits for the server's answer
        with connection:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)

    assert exit_codes.INTERRUPTED == process.returncode
    assert ("", "") == (out, err.strip())
