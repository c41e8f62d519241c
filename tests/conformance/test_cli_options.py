"""What all commands share: output formats, environment, pipes, terminals; and listing big and hostile trees."""

from __future__ import annotations

import json
import os
import subprocess
import uuid

import pytest
from kazoo.security import make_digest_acl

from tests.support import cli
from zkcoord.cli import exit_codes
from zkcoord.cli.app import run

pytestmark = pytest.mark.servers("embedded")

MARKERS = ("-lock-", "-__READ__", "-permit-")


@pytest.fixture
def zkcoord(capsys, hosts):
    """``zkcoord(*arguments)``: run the command line here; gives exit code, stdout and stderr."""

    def call(*arguments):
        capsys.readouterr()
        code = run(["--hosts", hosts, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def add_member(client, path, marker="-lock-", data=b"", head="_c_"):
    made = client.create(
        f"{path}/{head}{uuid.uuid4()}{marker}", data, ephemeral=True, sequence=True, makepath=True
    )
    return made.rpartition("/")[2]


def identity(**fields):
    return json.dumps({"v": 1, **fields}).encode()


def tree(client, path):
    """Every node below a path with its data, versions and zxids."""
    data, stat = client.get(path)
    found = {path: (data, tuple(stat))}
    for child in client.get_children(path):
        found |= tree(client, f"{path}/{child}")
    return found


def many_locks(client, root, count):
    pending = []
    client.ensure_path(root)
    for number in range(count):
        pending.append(client.create_async(f"{root}/{number:05}"))
        for _ in range(3):
            pending.append(
                client.create_async(
                    f"{root}/{number:05}/x-lock-", b"127.0.0.1", ephemeral=True, sequence=True
                )
            )
    for answer in pending:
        answer.get(timeout=60)


def test_many_locks_are_listed_in_order_and_nothing_is_changed(zkcoord, zk, root):
    many_locks(zk, root, 700)
    before = tree(zk, root)

    for output in ("plain", "json", "table"):
        code, out, err = zkcoord("locks", root, "-o", output)

        assert (exit_codes.OK, "") == (code, err)
        found = [lock["path"] for lock in json.loads(out)] if output == "json" else None
        lines = [line.split()[0] for line in out.splitlines() if line.startswith(root)]
        assert [f"{root}/{number:05}" for number in range(700)] == (found or lines)
    assert before == tree(zk, root)


def test_rows_come_in_order_of_path_segment_by_segment(zkcoord, zk, root):
    names = ("a", "a/b", "a/b/c", "a-b", "b/x", "b/y/z")
    for name in names:
        add_member(zk, f"{root}/{name}")

    _code, out, _err = zkcoord("locks", root, "--json")

    assert [f"{root}/{name}" for name in ("a", "a/b", "a/b/c", "a-b", "b/x", "b/y/z")] == [
        lock["path"] for lock in json.loads(out)
    ]


def test_first_row_comes_before_the_walk_ends(hosts, zk, root, embedded_server):
    add_member(zk, f"{root}/a")
    for number in range(300):
        zk.ensure_path(f"{root}/b/{number}")

    # Far more directories than are asked for at a time, and each of them slow: the row comes long before their end.
    with embedded_server.faults.delay(0.02, operation="getChildren*", path=f"{root}/b/*"):
        process = cli.start(hosts, "locks", root)
        assert process.stdout.readline().startswith("LOCK")
        assert process.stdout.readline().startswith(f"{root}/a\t")
        assert process.poll() is None
    assert (0, "", "") == cli.finish(process)


def test_filters(zkcoord, zk, root):
    old = identity(host="worker-1", pid=1, held_since="2020-01-01T00:00:00Z")
    add_member(zk, f"{root}/old", data=old)
    add_member(zk, f"{root}/new", data=identity(host="WORKER-2", pid=2))
    add_member(zk, f"{root}/new", data=identity(host="worker-3", pid=3))

    def listed(*arguments):
        return [
            lock["path"][len(root) + 1 :]
            for lock in json.loads(zkcoord("locks", root, "--json", *arguments)[1])
        ]

    assert ["new", "old"] == listed("--held")
    assert ["new"] == listed("--waiting")
    assert ["old"] == listed("--older-than", "1h")
    assert ["new", "old"] == listed("--host", "worker-*")
    assert ["new"] == listed("--host", "worker-2")
    assert [] == listed("--host", "worker-3")
    assert [] == listed("--host", "worker-2", "--older-than", "500ms", "--older-than", "1d")


def test_waiters_are_those_behind_the_holders(zkcoord, zk, root):
    for number in range(3):
        add_member(zk, f"{root}/l", data=identity(host="h", pid=number))

    _code, out, _err = zkcoord("waiters", f"{root}/l", "--json")

    assert [(2, 1, False), (3, 2, False)] == [(m["position"], m["pid"], m["holds"]) for m in json.loads(out)]
    assert "nobody waits for" in zkcoord("waiters", f"{root}/none")[2]


HOSTILE = {
    "escapes": b"\xff\x00\x1b[2J\x1b]0;title\x07\r\n",
    "label": identity(label="a\nb\tc\x1b[31m\u202e", host="h\r\n", pid=2**70, thread={"name": "\x9b1m"}),
    "megabyte": b"x" * 1_000_000,
    "nested": b'{"v":1,"host":' + b"[" * 60_000,
    "digits": b'{"v":1,"pid":' + b"9" * 50_000 + b"}",
    "surrogates": b'{"v":1,"label":"\\ud800x","since":"' + b"9" * 100 + b'"}',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", ["locks", "holders", "waiters", "why", "deadlocks", "doctor", "revoke"])
def test_hostile_data_breaks_no_output(zkcoord, zk, root, data, command):
    for marker in MARKERS:
        for _ in range(2):
            add_member(zk, f"{root}/l{MARKERS.index(marker)}", marker, data)
    target = root if command in ("locks", "deadlocks", "doctor") else f"{root}/l0"
    # All members here are of one session, which may well wait for itself.
    codes = (exit_codes.OK, exit_codes.FAILED) if command == "deadlocks" else (exit_codes.OK,)

    for output in ("plain", "table", "json"):
        code, out, err = zkcoord(command, target, "-o", output)

        assert code in codes
        assert not (err and out)
        assert err.replace("\n", "").isprintable()
        assert out.replace("\t", "").replace("\n", "").isprintable()
        if output == "json":
            assert json.loads(out) or command == "deadlocks"
        if output == "plain" and out:
            assert 1 == len({line.count("\t") for line in out.splitlines()})


def test_long_and_strange_names_break_no_output(zkcoord, zk, root):
    name = "\u2028\u202e[red]" + "ü" * 3000
    path = f"{root}/{name}"
    add_member(zk, path, head="y" * 3000)

    for output in ("plain", "table", "json"):
        code, out, err = zkcoord("locks", root, "-o", output)

        assert (exit_codes.OK, "") == (code, err)
        assert out.replace("\t", "").replace("\n", "").isprintable()
    assert [path] == [lock["path"] for lock in json.loads(out)]
    assert 3000 < len(json.loads(out)[0]["holders"][0]["name"])


def test_every_option_has_a_variable_and_the_command_line_wins(capsys, monkeypatch, hosts, zk, root):
    add_member(zk, f"{root}/a")
    add_member(zk, f"{root}/b")
    add_member(zk, f"{root}/b")
    monkeypatch.setenv("ZKCOORD_HOSTS", hosts)
    monkeypatch.setenv("ZKCOORD_OUTPUT", "json")
    monkeypatch.setenv("ZKCOORD_LOCKS_WAITING", "1")

    assert exit_codes.OK == run(["locks", root])
    assert [f"{root}/b"] == [lock["path"] for lock in json.loads(capsys.readouterr().out)]
    assert exit_codes.OK == run(["locks", root, "-o", "plain"])
    assert capsys.readouterr().out.startswith("LOCK\t")
    monkeypatch.setenv("ZKCOORD_TIMEOUT", "none")
    assert exit_codes.USAGE == run(["locks", root])


def test_credentials_that_cannot_be_read_are_not_shown(capsys):
    assert exit_codes.USAGE == run(["locks", "--auth", "secret-word"])

    assert "secret-word" not in capsys.readouterr().err


def test_tls_options_are_checked(zkcoord, tmp_path):
    for arguments in (["--ca", "x"], ["--tls", "--ca", str(tmp_path / "none")], ["--tls", "--certfile", "x"]):
        code, _out, err = zkcoord("locks", *arguments)

        assert exit_codes.USAGE == code
        assert 1 == len(err.splitlines())


def test_digest_credentials_open_what_they_protect(zkcoord, zk, root):
    zk.create(f"{root}", b"", makepath=True)
    zk.create(f"{root}/secret", b"", acl=[make_digest_acl("u", "pw", all=True)])

    assert exit_codes.USAGE == zkcoord("holders", f"{root}/secret")[0]
    assert exit_codes.OK == zkcoord("holders", f"{root}/secret", "--auth", "digest:u:pw")[0]
    zk.add_auth("digest", "u:pw")
    zk.delete(f"{root}/secret")


def test_closed_pipe_is_no_traceback(hosts, zk, root):
    many_locks(zk, root, 1500)
    process = cli.start(hosts, "locks", root)
    process.stdout.close()

    process.stdout = None
    code, _out, err = cli.finish(process)

    assert (exit_codes.PIPE_CLOSED, "") == (code, err)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_colours_are_for_terminals_that_want_them(hosts, zk, root):
    add_member(zk, f"{root}/a", data=b"\x1b[2J")

    code, bold = cli.on_terminal(hosts, "locks", root).finish()
    _code, plain = cli.on_terminal(hosts, "locks", root, NO_COLOR="1", TERM="dumb").finish()

    assert 0 == code
    assert b"\x1b[1m" in bold
    assert b"\x1b[2J" not in bold
    assert b"\x1b" not in plain
    assert b"LOCK" in plain


@pytest.mark.parametrize("command", ["locks", "holders", "waiters"])
def test_session_that_dies_under_a_command_gives_one_line_and_69(zkcoord, zk, root, embedded_server, command):
    add_member(zk, f"{root}/a")

    with embedded_server.faults.expire(operation="getData", path=f"{root}/a/*"):
        code, out, err = zkcoord(command, root if command == "locks" else f"{root}/a")

    assert (exit_codes.UNAVAILABLE, "") == (code, out)
    assert 1 == len(err.splitlines()), err
    assert err.startswith("zkcoord: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(hosts, shell):
    script = subprocess.run(
        cli.PROGRAM,
        env=cli.environment(hosts, _ZKCOORD_COMPLETE=f"{shell}_source"),
        capture_output=True,
        text=True,
    )
    words = subprocess.run(
        cli.PROGRAM,
        env=cli.environment(
            hosts, _ZKCOORD_COMPLETE="bash_complete", COMP_WORDS="zkcoord ho", COMP_CWORD="1"
        ),
        capture_output=True,
        text=True,
    )

    assert "_ZKCOORD_COMPLETE" in script.stdout
    assert "holders" in words.stdout
