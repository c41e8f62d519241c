"""The test support itself, against a real ZooKeeper: server life, proxy faults as kazoo sees them."""

from __future__ import annotations

import threading
import time

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from tests.conftest import MakeClient
from tests.support.proxy import FaultProxy, Op
from tests.support.zookeeper import Server, ZooKeeperServer


class StateLog:
    """The states a client went through, to be waited for."""

    def __init__(self, client: KazooClient) -> None:
        self.states: list[str] = []
        self._changed = threading.Condition()
        client.add_listener(self._on_state)

    def _on_state(self, state: str) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def wait(self, state: str, timeout: float = 20.0) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: state in self.states, timeout)


def connect(make_client: MakeClient, proxy: FaultProxy, timeout: float = 10.0) -> KazooClient:
    retry = KazooRetry(max_tries=-1, delay=0.02, backoff=1, max_jitter=0.0)
    return make_client(hosts=proxy.hosts, timeout=timeout, connection_retry=retry)


def test_server_answers_four_letter_words(zookeeper: Server) -> None:
    assert "imok" == zookeeper.four_letter("ruok")
    assert "standalone" == zookeeper.mntr()["zk_server_state"]


def test_server_keeps_data_and_port_over_a_restart(own_zookeeper: ZooKeeperServer) -> None:
    hosts = own_zookeeper.hosts
    client = KazooClient(hosts)
    client.start()
    client.create("/kept", b"value")

    own_zookeeper.restart()

    try:
        assert hosts == own_zookeeper.hosts
        assert b"value" == client.retry(client.get, "/kept")[0]
    finally:
        client.stop()
        client.close()


def test_killed_server_is_gone_and_comes_back(own_zookeeper: ZooKeeperServer) -> None:
    hosts = own_zookeeper.hosts

    own_zookeeper.kill()
    with pytest.raises(OSError, match="refused"):
        own_zookeeper.four_letter("ruok")
    own_zookeeper.start()

    assert hosts == own_zookeeper.hosts
    assert "imok" == own_zookeeper.four_letter("ruok")


def test_paused_server_answers_only_after_it_is_resumed(own_zookeeper: ZooKeeperServer) -> None:
    with own_zookeeper.paused(), pytest.raises(TimeoutError):
        own_zookeeper.four_letter("ruok", timeout=0.3)

    assert "imok" == own_zookeeper.four_letter("ruok")


def test_stopped_server_leaves_no_files(own_zookeeper: ZooKeeperServer) -> None:
    directory = own_zookeeper._directory
    assert directory is not None

    own_zookeeper.stop()

    assert not directory.exists()


def test_containers_are_supported_and_checked_soon() -> None:
    with ZooKeeperServer(container_check_ms=100) as server:
        assert "standalone" in server.four_letter("srvr")


def test_proxy_passes_kazoo_and_counts_its_requests(
    make_client: MakeClient, proxy: FaultProxy, root: str
) -> None:
    client = connect(make_client, proxy)

    client.create(root, b"x")
    value, _ = client.get(root)
    client.get_children(root)

    assert b"x" == value
    assert (1, 1, 1) == tuple(proxy.requests[op] for op in (Op.CREATE, Op.GET_DATA, Op.GET_CHILDREN))
    assert "imok" == client.command(b"ruok")


def test_cut_refuses_and_restore_lets_the_session_go_on(
    make_client: MakeClient, proxy: FaultProxy, root: str
) -> None:
    client = connect(make_client, proxy)
    session = client.client_id
    states = StateLog(client)

    proxy.cut()
    assert states.wait(KazooState.SUSPENDED)
    proxy.restore()

    assert states.wait(KazooState.CONNECTED)
    assert session == client.client_id


def test_reply_of_an_applied_create_is_lost(
    make_client: MakeClient, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = connect(make_client, proxy)
    proxy.drop_reply(Op.CREATE)

    with pytest.raises(ConnectionLoss):
        client.create(root)

    assert zk.exists(root)


def test_create_cut_before_the_server_is_not_applied(
    make_client: MakeClient, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = connect(make_client, proxy)
    proxy.cut_before(Op.CREATE)

    with pytest.raises(ConnectionLoss):
        client.create(root)

    assert zk.exists(root) is None
    assert 1 == proxy.requests[Op.CREATE]


def test_held_request_reaches_the_server_only_on_release(
    make_client: MakeClient, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = connect(make_client, proxy)
    hold = proxy.hold(Op.CREATE)
    result = client.create_async(root)

    assert hold.wait()
    assert zk.exists(root) is None
    hold.release()

    assert root == result.get(timeout=10)


def test_held_reply_is_applied_and_unanswered_until_release(
    make_client: MakeClient, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = connect(make_client, proxy)
    hold = proxy.hold_reply(Op.CREATE)
    result = client.create_async(root)

    assert hold.wait()
    assert zk.exists(root)
    assert not result.ready()
    hold.release()

    assert root == result.get(timeout=10)


def test_black_hole_expires_the_session_on_the_server(
    make_client: MakeClient, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = connect(make_client, proxy, timeout=1.0)
    client.create(root, ephemeral=True)
    gone = threading.Event()
    assert zk.exists(root, watch=lambda event: gone.set())
    states = StateLog(client)

    proxy.black_hole()
    assert gone.wait(20)
    proxy.restore()

    assert states.wait(KazooState.LOST)


def test_stall_delivers_the_request_late(make_client: MakeClient, proxy: FaultProxy, root: str) -> None:
    client = connect(make_client, proxy)
    proxy.black_hole()
    result = client.create_async(root)
    assert not result.wait(0.2)

    proxy.restore(deliver=True)

    assert root == result.get(timeout=10)


def test_delay_slows_replies(make_client: MakeClient, proxy: FaultProxy, root: str) -> None:
    client = connect(make_client, proxy)
    proxy.delay(to_client=0.3)

    start = time.monotonic()
    client.create(root)

    assert time.monotonic() - start >= 0.3


def test_watch_events_are_counted(
    make_client: MakeClient, proxy: FaultProxy, zk: KazooClient, root: str
) -> None:
    client = connect(make_client, proxy)
    changed = threading.Event()
    client.exists(root, watch=lambda event: changed.set())

    zk.create(root)

    assert changed.wait(10)
    assert 1 == proxy.notifications


def test_root_is_unique_and_not_created(zk: KazooClient, root: str) -> None:
    assert zk.exists(root) is None
    with pytest.raises(NoNodeError):
        zk.get(root)


def test_client_of_a_closed_proxy_ends(make_client: MakeClient, hosts: str) -> None:
    host, port = hosts.rsplit(":", 1)
    with FaultProxy(host, int(port)) as proxy:
        client = connect(make_client, proxy)
        states = StateLog(client)
    assert states.wait(KazooState.SUSPENDED)
    client.stop()
    with pytest.raises((ConnectionClosedError, SessionExpiredError)):
        client.get("/")
