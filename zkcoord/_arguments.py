"""Checks of what users give: durations, connection strings, acls, credentials and clients. Each says what to give."""

from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts
from kazoo.security import ACL

from zkcoord._session import kazoo_private
from zkcoord.errors import ConfigError


def seconds(name: str, value: object, *, is_positive: bool = False) -> float:
    """
    Check a duration.

    Raises:
        ConfigError: not a number, NaN, infinite, negative, or zero where it must be positive.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} must be a number of seconds, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number != number or number in (float("inf"), float("-inf")):
        raise ConfigError(f"{name} must be finite, not {number!r}; None means no limit where that is allowed")
    if number < 0 or (is_positive and number == 0):
        raise ConfigError(f"{name} must be {'positive' if is_positive else 'at least 0'}, not {value!r}")
    return number


def check_hosts(hosts: object) -> str:
    """
    Check a connection string.

    Raises:
        ConfigError: not ``host:port,…[/chroot]``.
    """
    if not isinstance(hosts, str) or not hosts.strip():
        raise ConfigError(f"hosts must be 'host:port,host:port/chroot', not {hosts!r:.80}")
    try:
        parsed, _ = collect_hosts(hosts.strip())
    except ValueError as error:
        raise ConfigError(
            f"hosts {hosts!r:.200} cannot be read ({error}): write 'host:port,host:port/chroot'"
        ) from error
    for host, port in parsed:
        # kazoo takes port 0 for none given, and connects to 2181.
        if (
            not host
            or any(character.isspace() for character in host)
            or not 0 < port < 65_536
            or f"{host}:0" in hosts.partition("/")[0].replace(" ", "").split(",")
        ):
            raise ConfigError(f"hosts {hosts!r:.200}: {host}:{port} is not a host and port")
    return hosts.strip()


def check_acl(acl: object) -> tuple[ACL, ...]:
    """
    Check an ``acl=`` argument, which kazoo would only look at on its connection thread, and end it.

    Raises:
        ConfigError: not a sequence of kazoo's `ACL`, or an empty one.
    """
    if not isinstance(acl, Sequence) or not all(
        isinstance(entry, ACL) and isinstance(entry.perms, int) for entry in acl
    ):
        raise ConfigError(f"acl must be a list of kazoo.security.ACL, from make_acl(), not {acl!r:.80}")
    if not acl:
        raise ConfigError(
            "acl is empty: give None for the default, or kazoo.security.OPEN_ACL_UNSAFE to let everybody in"
        )
    return tuple(acl)


def check_auth(auth: object) -> list[tuple[str, str]]:
    """Check an ``auth=`` argument; the message must not show what may be a password."""
    wrong = ConfigError("auth must be a list of pairs of str: [('digest', 'user:password')]")
    if not isinstance(auth, Sequence) or isinstance(auth, str | bytes):
        raise wrong
    pairs: list[tuple[str, str]] = []
    for pair in auth:
        if not isinstance(pair, tuple | list) or [str, str] != [type(part) for part in pair]:
            raise wrong
        pairs.append((pair[0], pair[1]))
    return pairs


def check_borrowed(client: object) -> None:
    if not isinstance(client, KazooClient):
        raise ConfigError(f"kazoo must be a KazooClient, not {type(client).__name__}")
    if client.handler.name != "sequential_threading_handler":
        raise ConfigError(f"the KazooClient must have kazoo's threading handler, not {client.handler.name}")
    if client.read_only:
        raise ConfigError("a KazooClient with read_only=True cannot hold locks: make one without it")
    if kazoo_private.is_stopped(client):
        raise ConfigError("the KazooClient is not started: call start() on it first")
