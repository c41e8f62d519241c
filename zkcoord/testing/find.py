"""
Which real ZooKeeper to use: the servers named by ``ZKCOORD_TEST_HOSTS``; a container, when a Docker engine answers; an
installed one.
"""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Self

from zkcoord.testing.containers import DockerServer, ping_docker
from zkcoord.testing.installed import ZooKeeperServer, find_classpath, find_java
from zkcoord.testing.probe import FourLetterWords, NoZooKeeperError, Server, ServerStartError, first_address

#: Seconds that a server which should be running may take to accept a connection.
_REACH_S = 10.0


class ExternalServer(FourLetterWords):
    """
    Servers that somebody else runs: start and stop leave them alone.

    Args:
        hosts: their connection string.
        origin: what named them, for messages.
    """

    def __init__(self, hosts: str, origin: str = "ZKCOORD_TEST_HOSTS") -> None:
        self.hosts = hosts
        self._origin = origin

    @property
    def description(self) -> str:
        """One line for people."""
        return f"the ZooKeeper named by {self._origin}, {self.hosts}"

    def start(self) -> Self:
        """
        Connect to the first of them once; ``srvr`` may not be on its list of commands.

        Raises:
            ServerStartError: it cannot be reached.
        """
        try:
            socket.create_connection(first_address(self.hosts), _REACH_S).close()
        except OSError as error:
            raise ServerStartError(f"{self._origin}={self.hosts} cannot be reached: {error}") from error
        return self

    def stop(self) -> None:
        """Leave the servers as they are."""


def find_zookeeper(
    environ: Mapping[str, str] = os.environ,
    *,
    docker_answers: Callable[[], bool] = ping_docker,
    is_installed: Callable[[], bool] | None = None,
) -> Server:
    """
    Return the real ZooKeeper to use, not yet started.

    Raises:
        NoZooKeeperError: there is none; the text says what was looked for.
    """
    hosts = environ.get("ZKCOORD_TEST_HOSTS", "").strip()
    if hosts:
        return ExternalServer(hosts)
    if docker_answers():
        return DockerServer()
    installed = is_installed or (
        lambda: find_java(environ) is not None and find_classpath(environ) is not None
    )
    if installed():
        return ZooKeeperServer()
    raise NoZooKeeperError(
        "no real ZooKeeper: ZKCOORD_TEST_HOSTS is not set, no Docker engine answers, and no ZooKeeper with a Java "
        "runtime is installed (apt-get install zookeeper default-jre-headless, or set ZOOKEEPER_HOME)"
    )


def is_real_required(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether "no real ZooKeeper" is a failure (``ZKCOORD_REQUIRE_REAL=1``) rather than a reason to skip."""
    return environ.get("ZKCOORD_REQUIRE_REAL", "") not in ("", "0")
