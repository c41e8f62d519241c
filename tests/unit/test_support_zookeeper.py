"""Which real ZooKeeper is chosen, where an installed one is found, and the container path with fakes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import zookeeper as support
from tests.support.zookeeper import (
    DockerServer,
    ExternalServer,
    NoZooKeeperError,
    PortTakenError,
    ServerStartError,
    ZooKeeperServer,
    find_classpath,
    find_java,
    find_zookeeper,
    first_address,
    is_real_required,
    parse_mntr,
    ping_docker,
)

SRVR = b"Zookeeper version: 3.9.2\nLatency min/avg/max: 0/0.0/0\nMode: standalone\nNode count: 5\n"


class FakeServer:
    """Answers every connection with one text, as a server answers a four-letter word."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(64)
                connection.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


class FakeContainer:
    """Stands for testcontainers' DockerContainer."""

    def __init__(self, image: str, port: int, events: list[str]) -> None:
        self.image = image
        self.environment: dict[str, str] = {}
        self._port = port
        self._events = events

    def with_env(self, name: str, value: str) -> None:
        self.environment[name] = value

    def with_exposed_ports(self, port: int) -> None:
        self._events.append(f"expose {port}")

    def start(self) -> None:
        self._events.append("start")

    def stop(self) -> None:
        self._events.append("stop")

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        return self._port

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"container says no", b""


@pytest.fixture
def answering() -> Iterator[FakeServer]:
    server = FakeServer(SRVR)
    yield server
    server.close()


def never() -> bool:
    return False


def always() -> bool:
    return True


# --- choice ----------------------------------------------------------------------------------------------------------


def test_named_hosts_come_first() -> None:
    server = find_zookeeper({"ZKCOORD_TEST_HOSTS": "a:1,b:2"}, docker_answers=always, is_installed=always)

    assert isinstance(server, ExternalServer)
    assert "a:1,b:2" == server.hosts
    assert "ZKCOORD_TEST_HOSTS" in server.description


def test_docker_comes_before_an_installed_server() -> None:
    server = find_zookeeper({}, docker_answers=always, is_installed=always)

    assert isinstance(server, DockerServer)


def test_installed_server_is_taken_without_docker() -> None:
    server = find_zookeeper({}, docker_answers=never, is_installed=always)

    assert isinstance(server, ZooKeeperServer)


def test_none_found_says_what_to_do() -> None:
    with pytest.raises(NoZooKeeperError, match=r"ZKCOORD_TEST_HOSTS is not set.*apt-get install zookeeper"):
        find_zookeeper({}, docker_answers=never, is_installed=never)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"ZKCOORD_REQUIRE_REAL": "0"}, False),
        ({"ZKCOORD_REQUIRE_REAL": ""}, False),
        ({"ZKCOORD_REQUIRE_REAL": "1"}, True),
    ],
)
def test_real_is_required_only_when_asked(environ: dict[str, str], expected: bool) -> None:
    assert expected is is_real_required(environ)


# --- an installed one ------------------------------------------------------------------------------------------------


def test_classpath_of_zookeeper_home_holds_all_its_jars(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("zookeeper-3.9.2.jar", "slf4j-api.jar"):
        (tmp_path / "lib" / name).touch()

    classpath = find_classpath({"ZOOKEEPER_HOME": str(tmp_path)}, system_jars=())

    assert classpath is not None
    assert ["slf4j-api.jar", "zookeeper-3.9.2.jar"] == [Path(p).name for p in classpath.split(os.pathsep)]


def test_system_jar_is_found_with_a_logging_back_end(tmp_path: Path) -> None:
    (tmp_path / "zookeeper.jar").touch()
    (tmp_path / "slf4j-simple.jar").touch()

    classpath = find_classpath({}, system_jars=(tmp_path / "missing.jar", tmp_path / "zookeeper.jar"))

    assert f"{tmp_path}/zookeeper.jar{os.pathsep}{tmp_path}/slf4j-simple.jar" == classpath


def test_empty_zookeeper_home_falls_back_and_nothing_is_none(tmp_path: Path) -> None:
    assert find_classpath({"ZOOKEEPER_HOME": str(tmp_path)}, system_jars=()) is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)

    assert str(java) == find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert str(java) == find_java({"PATH": str(java.parent)})
    assert find_java({"PATH": str(tmp_path)}) is None


