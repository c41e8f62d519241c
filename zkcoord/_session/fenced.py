"""
Writes to ZooKeeper that only commit while a hold is held.

A check of the hold's members goes in front of the caller's operations in one ``multi``. The leader evaluates it against
everything accepted before, the end of a session included, so a holder that has lost its lock cannot write, however late
its request arrives.
"""

from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.security import ACL

from zkcoord._core.grant import LossReason
from zkcoord._core.paths import normalize
from zkcoord._session.hold import Hold
from zkcoord._session.wire import full_path
from zkcoord.errors import ConfigError, GrantLostError, TransactionError, ZkCoordError

#: What the server answers for operations that were fine but stood beside a refused one.
_BYSTANDER = (RolledBackError, RuntimeInconsistency)


class Operations:
    """
    The operations of one fenced transaction, in order.

    Paths are below the chroot. Each method returns the object itself. Not thread-safe.
    """

    def __init__(self, client: KazooClient, hold: Hold, acl: tuple[ACL, ...]) -> None:
        self._client = client
        self._hold = hold
        self._acl = acl
        self._requests: list[Any] = []
        self._paths: list[str] = []

    def __len__(self) -> int:
        return len(self._requests)

    def create(
        self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> Self:
        """Create a node; its parent must exist. The result is the created path."""
        flags = (1 if ephemeral else 0) | (2 if sequence else 0)
        return self._add(path, lambda full: Create(full, _bytes(value), list(self._acl), flags))

    def set_data(self, path: str, value: bytes, version: int = -1) -> Self:
        """Set a node's data, if its version is `version` (-1: any). The result is its new stat."""
        return self._add(path, lambda full: SetData(full, _bytes(value), _version(version)))

    def delete(self, path: str, version: int = -1) -> Self:
        """Delete a node, if its version is `version` (-1: any). The result is True."""
        return self._add(path, lambda full: Delete(full, _version(version)))

    def check(self, path: str, version: int = -1) -> Self:
        """Require a node's version (-1: that it exists). The result is True."""
        return self._add(path, lambda full: CheckVersion(full, _version(version)))

    def request(self) -> Transaction:
        """Return the request to send."""
        fence = [CheckVersion(full_path(self._client, node.path), -1) for node in self._hold.nodes]
        return Transaction([*fence, *self._requests])

    def take(self, answers: list[Any]) -> tuple[Any, ...]:
        """
        Return the operations' results from the server's answers to `request`, in order.

        Raises:
            GrantLostError: the hold's member is gone; nothing was applied.
            ConfigError: these credentials may not look at the member; nothing was applied.
            TransactionError: an operation was refused; nothing was applied.
        """
        for index, answer in enumerate(answers):
            if not isinstance(answer, Exception) or isinstance(answer, _BYSTANDER):
                continue
            place = index - len(self._hold.nodes)
            if place < 0:
                raise fence_error(self._hold, answer, "nothing was written") from answer
            raise TransactionError(self._paths[place], place, _why(answer)) from answer
        return tuple(answers[len(self._hold.nodes) :])

    def _add(self, path: str, make: Any) -> Self:
        normal = normalize(path)
        self._requests.append(make(full_path(self._client, normal)))
        self._paths.append(normal)
        return self


def first_refusal(answers: list[Any]) -> Exception | None:
    """Return the error of a refused multi that is the cause; the others only tell that they were refused along."""
    return next(
        (
            answer
            for answer in answers
            if isinstance(answer, Exception) and not isinstance(answer, _BYSTANDER)
        ),
        None,
    )


def fence_error(hold: Hold, error: Exception, detail: str = "") -> ZkCoordError:
    """Return the error for a refused check of a hold's own member. Only a member that does not exist means a loss."""
    if isinstance(error, NoNodeError):
        hold.lose(LossReason.DELETED)
        return GrantLostError(hold.path, hold.token, (hold.loss() or LossReason.DELETED).value, detail)
    return ConfigError(
        f"the server refuses to check the member of {hold.path} ({error!r}): its acl must give READ to these"
        " credentials, without which no grant can be confirmed"
    )


def _why(error: Exception) -> str:
    """Say in words what the usual errors mean."""
    reasons = {
        "NoNodeError": "the node, or for a create its parent, does not exist",
        "NodeExistsError": "the node exists already",
        "BadVersionError": "the node has another version",
        "NotEmptyError": "the node has children",
        "NoAuthError": "these credentials may not",
        "NoChildrenForEphemeralsError": "an ephemeral node cannot have children",
    }
    name = type(error).__name__
    return f"{name}: {reasons[name]}" if name in reasons else repr(error)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise ConfigError(f"value must be bytes, not {type(value).__name__}")
    return value


def _version(value: object) -> int:
    # kazoo packs it on its connection thread, which a wrong one would end.
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 2**31:
        raise ConfigError(f"version must be a node's version, or -1 for any, not {value!r:.80}")
    return value
