"""The lock's directory vanishes between any two steps: an acquire makes it again and goes on."""

from __future__ import annotations

import threading

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from tests.fault.conftest import SESSION_S
from tests.support.faults import Background, add_member, members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import wait_until
from zkcoord import Coordinator, ZkLock

pytestmark = pytest.mark.fronts("threads", "asyncio")

STEPS = [
    pytest.param(Op.CREATE2, False, id="before the create"),
    pytest.param(Op.CREATE2, True, id="after the create"),
    pytest.param(Op.CREATE_CONTAINER, False, id="before the parents"),
    pytest.param(Op.CREATE_CONTAINER, True, id="after the parents"),
    pytest.param(Op.GET_CHILDREN, False, id="before the list"),
    pytest.param(Op.GET_CHILDREN, True, id="after the list"),
]


def delete_tree(zk: KazooClient, path: str) -> None:
    """Delete a directory and all in it, however often something new comes in between."""
    while True:
        try:
            zk.delete(path, recursive=True)
        except NotEmptyError:
            continue
        return


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(("opcode", "is_reply"), STEPS)
def test_directory_deleted_between_two_steps(
    proxied: Coordinator,
    proxy: FaultProxy,
    zk: KazooClient,
    root: str,
    opcode: Op,
    is_reply: bool,
    depth: int,
) -> None:
    top = f"{root}/top"
    path = top + "/deep" * (depth - 1)
    lock = ZkLock(path, client=proxied)
    if opcode != Op.CREATE_CONTAINER:
        lock.acquire(timeout=5.0).release()
    hold = proxy.hold_reply(opcode) if is_reply else proxy.hold(opcode)
    acquiring = Background(lambda: lock.acquire(timeout=20.0))
    assert hold.wait()
    zk.sync("/")
    if zk.exists(top):
        delete_tree(zk, top)

    hold.release()

    grant = acquiring.result()
    if grant.lost.is_set() or not members(zk, path):
        # Granted by a list that was true when it was made; the holder is told that its node went since.
        assert grant.lost.wait(SESSION_S / 3)
        grant = lock.acquire(timeout=5.0)
    assert [grant.name] == members(zk, path)
    assert grant.release()
    wait_until(lambda: [] == members(zk, path))


def test_directory_deleted_under_a_waiter(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    for hold_it in (None, proxy.hold, proxy.hold_reply):
        add_member(zk, lock.path)
        hold = hold_it(Op.GET_DATA) if hold_it else None
        acquiring = Background(lambda: lock.acquire(timeout=20.0))
        wait_until(lambda: len(members(zk, lock.path)) == 2)
        if hold:
            assert hold.wait()
        delete_tree(zk, lock.path)
        if hold:
            hold.release()

        grant = acquiring.result()
        # Members go one by one: the waiter may be granted when the one ahead is gone, and lose its own member next.
        is_kept = [grant.name] == members(zk, lock.path)
        assert is_kept or grant.lost.wait(2.0)
        assert is_kept == grant.release()


def test_directory_deleted_in_a_tight_loop(direct: Coordinator, zk: KazooClient, root: str) -> None:
    """200 acquires; an error would come out of `acquire`, and none may."""
    top = f"{root}/top"
    lock = ZkLock(f"{top}/deep/lock", client=direct)
    is_over = threading.Event()

    def vandalise() -> int:
        count = 0
        while not is_over.is_set():
            try:
                zk.delete(top, recursive=True)
                count += 1
            except NotEmptyError:
                continue
        return count

    vandal = Background(vandalise)
    for _ in range(200):
        grant = lock.acquire(timeout=20.0)
        grant.release()
    is_over.set()

    assert vandal.result() > 5  # it mostly finds somebody there
    with lock.acquire(timeout=5.0) as grant:
        assert [grant.name] == members(zk, lock.path)


def test_directory_deleted_under_a_release(
    proxied: Coordinator, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    lock = ZkLock(f"{root}/lock", client=proxied)
    grant = lock.acquire(timeout=5.0)
    with proxy.hold(Op.DELETE) as hold:
        releasing = Background(grant.release)
        assert hold.wait()
        delete_tree(zk, lock.path)
    assert releasing.result() in (True, False)  # somebody else was quicker; it must only not raise
    assert "RELEASED" == grant.status
