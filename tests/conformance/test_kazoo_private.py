"""
Each private name of kazoo that zkcoord uses, on a real client.

At least one test for each function of ``kazoo_private``: a release that changes the name or its meaning fails here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Exists, GetData
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent

from tests.conftest import MakeClient
from tests.support.waiting import PATIENCE_S, wait_until
from zkcoord._session import kazoo_private
from zkcoord._session.requests import LinkLostError, Requests


class Sink:
    """Takes one answer; may hold up the connection thread that brings it."""

    def __init__(self, hold: threading.Event | None = None) -> None:
        self.answered = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None
        self._hold = hold

    def set(self, value: Any) -> None:
        self.value = value
        self._done()

    def set_exception(self, error: BaseException) -> None:
        self.error = error
        self._done()

    def _done(self) -> None:
        self.thread = threading.current_thread()
        self.answered.set()
        if self._hold is not None:
            assert self._hold.wait(PATIENCE_S)


@pytest.fixture
def held_up(zk: KazooClient) -> Iterator[Callable[[], None]]:
    """Hold up the client's connection thread; call it to let the thread go on."""
    go_on = threading.Event()
    sink = Sink(go_on)
    kazoo_private.enqueue(zk, Exists("/", None), sink)
    assert sink.answered.wait(PATIENCE_S)
    yield go_on.set
    go_on.set()


# --- the queue


def test_enqueued_request_is_answered_on_the_connection_thread(zk: KazooClient) -> None:
    sink = Sink()
    assert kazoo_private.enqueue(zk, Exists("/", None), sink)
    assert sink.answered.wait(PATIENCE_S)
    assert sink.error is None
    assert sink.value.numChildren > 0
    assert sink.thread is not None
    assert kazoo_private.is_kazoo_thread(zk, sink.thread)


def test_servers_error_comes_as_an_exception(zk: KazooClient, root: str) -> None:
    sink = Sink()
    kazoo_private.enqueue(zk, GetData(root, None), sink)
    assert sink.answered.wait(PATIENCE_S)
    assert isinstance(sink.error, NoNodeError)


def test_enqueue_never_blocks_and_says_when_the_wake_up_is_still_due(
    zk: KazooClient, held_up: Callable[[], None]
) -> None:
    """kazoo's socket pair is full after some hundred requests; its own way of sending blocks the caller there."""
    sinks: list[Sink] = []
    for _ in range(100_000):
        sinks.append(Sink())
        if not kazoo_private.enqueue(zk, Exists("/", None), sinks[-1]):
            break
    assert len(sinks) > kazoo_private.MAX_QUEUED
    assert len(sinks) == kazoo_private.queue_length(zk)

    held_up()

    for sink in sinks[:-1]:
        assert sink.answered.wait(PATIENCE_S)
    kazoo_private.wake(zk)
    assert sinks[-1].answered.wait(PATIENCE_S)
    assert 0 == kazoo_private.queue_length(zk)


def test_wake_makes_the_connection_thread_look_at_the_queue(zk: KazooClient) -> None:
    sink = Sink()
    zk._queue.append((Exists("/", None), sink))
    kazoo_private.wake(zk)
    assert sink.answered.wait(1.0)  # without it kazoo sleeps until its next ping, after three seconds or more


def test_purge_takes_back_exactly_what_it_is_told(zk: KazooClient, held_up: Callable[[], None]) -> None:
    kept, doomed = [Sink() for _ in range(5)], [Sink() for _ in range(5)]
    for one, other in zip(kept, doomed, strict=True):
        kazoo_private.enqueue(zk, Exists("/", None), one)
        kazoo_private.enqueue(zk, Exists("/", None), other)
    assert 10 == kazoo_private.queue_length(zk)

    kazoo_private.purge(zk, doomed)
    assert 5 == kazoo_private.queue_length(zk)
    held_up()

    for sink in kept:
        assert sink.answered.wait(PATIENCE_S)
    last = Sink()
    kazoo_private.enqueue(zk, Exists("/", None), last)
    assert last.answered.wait(PATIENCE_S)
    assert not any(sink.answered.is_set() for sink in doomed)


def test_closing_leaves_the_queue_to_the_connection_thread(
    zk: KazooClient, held_up: Callable[[], None]
) -> None:
    """Taking requests back from another thread made kazoo's loop end with "pop from an empty deque"."""
    requests = Requests(zk, time.monotonic, lambda *answer: None, lambda: None)
    requests.up()
    errors: list[Exception | None] = []
    for _ in range(3):
        requests.submit(Exists("/", None), lambda value, error: errors.append(error))

    requests.close()

    assert [LinkLostError] * 3 == [type(error) for error in errors]
    assert 3 == kazoo_private.queue_length(zk)
    held_up()
    assert zk.exists("/") is not None
    assert 3 == len(errors)


