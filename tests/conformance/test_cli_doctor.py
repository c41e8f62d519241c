"""``zkcoord doctor`` on servers: what it asks them, and that it changes nothing."""

from __future__ import annotations

import json
import time

import pytest
from kazoo.security import make_digest_acl

from tests.conformance.test_cli_options import tree
from zkcoord import ZkLock
from zkcoord.cli import exit_codes
from zkcoord.cli.app import run


@pytest.fixture
def zkcoord(capsys, hosts):
    def call(*arguments, at=hosts):
        capsys.readouterr()
        code = run(["--hosts", at, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def by_check(out):
    return {finding["check"]: finding for finding in json.loads(out)}


def test_healthy_lock_on_a_server(zkcoord, coordinator, zk, root):
    with ZkLock(f"{root}/lock", client=coordinator, timeout=10.0):
        before = tree(zk, root)

        code, out, err = zkcoord("doctor", root, "--json")

        assert (exit_codes.OK, "") == (code, err)
        assert before == tree(zk, root)
    found = by_check(out)
    assert {"ok", "note"} == {finding["level"] for finding in found.values()}
    assert found["server"]["text"].startswith("standalone 3.")
    assert "1 of 1 lock directories" in found["acl"]["text"]


@pytest.mark.servers("embedded")
def test_what_is_wrong_with_locks_is_found(zkcoord, zk, root):
    acl = [make_digest_acl("user", "secret", all=True)]
    for name in ("mixed/x-lock-", "mixed/y__lock__", "stranger/x-lock-"):
        zk.create(f"{root}/{name}", b"", ephemeral=True, sequence=True, makepath=True)
    zk.create(f"{root}/stranger/0")
    late = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    data = json.dumps({"v": 1, "host": "web-1\x1b[31m", "pid": 1, "since": late}).encode()
    zk.create(f"{root}/clock/x-lock-", data, ephemeral=True, sequence=True, makepath=True)
    zk.create(f"{root}/closed", acl=acl)

    code, out, err = zkcoord("doctor", root, "--json")
    zk.delete(f"{root}/closed")

    assert exit_codes.FAILED == code
    found = by_check(out)
    assert f"{root}/mixed" == found["mixed queue"]["where"]
    assert "waits for it for ever" in found["foreign child"]["text"]
    assert "behind the servers'" in found["clock"]["text"]
    assert "\x1b" not in found["clock"]["where"]
    assert f"left out, not readable with these credentials: {root}/closed (1 in all)\n" == err
    code, out, err = zkcoord("doctor", root, "-o", "plain")
    assert ["LEVEL", "CHECK", "WHERE", "FINDING"] == out.splitlines()[0].split("\t")


@pytest.mark.servers("embedded")
def test_servers_that_do_not_answer(zkcoord, hosts):
    nobody = "127.0.0.1:1"

    code, out, err = zkcoord("doctor", "--timeout", "5", "--json", at=f"{hosts},{nobody}")
    assert exit_codes.FAILED == code
    assert [("ok", hosts), ("fault", nobody)] == [
        (one["level"], one["where"]) for one in json.loads(out) if one["check"] == "server"
    ]

    code, out, err = zkcoord("doctor", "--timeout", "0.5", "--json", at=nobody)
    assert (exit_codes.UNAVAILABLE, 1) == (code, len(json.loads(out)))
    assert 1 == len(err.splitlines())
    assert (exit_codes.USAGE, "") == zkcoord("doctor", at="not a host")[:2]
    assert (exit_codes.USAGE, "") == zkcoord("doctor", "a//b/../")[:2]


@pytest.mark.servers("embedded")
def test_session_that_dies_gives_one_line(zkcoord, coordinator, root, embedded_server):
    with ZkLock(f"{root}/lock", client=coordinator, timeout=10.0):
        with embedded_server.faults.expire(operation="getACL"):
            code, _out, err = zkcoord("doctor", root)

        assert exit_codes.UNAVAILABLE == code
        assert 1 == len(err.splitlines())
