"""Connects for one command: bounded, quiet, and with an error that says what to do."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from zkcoord._arguments import check_hosts
from zkcoord.errors import ConnectionLostError

#: Asked of the server. A command makes no ephemeral nodes, so only its requests depend on it.
_SESSION_TIMEOUT_S = 10.0

#: kazoo's stop waits for a connection attempt under way; nobody should wait for that after an answer was
#: given.
_STOP_S = 1.0


@contextmanager
def connected(
    hosts: str, timeout: float, *, session_timeout: float = _SESSION_TIMEOUT_S
) -> Iterator[KazooClient]:
    """
    Give a started client; stop it at the end.

    Args:
        hosts: as kazoo takes it, ``host:port,host:port/chroot``.
        timeout: seconds to wait for the connection.
        session_timeout: seconds asked of the server.

    Raises:
        ConfigError: `hosts` cannot be understood.
        ConnectionLostError: no server of `hosts` answered within `timeout`.
    """
    client = _client(hosts, session_timeout)
    began = time.monotonic()
    try:
        client.start_async().wait(timeout)
        if not client.connected:
            raise ConnectionLostError(
                f"no ZooKeeper server answered at {hosts} within {time.monotonic() - began:.1f} s: check the"
                " address (--hosts or ZKCOORD_HOSTS), that the server runs and that it has a quorum"
            )
        yield client
    finally:
        _stop(client)


def _client(hosts: str, session_timeout: float) -> KazooClient:
    # Not registered with logging: kazoo's messages about lost connections belong to no user of a command.
    quiet = logging.Logger("zkcoord.cli.kazoo", level=logging.CRITICAL + 1)
    retry = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0)
    return KazooClient(
        hosts=check_hosts(hosts), timeout=session_timeout, connection_retry=retry, logger=quiet
    )


def _stop(client: KazooClient) -> None:
    def stop() -> None:
        client.stop()
        client.close()

    stopper = threading.Thread(target=stop, name="zkcoord-cli-stop", daemon=True)
    stopper.start()
    stopper.join(_STOP_S)
