"""A user's own KazooClient: what zkcoord needs of it, and that it gets it back as it was."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import WatchedEvent

from tests.conformance.conftest import MakeCoordinator
from tests.conftest import MakeClient
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from tests.support.zookeeper import Server
from zkcoord import (
    AcquireCancelledError,
    AlreadyHeldError,
    ConfigError,
    ConnectionLostError,
    Coordinator,
    GrantLostError,
    Status,
    ZkLock,
)
from zkcoord.coordinator import coordinator_for

pytestmark = pytest.mark.fronts("threads", "asyncio", slow=True)

#: What the test servers grant at most: twenty ticks of half a second.
GRANTED_S = 10.0


@pytest.fixture
def user(make_client: MakeClient, root: str) -> KazooClient:
    """A user's own connected client. Its first grant waits for a quarter of its session time, so that is short."""
    return make_client(timeout=4.0)


def of_zkcoord() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("zkcoord-")]


# --- the negotiated time


def test_deadlines_use_what_the_server_granted(
    make_client: MakeClient, make_coordinator: MakeCoordinator, path: str
) -> None:
    coordinator = make_coordinator(kazoo=make_client(timeout=100.0))

    with ZkLock(path, client=coordinator) as grant:
        assert GRANTED_S == coordinator.session_timeout
        assert 0 < grant.remaining() <= GRANTED_S

    assert 100.0 == coordinator.requested_timeout


def test_negotiated_time_given_by_the_user_counts(
    user: KazooClient, make_coordinator: MakeCoordinator, path: str
) -> None:
    coordinator = make_coordinator(kazoo=user, negotiated_timeout=3.0)
    with ZkLock(path, client=coordinator) as grant:
        assert 3.0 == coordinator.session_timeout
        assert grant.remaining() <= 3.0


# --- sharing


def test_two_locks_given_the_same_client_re_enter(user: KazooClient, path: str) -> None:
    first, second = ZkLock(path, client=user), ZkLock(path, client=user)

    with first as outer, second as inner:
        assert outer.token == inner.token

    assert coordinator_for(user) is coordinator_for(user)
    coordinator_for(user).close()


def test_users_session_is_used(user: KazooClient, zk: KazooClient, path: str) -> None:
    with ZkLock(path, client=user) as grant:
        stat = zk.exists(f"{path}/{grant.name}")
        assert stat is not None
        assert user.client_id is not None
        assert user.client_id[0] == stat.ephemeralOwner
    coordinator_for(user).close()


def test_users_other_lock_on_another_client_of_the_same_thread_is_told(
    user: KazooClient, make_client: MakeClient, path: str
) -> None:
    other = make_client()
    with ZkLock(path, client=user), pytest.raises(AlreadyHeldError, match="another client"):
        ZkLock(path, client=other).acquire(timeout=PATIENCE_S)
    coordinator_for(user).close()
    coordinator_for(other).close()


# --- giving it back


def tables(client: KazooClient) -> dict[str, Any]:
    """What zkcoord could leave behind in a client; all of it inside kazoo, hence private names."""
    return {
        "listeners": list(client.state_listeners),
        "hook": vars(client._connection).get("_connect"),
        "data watches": {path: set(watchers) for path, watchers in client._data_watchers.items()},
        "child watches": {path: set(watchers) for path, watchers in client._child_watchers.items()},
        "queue": len(client._queue),
        "client id": client.client_id,
        "state": client.state,
    }


def test_close_leaves_the_client_as_it_was(
    user: KazooClient, zk: KazooClient, zookeeper: Server, path: str
) -> None:
    listened: list[str] = []
    user.add_listener(listened.append)
    zk.create(f"{path}/note", b"", makepath=True)
    watched: list[WatchedEvent] = []
    user.get(f"{path}/note", watched.append)
    before = tables(user)
    watches_before = zookeeper.mntr()["zk_watch_count"]
    coordinator = Coordinator(kazoo=user)
    held = [ZkLock(f"{path}-{number}", client=coordinator).acquire() for number in range(3)]
    waiter = in_thread(ZkLock(f"{path}-0", client=coordinator).acquire)
    wait_until(lambda: 2 == len(zk.get_children(f"{path}-0")))
    # Own members are watched once the holds are old enough, and the waiter watches one of them too.
    wait_until(lambda: int(zookeeper.mntr()["zk_watch_count"]) >= int(watches_before) + 3)

    coordinator.close()

    with pytest.raises(AcquireCancelledError, match="closed"):
        waiter.result(PATIENCE_S)
    assert ["closed"] * 3 == [_loss(grant) for grant in held]
    assert [[]] * 3 == [zk.get_children(f"{path}-{number}") for number in range(3)]
    wait_until(lambda: before == tables(user))
    wait_until(lambda: watches_before == zookeeper.mntr()["zk_watch_count"])
    zk.set(f"{path}/note", b"x")
    wait_until(lambda: watched)
    assert user.connected
    assert [] == listened
    wait_until(lambda: [] == of_zkcoord())


def _loss(grant: Any) -> str:
    with pytest.raises(GrantLostError) as caught:
        grant.check()
    return caught.value.reason


