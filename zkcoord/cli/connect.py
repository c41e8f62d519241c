"""Connects for one command: bounded, quiet, and with an error that says what to do."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from zkcoord._arguments import check_hosts
from zkcoord._tls import check_tls
from zkcoord.cli.options import Settings
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConnectionLostError

#: Asked of the server by commands that make no ephemeral nodes, so only their requests depend on it.
_SESSION_TIMEOUT_S = 10.0

#: kazoo's stop waits for a connection attempt under way; nobody should wait for that after an answer was
#: given.
_STOP_S = 1.0


@contextmanager
def connected(
    settings: Settings, *, hosts: str | None = None, session_timeout: float | None = None
) -> Iterator[KazooClient]:
    """
    Give a started client for reading; stop it at the end.

    Args:
        settings: where to, with which credentials, and for how long to try.
        hosts: instead of those of `settings`.
        session_timeout: seconds asked of the server when `settings` say nothing.

    Raises:
        ConfigError: the hosts or TLS files cannot be understood.
        ConnectionLostError: no server answered in time.
    """
    where = settings.hosts if hosts is None else hosts
    timeout_s = settings.session_timeout or session_timeout or _SESSION_TIMEOUT_S
    client = _client(settings, where, timeout_s)
    began = time.monotonic()
    try:
        client.start_async().wait(settings.timeout)
        if not client.connected:
            raise _no_answer(where, time.monotonic() - began)
        yield client
    finally:
        _stop(client)


def make_coordinator(settings: Settings, *, session_timeout: float) -> Coordinator:
    """
    Make a coordinator, for commands that hold or change something. It is not connected yet.

    Args:
        settings: where to, and with which credentials.
        session_timeout: seconds asked of the server when `settings` say nothing.

    Raises:
        ConfigError: the hosts or TLS files cannot be understood.
    """
    return Coordinator(
        settings.hosts,
        session_timeout=settings.session_timeout or session_timeout,
        **settings.security(),
    )


def connect(coordinator: Coordinator, timeout: float) -> None:
    """
    Connect a coordinator.

    Raises:
        ConnectionLostError: no server answered in time.
    """
    began = time.monotonic()
    if not coordinator.session().wait_connected(timeout):
        raise _no_answer(coordinator.hosts, time.monotonic() - began)


def _no_answer(hosts: str, waited_s: float) -> ConnectionLostError:
    return ConnectionLostError(
        f"no ZooKeeper server answered at {hosts} within {waited_s:.1f} s: check the"
        " address (--hosts or ZKCOORD_HOSTS), that the server runs and that it has a quorum"
    )


def _client(settings: Settings, hosts: str, session_timeout: float) -> KazooClient:
    # Not registered with logging: kazoo's messages about lost connections belong to no user of a command.
    quiet = logging.Logger("zkcoord.cli.kazoo", level=logging.CRITICAL + 1)
    retry = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0)
    options = settings.security()
    auth = options.pop("auth")
    check_tls(**options)
    return KazooClient(
        hosts=check_hosts(hosts),
        timeout=session_timeout,
        connection_retry=retry,
        logger=quiet,
        auth_data=auth or None,
        use_ssl=options.pop("tls"),
        **options,
    )


def _stop(client: KazooClient) -> None:
    def stop() -> None:
        client.stop()
        client.close()

    stopper = threading.Thread(target=stop, name="zkcoord-cli-stop", daemon=True)
    stopper.start()
    stopper.join(_STOP_S)
