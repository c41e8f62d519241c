"""
The error tree. Every error zkcoord raises on purpose is in this file.

    ZkCoordError
    ├── ConfigError            (also ValueError)    a bad argument or set-up; nothing was sent
    ├── AcquireTimeoutError    (also TimeoutError)  the deadline passed before the grant
    ├── AcquireCancelledError                       cancel() or close() ended the acquire
    ├── QueueConflictError                          members of another lock library on the path
    ├── AlreadyHeldError                            this owner holds it, and waiting could never end
    ├── NotHeldError                                the grant was released, or there is none
    ├── GrantLostError                              the hold ended before its owner released it
    ├── LimitMismatchError                          a semaphore has another limit on the server
    ├── UpgradeError                                read → write in one owner
    ├── ForeignProcessError                         an object of the parent used in a forked child
    ├── SequenceExhaustedError                      the lock directory's counter is nearly used up
    ├── ConnectionLostError                         no answer; whether it took effect may be unknown
    └── TransactionError                            an operation of a fenced transaction was refused

All are picklable and keep their fields, so that they can cross a process pool.
"""

import shlex
from typing import Any


def how_to_look(*paths: str) -> str:
    """Say how people can see the queues of some paths: commands that a shell understands."""
    commands = " and ".join(f"`zkcoord holders {shlex.quote(path)}`" for path in paths)
    return f"{commands} {'shows the whole queue' if len(paths) == 1 else 'show the whole queues'}"


def _rebuild(cls: type["ZkCoordError"], args: tuple[object, ...], state: dict[str, Any]) -> "ZkCoordError":
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class ZkCoordError(Exception):
    """
    Base of every error of this library.

    Raised itself only when the server refuses a request for a reason that has no class here; ``__cause__`` has it.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


class ConfigError(ZkCoordError, ValueError):
    """
    An argument or the set-up is wrong; the message names it and says what to do.

    Raised before anything is sent, or when a server refuses the credentials.
    """


class AcquireTimeoutError(ZkCoordError, TimeoutError):
    """
    The deadline passed before the lock was granted. No znode stays behind.

    Attributes:
        path: the lock's path.
        waited_s: seconds spent in the call.
        position: members ahead at the last look (1 = next in line); None if the queue was never seen,
            which means that no server answered in time.
        holder: the member that was in the way, described for people; None if unknown.
    """

    def __init__(
        self,
        path: str,
        waited_s: float,
        position: int | None = None,
        holder: str | None = None,
        detail: str = "",
    ) -> None:
        self.path = path
        self.waited_s = waited_s
        self.position = position
        self.holder = holder
        if position is None:
            text = (
                f"{path} was not acquired within {waited_s:.2f} s:"
                f" {detail or 'no ZooKeeper server answered in time'};"
                " check the hosts, and that the ensemble has a quorum"
            )
        else:
            text = (
                f"{path} was not acquired within {waited_s:.2f} s: {position} ahead, held up by"
                f" {holder or 'an unknown member'}; {detail or how_to_look(path)}"
            )
        super().__init__(text)


class AcquireCancelledError(ZkCoordError):
    """
    A pending acquire was ended from outside. No znode stays behind.

    Attributes:
        path: the lock's path.
        reason: "cancelled" (``lock.cancel()``) or "closed" (the coordinator was closed).
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"acquire of {path} ended: {reason}")


class QueueConflictError(ZkCoordError):
    """
    The lock's directory has children that another lock library would order differently from us.

    Raised before anything is granted; nothing of ours stays behind.

    Attributes:
        path: the lock's path.
        children: names of the offending children.
    """

    def __init__(self, path: str, children: tuple[str, ...]) -> None:
        self.path = path
        self.children = children
        shown = ", ".join(repr(name) for name in children[:5])
        super().__init__(
            f"{path} has members that do not see ours, or that ours do not see: {shown}"
            f"{' …' if len(children) > 5 else ''}; use one kind and one dialect per path,"
            " or remove what does not belong there"
        )


