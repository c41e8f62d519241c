"""Ending a client's session on the server: what a long partition or pause does, at once."""

from kazoo.client import KazooClient

from zkcoord.errors import ConfigError

#: Seconds that taking the session over may take.
_TAKE_OVER_S = 15.0

#: Sessions taken over at most, the last of which finds that it has ended.
_TRIES = 10


def expire(client: KazooClient) -> None:
    """
    End a client's session on the server, as its expiry would, and return when that has happened.

    A second client takes the session over and closes it: the server removes its ephemeral nodes, fires others' watches,
    and tells `client` that its session has expired when it comes back; kazoo then begins a new session. Works on every
    ZooKeeper. (``kazoo.testing`` only makes the client believe so, while the server knows nothing of it.)

    Args:
        client: connected.

    Raises:
        ConfigError: it is not connected, so there is no session to end.
    """
    identity = client.client_id
    if identity is None or identity[0] is None:
        raise ConfigError(
            "the client is not connected: it has no session to end; wait for it, or start it first"
        )
    end(identity, ",".join(f"{host}:{port}" for host, port in client.hosts))


def end(identity: tuple[int, bytes], hosts: str) -> None:
    """
    End the session with this id and password, and return when the server says that it is over.

    Once is not always enough: its client may take it back before it is closed.
    """
    for _ in range(_TRIES):
        usurper = KazooClient(hosts=hosts, client_id=identity, timeout=_TAKE_OVER_S)
        try:
            usurper.start(timeout=_TAKE_OVER_S)
            new = usurper.client_id
        finally:
            usurper.stop()
            usurper.close()
        if new is not None and new[0] != identity[0]:
            return
    raise ConfigError(f"the session 0x{identity[0]:x} cannot be ended: its client takes it back each time")
