"""
Access control: the schemes world, auth, digest and ip.

Source: ZooKeeper 3.8, ``PrepRequestProcessor.fixupACL``, ``ZooKeeperServer.checkACL``, and the authentication
providers for digest and ip.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence

from zkcoord.server.codes import Code, OperationError, Perm
from zkcoord.server.records import ACL, ClientInfo, Id

ALL_PERMS = 31
ANYONE = Id("world", "anyone")
OPEN_ACL = (ACL(ALL_PERMS, ANYONE),)
READ_ONLY_ACL = (ACL(Perm.READ, ANYONE),)

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_IPV4_BITS = 32


def digest_id(credentials: str) -> Id:
    """Return the id of ``user:password``; the password does not stay readable in it."""
    sha = hashlib.sha1(credentials.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return Id("digest", f"{credentials.split(':', 1)[0]}:{base64.b64encode(sha).decode('ascii')}")


def authenticate(scheme: str | None, auth: bytes | None, address: str) -> Id:
    """
    Turn an auth packet into the id that the connection gains.

    Args:
        scheme: ``digest`` or ``ip``.
        auth: for digest ``user:password``.
        address: where the client connects from.

    Raises:
        OperationError: authentication failed; the connection must be closed.
    """
    if scheme == "digest" and auth is not None:
        return digest_id(auth.decode("utf-8", "replace"))
    if scheme == "ip":
        return Id("ip", address)
    raise OperationError(Code.AUTH_FAILED)


def fix_acl(acl: Iterable[ACL], auth: Sequence[Id]) -> tuple[ACL, ...]:
    """
    Check an ACL that a client wants to set, drop repeated entries, and put the client's ids in for ``auth``.

    Args:
        acl: as the client sent it.
        auth: the connection's ids.

    Raises:
        OperationError: invalid ACL.
    """
    fixed: list[ACL] = []
    for entry in dict.fromkeys(acl):
        scheme, name = entry.id
        if scheme == "auth":
            own = [ACL(entry.perms, id_) for id_ in auth if id_.scheme == "digest"]
            if not own:
                raise OperationError(Code.INVALID_ACL)
            fixed += own
        elif entry.id == ANYONE or _is_valid(scheme, name):
            fixed.append(entry)
        else:
            raise OperationError(Code.INVALID_ACL)
    if not fixed:
        raise OperationError(Code.INVALID_ACL)
    result = tuple(fixed)
    # Nearly every node of a test is open: one tuple for all of them.
    return OPEN_ACL if result == OPEN_ACL else result


def _is_valid(scheme: str | None, name: str | None) -> bool:
    if name is None:
        return False
    if scheme == "digest":
        return len(_java_split(name)) == 2
    if scheme == "ip":
        address, _, bits = name.partition("/")
        return _ipv4(address) is not None and ("/" not in name or _prefix_bits(bits) is not None)
    return False


def _java_split(text: str) -> list[str]:
    """Split at colons as Java does, which leaves empty parts at the end out."""
    parts = text.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _ipv4(text: str) -> int | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if not all(0 <= number <= 255 for number in numbers):
        return None
    return int.from_bytes(bytes(numbers), "big")


def _prefix_bits(text: str) -> int | None:
    if not _NUMBER.fullmatch(text) or not 0 <= int(text) <= _IPV4_BITS:
        return None
    return int(text)


def _ip_matches(own: str, expression: str) -> bool:
    address, slash, bits_text = expression.partition("/")
    wanted, mine = _ipv4(address), _ipv4(own)
    bits = _prefix_bits(bits_text) if slash else _IPV4_BITS
    if wanted is None or mine is None or bits is None:
        return False
    return wanted >> (_IPV4_BITS - bits) == mine >> (_IPV4_BITS - bits)


def may(acl: Sequence[ACL], perm: int, auth: Iterable[Id]) -> bool:
    """
    Whether one of the ids may do something.

    Args:
        acl: the node's.
        perm: permission bits; any one of them suffices.
        auth: the connection's ids.
    """
    if acl is OPEN_ACL or not acl:
        return True
    for entry in acl:
        if not entry.perms & perm:
            continue
        if entry.id == ANYONE:
            return True
        scheme, name = entry.id
        for own in auth:
            if own.scheme != scheme:
                continue
            if scheme == "digest" and own.id == name:
                return True
            if scheme == "ip" and _ip_matches(own.id or "", name or ""):
                return True
    return False


def check_acl(acl: Sequence[ACL], perm: int, auth: Iterable[Id]) -> None:
    """Raises OperationError (no auth) unless one of the ids may do something: see `may`."""
    if not may(acl, perm, auth):
        raise OperationError(Code.NO_AUTH)


def masked(acl: Iterable[ACL]) -> tuple[ACL, ...]:
    """Return an ACL for the eyes of somebody who may not change it: digests are hidden."""
    return tuple(
        ACL(entry.perms, Id("digest", (entry.id.id or "").split(":", 1)[0] + ":x"))
        if entry.id.scheme == "digest" and ":" in (entry.id.id or "")
        else entry
        for entry in acl
    )


def client_infos(auth: Iterable[Id]) -> tuple[ClientInfo, ...]:
    """Return what whoAmI says: user names without the digests."""
    return tuple(
        ClientInfo(id_.scheme, _java_split(id_.id or "")[0] if id_.scheme == "digest" else id_.id)
        for id_ in auth
    )
