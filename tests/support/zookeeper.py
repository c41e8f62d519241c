"""The real ZooKeeper of the tests; the code is `zkcoord.testing`'s. As a program: which one would be used?"""

from zkcoord.testing.containers import DEFAULT_DOCKER_HOST, IMAGE, DockerServer, ping_docker
from zkcoord.testing.find import ExternalServer, find_zookeeper, is_real_required
from zkcoord.testing.installed import (
    START_ATTEMPTS,
    TICK_TIME_MS,
    ZooKeeperServer,
    find_classpath,
    find_java,
    free_port,
)
from zkcoord.testing.probe import (
    NoZooKeeperError,
    PortTakenError,
    Server,
    ServerStartError,
    first_address,
    four_letter,
    parse_mntr,
    wait_until_ready,
)

__all__ = [
    "DEFAULT_DOCKER_HOST",
    "IMAGE",
    "START_ATTEMPTS",
    "TICK_TIME_MS",
    "DockerServer",
    "ExternalServer",
    "NoZooKeeperError",
    "PortTakenError",
    "Server",
    "ServerStartError",
    "ZooKeeperServer",
    "find_classpath",
    "find_java",
    "find_zookeeper",
    "first_address",
    "four_letter",
    "free_port",
    "is_real_required",
    "parse_mntr",
    "ping_docker",
    "wait_until_ready",
]


def main() -> int:
    """Say which real ZooKeeper would be used; exit code 1 when there is none. The set-up scripts ask this."""
    try:
        print(f"zkcoord: using {find_zookeeper().description}")
    except NoZooKeeperError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
