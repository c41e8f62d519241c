"""
zkcoord and Java's Curator on one path: exclusion, hand-over, downgrade, names and revocation, both ways.

By default against Debian's Curator 5.4. ``ZKCOORD_CURATOR_JARS`` names other jars, separated like a class path: those
of 5.5 and later keep a downgraded writer's place, which 5.4 does not (CURATOR-621; only Java's side is concerned).
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Callable
from operator import itemgetter

import pytest
from kazoo.client import KazooClient

from tests.interop.conftest import OTHER_JARS, Peer
from tests.support.faults import members
from tests.support.turns import HAND_OVERS, check_turns, take_turns
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import AcquireTimeoutError, Coordinator, Grant, QueueConflictError, ZkLock, ZkReadWriteLock

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


#: The dialect of ours that takes turns with a recipe of Java's; a LeaderSelector is a mutex on the wire.
DIALECTS = {"mutex": "curator", "selector": "curator", "latch": "curator-latch"}

MARKERS = {
    "mutex": "lock-",
    "latch": "latch-",
    "selector": "lock-",
    "write": "__WRIT__",
    "read": "__READ__",
}
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

LABEL = "from Python"

NEWER = "ZKCOORD_CURATOR_JARS does not name the jars of Curator 5.5 or later"


def ours(kind: str, path: str, coordinator: Coordinator) -> ZkLock:
    if kind in DIALECTS:
        return ZkLock(path, client=coordinator, dialect=DIALECTS[kind], label=LABEL)
    side: ZkLock = getattr(ZkReadWriteLock(path, client=coordinator, label=LABEL), kind)
    return side


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


@pytest.mark.parametrize(
    ("theirs", "mine", "share"),
    [
        ("mutex", "mutex", False),
        ("latch", "latch", False),
        ("selector", "selector", False),
        ("selector", "mutex", False),
        ("write", "write", False),
        ("write", "read", False),
        ("read", "write", False),
        ("read", "read", True),
    ],
)
def test_each_side_keeps_the_other_out_and_hands_over(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, theirs: str, mine: str, share: bool
) -> None:
    lock = ours(mine, path, coordinator)
    if share:
        with lock:
            assert "true" == peer.tell("acquire", theirs, path, 10_000)
            with lock:
                pass
        with lock:
            assert "released" == peer.tell("release", theirs, path)
        return
    with lock:
        assert "false" == peer.tell("acquire", theirs, path, 200)
        queued(zk, path, 1)
        waiting = peer.start("acquire", theirs, path, 10_000)
        queued(zk, path, 2)
        assert not waiting.done()
    assert "true" == waiting.result(PATIENCE_S)
    assert None is lock.try_acquire()
    with pytest.raises(AcquireTimeoutError) as caught:
        lock.acquire(timeout=0.2)
    assert caught.value.holder
    acquiring = in_thread(lock.acquire)
    queued(zk, path, 2)
    assert "released" == peer.tell("release", theirs, path)
    acquiring.result(PATIENCE_S).release()
    assert [] == members(zk, path)


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        ("mutex", "mutex"),
        ("latch", "latch"),
        ("selector", "selector"),
        ("write", "write"),
        ("write", "read"),
        ("read", "write"),
    ],
)
def test_two_sides_hand_over_in_turns_and_are_never_inside_together(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, theirs: str, mine: str
) -> None:
    before = time.monotonic_ns()
    now = int(peer.tell("now"))
    assert before < now < time.monotonic_ns(), "the two sides' histories are on different clocks"
    turning = peer.turns(theirs, path, HAND_OVERS)
    history = take_turns(zk, path, "python", ours(mine, path, coordinator))
    check_turns([*history, *peer.history(turning)])
    queued(zk, path, 0)  # a latch is deleted in the background


@pytest.mark.parametrize("kind", ["mutex", "write"])
def test_no_increment_is_lost_and_the_fence_rises_through_many_hand_overs(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, root: str, path: str, kind: str
) -> None:
    counter = f"{root}/counter"
    zk.create(counter, b"0", makepath=True)
    counting = peer.start("count", kind, path, counter, HAND_OVERS)
    lock = ours(kind, path, coordinator)
    tokens = []
    for _ in range(HAND_OVERS):
        with lock.acquire(timeout=60.0) as grant:
            zk.set(counter, b"%d" % (int(zk.get(counter)[0]) + 1))
            tokens.append(grant.token)
    assert "counted" == counting.result(60.0)
    assert b"%d" % (2 * HAND_OVERS) == zk.get(counter)[0]
    assert sorted(set(tokens)) == tokens


def test_our_downgrade_keeps_javas_waiting_writer_out_and_lets_its_readers_in(
    make_peer: Callable[[], Peer], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    writer, reader = make_peer(), make_peer()
    rw = ZkReadWriteLock(path, client=coordinator)
    write = rw.write.acquire()
    reading = reader.start("acquire", "read", path, 20_000)
    queued(zk, path, 2)
    writing = writer.start("acquire", "write", path, 20_000)
    queued(zk, path, 3)
    read = rw.read.acquire(timeout=PATIENCE_S)
    write.release()
    assert "true" == reading.result(PATIENCE_S)
    assert not writing.done()
    assert "released" == reader.tell("release", "read", path)
    queued(zk, path, 2)
    read.verify()
    assert not writing.done()
    read.release()
    assert "true" == writing.result(PATIENCE_S)
    writer.tell("release", "write", path)


def javas_downgrade_keeps_our_waiting_writer_out(
    peer: Peer, lock: ZkLock, zk: KazooClient, path: str
) -> bool:
    assert "true" == peer.tell("acquire", "write", path, 10_000)
    waiting = in_thread(lambda: lock.acquire(timeout=1.0))
    queued(zk, path, 2)
    assert "true" == peer.tell("acquire", "read", path, 10_000)
    peer.tell("release", "write", path)
    is_kept_out = isinstance(waiting.exception(PATIENCE_S), AcquireTimeoutError)
    if not is_kept_out:
        waiting.result().release()
    peer.tell("release", "read", path)
    return is_kept_out


@pytest.mark.skipif(bool(OTHER_JARS), reason="ZKCOORD_CURATOR_JARS names other jars than Debian's 5.4")
@pytest.mark.xfail(
    reason="Curator 5.4 gives a downgraded reader a later number than the waiting writer (CURATOR-621)",
    strict=True,
)
def test_downgrade_of_curator_5_4_keeps_our_waiting_writer_out(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    assert javas_downgrade_keeps_our_waiting_writer_out(peer, ours("write", path, coordinator), zk, path)


@pytest.mark.skipif(not OTHER_JARS, reason=NEWER)
def test_downgrade_of_a_newer_curator_keeps_our_waiting_writer_out(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    assert javas_downgrade_keeps_our_waiting_writer_out(peer, ours("write", path, coordinator), zk, path)


@pytest.mark.skipif(not OTHER_JARS, reason=NEWER)
def test_names_of_a_newer_curators_downgrade_are_those_of_the_transcript(
    peer: Peer, zk: KazooClient, path: str
) -> None:
    for kind in ("write", "read"):
        assert "true" == peer.tell("acquire", kind, path, 10_000)
    assert ["__READ__0000000000", "__WRIT__0000000000"] == sorted(name[-18:] for name in members(zk, path))
    for kind in ("write", "read"):
        peer.tell("release", kind, path)


@pytest.mark.parametrize("kind", MARKERS)
def test_names_are_the_same_on_both_sides_and_each_side_reads_the_others_data(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    assert "true" == peer.tell("acquire", kind, path, 10_000)
    lock = ours(kind, path, coordinator)
    acquiring = in_thread(lock.acquire)  # a reader shares; everybody else waits
    queued(zk, path, 2)
    theirs, mine = members(zk, path)
    for number, name in enumerate((theirs, mine)):
        assert re.fullmatch(f"_c_{UUID}-{MARKERS[kind]}000000000{number}", name)
    is_named = kind in ("latch", "selector")
    first, second = lock.queue()
    assert (True, kind == "read", LABEL) == (first.holds, second.holds, second.label)
    if is_named:
        assert (peer.name, None) == (first.label, first.host)
    else:
        address = ipaddress.ip_address(zk.get(f"{path}/{theirs}")[0].decode())
        assert (None, str(address)) == (first.label, first.host)
    ourselves = zk.get(f"{path}/{mine}")[0].decode()
    assert (1, LABEL) == itemgetter("v", "label")(json.loads(ourselves))
    participants = f"{peer.name}*, {ourselves}" if is_named else f"{path}/{theirs}, {path}/{mine}"
    assert f"[{participants}]" == peer.tell("participants", kind, path)
    peer.tell("release", kind, path)
    acquiring.result(PATIENCE_S).release()


@pytest.mark.parametrize("kind", ["mutex", "write", "read"])
def test_java_asks_for_our_lock(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    grant = ours(kind, path, coordinator).acquire()
    told: list[Grant] = []
    grant.on_revoke(lambda grant: (told.append(grant), grant.release()))
    assert "sent" == peer.tell("revoke", f"{path}/{grant.name}")
    wait_until(lambda: [] == members(zk, path))
    assert [grant] == told


@pytest.mark.parametrize("kind", ["mutex", "write", "read"])
def test_we_ask_for_javas_lock(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    peer.tell("revocable", kind, path)
    assert "true" == peer.tell("acquire", kind, path, 10_000)
    lock = ours(kind, path, coordinator)
    revoking = in_thread(lambda: lock.revoke(wait=PATIENCE_S))
    assert "true" == peer.tell("asked", kind, path, 10_000)
    assert "released" == peer.tell("release", kind, path)
    assert revoking.result(PATIENCE_S)


def test_kinds_that_do_not_see_each_other_are_a_conflict_on_our_side(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    assert "true" == peer.tell("acquire", "mutex", path, 10_000)
    for kind in ("read", "write"):
        with pytest.raises(QueueConflictError):
            ours(kind, path, coordinator).acquire()
    with pytest.raises(QueueConflictError):
        ZkLock(path, client=coordinator, dialect="kazoo").acquire()
    peer.tell("release", "mutex", path)
    assert "true" == peer.tell("acquire", "read", path, 10_000)
    with pytest.raises(QueueConflictError):
        ours("mutex", path, coordinator).acquire()
    peer.tell("release", "read", path)
