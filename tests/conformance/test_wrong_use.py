"""Wrong use gives a typed error that names the argument; names from data give the lock asked for, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import MakeCoordinator
from tests.support.waiting import PATIENCE_S, in_thread
from zkcoord import ConfigError, Coordinator, ZkLock, quote, unquote
from zkcoord.coordinator import coordinator_for

NAN, INF = float("nan"), float("inf")

both_fronts = pytest.mark.fronts("threads", "asyncio")


# --- paths


@both_fronts
@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "/",
        "//",
        "{root}/.",
        "{root}/..",
        "{root}/../x",
        "./x",
        "{root}/a\x00b",
        "{root}/a\nb",
        "{root}/\x7f",
        "{root}/\U0001f512",
        "{root}/\ud800",
        "{root}/\ufff0",
        "{root}/" + "x" * 65_536,
        b"{root}/bytes",
        None,
        7,
        True,
        ["{root}/list"],
    ],
    ids=lambda value: repr(value)[:24],
)
def test_wrong_path_is_named(coordinator: Coordinator, zk: KazooClient, root: str, wrong: Any) -> None:
    path = wrong.replace("{root}", root) if isinstance(wrong, str) else wrong

    with pytest.raises(ConfigError, match="path") as caught:
        ZkLock(path, client=coordinator)

    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400
    assert zk.exists(root) is None


# --- arguments


@both_fronts
@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        *[("timeout", wrong) for wrong in (-1, -0.001, NAN, INF, -INF, "5", True, b"5", [])],
        ("owner", ""),
        ("owner", b"job"),
        ("owner", 17),
        ("owner", "x" * 1001),
        ("label", ""),
        ("label", b"label"),
        ("label", "x" * 1001),
        ("dialect", "curater"),
        ("dialect", ""),
        ("dialect", None),
        ("dialect", ["curator"]),
        ("client", "127.0.0.1:2181"),
        ("client", 7),
        ("client", KazooClient),
        ("acl", "world"),
        ("acl", []),
        ("acl", 7),
        ("acl", [("world", "anyone")]),
        ("reentrant", "no"),
        ("reentrant", None),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_wrong_argument_of_a_lock_is_named(
    coordinator: Coordinator, zk: KazooClient, root: str, argument: str, wrong: Any
) -> None:
    arguments: dict[str, Any] = {"client": coordinator, argument: wrong}
    with pytest.raises(ConfigError, match=argument):
        ZkLock(f"{root}/lock", **arguments)
    assert zk.exists(root) is None


@both_fronts
@pytest.mark.parametrize("wrong", [-1, NAN, INF, "5", True])
@pytest.mark.parametrize("method", ["acquire", "try_acquire", "queue"])
def test_wrong_timeout_of_a_call_is_named(
    coordinator: Coordinator, zk: KazooClient, root: str, method: str, wrong: Any
) -> None:
    lock = ZkLock(f"{root}/lock", client=coordinator)
    with pytest.raises(ConfigError, match="timeout"):
        getattr(lock, method)(timeout=wrong)
    assert zk.exists(root) is None


@both_fronts
@pytest.mark.parametrize("wrong", [0, None])
def test_queue_needs_time_to_look(coordinator: Coordinator, root: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        ZkLock(f"{root}/lock", client=coordinator).queue(timeout=wrong)


@both_fronts
@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda grant: grant.check(min_remaining=-1), "min_remaining"),
        (lambda grant: grant.check(min_remaining=NAN), "min_remaining"),
        (lambda grant: grant.verify(timeout=-1), "timeout"),
        (lambda grant: grant.lost.wait(timeout="1"), "timeout"),
        (lambda grant: grant.transaction(timeout=NAN), "timeout"),
        (lambda grant: grant.transaction().set_data("/a", "text"), "value"),
        (lambda grant: grant.transaction().create("/a", None), "value"),
        (lambda grant: grant.transaction().create("/a/../b"), "path"),
        (lambda grant: grant.transaction().delete(b"/a"), "path"),
        (lambda grant: grant.transaction().delete("/a", version="1"), "version"),
        (lambda grant: grant.transaction().check("/a", None), "version"),
        (lambda grant: grant.on_lost("not callable"), "callback"),
    ],
)
def test_wrong_argument_of_a_grant_is_named_and_does_no_harm(
    coordinator: Coordinator, path: str, call: Callable[[Any], object], argument: str
) -> None:
    with ZkLock(path, client=coordinator) as grant:
        with pytest.raises(ConfigError, match=argument):
            call(grant)
        grant.verify()


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        *[
            ("hosts", wrong)
            for wrong in ("", "  ", 7, b"zk1:2181", "zk1:70000", "zk1:0", "zk1:port", ":2181")
        ],
        *[("session_timeout", wrong) for wrong in (0, -1, NAN, INF, "10", True)],
        *[("release_timeout", wrong) for wrong in (-1, NAN, INF, "2", None)],
        *[("tick_time", wrong) for wrong in (0, -1, NAN, "2")],
        *[("negotiated_timeout", wrong) for wrong in (0, -1, NAN, "2")],
        ("kazoo", "127.0.0.1:2181"),
        ("acl", "world"),
        ("acl", []),
        ("auth", "digest"),
        ("auth", [("digest",)]),
        ("auth", [("digest", 7)]),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_wrong_argument_of_a_coordinator_is_named(argument: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=argument):
        Coordinator(**{argument: wrong})


def test_hosts_and_kazoo_together_are_refused(zk: KazooClient, hosts: str) -> None:
    with pytest.raises(ConfigError, match="either hosts or kazoo"):
        Coordinator(hosts, kazoo=zk)


@both_fronts
@pytest.mark.parametrize("wrong", [-1, NAN, INF, "5", None])
def test_wrong_timeout_of_close_closes_nothing(coordinator: Coordinator, path: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        coordinator.close(timeout=wrong)
    ZkLock(path, client=coordinator).acquire().release()


@both_fronts
def test_closed_coordinator_is_refused(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    coordinator.close()
    for attempt in (lock.acquire, lock.try_acquire, lock.queue):
        with pytest.raises(ConfigError, match="closed: make a new one"):
            attempt()


def test_configure_names_what_it_does_not_know(run_script: Callable[[str], str]) -> None:
    printed = run_script("""
