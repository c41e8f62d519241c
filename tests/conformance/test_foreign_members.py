"""Every kind of lock beside a member of every other library and kind: an error before anything is granted."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.conformance.test_every_kind import KINDS
from tests.support.faults import members
from tests.support.fronts import Front
from tests.support.waiting import wait_until
from zkcoord import Coordinator, QueueConflictError, ZkLock

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio")]

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
HEX = UUID.replace("-", "")

#: What others write, without the number; by who they are.
FOREIGN = {
    "mutex": f"_c_{UUID}-lock-",
    "mutex without protection": "lock-",
    "latch": f"_c_{UUID}-latch-",
    "reader": f"_c_{UUID}-__READ__",
    "writer": f"_c_{UUID}-__WRIT__",
    "kazoo": f"{HEX}__lock__",
    "kazoo reader": f"{HEX}__rlock__",
    "permit": f"_c_{UUID}-permit-",
    "permits": f"_c_{UUID}-permit7-",
}

_MUTEX, _KAZOO = {"mutex", "mutex without protection"}, {"kazoo", "kazoo reader"}
#: Those that belong into a kind's queue; all others are in conflict with it.
PEERS = {
    "exclusive": _MUTEX,
    "latch": {"latch"},
    "kazoo": _KAZOO,
    "write": {"reader", "writer"},
    "read": {"reader", "writer"},
    "kazoo write": _KAZOO,
    "kazoo read": _KAZOO,
    "semaphore": {"permit", "permits"},
    "multi": _MUTEX,
    "mixed multi": {"reader", "writer"},
}


@pytest.mark.fronts("threads")
def test_all_kinds_are_here() -> None:
    assert set(KINDS) == set(PEERS)


@pytest.mark.parametrize("kind", PEERS)
def test_a_member_of_another_kind_is_an_error_and_one_of_its_own_kind_is_none(
    front: Front, kind: str, coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    for number, (who, prefix) in enumerate(FOREIGN.items()):
        path = f"{root}/{number}"
        lock: ZkLock = eval(KINDS[kind], {**front.locks, "path": path, "client": coordinator, "more": {}})
        if kind == "semaphore":
            lock.acquire().release()  # records the limit
        theirs = zk.create(f"{path}/{prefix}", ephemeral=True, sequence=True, makepath=True)
        if who in PEERS[kind]:
            assert [theirs] == [f"{member.path}/{member.name}" for member in lock.queue()]
            (grant := lock.try_acquire()) and grant.release()  # waited for, or shared with
        else:
            for attempt in (
                lock.acquire,
                lock.try_acquire,
                lambda lock=lock: lock.try_acquire(timeout=5.0),
                lock.queue,
            ):
                with pytest.raises(QueueConflictError) as caught:
                    attempt()
                assert (path, (theirs.rpartition("/")[2],)) == (caught.value.path, caught.value.children)
        wait_until(lambda path=path: 1 == len(members(zk, path)))
        zk.delete(theirs)
        with lock as grant:
            theirs = zk.create(f"{path}/{prefix}", ephemeral=True, sequence=True)
            if who in PEERS[kind]:
                grant.verify()
            else:
                with pytest.raises(QueueConflictError):
                    grant.verify()
            zk.delete(theirs)
            grant.verify()


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("exclusive", ["lock-"]),
        ("multi", ["lock-"]),
        ("latch", ["latch-"]),
        ("read", ["__READ__", "__WRIT__"]),
        ("write", ["__READ__", "__WRIT__"]),
        ("mixed multi", ["__READ__", "__WRIT__"]),
    ],
)
def test_a_child_that_curator_would_sort_ahead_is_an_error_too(
    front: Front, kind: str, names: list[str], coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    for number, name in enumerate(["0", "-1", "00000000-aaaa", "_c_x-lock--0000000001", *names]):
        path = f"{root}/{number}"
        zk.create(f"{path}/{name}", makepath=True)
        lock: ZkLock = eval(KINDS[kind], {**front.locks, "path": path, "client": coordinator, "more": {}})
        with pytest.raises(QueueConflictError) as caught:
            lock.acquire()
        assert (name,) == caught.value.children