class AlreadyHeldError(ZkCoordError):
    """
    The same owner holds the path, and waiting for it could never end.

    Attributes:
        path: the lock's path.
    """

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path}: {why}")


class NotHeldError(ZkCoordError):
    """
    There is no grant to check or release: it was released, or this thread entered none.

    Attributes:
        path: the lock's path.
    """

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path}: {why}")


class GrantLostError(ZkCoordError):
    """
    The hold ended before its owner released it; somebody else may be the holder now.

    Attributes:
        path: the lock's path.
        token: the fencing token of the lost grant.
        reason: "expired" (the server ended the session), "deadline" (no confirmation from the leader in
            time; or less is left than ``check(min_remaining=…)`` asked for), "deleted" (the znode was removed by
            somebody), "revoked" (the same, after somebody had asked for it with `revoke`), "max_hold" (its longest
            time is over) or "closed" (with its coordinator, or the borrowed client was stopped).
        is_still_held: True only from ``check(min_remaining=…)``: the lock is held, but for less than was asked for.
    """

    def __init__(
        self, path: str, token: int, reason: str, detail: str = "", *, is_still_held: bool = False
    ) -> None:
        self.path = path
        self.token = token
        self.reason = reason
        self.is_still_held = is_still_held
        if is_still_held:
            super().__init__(f"the grant of {path} (token {token}) is still held, but {detail}")
            return
        super().__init__(
            f"the grant of {path} (token {token}) is not surely held: {reason}"
            f"{'; ' + detail if detail else ''}; stop the work it protected and acquire anew"
        )


class LimitMismatchError(ZkCoordError):
    """
    The semaphore's limit on the server differs from the one asked for.

    Attributes:
        path: the semaphore's path.
        asked: the limit of the caller.
        recorded: the limit on the server.
    """

    def __init__(self, path: str, asked: int, recorded: int) -> None:
        self.path = path
        self.asked = asked
        self.recorded = recorded
        super().__init__(
            f"{path} has {recorded} permits, not {asked}: give permits=None to take the recorded limit,"
            " or resize it"
        )


class UpgradeError(ZkCoordError):
    """
    A write lock was asked for while holding the read lock; waiting for it could never end.

    Attributes:
        path: the lock's path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: release the read lock first, or use try_upgrade()")


class ForeignProcessError(ZkCoordError):
    """An object that belongs to the parent was used in a forked child; make a new one there."""


class SequenceExhaustedError(ZkCoordError):
    """
    The lock directory's counter is within a million of 2³¹-1, where ZooKeeper's sequence numbers freeze.

    Attributes:
        path: the lock's path.
        sequence: the number that was drawn; its znode was removed again.
    """

    def __init__(self, path: str, sequence: int) -> None:
        self.path = path
        self.sequence = sequence
        super().__init__(
            f"{path} has used up its sequence numbers ({sequence} of 2147483647), beyond which ZooKeeper"
            " gives the same number to everybody: stop its users, delete the directory (it is made"
            " again with a fresh counter) or use another path"
        )


class ConnectionLostError(ZkCoordError):
    """
    No server answered in time, or the connection broke under the request.

    Attributes:
        maybe_applied: whether the request may have taken effect all the same.
    """

    def __init__(self, message: str, maybe_applied: bool = False) -> None:
        self.maybe_applied = maybe_applied
        super().__init__(message)


class TransactionError(ZkCoordError):
    """
    An operation of ``grant.transaction()`` was refused, so none of them was applied.

    The cause (``__cause__``) is kazoo's error for that operation. The grant itself was still held.

    Attributes:
        path: the znode of the refused operation.
        index: its place among the caller's operations, from 0.
    """

    def __init__(self, path: str, index: int, why: str) -> None:
        self.path = path
        self.index = index
        super().__init__(f"operation {index} on {path} was refused ({why}); nothing was applied")