def test_server_that_was_never_started_says_so() -> None:
    server = ZooKeeperServer()

    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = server.hosts
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        server.pause()
    server.stop()


def test_lost_port_race_is_retried_on_another_port(
    monkeypatch: pytest.MonkeyPatch, own_zookeeper: ZooKeeperServer
) -> None:
    assert own_zookeeper.port is not None
    ports = iter([own_zookeeper.port, support.free_port()])
    monkeypatch.setattr(support, "free_port", lambda: next(ports))

    with ZooKeeperServer() as server:
        assert own_zookeeper.port != server.port
        assert "imok" == server.four_letter("ruok")


def test_restart_on_a_taken_port_fails_with_the_log(own_zookeeper: ZooKeeperServer) -> None:
    server = ZooKeeperServer()
    server.port = own_zookeeper.port

    with pytest.raises(PortTakenError, match="end of the server's log"):
        server.start()
    server.stop()


def test_bad_configuration_fails_with_the_log() -> None:
    server = ZooKeeperServer(config={"tickTime": "soon"})

    with pytest.raises((ServerStartError, NoZooKeeperError), match=r"soon|is installed"):
        server.start()
    server.stop()


# --- Docker ----------------------------------------------------------------------------------------------------------


def test_no_engine_behind_the_socket_means_no_docker(tmp_path: Path) -> None:
    assert not ping_docker({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"})


def test_refusing_tcp_engine_means_no_docker() -> None:
    assert not ping_docker({"DOCKER_HOST": f"tcp://127.0.0.1:{support.free_port()}"})


def test_container_is_started_with_what_tests_need(answering: FakeServer) -> None:
    events: list[str] = []
    made: list[FakeContainer] = []

    def factory(image: str) -> Any:
        made.append(FakeContainer(image, answering.port, events))
        return made[-1]

    server = DockerServer(tick_time_ms=300, container_factory=factory).start()
    server.start()
    server.stop()
    server.stop()

    assert f"127.0.0.1:{answering.port}" == server.hosts
    assert ["expose 2181", "start", "stop"] == events
    assert "300" == made[0].environment["ZOO_TICK_TIME"]
    assert "*" == made[0].environment["ZOO_4LW_COMMANDS_WHITELIST"]
    assert support.IMAGE == made[0].image


def test_container_that_never_serves_is_stopped_and_its_log_shown() -> None:
    events: list[str] = []
    server = DockerServer(
        start_timeout=0.1,
        container_factory=lambda image: FakeContainer(image, support.free_port(), events),
    )

    with pytest.raises(ServerStartError) as caught:
        server.start()

    assert ["container log: container says no"] == caught.value.__notes__
    assert ["expose 2181", "start", "stop"] == events


# --- small parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("127.0.0.1:2181", ("127.0.0.1", 2181)),
        ("zk1:1,zk2:2/app", ("zk1", 1)),
        ("zk1", ("zk1", 2181)),
        ("[::1]:2181", ("::1", 2181)),
    ],
)
def test_first_address(hosts: str, expected: tuple[str, int]) -> None:
    assert expected == first_address(hosts)


def test_mntr_is_split_into_values() -> None:
    assert {"zk_version": "3.8.0-x, built on y", "zk_watch_count": "3"} == parse_mntr(
        "zk_version\t3.8.0-x, built on y\nzk_watch_count\t3\nThis line is no value\n"
    )


def test_unreachable_named_hosts_fail_with_their_name() -> None:
    with pytest.raises(ServerStartError, match=r"ZKCOORD_TEST_HOSTS=127\.0\.0\.1:"):
        ExternalServer(f"127.0.0.1:{support.free_port()}").start()