def test_enqueue_and_wake_survive_a_client_without_a_connection(make_client: MakeClient) -> None:
    client = make_client(start=False)
    assert kazoo_private.enqueue(client, Exists("/", None), Sink())
    kazoo_private.wake(client)
    kazoo_private.drop_connection(client)
    assert kazoo_private.negotiated_timeout_s(client) is None


# --- states


def test_states_of_a_client_from_new_to_stopped(make_client: MakeClient) -> None:
    def states(client: KazooClient) -> tuple[bool, bool, bool, bool]:
        return (
            kazoo_private.is_live(client),
            kazoo_private.is_stopped(client),
            kazoo_private.is_dead(client),
            kazoo_private.session_id(client) is not None,
        )

    client = make_client(start=False)
    assert (False, True, False, False) == states(client)
    client.start(timeout=20)
    assert (True, False, False, True) == states(client)
    client.stop()
    assert (False, True, False, False) == states(client)
    client.start(timeout=20)
    assert (True, False, False, True) == states(client)


def test_rejected_authentication_is_death(make_client: MakeClient) -> None:
    client = make_client(start=False, auth_data=[("nonsense", "x")])
    states: list[str] = []
    client.add_listener(states.append)
    client.start_async()
    wait_until(lambda: KazooState.LOST in states)
    wait_until(lambda: kazoo_private.is_dead(client))
    assert not kazoo_private.is_stopped(client)


def test_live_is_cleared_before_pending_requests_fail(zk: KazooClient) -> None:
    """So a request that is refused for a lost connection never finds the client live."""
    seen: list[bool] = []

    class Looking(Sink):
        def set_exception(self, error: BaseException) -> None:
            seen.append(kazoo_private.is_live(zk))
            super().set_exception(error)

    go_on, blocker, pending = threading.Event(), None, Looking()
    blocker = Sink(go_on)
    kazoo_private.enqueue(zk, Exists("/", None), blocker)
    assert blocker.answered.wait(PATIENCE_S)
    kazoo_private.enqueue(zk, Exists("/", None), pending)
    kazoo_private.drop_connection(zk)
    go_on.set()

    assert pending.answered.wait(PATIENCE_S)
    assert [False] == seen or pending.error is None


def test_read_only_state_is_told(zk: KazooClient) -> None:
    assert not kazoo_private.is_read_only(zk)
    zk._session_callback(KeeperState.CONNECTED_RO)
    assert kazoo_private.is_read_only(zk)


def test_session_id_is_the_servers(zk: KazooClient, root: str) -> None:
    zk.create(root, ephemeral=True)
    stat = zk.exists(root)
    assert stat is not None
    assert stat.ephemeralOwner == kazoo_private.session_id(zk)


def test_requested_timeout_is_in_seconds(make_client: MakeClient) -> None:
    assert 100.0 == kazoo_private.requested_timeout_s(make_client(start=False, timeout=100.0))


def test_kazoos_threads_are_known(zk: KazooClient, root: str) -> None:
    assert not kazoo_private.is_kazoo_thread(zk, threading.current_thread())
    threads: list[threading.Thread] = []
    zk.create(root)
    zk.get(root, lambda event: threads.append(threading.current_thread()))
    zk.get_async(root).rawlink(lambda result: threads.append(threading.current_thread()))
    zk.add_listener(lambda state: threads.append(threading.current_thread()))
    zk.set(root, b"x")
    wait_until(lambda: len(threads) >= 2)
    kazoo_private.drop_connection(zk)
    wait_until(lambda: len(threads) >= 3)
    assert all(kazoo_private.is_kazoo_thread(zk, thread) for thread in threads)


# --- connecting


def test_hook_sees_each_connect_with_its_time_and_the_negotiated_timeout(make_client: MakeClient) -> None:
    client = make_client(start=False, timeout=100.0)
    seen: list[tuple[float, float, int | None]] = []
    kazoo_private.hook_connect(
        client,
        time.monotonic,
        lambda sent, timeout_s: seen.append((sent, timeout_s, kazoo_private.session_id(client))),
    )
    began = time.monotonic()

    client.start(timeout=20)
    kazoo_private.drop_connection(client)
    wait_until(lambda: len(seen) == 2)

    (first, timeout_s, session), (second, timeout_again_s, session_again) = seen
    assert began <= first < second
    assert (10.0, 10.0) == (pytest.approx(timeout_s), pytest.approx(timeout_again_s))
    assert session == session_again == kazoo_private.session_id(client)


