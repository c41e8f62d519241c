"""`ZkLock` and `Grant` on both servers: exclusion, order, re-entry, and what stays behind (nothing)."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import re
import socket
import threading
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError
from kazoo.recipe.lock import Lock as KazooLock

from tests.conformance.conftest import MakeCoordinator
from tests.conftest import MakeClient
from tests.support.fronts import Front
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AlreadyHeldError,
    Coordinator,
    Grant,
    GrantLostError,
    NotHeldError,
    QueueConflictError,
    Status,
    TransactionError,
    ZkLock,
)

pytestmark = [pytest.mark.servers("embedded", "real"), pytest.mark.fronts("threads", "asyncio")]

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def children(zk: KazooClient, path: str) -> list[str]:
    """The members of a lock, oldest first; empty when its directory does not exist."""
    return sorted(zk.get_children(path), key=lambda name: name[-10:]) if zk.exists(path) else []


def is_free(zk: KazooClient, path: str) -> bool:
    return not children(zk, path)


def queued(zk: KazooClient, path: str, count: int) -> None:
    """Wait until so many members are in the queue."""
    wait_until(lambda: len(children(zk, path)) == count)


# --- exclusion and order


def test_threads_exclude_each_other(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    inside, most, rounds = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, rounds
        for _ in range(25):
            with lock:
                inside += 1
                most = max(most, inside)
                rounds += 1
                inside -= 1

    for done in [in_thread(work) for _ in range(4)]:
        done.result(PATIENCE_S)

    assert (1, 100) == (most, rounds)


def test_second_thread_waits_for_the_first(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire()
    other = in_thread(lock.acquire)
    queued(zk, path, 2)

    assert not other.done()
    grant.release()

    second = other.result(PATIENCE_S)
    assert Status.HELD is second.status
    second.release()


def test_two_coordinators_exclude_each_other(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    first = ZkLock(path, client=make_coordinator()).acquire()
    second = in_thread(ZkLock(path, client=make_coordinator()).acquire)
    queued(zk, path, 2)

    assert not second.done()
    first.release()

    grant = second.result(PATIENCE_S)
    assert grant.token > first.token
    grant.release()


def test_waiters_are_served_in_the_order_of_asking(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    clients = [make_coordinator(), make_coordinator()]
    order: list[int] = []

    def wait(number: int) -> None:
        with ZkLock(path, client=clients[number % 2]):
            order.append(number)

    grant = ZkLock(path, client=clients[0]).acquire()
    waiting = []
    for number in range(8):
        waiting.append(in_thread(wait, number))
        queued(zk, path, number + 2)
    grant.release()
    for done in waiting:
        done.result(PATIENCE_S)

    assert list(range(8)) == order


# --- re-entry


def test_second_object_on_the_path_re_enters_in_one_thread(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    outer = ZkLock(path, client=coordinator).acquire()
    inner = ZkLock(f"{path}/", client=coordinator).acquire(timeout=5.0)

    assert outer is not inner
    assert (outer.token, outer.name) == (inner.token, inner.name)
    assert [outer.name] == children(zk, path)
    inner.release()
    outer.release()
    assert is_free(zk, path)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_hold_ends_with_its_last_grant_in_any_order(
    coordinator: Coordinator, zk: KazooClient, path: str, order: tuple[int, ...]
) -> None:
    lock = ZkLock(path, client=coordinator)
    grants = [lock.acquire() for _ in range(3)]

    for index in order[:-1]:
        assert grants[index].release()
        assert Status.RELEASED is grants[index].status
        assert 1 == len(children(zk, path))
    assert Status.HELD is grants[order[-1]].status
    assert grants[order[-1]].release()

    assert is_free(zk, path)


def test_releasing_one_grant_twice_does_not_end_the_hold(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    first, second = lock.acquire(), lock.acquire()

    assert [True, False, False] == [first.release() for _ in range(3)]

    assert Status.HELD is second.status
    assert 1 == len(children(zk, path))
    second.release()


def test_not_reentrant_lock_raises_at_once(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    outer = ZkLock(path, client=coordinator).acquire()
    lock = ZkLock(path, client=coordinator, reentrant=False)

    for attempt in (lock.acquire, lock.try_acquire):
        with pytest.raises(AlreadyHeldError, match="not reentrant") as caught:
            attempt()
        assert path == caught.value.path

    assert Status.HELD is outer.status
    assert outer.release()
    assert is_free(zk, path)


def test_not_reentrant_lock_still_excludes_other_threads(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator, reentrant=False)
    with lock:
        assert in_thread(lock.try_acquire).result(PATIENCE_S) is None


def test_same_path_through_a_second_client_raises_instead_of_hanging(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    outer = ZkLock(path, client=make_coordinator()).acquire()

    with pytest.raises(AlreadyHeldError, match="another client") as caught:
        ZkLock(path, client=make_coordinator()).acquire(timeout=PATIENCE_S)

    assert outer.name in str(caught.value)
    wait_until(lambda: [outer.name] == children(zk, path))
    outer.release()


def test_waiter_behind_its_own_waiter_of_another_thread_does_wait(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    """Only the very same thread can never be served; another thread of the process is an honest queue."""
    first = ZkLock(path, client=make_coordinator()).acquire()
    second = in_thread(ZkLock(path, client=make_coordinator()).acquire)
    queued(zk, path, 2)
    first.release()
    second.result(PATIENCE_S).release()


def test_finished_threads_grant_is_not_inherited_by_a_thread_with_its_ident(
    coordinator: Coordinator, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    ident, grant = in_thread(lambda: (threading.get_ident(), lock.acquire())).result(PATIENCE_S)

    def attempt() -> tuple[int, Grant | None]:
        return threading.get_ident(), lock.try_acquire()

    for _ in range(200):
        found, inherited = in_thread(attempt).result(PATIENCE_S)
        assert inherited is None
        if found == ident:
            break
    else:
        pytest.fail("no thread got the ident of the finished one")
    assert Status.HELD is grant.status
    grant.release()


# --- named owners


def test_hold_of_a_named_owner_travels_between_threads(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator, owner="job-17")
    first = in_thread(lock.acquire).result(PATIENCE_S)

    second = lock.acquire(timeout=5.0)

    assert first.token == second.token
    assert ZkLock(path, client=coordinator, owner="job-18").try_acquire() is None
    assert ZkLock(path, client=coordinator).try_acquire() is None
    first.release()
    second.release()
    assert is_free(zk, path)


def test_two_threads_of_one_owner_queue_once_and_are_both_granted(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator, owner="job-17")
    holder = ZkLock(path, client=coordinator).acquire()
    waiting = [in_thread(lock.acquire) for _ in range(2)]
    queued(zk, path, 2)

    holder.release()
    first, second = (waiter.result(PATIENCE_S) for waiter in waiting)

    assert first.token == second.token
    assert 1 == len(children(zk, path))
    assert [True, True] == [first.release(), second.release()]
    assert is_free(zk, path)


def test_second_thread_of_one_owner_has_its_own_deadline(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator, owner="job-17")
    holder = ZkLock(path, client=coordinator).acquire()
    waiter = in_thread(lock.acquire)
    queued(zk, path, 2)

    began = time.monotonic()
    with pytest.raises(AcquireTimeoutError, match="job-17"):
        lock.acquire(timeout=0.2)

    assert time.monotonic() - began < 0.2 + 0.25
    assert not waiter.done()
    holder.release()
    waiter.result(PATIENCE_S).release()


# --- time


def test_try_returns_none_when_busy_and_leaves_nothing(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    lock = ZkLock(path, client=coordinator)

    def attempts() -> list[Grant | None]:  # the second one looks before it creates anything
        return [lock.try_acquire() for _ in range(3)]

    assert [None] * 3 == in_thread(attempts).result(PATIENCE_S)
    wait_until(lambda: [grant.name] == children(zk, path))
    grant.release()
    taken = lock.try_acquire()
    assert taken is not None
    taken.release()
    assert is_free(zk, path)


def test_try_never_overtakes_a_waiter(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire()
    waiter = in_thread(lock.acquire)
    queued(zk, path, 2)
    grant.release()
    second = waiter.result(PATIENCE_S)

    assert lock.try_acquire() is None

    second.release()


def test_try_with_a_timeout_waits_and_then_returns_none(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire()
    began = time.monotonic()

    assert in_thread(lambda: lock.try_acquire(timeout=0.3)).result(PATIENCE_S) is None

    assert 0.3 <= time.monotonic() - began < 0.3 + 0.5
    wait_until(lambda: [grant.name] == children(zk, path))
    waiter = in_thread(lambda: lock.try_acquire(timeout=PATIENCE_S))
    queued(zk, path, 2)
    grant.release()
    second = waiter.result(PATIENCE_S)
    assert second is not None
    second.release()


def test_timeout_error_tells_path_time_place_and_holder(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    mine, other = make_coordinator(), make_coordinator()
    grant = ZkLock(path, client=mine, label="nightly export").acquire()
    waiter = in_thread(ZkLock(path, client=mine).acquire)
    queued(zk, path, 2)

    with pytest.raises(AcquireTimeoutError) as caught:
        in_thread(ZkLock(path, client=other, timeout=0.3).acquire).result(PATIENCE_S)

    error = caught.value
    assert (path, 2) == (error.path, error.position)
    assert 0.3 <= error.waited_s < 0.3 + 0.25
    assert error.holder is not None
    assert grant.name in error.holder
    assert f"pid {os.getpid()}" in error.holder
    assert isinstance(error, TimeoutError)
    copy = pickle.loads(pickle.dumps(error))
    assert (error.path, error.waited_s, error.position, error.holder, str(error)) == (
        copy.path,
        copy.waited_s,
        copy.position,
        copy.holder,
        str(copy),
    )
    queued(zk, path, 2)
    grant.release()
    waiter.result(PATIENCE_S).release()


def test_timeout_error_names_the_holders_label(coordinator: Coordinator, path: str) -> None:
    with (
        ZkLock(path, client=coordinator, label="nightly export"),
        pytest.raises(AcquireTimeoutError, match=rf"host {socket.gethostname()}.*label nightly export"),
    ):
        in_thread(ZkLock(path, client=coordinator, timeout=0.2).acquire).result(PATIENCE_S)


def test_acquires_timeout_overrides_the_constructors(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator, timeout=PATIENCE_S)
    with lock, pytest.raises(AcquireTimeoutError) as caught:
        in_thread(lambda: lock.acquire(timeout=0.1)).result(PATIENCE_S)
    assert caught.value.waited_s < 0.1 + 0.25


def test_acquire_with_timeout_zero_is_one_try_that_raises(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator, timeout=0)
    grant = lock.acquire()

    with pytest.raises(AcquireTimeoutError) as caught:
        in_thread(lock.acquire).result(PATIENCE_S)

    assert 1 == caught.value.position
    wait_until(lambda: [grant.name] == children(zk, path))
    grant.release()


def test_cancel_ends_exactly_the_pending_acquires_of_its_object(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    lock, other = ZkLock(path, client=coordinator), ZkLock(path, client=coordinator)
    lock.cancel()  # nothing is pending: does nothing
    ended = [in_thread(lock.acquire), in_thread(lock.acquire)]
    queued(zk, path, 3)
    stays = in_thread(other.acquire)
    queued(zk, path, 4)

    lock.cancel()

    for waiter in ended:
        with pytest.raises(AcquireCancelledError) as caught:
            waiter.result(PATIENCE_S)
        assert (path, "cancelled") == (caught.value.path, caught.value.reason)
    queued(zk, path, 2)
    grant.release()
    stays.result(PATIENCE_S).release()
    lock.acquire(timeout=PATIENCE_S).release()


# --- release and with


def test_release_is_idempotent_and_allowed_from_another_thread(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()

    assert in_thread(grant.release).result(PATIENCE_S)
    assert is_free(zk, path)
    assert not grant.release()
    assert not in_thread(grant.release).result(PATIENCE_S)
    assert (Status.RELEASED, 0.0, False) == (grant.status, grant.remaining(), grant.lost.is_set())
    with pytest.raises(NotHeldError, match="released"):
        grant.check()
    with pytest.raises(NotHeldError):
        grant.verify()


def test_release_of_a_lost_grant_returns_false(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    zk.delete(f"{path}/{grant.name}")

    assert not grant.release()


def test_holder_is_told_of_a_delete_long_before_its_next_heartbeat(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    # Its own watch is armed once it is 50 ms old, and the heartbeat (1.25 s here) would find the delete as well.
    assert not grant.lost.wait(0.3)
    zk.delete(f"{path}/{grant.name}")
    assert grant.lost.wait(0.5)


def test_release_never_touches_another_owners_node(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire()
    waiter = in_thread(lock.acquire)
    queued(zk, path, 2)
    zk.delete(f"{path}/{grant.name}")
    second = waiter.result(PATIENCE_S)

    grant.release()

    assert [second.name] == children(zk, path)
    second.verify()
    second.release()


def test_body_error_propagates_and_the_lock_is_given_back(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    with pytest.raises(ZeroDivisionError) as caught, ZkLock(path, client=coordinator):
        raise ZeroDivisionError
    assert is_free(zk, path)
    assert [] == getattr(caught.value, "__notes__", [])


def test_body_error_carries_the_loss_as_a_note(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    with pytest.raises(ZeroDivisionError) as caught, grant:  # noqa: PT012
        zk.delete(f"{path}/{grant.name}")
        assert grant.lost.wait(PATIENCE_S)
        raise ZeroDivisionError
    assert [
        f"the grant of {path} (token {grant.token}) was lost meanwhile: deleted"
    ] == caught.value.__notes__


def test_leaving_a_with_whose_grant_was_lost_raises(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    with pytest.raises(GrantLostError) as caught, lock as grant:  # noqa: PT012
        zk.delete(f"{path}/{grant.name}")
        assert grant.lost.wait(PATIENCE_S)
    assert (path, grant.token, "deleted") == (caught.value.path, caught.value.token, caught.value.reason)
    with lock as again:
        assert again.token > grant.token


def test_nested_with_of_one_object_shares_the_hold(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    with lock as outer:
        with lock as inner:
            assert outer is not inner
            assert outer.token == inner.token
        assert (Status.RELEASED, Status.HELD) == (inner.status, outer.status)
        assert [outer.name] == children(zk, path)
    assert is_free(zk, path)


def test_exit_in_a_thread_that_entered_none_releases_the_only_open_grant(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    grant = in_thread(lock.__enter__).result(PATIENCE_S)

    lock.__exit__(None, None, None)

    assert Status.RELEASED is grant.status
    assert is_free(zk, path)


def test_exit_without_an_open_grant_says_so(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    with pytest.raises(NotHeldError, match=r"no `(async )?with` of this lock is open") as caught:
        lock.__exit__(None, None, None)
    assert path == caught.value.path


def test_exit_that_cannot_tell_which_grant_is_meant_releases_none(
    coordinator: Coordinator, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)

    def enter_twice() -> list[Grant]:
        return [lock.__enter__(), lock.__enter__()]

    grants = in_thread(enter_twice).result(PATIENCE_S)

    with pytest.raises(NotHeldError, match=r"2 .*open"):
        lock.__exit__(None, None, None)

    assert [Status.HELD] * 2 == [grant.status for grant in grants]
    for grant in grants:
        grant.release()


def test_grant_is_a_context_manager(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    with ZkLock(path, client=coordinator).acquire() as grant:
        assert Status.HELD is grant.status
    assert is_free(zk, path)


def test_with_of_a_lost_grant_does_not_run_its_body(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    zk.delete(f"{path}/{grant.name}")
    assert grant.lost.wait(PATIENCE_S)

    ran = False
    with pytest.raises(GrantLostError, match="deleted"), grant:
        ran = True
    assert not ran
    assert grant.is_released


def test_with_of_a_released_grant_does_not_run_its_body(coordinator: Coordinator, path: str) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    grant.release()

    ran = False
    with pytest.raises(NotHeldError, match="released"), grant:
        ran = True
    assert not ran


def test_grant_released_inside_its_with_is_no_error(coordinator: Coordinator, path: str) -> None:
    with ZkLock(path, client=coordinator) as grant:
        assert grant.release()


def test_dropped_grant_warns_and_stays_held(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    with pytest.warns(ResourceWarning, match=re.escape(path)):  # noqa: PT031
        lock.acquire()
        gc.collect()
    assert 1 == len(children(zk, path))


# --- what stands on the server


def test_member_carries_who_made_it(
    front: Front, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator, label="nightly export", owner="job-17")
    grant = in_thread(lock.acquire, name="worker-3").result(PATIENCE_S)

    data, stat = zk.get(f"{path}/{grant.name}")

    who = json.loads(data)
    assert "v host boot pid thread task owner label lib since".split() == list(who)
    assert {"id", "name", "key"} == set(who["thread"])
    assert (1, socket.gethostname(), os.getpid()) == (who["v"], who["host"], who["pid"])
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() == who["boot"]
    assert "worker-3" == (who["task"] or who["thread"]["name"])
    assert isinstance(who["thread"]["id"], int)
    assert (front.kind == "asyncio") == (who["task"] is not None)
    assert ("job-17", "nightly export") == (who["owner"], who["label"])
    assert f"zkcoord/{version('zkcoord')}" == who["lib"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", who["since"])
    assert coordinator.session_id == stat.ephemeralOwner
    grant.release()


@pytest.mark.parametrize(
    ("dialect", "pattern"),
    [
        ("curator", rf"_c_{UUID}-lock-[0-9]{{10}}"),
        ("curator-latch", rf"_c_{UUID}-latch-[0-9]{{10}}"),
        ("kazoo", r"[0-9a-f]{32}__lock__[0-9]{10}"),
    ],
)
def test_member_is_named_as_its_dialect_says(
    coordinator: Coordinator, zk: KazooClient, path: str, dialect: str, pattern: str
) -> None:
    with ZkLock(path, client=coordinator, dialect=dialect) as grant:
        assert [grant.name] == zk.get_children(path)
        assert re.fullmatch(pattern, grant.name)


def test_every_attempt_has_a_name_of_its_own(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    names = set()
    for _ in range(3):
        with lock as grant:
            names.add(grant.name[:39])
    assert 3 == len(names)


def test_token_is_the_members_czxid_and_grows(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    tokens = []
    for _ in range(5):
        with lock as grant:
            stat = zk.exists(f"{path}/{grant.name}")
            assert stat is not None
            assert stat.czxid == grant.token
            tokens.append(grant.token)
    assert sorted(set(tokens)) == tokens


def test_token_grows_also_after_the_directory_was_deleted(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    for _ in range(3):
        with lock as grant:
            last = grant
    zk.delete(path)

    with lock as grant:
        assert grant.token > last.token
        assert int(grant.name[-10:]) < int(last.name[-10:])  # a sequence number would have been a bad fence


def test_queue_shows_holder_and_waiters_in_order(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    coordinator, other = make_coordinator(), make_coordinator()
    lock = ZkLock(path, client=coordinator, label="nightly export")
    assert () == lock.queue()
    grant = lock.acquire()
    waiter = in_thread(ZkLock(path, client=other, owner="job-17").acquire, name="waiter")
    queued(zk, path, 2)

    holder, waiting = lock.queue()

    assert (path, grant.name, "exclusive", grant.token) == (
        holder.path,
        holder.name,
        holder.kind,
        holder.token,
    )
    assert (True, False) == (holder.holds, waiting.holds)
    assert (coordinator.session_id, other.session_id) == (holder.session, waiting.session)
    assert ("nightly export", None) == (holder.label, waiting.label)
    assert (None, "job-17") == (holder.owner, waiting.owner)
    assert [os.getpid()] * 2 == [holder.pid, waiting.pid]
    assert socket.gethostname() == holder.host
    assert "waiter" in (waiting.task or waiting.thread or "")
    assert holder.sequence < waiting.sequence
    assert holder.held_since is None
    grant.release()
    waiter.result(PATIENCE_S).release()


@pytest.mark.servers("real")
def test_hold_that_waited_long_is_stamped_with_its_beginning(
    make_coordinator: MakeCoordinator, zk: KazooClient, path: str
) -> None:
    coordinator = make_coordinator(session_timeout=2.0)
    lock = ZkLock(path, client=coordinator)
    grant = ZkLock(path, client=make_coordinator()).acquire()
    waiter = in_thread(lock.acquire)
    queued(zk, path, 2)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.1)
    grant.release()
    second = waiter.result(PATIENCE_S)

    wait_until(lambda: lock.queue()[0].held_since is not None)

    (member,) = lock.queue()
    assert member.since is not None
    assert member.held_since is not None
    assert (member.held_since - member.since).total_seconds() > 1.0
    second.verify()
    second.release()


# --- the grant's other powers


def test_transaction_commits_all_operations(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    zk.create(f"{root}/state", b"old", makepath=True)
    zk.create(f"{root}/done", b"")
    with ZkLock(f"{root}/lock", client=coordinator) as grant, grant.transaction() as tx:
        tx.set_data(f"{root}/state", b"new").create(f"{root}/made", b"made").delete(f"{root}/done")
        tx.check(f"{root}/state")

    assert b"new" == zk.get(f"{root}/state")[0]
    assert b"made" == zk.get(f"{root}/made")[0]
    assert zk.exists(f"{root}/done") is None


def test_commit_returns_one_result_per_operation(
    coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    zk.create(f"{root}/state", b"old", makepath=True)
    with ZkLock(f"{root}/lock", client=coordinator) as grant:
        tx = grant.transaction().set_data(f"{root}/state", b"new", 0).create(f"{root}/n-", sequence=True)
        stat, made = tx.commit()
    assert 1 == stat.version
    assert f"{root}/n-" == made[:-10]
    assert (stat, made) == tx.results


def test_results_are_empty_before_the_commit_and_there_after_the_with(
    coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    zk.create(f"{root}/state", b"old", makepath=True)
    with ZkLock(f"{root}/lock", client=coordinator) as grant:
        with grant.transaction() as tx:
            tx.check(f"{root}/state")
            assert () == tx.results
        assert (True,) == tx.results


def test_refused_operation_applies_nothing(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    zk.create(f"{root}/state", b"old", makepath=True)
    with ZkLock(f"{root}/lock", client=coordinator) as grant:
        with pytest.raises(TransactionError) as caught, grant.transaction() as tx:
            tx.create(f"{root}/made").set_data(f"{root}/state", b"new", version=7)
        grant.verify()

    assert (f"{root}/state", 1) == (caught.value.path, caught.value.index)
    assert isinstance(caught.value.__cause__, BadVersionError)
    assert b"old" == zk.get(f"{root}/state")[0]
    assert zk.exists(f"{root}/made") is None


def test_refused_first_operation_is_the_one_named(
    coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    zk.create(f"{root}/state", b"old", makepath=True)
    with (
        ZkLock(f"{root}/lock", client=coordinator) as grant,
        pytest.raises(TransactionError) as caught,
        grant.transaction() as tx,
    ):
        tx.create(f"{root}/state").set_data(f"{root}/state", b"new")
    assert 0 == caught.value.index
    assert isinstance(caught.value.__cause__, NodeExistsError)


def test_lost_grant_writes_nothing(coordinator: Coordinator, zk: KazooClient, root: str) -> None:
    """Also when the holder does not know yet: the server refuses."""
    zk.create(f"{root}/state", b"old", makepath=True)
    grant = ZkLock(f"{root}/lock", client=coordinator).acquire()
    tx = grant.transaction().set_data(f"{root}/state", b"new")
    zk.delete(f"{root}/lock/{grant.name}")

    with pytest.raises(GrantLostError) as caught:
        tx.commit()

    assert "deleted" == caught.value.reason
    assert Status.LOST is grant.status
    assert b"old" == zk.get(f"{root}/state")[0]


def test_error_inside_a_transaction_sends_nothing(
    coordinator: Coordinator, zk: KazooClient, root: str
) -> None:
    zk.create(f"{root}/state", b"old", makepath=True)
    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        ZkLock(f"{root}/lock", client=coordinator) as grant,
        grant.transaction() as tx,
    ):
        tx.set_data(f"{root}/state", b"new")
        raise ZeroDivisionError
    assert b"old" == zk.get(f"{root}/state")[0]


def test_transaction_of_a_released_grant_is_refused(coordinator: Coordinator, root: str) -> None:
    grant = ZkLock(f"{root}/lock", client=coordinator).acquire()
    grant.release()
    with pytest.raises(NotHeldError), grant.transaction() as tx:
        tx.create(f"{root}/made")


def test_verify_finds_what_the_grant_does_not_know_yet(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    grant.verify()
    grant.verify(timeout=PATIENCE_S)
    zk.delete(f"{path}/{grant.name}")

    with pytest.raises(GrantLostError) as caught:
        grant.verify()

    assert "deleted" == caught.value.reason
    with pytest.raises(GrantLostError):
        grant.check()


def test_verify_finds_a_foreign_member(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    with ZkLock(path, client=coordinator) as grant:
        zk.create(f"{path}/{'0' * 32}__lock__0000000009")
        with pytest.raises(QueueConflictError, match="__lock__"):
            grant.verify()


def test_check_wants_as_much_time_as_asked(coordinator: Coordinator, path: str) -> None:
    with ZkLock(path, client=coordinator) as grant:
        grant.check()
        grant.check(min_remaining=0.5)
        with pytest.raises(GrantLostError, match=r"is still held, .* 60\.00 s were asked") as caught:
            grant.check(min_remaining=60.0)
        assert "acquire anew" not in str(caught.value)  # that would re-enter, and gain nothing
        assert Status.HELD is grant.status


@pytest.mark.fronts("threads")
def test_on_lost_is_told_once_off_kazoos_threads(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    calls: list[tuple[Grant, str, str]] = []
    later: list[str] = []
    grant.on_lost(lambda lost, reason: calls.append((lost, reason, threading.current_thread().name)))
    zk.delete(f"{path}/{grant.name}")
    wait_until(lambda: calls)

    grant.on_lost(lambda lost, reason: later.append(reason))
    wait_until(lambda: later)
    grant.release()

    ((lost, reason, thread),) = calls
    assert (grant, "deleted") == (lost, reason)
    assert "zkcoord" in thread
    assert ["deleted"] == later


def test_on_lost_taken_back_is_not_told(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    grant = ZkLock(path, client=coordinator).acquire()
    calls: list[str] = []
    taken_back = grant.on_lost(lambda lost, reason: calls.append("taken back"))
    grant.on_lost(lambda lost, reason: calls.append("kept"))
    taken_back()
    taken_back()
    zk.delete(f"{path}/{grant.name}")

    wait_until(lambda: calls)

    assert ["kept"] == calls


def test_on_lost_is_not_told_of_a_release(coordinator: Coordinator, path: str) -> None:
    lock = ZkLock(path, client=coordinator)
    grant = lock.acquire()
    calls: list[str] = []
    grant.on_lost(lambda lost, reason: calls.append(reason))
    assert grant.release()
    grant.on_lost(lambda lost, reason: calls.append(reason))
    coordinator.close()
    assert [] == calls


def test_released_re_entry_is_not_told_of_the_holds_loss(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    lock = ZkLock(path, client=coordinator)
    outer, inner = lock.acquire(), lock.acquire()
    calls: list[str] = []
    inner.on_lost(lambda lost, reason: calls.append("inner"))
    outer.on_lost(lambda lost, reason: calls.append("outer"))
    inner.release()
    zk.delete(f"{path}/{outer.name}")

    wait_until(lambda: "outer" in calls)

    assert ["outer"] == calls
    assert (Status.LOST, Status.RELEASED) == (outer.status, inner.status)


# --- neighbours


def test_kazoos_own_lock_and_ours_exclude_each_other(
    coordinator: Coordinator, make_client: MakeClient, zk: KazooClient, path: str
) -> None:
    ours = ZkLock(path, client=coordinator, dialect="kazoo")
    theirs = KazooLock(make_client(), path, "them")
    with ours:
        assert not theirs.acquire(blocking=False)
        waiter = in_thread(theirs.acquire)
        queued(zk, path, 2)
        assert not waiter.done()
    assert waiter.result(PATIENCE_S)
    assert ours.try_acquire() is None
    second = in_thread(ours.acquire)
    queued(zk, path, 2)
    theirs.release()
    second.result(PATIENCE_S).release()


@pytest.mark.parametrize(
    ("dialect", "foreign"),
    [
        ("curator", f"{'0' * 32}__lock__0000000000"),
        ("curator", f"{'0' * 32}__rlock__0000000000"),
        ("curator", "_c_00000000-0000-4000-8000-000000000000-latch-0000000000"),
        ("curator", "latch-0000000000"),
        ("curator", "_c_00000000-0000-4000-8000-000000000000-__WRIT__0000000000"),
        ("curator", "permit-0000000000"),
        ("curator", "0"),
        ("curator-latch", "_c_00000000-0000-4000-8000-000000000000-lock-0000000000"),
        ("kazoo", "_c_00000000-0000-4000-8000-000000000000-lock-0000000000"),
    ],
)
def test_foreign_member_is_a_conflict_and_nothing_of_ours_stays(
    coordinator: Coordinator, zk: KazooClient, path: str, dialect: str, foreign: str
) -> None:
    zk.create(f"{path}/{foreign}", makepath=True)
    lock = ZkLock(path, client=coordinator, dialect=dialect)

    for attempt in (lock.acquire, lock.try_acquire):
        with pytest.raises(QueueConflictError, match=re.escape(foreign)) as caught:
            attempt()
        assert (path, (foreign,)) == (caught.value.path, caught.value.children)

    wait_until(lambda: [foreign] == zk.get_children(path))


def test_kazoos_lock_in_our_queue_is_a_conflict(
    coordinator: Coordinator, make_client: MakeClient, path: str
) -> None:
    theirs = KazooLock(make_client(), path, "them")
    with theirs, pytest.raises(QueueConflictError, match="__lock__"):
        ZkLock(path, client=coordinator).acquire()


def test_queue_names_a_conflict_too(coordinator: Coordinator, zk: KazooClient, path: str) -> None:
    zk.create(f"{path}/latch-0000000000", makepath=True)
    with pytest.raises(QueueConflictError, match="latch-"):
        ZkLock(path, client=coordinator).queue()


@pytest.mark.parametrize("other", ["readme", "config-17", "lock-x", "é", "zzz__lock__"])
def test_other_children_are_ignored(coordinator: Coordinator, zk: KazooClient, path: str, other: str) -> None:
    zk.create(f"{path}/{other}", makepath=True)
    with ZkLock(path, client=coordinator, timeout=PATIENCE_S) as grant:
        grant.verify()
        assert {other, grant.name} == set(zk.get_children(path))


def test_old_curator_member_without_protection_is_waited_for(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    zk.create(f"{path}/lock-", ephemeral=True, sequence=True, makepath=True)
    lock = ZkLock(path, client=coordinator)
    assert lock.try_acquire() is None
    waiter = in_thread(lock.acquire)
    queued(zk, path, 2)
    zk.delete(f"{path}/lock-0000000000")
    waiter.result(PATIENCE_S).release()


def test_grant_cannot_be_pickled_and_says_what_to_do(coordinator: Coordinator, path: str) -> None:
    with ZkLock(path, client=coordinator) as grant:
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=rf"hand over its token \({grant.token}\) as a fence"):
                copied(grant)
