"""Ending a client's session on the server: what a long partition or pause does, at once."""

from kazoo.client import KazooClient

from zkcoord.errors import ConfigError

#: Seconds that taking the session over may take.
_TAKE_OVER_S = 15.0


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
    hosts = ",".join(f"{host}:{port}" for host, port in client.hosts)
    usurper = KazooClient(hosts=hosts, client_id=identity, timeout=_TAKE_OVER_S)
    usurper.start(timeout=_TAKE_OVER_S)
    usurper.stop()
    usurper.close()
