"""`EmbeddedServer` from outside: start, stop, restart, expiry, addresses, the async form, limits."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest

from tests.support.zk_raw import ClosedError, RawClient, create, path_watch
from zkcoord import ConfigError
from zkcoord.server import EmbeddedServer
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op


def test_context_manager_serves_and_ends_its_thread() -> None:
    before = set(threading.enumerate())  # other tests may have servers of their own
    with EmbeddedServer() as server:
        assert server.hosts == f"127.0.0.1:{server.port}"
        with RawClient(server.hosts) as client:
            assert Code.OK == client.call(Op.EXISTS, path_watch("/")).error
        assert ["embedded-zookeeper"] == [thread.name for thread in set(threading.enumerate()) - before]

    assert set() == set(threading.enumerate()) - before
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), 1)


def test_restart_keeps_port_nodes_and_sessions() -> None:
    with EmbeddedServer() as server:
        port = server.port
        client = RawClient(server.hosts)
        client.call(Op.CREATE, create("/e", b"x", 1))
        server.stop()
        assert client.is_closed_by_server()
        server.start()
        assert port == server.port
        with RawClient(server.hosts, client.response.session_id, client.response.password) as again:
            assert client.response.session_id == again.response.session_id
            assert b"x" == again.call(Op.GET_DATA, path_watch("/e")).record.data
        client.close()


def test_stop_and_start_may_be_called_twice() -> None:
    server = EmbeddedServer()
    server.stop()
    assert server.start() is server.start()
    server.stop()
    server.stop()


def test_expire_ends_a_session_at_once() -> None:
    with EmbeddedServer() as server, RawClient(server.hosts) as client:
        client.call(Op.CREATE, create("/e", b"", 1))

        assert (client.response.session_id,) == server.sessions()
        assert server.expire(client.response.session_id)
        assert client.is_closed_by_server()
        assert () == server.sessions()
        assert not server.expire(client.response.session_id)


def test_not_running_is_said() -> None:
    server = EmbeddedServer()
    with pytest.raises(RuntimeError, match="start"):
        server.expire(1)
    with pytest.raises(RuntimeError, match="start"):
        _ = server.hosts


def test_async_form_does_not_block_the_loop() -> None:
    async def use() -> bytes:
        async with EmbeddedServer() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"ruok")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    assert b"imok" == asyncio.run(use())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="allow_remote"):
        EmbeddedServer(host=host)


def test_address_that_others_can_reach_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="for development and tests; in memory"):
        EmbeddedServer(host="192.0.2.1", allow_remote=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": -1},
        {"port": 65536},
        {"tick_time": 0.0},
        {"container_check_interval": 0.0},
        {"max_frame_bytes": 1},
    ],
)
def test_senseless_arguments_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        EmbeddedServer(**wrong)  # type: ignore[arg-type]


def test_it_says_what_it_is_for() -> None:
    assert "for development and tests; in memory" in repr(EmbeddedServer())


def test_taken_port_is_an_error() -> None:
    with EmbeddedServer() as server, pytest.raises(OSError, match="in use"):
        EmbeddedServer(server.port).start()


def test_frame_limit_can_be_set() -> None:
    with EmbeddedServer(max_frame_bytes=2048) as server, RawClient(server.hosts) as client:
        client.call(Op.CREATE, create("/a"))
        assert Code.OK == client.call(Op.SET_DATA, r.SetDataRequest("/a", bytes(2000), -1)).error
        with pytest.raises(ClosedError):
            client.call(Op.SET_DATA, r.SetDataRequest("/a", bytes(2048), -1))


def test_ttl_nodes_can_be_off() -> None:
    with EmbeddedServer(has_ttl_nodes=False) as server, RawClient(server.hosts) as client:
        request = r.CreateTTLRequest("/a", b"", create("/a").acl, 5, 1000)
        assert Code.UNIMPLEMENTED == client.call(Op.CREATE_TTL, request).error


def test_five_hundred_idle_sessions() -> None:
    with EmbeddedServer(tick_time=2.0) as server:
        clients = [RawClient(server.hosts, timeout_ms=40_000) for _ in range(500)]

        assert 500 == len(server.sessions())
        assert all(client.call(Op.PING).error == Code.OK for client in clients)
        for client in clients:
            client.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_holds_no_connection_open() -> None:
    with EmbeddedServer() as server, RawClient(server.hosts) as client:
        release_out, release_in = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                server.expire(1)
            except RuntimeError:  # it says that it does not run here
                os.read(release_out, 1)
                os._exit(0)
            os._exit(1)
        server.stop()
        assert client.is_closed_by_server()  # although the child still lives
        os.write(release_in, b"!")
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(release_out)
        os.close(release_in)