import zkcoord

for options in ({"hots": "zk1:2181"}, {"hosts": "zk1:port"}):
    try:
        zkcoord.configure(**options)
    except zkcoord.ConfigError as error:
        print(str(error)[:36])
""")
    assert ["configure() does not know hots", "hosts 'zk1:port' cannot be read (Por"] == printed.splitlines()


# --- names from users' data

NAMES = [
    "plain",
    "with spaces  and\ttabs",
    "a/b//c/",
    "/",
    ".",
    "..",
    "../../etc/passwd",
    "...",
    "",
    "%",
    "%2F",
    "100%",
    "a%2Fb",
    "größe",
    "gro\u0308ße",
    "漢字",
    "\U0001f512 emoji \U0001f469\u200d\U0001f4bb",
    "\x00\x01\x1f\x7f\x80\x9f",
    "line\nbreak\r\n",
    "\ud800 lone",
    "\ufeff\ufff0\uffff\ue000",
    "'; DROP TABLE locks; --",
    "_c_00000000-0000-4000-8000-000000000000-lock-0000000000",
    "zookeeper",
    "x" * 3_000,
    "\U0001f512/" * 1_500,
]


@both_fronts
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[1:25])
def test_quoted_name_is_the_lock_that_was_asked_for(
    coordinator: Coordinator, zk: KazooClient, root: str, name: str
) -> None:
    lock = ZkLock(f"{root}/{quote(name)}", client=coordinator)

    with lock as grant:
        (made,) = zk.get_children(root)
        assert name == unquote(made)
        assert [grant.name] == zk.get_children(f"{root}/{made}")
        assert (grant.name,) == tuple(member.name for member in lock.queue())
        assert in_thread(lock.try_acquire).result(PATIENCE_S) is None


@both_fronts
def test_different_names_are_different_locks(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    grants = [ZkLock(f"{root}/{quote(name)}", client=coordinator).acquire() for name in NAMES]

    assert len(NAMES) == len({grant.token for grant in grants})
    assert sorted(NAMES) == sorted(unquote(made) for made in zk.get_children(root))
    for grant in grants:
        grant.release()


@both_fronts
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[1:25])
def test_unquoted_name_is_the_lock_that_was_asked_for_or_an_error(
    coordinator: Coordinator, zk: KazooClient, root: str, name: str
) -> None:
    zk.create(root)
    path = f"{root}/{name}"
    try:
        lock = ZkLock(path, client=coordinator)
    except ConfigError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "quote()" in refusal
        assert [] == zk.get_children(root)
        return
    with lock as grant:
        segments = [segment for segment in path.split("/") if segment]
        assert [grant.name] == zk.get_children("/" + "/".join(segments))


@both_fronts
def test_relative_spelling_is_the_same_lock(make_coordinator: MakeCoordinator, root: str) -> None:
    coordinator = make_coordinator()
    spellings = [f"{root}/a/b", f"{root[1:]}/a/b", f"{root}//a///b/"]
    grants = [ZkLock(spelling, client=coordinator).acquire() for spelling in spellings]
    assert 1 == len({grant.token for grant in grants})
    for grant in grants:
        grant.release()


def test_client_that_cannot_be_used_leaves_no_borrower_behind(zk: KazooClient) -> None:
    with pytest.raises(ConfigError, match="str"):
        coordinator_for("127.0.0.1:2181")
    assert [] == list(zk.state_listeners)
