"""What doctor makes of what it has seen, without any server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkcoord.cli.checkup import Directory, Server, check_directories, check_servers

LEADER = Server("zk1:2181", None, 0.001, 15.0, "leader", "3.8.4", 2.0, 5)
FOLLOWER = replace(LEADER, address="zk2:2181", mode="follower")
HEALTHY = [LEADER, FOLLOWER, replace(FOLLOWER, address="zk3:2181")]


def levels(servers, asked_s=15.0, known=3):
    return {finding.check: finding.level for finding in check_servers(servers, asked_s, known)}


def text(servers, check, asked_s=15.0, known=3):
    return next(one.text for one in check_servers(servers, asked_s, known) if one.check == check)


def tree(*directories):
    return {finding.check: (finding.level, finding.text) for finding in check_directories(directories)}


def test_healthy_ensemble_has_nothing_but_ok():
    assert {"ok"} == set(levels(HEALTHY).values())


def test_server_that_does_not_answer_is_a_fault():
    servers = [*HEALTHY[:2], Server("zk3:2181", "refused")]

    found = list(check_servers(servers, 15.0, 3))

    assert [("fault", "zk3:2181", "cannot be reached: refused")] == [
        (one.level, one.where, one.text) for one in found if one.level != "ok"
    ]


def test_servers_that_all_are_down_say_nothing_else():
    assert ["server"] == [one.check for one in check_servers([Server("zk1:2181", "refused")], 15.0, None)]


@pytest.mark.parametrize(
    ("modes", "known", "level"),
    [
        (["leader", "follower"], 3, "ok"),
        (["leader", "leader"], 3, "fault"),
        (["standalone"], None, "note"),
        (["standalone", "standalone"], None, "fault"),
        (["follower", "follower"], 3, "note"),
        (["follower", "follower", "follower"], 3, "fault"),
        (["leader", None], 3, "note"),
    ],
)
def test_roles(modes, known, level):
    assert level == levels([replace(LEADER, mode=mode) for mode in modes], known=known)["roles"]


def test_hosts_that_leave_servers_out():
    assert "names 1 of 3" in text([LEADER], "hosts")
    assert "hosts" not in levels([LEADER], known=1)
    assert "hosts" not in levels([LEADER], known=None)


def test_versions():
    assert "fault" == levels([replace(LEADER, version="3.5.9")])["version"]
    mixed = [LEADER, replace(FOLLOWER, version="3.9.2")]
    assert "3.8.4 and 3.9.2 side by side" in text(mixed, "version")
    assert "version" not in levels([replace(LEADER, version="3.10.0")])


def test_session_that_ends_before_a_cut_off_server_notices():
    short = [replace(server, negotiated_s=6.0) for server in HEALTHY]

    assert "warning" == levels(short, asked_s=6.0)["session timeout"]
    assert "for up to 4 s beside the next holder" in text(short, "session timeout", asked_s=6.0)
    assert "ok" == levels(HEALTHY)["session timeout"]


def test_timeout_that_was_not_granted():
    assert "60 s were asked for and 15 s granted" in text(HEALTHY, "session timeout", asked_s=60.0)


def test_tick_time_beyond_what_is_assumed():
    slow = [replace(server, tick_s=4.0) for server in HEALTHY]

    assert "fault" == levels(slow)["tick time"]
    assert "Coordinator(tick_time=4)" in text(slow, "tick time")
    assert "tick time" not in levels([replace(server, tick_s=2.8) for server in HEALTHY])


def test_slow_and_silent_servers():
    assert "warning" == levels([replace(LEADER, latency_s=0.2)])["server"]
    silent = Server("zk1:2181", None, 0.001, 15.0)
    assert "note" == levels([silent])["server"]
    assert "4lw.commands.whitelist" in text([silent], "server")


def test_queues_that_do_not_see_each_other():
    level, said = tree(Directory("/a", ("x-lock-0000000000", "y__lock__0000000001")))["mixed queue"]

    assert "fault" == level
    assert "kazoo and mutex" in said
    assert "mixed queue" not in tree(Directory("/a", ("x-__READ__0000000000", "x-__WRIT__0000000001")))


@pytest.mark.parametrize(
    ("child", "level"),
    [("config", "note"), ("0", "warning"), ("-1", "warning"), ("0000000007", "warning"), ("9", "note")],
)
def test_foreign_children_say_whom_they_block(child, level):
    found, said = tree(Directory("/a", ("x-lock-0000000012", child)))["foreign child"]

    assert level == found
    assert ("Curator waits for it for ever" in said) is (level == "warning")


def test_many_foreign_children_are_summed_up():
    found = list(check_directories([Directory("/a", ("x-lock-0000000012", *"abcdef"))]))

    assert 4 == len([one for one in found if one.check == "foreign child"])
    assert any("and 3 more" in one.text for one in found)


@pytest.mark.parametrize(
    ("sequence", "level"), [(10, None), (1_200_000_000, "warning"), (2_000_000_000, "fault"), (-5, "fault")]
)
def test_sequence_numbers_left(sequence, level):
    found = tree(Directory("/a", (f"x-lock-{sequence:010d}",)))

    assert level == found.get("sequence", (None, ""))[0]


def test_clocks_and_acls_are_told_once():
    found = tree(
        Directory("/a", ("x-lock-0000000000",), (("web-1", -42.4), ("web-2", 0.3)), True),
        Directory("/b", ("x-lock-0000000000",), (("web-1", -40.0),), False),
    )

    assert ("warning", "42 s behind the servers'") == (found["clock"][0], found["clock"][1].partition(":")[0])
    assert "1 of 2 lock directories" in found["acl"][1]
    assert "ok" == tree(Directory("/a", ("x-lock-0000000000",), (), False))["acl"][0]
    assert {} == tree()