def test_lock_made_after_the_close_borrows_the_client_anew(user: KazooClient, path: str) -> None:
    lock = ZkLock(path, client=user)
    with lock as first:
        pass
    coordinator_for(user).close()

    with lock as second:
        assert second.token > first.token

    coordinator_for(user).close()


def test_wait_that_gave_up_leaves_no_watch_on_the_member_it_waited_for(
    user: KazooClient, zookeeper: Server, make_coordinator: MakeCoordinator, path: str
) -> None:
    """The predecessor stays, so that only taking the watch back makes it go."""
    holder = ZkLock(path, client=make_coordinator()).acquire()
    before = tables(user)
    # Elsewhere the holder's own watch counts too, from 50 ms on: it is there before the comparison.
    assert not holder.lost.wait(0.3)
    watches_before = zookeeper.mntr()["zk_watch_count"]

    assert in_thread(lambda: ZkLock(path, client=user).try_acquire(timeout=0.3)).result(PATIENCE_S) is None

    wait_until(lambda: watches_before == zookeeper.mntr()["zk_watch_count"])
    coordinator_for(user).close()
    wait_until(lambda: before == tables(user))
    holder.release()


def test_users_own_watch_on_a_member_survives_our_leaving(
    user: KazooClient, zk: KazooClient, make_coordinator: MakeCoordinator, path: str
) -> None:
    """Removing a watch on the server removes it for everybody on that connection."""
    holder = ZkLock(path, client=make_coordinator()).acquire()
    events: list[WatchedEvent] = []
    user.get(f"{path}/{holder.name}", events.append)

    assert in_thread(lambda: ZkLock(path, client=user).try_acquire(timeout=0.3)).result(PATIENCE_S) is None
    holder.release()

    wait_until(lambda: events)
    coordinator_for(user).close()


# --- stopping and starting it


def test_restarted_client_is_a_new_session(
    user: KazooClient, make_coordinator: MakeCoordinator, path: str
) -> None:
    lock = ZkLock(path, client=make_coordinator(kazoo=user))
    grant = lock.acquire()
    reasons: list[str] = []
    grant.on_lost(lambda lost, reason: reasons.append(reason))

    user.stop()

    assert Status.LOST is grant.status
    assert "closed" == _loss(grant)
    wait_until(lambda: ["closed"] == reasons)
    with pytest.raises(ConfigError, match="start it again"):
        lock.acquire()
    user.start(timeout=20)
    second = lock.acquire(timeout=PATIENCE_S)
    assert second.token > grant.token
    assert not grant.release()
    second.verify()
    second.release()


# --- clients that cannot be used


class GreenHandler(SequentialThreadingHandler):
    """Says that it is another kind of handler, as gevent's and eventlet's do."""

    name = "sequential_gevent_handler"


def test_acquire_without_a_limit_ends_when_its_client_is_stopped(
    user: KazooClient, make_coordinator: MakeCoordinator, path: str
) -> None:
    holder = ZkLock(path, client=make_coordinator()).acquire()
    waiter = in_thread(ZkLock(path, client=user).acquire)
    wait_until(lambda: 2 == len(holder._coordinator.client.get_children(path)))
    user.stop()
    with pytest.raises(ConnectionLostError, match="was stopped or has ended"):
        waiter.result(PATIENCE_S)
    holder.release()


def test_client_that_was_never_started_is_refused(make_client: MakeClient, path: str) -> None:
    client = make_client(start=False)
    with pytest.raises(ConfigError, match=r"not started.*start\(\)"):
        Coordinator(kazoo=client)
    with pytest.raises(ConfigError, match=r"not started.*start\(\)"):
        ZkLock(path, client=client)


def test_stopped_client_is_refused(user: KazooClient, path: str) -> None:
    user.stop()
    with pytest.raises(ConfigError, match="not started"):
        ZkLock(path, client=user)


def test_read_only_client_is_refused(make_client: MakeClient, path: str) -> None:
    client = make_client(read_only=True)
    with pytest.raises(ConfigError, match="read_only=True"):
        ZkLock(path, client=client)
    assert [] == list(client.state_listeners)


def test_client_with_another_handler_is_refused(make_client: MakeClient, path: str) -> None:
    client = make_client(handler=GreenHandler())
    with pytest.raises(ConfigError, match="threading handler, not sequential_gevent_handler"):
        ZkLock(path, client=client)
    assert [] == list(client.state_listeners)


# --- kazoo's own threads


@pytest.mark.fronts("threads")
def test_acquire_on_a_kazoo_thread_is_refused_instead_of_hanging(user: KazooClient, path: str) -> None:
    lock = ZkLock(path, client=user)
    lock.acquire().release()
    errors: list[BaseException] = []

    def watch(event: WatchedEvent) -> None:
        try:
            lock.acquire()
        except BaseException as error:
            errors.append(error)

    user.get(path, watch)
    user.set(path, b"")

    wait_until(lambda: errors)
    assert isinstance(errors[0], ConfigError)
    assert "thread of your own" in str(errors[0])
    coordinator_for(user).close()
