"""
Faults as data: which requests are disturbed, and how.

A `FaultPlan` is asked about every request. Rules are tried in the order in which they were added, and the first that
applies decides. The transport carries the verdict out; nothing here waits, draws or sends.

Only whole connections are disturbed, never single segments: TCP would repair those.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple

from zkcoord.errors import ConfigError
from zkcoord.server.codes import OP_NAMES, Op
from zkcoord.server.requests import MultiRequest, Record


class Action(Enum):
    """
    What happens to a matched request.

    Attributes:
        PASS: nothing; later rules are not asked.
        DELAY: it, and all that follows on its connection, is handled later.
        STALL: its connection stays open and silent until the rule is removed.
        CUT_BEFORE: the connection is closed and the request not applied.
        CUT_AFTER: the request is applied, and the connection closed without the reply.
        SLICE: from now on its connection's answers come in small pieces.
        REFUSE: new connections are closed at once. Matches connections, not requests.
        EXPIRE: the session is expired and the request not applied.
    """

    PASS = "pass"
    DELAY = "delay"
    STALL = "stall"
    CUT_BEFORE = "cut before apply"
    CUT_AFTER = "cut after apply"
    SLICE = "slice"
    REFUSE = "refuse"
    EXPIRE = "expire"


class Seen(NamedTuple):
    """A request as rules see it; ``session`` is 0 for the connect request of a new session."""

    session: int
    operation: str
    paths: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Rule:
    """
    One fault.

    Attributes:
        action: what to do.
        session: only this session's requests; None = any.
        operation: a glob for the operation's name as ZooKeeper spells it: ``create*``, ``getData``, ``connect``.
        path: a glob for the request's path, or any path of a multi. ``*`` matches requests without one, too.
        skip: let that many matching requests go by first.
        count: then disturb at most that many; None = no limit.
        probability: of disturbing a matching request.
        delay: seconds, for `DELAY`.
        slice_bytes: the length of a piece, for `SLICE`.
        hits: how many requests it has disturbed.

    Raises:
        ConfigError: a value makes no sense, or no operation has such a name.
    """

    action: Action
    session: int | None = None
    operation: str = "*"
    path: str = "*"
    skip: int = 0
    count: int | None = None
    probability: float = 1.0
    delay: float = 0.0
    slice_bytes: int = 1
    hits: int = field(default=0, init=False)
    _matched: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not any(fnmatchcase(name, self.operation) for name in OP_NAMES.values()):
            names = ", ".join(sorted(OP_NAMES.values()))
            raise ConfigError(f"no operation is called {self.operation!r}; there are: {names}")
        if self.skip < 0 or (self.count is not None and self.count < 0):
            raise ConfigError("skip= and count= cannot be negative")
        if not 0 <= self.probability <= 1:
            raise ConfigError(f"probability={self.probability} is not between 0 and 1")
        if self.delay < 0 or self.slice_bytes < 1:
            raise ConfigError("delay= cannot be negative, and slice_bytes= is at least 1")

    @property
    def is_whole(self) -> bool:
        """Whether it means whole connections, not certain requests."""
        return self.operation == "*" and self.path == "*" and not self.skip and self.count is None

    def covers(self, session: int) -> bool:
        """Whether it means this session."""
        return self.session is None or self.session == session

    def matches(self, seen: Seen) -> bool:
        """Whether it means this request, whatever the counts say."""
        if not self.covers(seen.session) or not fnmatchcase(seen.operation, self.operation):
            return False
        return self.path == "*" or any(fnmatchcase(path, self.path) for path in seen.paths)

    def strikes(self, draw: Callable[[], float]) -> bool:
        """Count a matching request and say whether it is disturbed."""
        self._matched += 1
        if self._matched <= self.skip or (self.count is not None and self.hits >= self.count):
            return False
        if self.probability < 1 and draw() >= self.probability:
            return False
        self.hits += 1
        return True


class FaultPlan:
    """
    The rules in force.

    Args:
        draw: returns a number from 0 to 1 (1 excluded), for probabilities. Give it a seed to repeat a run.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self.rules: list[Rule] = []
        self._draw = draw

    def add(self, rule: Rule) -> None:
        """Add a rule behind the others."""
        self.rules.append(rule)

    def remove(self, rule: Rule) -> None:
        """Remove a rule; one that is not there is no error."""
        if rule in self.rules:
            self.rules.remove(rule)

    def decide(self, seen: Seen) -> Rule | None:
        """Return the rule that disturbs this request; None when none does."""
        for rule in self.rules:
            if rule.action is not Action.REFUSE and rule.matches(seen) and rule.strikes(self._draw):
                return None if rule.action is Action.PASS else rule
        return None

    def refuses(self) -> bool:
        """Whether a connection that comes now is refused."""
        return any(rule.action is Action.REFUSE and rule.strikes(self._draw) for rule in self.rules)

    def silences(self, session: int) -> bool:
        """Whether a connection of this session gets nothing at all, not even watch events."""
        return any(
            rule.action is Action.STALL and rule.is_whole and rule.covers(session) for rule in self.rules
        )


def describe(session: int, op: int, body: Record | None) -> Seen:
    """Return what rules see of a request."""
    return Seen(session, OP_NAMES.get(op, str(op)), tuple(_paths(body)))


def describe_connect(session: int) -> Seen:
    """Return what rules see of a connect request; the session is 0 for a new one."""
    return Seen(session, OP_NAMES[Op.CREATE_SESSION], ())


def _paths(body: Record | None) -> Iterable[str]:
    if isinstance(body, MultiRequest):
        return [part.body[0] for part in body.operations]
    path = getattr(body, "path", None)
    return [] if path is None else [path]
