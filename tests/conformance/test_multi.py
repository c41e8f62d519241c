"""`ZkMultiLock` on both servers: all or nothing, one order on every path, no deadlock."""

from __future__ import annotations

import threading
import time
from random import Random

import pytest
from kazoo.client import KazooClient

from tests.conformance.conftest import MakeCoordinator
from tests.support.faults import add_member, end_session, members
from tests.support.proxy import FaultProxy, Op
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireTimeoutError,
    AlreadyHeldError,
    ConfigError,
    Coordinator,
    GrantLostError,
    QueueConflictError,
    Status,
    UpgradeError,
    ZkLock,
    ZkMultiLock,
    ZkReadWriteLock,
    ZkSemaphore,
)
from zkcoord._core.messages import Node
from zkcoord._session.janitor import OnDeleted

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio")]


@pytest.fixture
def paths(root: str) -> list[str]:
    return [f"{root}/{name}" for name in "abc"]


def is_clean(zk: KazooClient, paths: list[str]) -> bool:
    return not any(members(zk, path) for path in paths)


# --- all or nothing


def test_all_paths_are_held_by_one_transaction(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    lock = ZkMultiLock(paths, client=coordinator)
    assert tuple(paths) == lock.paths
    with lock as grant:
        names = [members(zk, path) for path in paths]
        assert [1, 1, 1] == [len(each) for each in names]
        assert 1 == len({each[0][:39] for each in names})  # one uuid
        czxids = {zk.exists(f"{path}/{each[0]}").czxid for path, each in zip(paths, names, strict=True)}
        assert {grant.token} == czxids
        assert dict.fromkeys(paths, grant.token) == grant.tokens
        assert paths == [member.path for member in lock.queue()]
        grant.verify()
        for path in paths:
            assert None is in_thread(ZkLock(path, client=coordinator).try_acquire).result(PATIENCE_S)
    assert is_clean(zk, paths)


def test_directories_that_are_missing_are_made(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    zk.ensure_path(f"{root}/there")
    with ZkMultiLock([f"{root}/deep/down/a", f"{root}/there", f"{root}/b"], client=coordinator) as grant:
        assert 3 == len(grant.tokens)


def test_more_paths_than_one_request_can_carry_are_refused_and_hurt_nobody(
    coordinator: Coordinator, zk: KazooClient, path: str, root: str
) -> None:
    with ZkLock(path, client=coordinator) as bystander:
        many = [f"{root}/{number}-{'n' * 4_000}" for number in range(300)]
        began = time.monotonic()
        with pytest.raises(ConfigError, match=r"300 paths, of 1\d{6} bytes; .*jute\.maxbuffer"):
            ZkMultiLock(many, client=coordinator).acquire(timeout=30.0)
        assert time.monotonic() - began < PATIENCE_S
        wait_until(lambda: bystander.status is Status.HELD)
    assert not zk.exists(many[0]) or is_clean(zk, many)


def test_ctrl_c_while_it_gives_up_leaves_nothing_on_any_path(
    coordinator: Coordinator,
    make_coordinator: MakeCoordinator,
    zk: KazooClient,
    paths: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    janitor = coordinator.session().janitor
    delete = janitor.delete
    deleted: list[str] = []

    def interrupted(node: Node, on_done: OnDeleted | None = None) -> None:
        deleted.append(node.path)
        if len(deleted) == 2:
            raise KeyboardInterrupt
        delete(node, on_done)

    with ZkLock(paths[1], client=make_coordinator(), owner="another") as busy:
        monkeypatch.setattr(janitor, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ZkMultiLock(paths, client=coordinator).acquire(timeout=0.3)
        wait_until(lambda: [[], [busy.name], []] == [members(zk, path) for path in paths])


def test_one_busy_path_keeps_all_waiting_in_their_place(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    lock = ZkMultiLock(paths, client=coordinator)
    single = ZkLock(paths[1], client=coordinator)
    grant = single.acquire()
    assert None is in_thread(lock.try_acquire).result(PATIENCE_S)
    wait_until(lambda: [0, 1, 0] == [len(members(zk, path)) for path in paths])
    waiting = in_thread(lock.acquire)
    wait_until(lambda: [1, 2, 1] == [len(members(zk, path)) for path in paths])
    assert None is in_thread(ZkLock(paths[0], client=coordinator).try_acquire).result(PATIENCE_S)
    grant.release()
    waiting.result(PATIENCE_S).release()
    assert is_clean(zk, paths)


def test_the_timeout_is_for_all_paths_together(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    held = {path: add_member(zk, path) for path in paths}
    began = time.monotonic()
    waiting = in_thread(lambda: ZkMultiLock(paths, client=coordinator).acquire(timeout=1.0))
    for path in paths[:2]:  # one path after the other becomes free, late
        wait_until(lambda path=path: len(members(zk, path)) == 2)
        time.sleep(0.4)
        zk.delete(held[path])
    with pytest.raises(AcquireTimeoutError) as caught:
        waiting.result(PATIENCE_S)
    assert time.monotonic() - began < 1.5
    assert all(path in str(caught.value) for path in paths)
    wait_until(lambda: [0, 0, 1] == [len(members(zk, path)) for path in paths])


def test_a_conflict_on_one_path_leaves_nothing_on_any(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    zk.create(f"{paths[2]}/x__lock__", ephemeral=True, sequence=True, makepath=True)
    with pytest.raises(QueueConflictError) as caught:
        ZkMultiLock(paths, client=coordinator).acquire()
    assert paths[2] == caught.value.path
    wait_until(lambda: [0, 0, 1] == [len(members(zk, path)) for path in paths])


def test_one_member_that_is_deleted_loses_all(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    grant = ZkMultiLock(paths, client=coordinator).acquire()
    zk.delete(f"{paths[1]}/{members(zk, paths[1])[0]}")
    with pytest.raises(GrantLostError, match="deleted"):
        grant.verify()
    assert Status.LOST is grant.status
    wait_until(lambda: is_clean(zk, paths))


# --- re-entry


def test_all_paths_held_re_enter_also_one_by_one(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    with ZkMultiLock(paths, client=coordinator) as outer:
        with ZkMultiLock(paths[::-1], client=coordinator) as inner:
            assert outer.tokens == inner.tokens
        with ZkLock(paths[1], client=coordinator) as single:
            assert {paths[1]: outer.token} == single.tokens
            assert [single.name] == members(zk, paths[1])
            single.verify()
        assert [1, 1, 1] == [len(members(zk, path)) for path in paths]
    assert is_clean(zk, paths)


def test_some_paths_held_is_an_error_at_once_and_changes_nothing(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    multi = ZkMultiLock(paths, client=coordinator)
    with ZkLock(paths[1], client=coordinator) as single:
        for attempt in (multi.acquire, multi.try_acquire):
            with pytest.raises(AlreadyHeldError):
                attempt()
        assert [0, 1, 0] == [len(members(zk, path)) for path in paths]
        assert Status.HELD is single.status
    with ZkMultiLock(paths[:2], client=coordinator), pytest.raises(AlreadyHeldError):
        multi.acquire()
    with multi:
        pass


def test_not_reentrant_raises(coordinator: Coordinator, paths: list[str]) -> None:
    multi = ZkMultiLock(paths, client=coordinator, reentrant=False)
    with multi, pytest.raises(AlreadyHeldError):
        multi.acquire()


@pytest.mark.parametrize(("held", "wanted"), [("read", "write"), ("write", "read")])
def test_the_other_side_of_a_held_read_write_lock_is_an_error_at_once(
    coordinator: Coordinator, zk: KazooClient, paths: list[str], held: str, wanted: str
) -> None:
    rw = ZkReadWriteLock(paths[0], client=coordinator)
    multi = ZkMultiLock([getattr(rw, wanted), paths[1]], client=coordinator)
    with getattr(rw, held), pytest.raises((AlreadyHeldError, UpgradeError)):
        multi.acquire(timeout=PATIENCE_S)
    assert is_clean(zk, paths)


# --- arguments


def test_arguments_are_checked(coordinator: Coordinator, paths: list[str]) -> None:
    def make(locks: object) -> ZkMultiLock:
        return ZkMultiLock(locks, client=coordinator)  # type: ignore[arg-type]

    lock = ZkLock(paths[0], client=coordinator)
    for twice in ([paths[0], f"{paths[0]}/"], [paths[0], lock], [ZkReadWriteLock(paths[0]).read, lock]):
        with pytest.raises(ConfigError, match="twice"):
            make(twice)
    for wrong in (
        [],
        paths[0],
        b"/a",
        None,
        [1],
        [b"/a"],
        [ZkSemaphore(paths[0], permits=1)],
        [ZkReadWriteLock(paths[0])],
        [make([paths[0]])],
        [ZkLock(paths[0], dialect="kazoo"), paths[1]],
        [f"{paths[0]}/../x"],
    ):
        with pytest.raises(ConfigError):
            make(wrong)


def test_one_path_is_enough(coordinator: Coordinator, zk: KazooClient, paths: list[str]) -> None:
    with ZkMultiLock(paths[:1], client=coordinator) as grant:
        assert [grant.name] == members(zk, paths[0])


def test_kazoos_dialect_is_made_of_lock_objects(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    locks = [
        ZkLock(paths[0], dialect="kazoo"),
        ZkReadWriteLock(paths[1], dialect="kazoo").read,
        ZkReadWriteLock(paths[2], dialect="kazoo").write,
    ]
    with ZkMultiLock(locks, client=coordinator):
        names = [members(zk, path)[0] for path in paths]
        assert ["__lock__", "__rlock__", "__lock__"] == [name[32:-10] for name in names]
        assert 1 == len({name[:32] for name in names})


# --- mixed with other locks


def test_readers_of_a_path_share_it_in_different_multi_locks(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    first = ZkMultiLock([ZkReadWriteLock(paths[0]).read, paths[1]], client=coordinator)
    second = ZkMultiLock([ZkReadWriteLock(paths[0]).read, paths[2]], client=coordinator)
    writer = ZkReadWriteLock(paths[0], client=coordinator).write
    with first:
        other = in_thread(second.acquire).result(PATIENCE_S)
        waiting = in_thread(writer.acquire)
        wait_until(lambda: len(members(zk, paths[0])) == 3)
    assert not waiting.done()
    other.release()
    waiting.result(PATIENCE_S).release()
    assert is_clean(zk, paths)


def test_fifty_clients_with_overlapping_sets_in_any_order_never_deadlock(
    make_coordinator: MakeCoordinator, zk: KazooClient, root: str
) -> None:
    paths = [f"{root}/{number}" for number in range(8)]
    sides = [False, False, False, False, True, True, True, True]  # a path is read/write or exclusive
    clients = [make_coordinator() for _ in range(5)]
    counted = threading.Lock()
    inside: dict[str, list[str]] = {path: [] for path in paths}
    wrong: list[object] = []

    def enter(path: str, side: str) -> None:
        with counted:
            if inside[path] and (side != "read" or set(inside[path]) != {"read"}):
                wrong.append((path, side, list(inside[path])))
            inside[path].append(side)

    def work(number: int) -> int:
        random = Random(number)
        client = clients[number % 5]
        for _ in range(4):
            chosen = random.sample(range(8), random.randint(1, 5))
            plan = [
                (paths[index], random.choice(["read", "write"]) if sides[index] else "exclusive")
                for index in chosen
            ]
            locks = [
                path if side == "exclusive" else getattr(ZkReadWriteLock(path), side) for path, side in plan
            ]
            with ZkMultiLock(locks, client=client, timeout=60.0):
                for path, side in plan:
                    enter(path, side)
                with counted:
                    for path, side in plan:
                        inside[path].remove(side)
        return 4

    jobs = [in_thread(work, number) for number in range(50)]
    assert 200 == sum(job.result(90.0) for job in jobs)
    assert [] == wrong
    assert is_clean(zk, paths)


# --- faults


def test_lost_replies_are_found_again_or_leave_nothing(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, paths: list[str]
) -> None:
    lock = ZkMultiLock(paths, client=make_coordinator(proxy.hosts))
    lock.acquire().release()
    for opcode in (Op.MULTI, Op.EXISTS, Op.GET_CHILDREN):
        for fault in (proxy.drop_reply, proxy.cut_before):
            fault(opcode)
            with lock.acquire(timeout=PATIENCE_S) as grant:
                wait_until(lambda: [1, 1, 1] == [len(members(zk, path)) for path in paths])
                grant.verify(timeout=5.0)
            wait_until(lambda: is_clean(zk, paths))


def test_a_lost_create_keeps_its_place_on_all_paths(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, paths: list[str]
) -> None:
    coordinator = make_coordinator(proxy.hosts)
    lock = ZkMultiLock(paths, client=coordinator)
    lock.acquire().release()
    ahead = add_member(zk, paths[0])
    proxy.drop_reply(Op.MULTI)
    waiting = in_thread(lambda: lock.acquire(timeout=PATIENCE_S))
    wait_until(lambda: [2, 1, 1] == [len(members(zk, path)) for path in paths])
    names = [members(zk, path)[-1] for path in paths]
    behind = add_member(zk, paths[2])
    zk.delete(ahead)
    grant = waiting.result(PATIENCE_S)
    assert names == [members(zk, paths[0])[0], members(zk, paths[1])[0], members(zk, paths[2])[0]]
    grant.release()
    zk.delete(behind)


def test_a_lost_create_that_times_out_leaves_nothing(
    make_coordinator: MakeCoordinator, proxy: FaultProxy, zk: KazooClient, paths: list[str]
) -> None:
    lock = ZkMultiLock(paths, client=make_coordinator(proxy.hosts))
    lock.acquire().release()
    ahead = add_member(zk, paths[1])
    with proxy.hold_reply(Op.MULTI) as hold:
        waiting = in_thread(lambda: lock.acquire(timeout=0.5))
        assert hold.wait()
        wait_until(lambda: [1, 2, 1] == [len(members(zk, path)) for path in paths])
        with pytest.raises(AcquireTimeoutError):
            waiting.result(PATIENCE_S)
    wait_until(lambda: [0, 1, 0] == [len(members(zk, path)) for path in paths])
    zk.delete(ahead)


def test_directories_that_vanish_again_and_again_are_made_again(
    coordinator: Coordinator, zk: KazooClient, paths: list[str]
) -> None:
    lock = ZkMultiLock(paths, client=coordinator)
    for path in paths * 2:
        with lock:
            pass
        zk.delete(path)


def test_a_session_that_ends_while_waiting_queues_again_on_all_paths(
    coordinator: Coordinator, hosts: str, zk: KazooClient, paths: list[str]
) -> None:
    ahead = add_member(zk, paths[2])
    waiting = in_thread(ZkMultiLock(paths, client=coordinator).acquire)
    wait_until(lambda: [1, 1, 2] == [len(members(zk, path)) for path in paths])
    before = [members(zk, path)[-1] for path in paths]
    end_session(coordinator.client, hosts)
    wait_until(
        lambda: (
            [1, 1, 2] == [len(members(zk, path)) for path in paths]
            and not {members(zk, path)[-1] for path in paths} & set(before)
        )
    )
    zk.delete(ahead)
    waiting.result(PATIENCE_S).release()
    assert is_clean(zk, paths)
