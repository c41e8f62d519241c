"""
Creates the members of one acquire: one ephemeral sequential node, or one in each of several directories at once.

What it answers is the same either way: the nodes, or the error and the directory that it is about.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Create2, Transaction
from kazoo.security import ACL

from zkcoord._core.messages import Node
from zkcoord._core.names import Rule, sibling_prefix
from zkcoord._session.requests import Call, LinkLostError
from zkcoord._session.session import Session
from zkcoord._session.wire import EPHEMERAL, EPHEMERAL_SEQUENTIAL, USUAL_REQUEST_BYTES, full_path
from zkcoord.errors import ConfigError

#: Called with the nodes, or with none and why: `NoNodeError` when a directory is missing.
Answered = Callable[[tuple[Node, ...], Exception | None], None]


def create_one(
    session: Session,
    directory: str,
    prefix: str,
    number: str,
    data: bytes,
    acl: Sequence[ACL],
    answered: Answered,
) -> Call:
    """Create a member of one directory; with a `number` that the name is to have, or with the server's next one."""

    def read(reply: tuple[str, Any] | None, error: Exception | None) -> None:
        if reply is None:
            answered((), error)
            return
        path, stat = reply
        answered((Node(directory, path.rpartition("/")[2], stat.czxid, stat.ephemeralOwner),), None)

    path = full_path(session.client, f"{directory}/{prefix}{number}")
    request = Create2(path, data, list(acl), EPHEMERAL if number else EPHEMERAL_SEQUENTIAL)
    return session.requests.submit(request, read, is_confirmed=True)


def create_all(
    session: Session,
    places: Sequence[tuple[str, Rule]],
    prefix: str,
    data: bytes,
    acl: Sequence[ACL],
    answered: Answered,
) -> Call:
    """
    Create members of all places in one transaction, so that multi-locks stand in one order everywhere: no deadlock.

    Plain creates, since kazoo cannot read a Create2's reply inside a multi; the stats are read afterwards.
    """
    first = places[0][1]
    paths = [f"{directory}/{sibling_prefix(prefix, first, rule)}" for directory, rule in places]
    creates = [
        CreateRequest(full_path(session.client, path), data, list(acl), EPHEMERAL_SEQUENTIAL)
        for path in paths
    ]

    def read(results: list[Any] | None, error: Exception | None) -> None:
        failure = _cause(results or ())
        if failure is not None:
            answered((), failure)
        elif results:
            names = [str(path).rpartition("/")[2] for path in results]
            answered(
                tuple(Node(directory, name) for (directory, _), name in zip(places, names, strict=True)), None
            )
        else:
            answered((), _too_large(creates, error) or error)

    return session.requests.submit(Transaction(creates), read, is_confirmed=True)


def _cause(results: Sequence[object]) -> Exception | None:
    """Why a transaction was refused, if it was; the bystanders of the refused create come with codes of their own."""
    failures = [result for result in results if isinstance(result, Exception)]
    missing = [failure for failure in failures if isinstance(failure, NoNodeError)]
    causes = [
        failure for failure in failures if not isinstance(failure, RolledBackError | RuntimeInconsistency)
    ]
    return next(iter(missing or causes or failures), None)


def _too_large(creates: list[CreateRequest], error: Exception | None) -> ConfigError | None:
    """What to say if a server has hung up without a word on too long a request; sending it again would do no good."""
    if not isinstance(error, LinkLostError) or not error.maybe_applied:
        return None
    size = len(Transaction(creates).serialize())
    if size < USUAL_REQUEST_BYTES:
        return None
    return ConfigError(
        f"the connection broke under the one transaction that asks for {len(creates)} paths, of {size} bytes;"
        f" servers take {USUAL_REQUEST_BYTES} unless jute.maxbuffer says otherwise: name fewer paths"
    )
