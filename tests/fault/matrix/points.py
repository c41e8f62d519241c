"""The rows of the matrix: every request that a lock sends, how it is got to, and for which kinds of lock it differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tests.support.proxy import Op

#: Of the members that the test puts ahead; ours have a random uuid.
FOREIGN = "_c_00000000-0000-4000-8000-000000000000-"

#: What a member ahead of each kind is called.
AHEAD = {
    "lock": FOREIGN + "lock-",
    "read": FOREIGN + "__WRIT__",
    "write": FOREIGN + "__READ__",
    "semaphore": FOREIGN + "permit-",
    "multi": FOREIGN + "lock-",
}
KINDS = tuple(AHEAD)


class Stage(Enum):
    """Which call is under way."""

    ACQUIRE = "acquire"
    WAIT = "wait"
    HOLD = "hold"
    RELEASE = "release"


@dataclass(frozen=True)
class Point:
    """
    One request.

    Attributes:
        name: in the table.
        stage: the call that sends it; for WAIT, an acquire with somebody ahead.
        operation: as ZooKeeper spells it; None: no request is under way.
        skip: how many of that operation the call sends before this one, by kind of lock. Its keys are the kinds.
        is_missing: the lock's directory does not exist yet.
        is_unrecorded: a semaphore's directory holds no limit yet.
        is_cold: the client has never been connected.
        is_borrowed: the client is the user's own; its first grant waits for a second proof.
        after_lost_create: the answer to the create was lost before.
        is_woken: the member ahead goes, and this is what the waiter does then.
        is_late: armed only when the lock is held.
        waits_s: how long the lock was waited for.
    """

    name: str
    stage: Stage
    operation: str | None
    skip: dict[str, int] = field(hash=False)
    is_missing: bool = False
    is_unrecorded: bool = False
    is_cold: bool = False
    is_borrowed: bool = False
    after_lost_create: bool = False
    is_woken: bool = False
    is_late: bool = False
    waits_s: float = 0.0

    def operation_of(self, kind: str) -> str | None:
        """The operation's name: a multi-lock creates in a transaction, a semaphore's directory is persistent."""
        if kind == "multi" and self.operation == "create2":
            return "multi"
        if kind == "semaphore" and self.operation == "createContainer":
            return "create"
        return self.operation


def same(*kinds: str) -> dict[str, int]:
    """It is the first such request for each of these kinds."""
    return dict.fromkeys(kinds, 0)


POINTS = (
    Point("connect", Stage.ACQUIRE, "connect", same("lock"), is_cold=True),
    Point("create", Stage.ACQUIRE, "create2", same(*KINDS)),
    Point("parents", Stage.ACQUIRE, "createContainer", same("lock", "semaphore", "multi"), is_missing=True),
    Point("list", Stage.ACQUIRE, "getChildren", same(*KINDS)),
    Point("limit", Stage.ACQUIRE, "getData", same("semaphore")),
    Point("record", Stage.ACQUIRE, "multi", same("semaphore"), is_unrecorded=True),
    Point("stat", Stage.ACQUIRE, "exists", same("multi")),
    Point("catch-up", Stage.ACQUIRE, "multi", same("lock", "multi"), after_lost_create=True),
    Point("search", Stage.ACQUIRE, "getChildren", {"lock": 1}, after_lost_create=True),
    Point("adopt", Stage.ACQUIRE, "exists", same("lock", "multi"), after_lost_create=True),
    Point("proof", Stage.ACQUIRE, "multi", same("lock"), is_borrowed=True),
    Point("watch", Stage.WAIT, "getData", {**same(*KINDS), "semaphore": 1}),
    Point("limit-watch", Stage.WAIT, "getData", {"semaphore": 2}),
    Point("waiting", Stage.WAIT, None, same(*KINDS)),
    Point("look-again", Stage.WAIT, "getChildren", {"lock": 1, "semaphore": 1, "multi": 2}, is_woken=True),
    Point("own-watch", Stage.HOLD, "getData", {**same("lock", "multi"), "semaphore": 1}),
    Point("heartbeat", Stage.HOLD, "multi", same("lock", "multi"), is_late=True),
    Point("stamp", Stage.HOLD, "setData", same("lock"), waits_s=1.1),
    Point("delete", Stage.RELEASE, "delete", {"lock": 0, "semaphore": 0, "multi": 1}),
)

#: The same operations, as the proxy knows them.
OPCODES = {
    "create2": Op.CREATE2,
    "create": Op.CREATE,
    "createContainer": Op.CREATE_CONTAINER,
    "getChildren": Op.GET_CHILDREN,
    "getData": Op.GET_DATA,
    "setData": Op.SET_DATA,
    "exists": Op.EXISTS,
    "multi": Op.MULTI,
    "delete": Op.DELETE,
}