def test_hook_is_called_after_authentication(make_client: MakeClient) -> None:
    client = make_client(start=False, auth_data=[("nonsense", "x")])
    seen: list[float] = []
    kazoo_private.hook_connect(client, time.monotonic, lambda sent, timeout_s: seen.append(timeout_s))
    states: list[str] = []
    client.add_listener(states.append)
    client.start_async()
    wait_until(lambda: KazooState.LOST in states)
    assert [] == seen


def test_unhook_leaves_no_trace(make_client: MakeClient) -> None:
    client = make_client(start=False)
    before = dict(vars(client._connection))
    seen: list[float] = []

    def after(sent: float, timeout_s: float) -> None:
        seen.append(timeout_s)

    kazoo_private.hook_connect(client, time.monotonic, after)
    assert before != vars(client._connection)
    kazoo_private.unhook_connect(client, after)
    kazoo_private.unhook_connect(client, after)
    assert before == vars(client._connection)
    client.start(timeout=20)
    assert [] == seen


def test_hooks_come_and_go_in_any_order(make_client: MakeClient) -> None:
    client = make_client(start=False)
    before = dict(vars(client._connection))
    first: list[float] = []
    second: list[float] = []
    one, other = (lambda sent, timeout_s: first.append(sent)), (lambda sent, timeout_s: second.append(sent))
    kazoo_private.hook_connect(client, time.monotonic, one)
    kazoo_private.hook_connect(client, time.monotonic, other)
    client.start(timeout=20)
    assert (1, 1) == (len(first), len(second))

    kazoo_private.unhook_connect(client, one)
    kazoo_private.drop_connection(client)
    wait_until(lambda: 2 == len(second))
    kazoo_private.unhook_connect(client, other)

    assert 1 == len(first)
    assert before.keys() == vars(client._connection).keys()


@pytest.mark.parametrize(("asked", "given"), [(100.0, 10.0), (4.0, 4.0), (0.1, 1.0)])
def test_negotiated_timeout_of_a_connected_client_is_read(
    make_client: MakeClient, asked: float, given: float
) -> None:
    client = make_client(timeout=asked)
    found = wait_until(lambda: kazoo_private.negotiated_timeout_s(client))
    assert pytest.approx(given) == found


def test_dropped_connection_comes_back_in_the_same_session(zk: KazooClient) -> None:
    states: list[str] = []
    zk.add_listener(states.append)
    session = kazoo_private.session_id(zk)

    kazoo_private.drop_connection(zk)

    wait_until(lambda: [KazooState.SUSPENDED, KazooState.CONNECTED] == states)
    assert session == kazoo_private.session_id(zk)


def test_forgotten_exit_hook_is_not_called(run_script: Callable[[str], str]) -> None:
    printed = run_script("""
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from zkcoord._session import kazoo_private
from zkcoord._session.requests import LinkLostError, Requests

class Telling(SequentialThreadingHandler):
    def stop(self):
        if self.running:  # kazoo stops a handler before it starts it as well
            print(self.told, flush=True)
        super().stop()

for told in ("kept", "forgotten"):
    client = KazooClient(HOSTS, handler=Telling())
    client.handler.told = told
    client.start()
    if told == "forgotten":
        kazoo_private.forget_exit_hook(client)
""")
    assert "kept\n" == printed


# --- watch tables


def test_watcher_is_in_the_table_until_it_is_discarded(
    make_client: MakeClient, zk: KazooClient, hosts: str, root: str
) -> None:
    zk.create(root)
    client = make_client(hosts=hosts + root)
    client.ensure_path("/a")
    first: list[WatchedEvent] = []
    second: list[WatchedEvent] = []
    one, other = first.append, second.append
    client.get("/a", one)
    client.get("/a", other)
    path = f"{root}/a"
    assert frozenset((one, other)) == kazoo_private.watchers(client, path)

    kazoo_private.discard_watcher(client, path, one)
    assert frozenset((other,)) == kazoo_private.watchers(client, path)
    client.set("/a", b"x")

    wait_until(lambda: second)
    assert [] == first
    assert frozenset() == kazoo_private.watchers(client, path)


def test_discarding_the_last_watcher_leaves_no_entry(zk: KazooClient, root: str) -> None:
    events: list[WatchedEvent] = []
    watcher = events.append
    zk.create(root)
    zk.get(root, watcher)
    kazoo_private.discard_watcher(zk, root, watcher)
    kazoo_private.discard_watcher(zk, root, watcher)
    assert root not in zk._data_watchers
    assert frozenset() == kazoo_private.watchers(zk, root)
