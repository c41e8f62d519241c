"""zkcoord and kazoo's own recipes on one path, in the dialect ``kazoo``: exclusion, hand-over, names, both ways."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock as KazooLock
from kazoo.recipe.lock import ReadLock as KazooReadLock
from kazoo.recipe.lock import WriteLock as KazooWriteLock

from tests.conftest import MakeClient
from tests.support.faults import members
from tests.support.turns import check_turns, take_turns
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import Coordinator, QueueConflictError, ZkLock, ZkReadWriteLock

THEIRS: dict[str, Any] = {"lock": KazooLock, "read": KazooReadLock, "write": KazooWriteLock}

#: Theirs and ours that must keep each other out. (kazoo's plain Lock overlooks readers; that is its own fault.)
PAIRS = [
    ("lock", "lock"),
    ("write", "write"),
    ("write", "read"),
    ("read", "write"),
    ("lock", "write"),
    ("write", "lock"),
]

MARKERS = {"lock": "__lock__", "write": "__lock__", "read": "__rlock__"}


def ours(kind: str, path: str, coordinator: Coordinator) -> ZkLock:
    if kind == "lock":
        return ZkLock(path, client=coordinator, dialect="kazoo")
    side: ZkLock = getattr(ZkReadWriteLock(path, client=coordinator, dialect="kazoo"), kind)
    return side


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


@pytest.mark.parametrize(("theirs", "mine"), PAIRS)
def test_each_side_keeps_the_other_out_and_names_are_alike(
    make_client: MakeClient, coordinator: Coordinator, zk: KazooClient, path: str, theirs: str, mine: str
) -> None:
    lock, their_lock = ours(mine, path, coordinator), THEIRS[theirs](make_client(), path, "their id")
    with lock as grant:
        assert not their_lock.acquire(blocking=False)
        assert re.fullmatch(f"[0-9a-f]{{32}}{MARKERS[mine]}[0-9]{{10}}", grant.name)
        waiting = in_thread(their_lock.acquire)
        queued(zk, path, 2)
        assert not waiting.done()
        # kazoo shows the data of all it waits with; ours are text, and theirs is what we show.
        assert zk.get(f"{path}/{grant.name}")[0].decode() in their_lock.contenders()
        assert "their id" == lock.queue()[1].label
        assert re.fullmatch(f"[0-9a-f]{{32}}{MARKERS[theirs]}[0-9]{{10}}", lock.queue()[1].name)
    assert waiting.result(PATIENCE_S)
    assert None is lock.try_acquire()
    acquiring = in_thread(lock.acquire)
    queued(zk, path, 2)
    their_lock.release()
    acquiring.result(PATIENCE_S).release()
    assert [] == members(zk, path)


def test_readers_of_both_sides_share(
    make_client: MakeClient, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock, their_lock = ours("read", path, coordinator), KazooReadLock(make_client(), path)
    with lock:
        assert their_lock.acquire(blocking=False)
        with lock:
            assert 2 == len(members(zk, path))
    with lock:
        pass
    their_lock.release()


@pytest.mark.parametrize(("theirs", "mine"), PAIRS)
def test_two_sides_hand_over_in_turns_and_are_never_inside_together(
    make_client: MakeClient, coordinator: Coordinator, zk: KazooClient, path: str, theirs: str, mine: str
) -> None:
    client = make_client()
    turning = in_thread(lambda: take_turns(client, path, "kazoo", THEIRS[theirs](client, path)))
    history = take_turns(zk, path, "zkcoord", ours(mine, path, coordinator))
    check_turns([*history, *turning.result(60.0)])
    assert [] == members(zk, path)


@pytest.mark.parametrize("kind", ["lock", "read", "write"])
def test_kazoos_lock_on_a_path_of_another_dialect_is_an_error_before_anything_is_granted(
    make_client: MakeClient, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    rw = ZkReadWriteLock(path, client=coordinator)
    locks = [
        ZkLock(path, client=coordinator),
        ZkLock(path, client=coordinator, dialect="curator-latch"),
        rw.read,
        rw.write,
    ]
    their_lock = THEIRS[kind](make_client(), path)
    with their_lock:
        for lock in locks:
            for attempt in (lock.acquire, lock.try_acquire, lock.queue):
                with pytest.raises(QueueConflictError, match=MARKERS[kind]):
                    attempt()
        queued(zk, path, 1)
    # The reverse: one of kazoo's that comes while ours is held is found when the grant is verified.
    for lock in locks:
        with lock as grant:
            grant.verify()
            assert their_lock.acquire(blocking=False), "kazoo does not see ours"
            with pytest.raises(QueueConflictError, match=MARKERS[kind]):
                grant.verify()
            their_lock.release()
            grant.verify()
