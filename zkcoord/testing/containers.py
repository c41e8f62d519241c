"""A real ZooKeeper in a container, through testcontainers, where a Docker engine answers."""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Self

from zkcoord.testing.probe import START_TIMEOUT_S, FourLetterWords, first_address, wait_until_ready

DOCKER_PING_TIMEOUT_S = 3.0
DEFAULT_DOCKER_HOST = "unix:///var/run/docker.sock"
IMAGE = "zookeeper:3.9"

# As of an installed server: short sessions make tests of expiry quick.
TICK_TIME_MS = 500


class DockerServer(FourLetterWords):
    """
    One server in a container, through testcontainers.

    ``container_factory`` stands for ``testcontainers.core.container.DockerContainer``; tests give a fake.
    """

    def __init__(
        self,
        *,
        tick_time_ms: int = TICK_TIME_MS,
        start_timeout: float = START_TIMEOUT_S,
        container_factory: Callable[[str], Any] | None = None,
    ) -> None:
        self.tick_time_ms = tick_time_ms
        self._start_timeout = start_timeout
        self.hosts = ""
        self._factory = container_factory
        self._container: Any = None

    @property
    def description(self) -> str:
        return f"ZooKeeper in Docker ({IMAGE})" + (f" at {self.hosts}" if self.hosts else "")

    def start(self) -> Self:
        if self._container is not None:
            return self
        factory = self._factory or _docker_container
        container = factory(IMAGE)
        container.with_env("ZOO_TICK_TIME", str(self.tick_time_ms))
        container.with_env("ZOO_4LW_COMMANDS_WHITELIST", "*")
        container.with_env("ZOO_ADMINSERVER_ENABLED", "false")
        container.with_env("ZOO_MAX_CLIENT_CNXNS", "0")
        container.with_env("JVMFLAGS", "-Dzookeeper.extendedTypesEnabled=true -Xmx256m")
        container.with_exposed_ports(2181)
        container.start()
        self._container = container
        try:
            self.hosts = f"{container.get_container_host_ip()}:{container.get_exposed_port(2181)}"
            wait_until_ready(self.hosts, self._start_timeout)
        except BaseException as error:
            error.add_note(f"container log: {_container_log(container)}")
            self.stop()
            raise
        return self

    def stop(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            container.stop()


def _docker_container(image: str) -> Any:
    from testcontainers.core.container import DockerContainer

    return DockerContainer(image)


def _container_log(container: Any) -> str:
    out, err = container.get_logs()
    text: bytes = (out + err)[-8192:]
    return text.decode("utf-8", "replace")


def ping_docker(environ: Mapping[str, str] = os.environ) -> bool:
    """
    Whether a Docker engine answers.

    Asked before testcontainers, which would wait and print a stack trace; and by a plain connect before docker's own
    client, which leaks the socket of a connection that fails.
    """
    if not _can_connect(environ.get("DOCKER_HOST") or DEFAULT_DOCKER_HOST):
        return False
    try:
        import docker
        from docker.errors import DockerException
        from requests.exceptions import RequestException
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=DOCKER_PING_TIMEOUT_S, environment=dict(environ))
        try:
            return bool(client.ping())
        finally:
            client.close()
    except (DockerException, RequestException, OSError):
        return False


def _can_connect(docker_host: str) -> bool:
    scheme, _, address = docker_host.partition("://")
    is_unix = scheme == "unix"
    if not is_unix and scheme not in ("tcp", "http", "https"):
        return True  # ssh and the like: left to docker's client
    target: str | tuple[str, int] = address if is_unix else first_address(address)
    with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as probe:
        probe.settimeout(DOCKER_PING_TIMEOUT_S)
        try:
            probe.connect(target)
        except OSError:
            return False
    return True
