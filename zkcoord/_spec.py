"""
What a lock object describes, checked once at the edge, and one acquire on it.

Both front ends use this, so an argument or an outcome means the same in either.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from kazoo.security import ACL

from zkcoord._arguments import check_acl, seconds
from zkcoord._core.contender import Contender
from zkcoord._core.limits import MAX_PERMITS
from zkcoord._core.messages import (
    CompanionGone,
    Node,
    Outcome,
)
from zkcoord._core.names import EXCLUSIVE, READ, WRITE, Rule
from zkcoord._core.names import permits as permit_rule
from zkcoord._core.paths import normalize
from zkcoord._session.hold import Hold, Key
from zkcoord._session.identity import Owner
from zkcoord._session.registry import Claim
from zkcoord._session.runner import Runner
from zkcoord._session.session import Session, Waiting
from zkcoord.coordinator import Coordinator
from zkcoord.errors import AlreadyHeldError, ConfigError, ConnectionLostError, UpgradeError

#: Most seconds a single try waits for a silent server; a third of the session timeout if that is less.
MAX_TRY_S = 1.0

#: A stopped contender's outcome comes from whichever thread works its mailbox off; it needs no network.
OUTCOME_S = 1.0

#: Longest label or owner name, so that a member's data stays small.
_MAX_TEXT = 1_000


class Default(Enum):
    """The one value that means "as the constructor was told"."""

    DEFAULT = "DEFAULT"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default.DEFAULT


class TimedOut(Enum):
    """Why a contender was stopped: its caller's deadline."""

    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Spec:
    """
    The checked arguments of a lock object.

    Attributes:
        sibling: marker of the other side of a read/write lock; None for a plain lock.
        more: further directories and their rules, for a multi-lock.
        max_hold_s: seconds after which a hold ends whatever happens; None = never.
        cancels: whether the task of an ``async with`` is cancelled when its grant is lost.
    """

    path: str
    rule: Rule
    timeout_s: float | None
    is_reentrant: bool
    owner: str | None
    label: str | None
    acl: tuple[ACL, ...] | None
    sibling: str | None = None
    more: tuple[tuple[str, Rule], ...] = ()
    max_hold_s: float | None = None
    cancels: bool = False

    @property
    def places(self) -> tuple[tuple[str, Rule], ...]:
        """Directory and rule of each queue."""
        return (self.path, self.rule), *self.more

    @property
    def title(self) -> str:
        """The path, or all of them, for messages."""
        return " + ".join(path for path, _ in self.places)

    @property
    def is_shared(self) -> bool:
        """Whether holders of this kind share: members like ours do not block us."""
        return self.rule.marker not in self.rule.blockers

    def keys(self, owner_key: str) -> tuple[Key, ...]:
        """Where the registry keeps this owner's hold."""
        return tuple((path, rule.marker, owner_key) for path, rule in self.places)


@dataclass(eq=False, slots=True)
class AcquireCall:
    """
    One call of a front end's acquire: what it asks for, and what it has got so far.

    Ctrl-C may strike between any two steps, even between a function's return and the assignment of what it returned. So
    whatever is got is noted here by the one who makes it, and `undo` gives all of it back.

    Attributes:
        coordinator: whose session.
        session: where.
        spec: what is acquired.
        owner: for whom.
        timeout_s: seconds for everything; None = for ever, 0 = one try.
        new_uuid: for member names.
        pending: where whoever waits is to be found by ``cancel`` meanwhile.
        list_first: for a try: look before anything is created.
        is_none_if_busy: a try that finds somebody ahead returns None instead of raising.
        is_upgrade: a writer that holds the read lock as well; only as one try.
        runners: what was started.
        won: the hold that the runner won.
        counted: the hold that counts one grant for this call; its grant takes this list over, and whoever empties it
            gives the count back.
        beside: this owner's hold of the other side of a read/write lock, as `companion` found it last.
    """

    coordinator: Coordinator
    session: Session
    spec: Spec
    owner: Owner
    timeout_s: float | None
    new_uuid: Callable[[], str]
    pending: set[Waiting]
    list_first: bool = False
    is_none_if_busy: bool = False
    is_upgrade: bool = False
    runners: list[Runner] = field(default_factory=list)
    won: list[Hold] = field(default_factory=list)
    counted: list[Hold] = field(default_factory=list)
    beside: Hold | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        """Where the registry keeps this call's hold."""
        return self.spec.keys(self.owner.key)

    def undo(self) -> None:
        """Give back whatever this call has got. For a call that ends with an exception; may be called again."""
        for runner in self.runners:
            runner.discard()
            self.pending.discard(runner)
        registry = self.coordinator.registry
        self.won.extend(self.counted)  # so that a second call still knows of it
        registry.leave(self.counted)
        for hold in self.won:
            if not hold.grants:
                registry.forget(hold)
                self.session.release(hold)
        registry.settle(self.keys, None, self)

    @property
    def is_try(self) -> bool:
        """Whether this is one try."""
        return self.timeout_s == 0

    def companion(self) -> Node | None:
        """
        Return this owner's member of the other side of a read/write lock, beside which the new one is to stand.

        Raises:
            UpgradeError: it holds the read lock and asks to wait for the write lock, which would never end.
            AlreadyHeldError: it holds something of another kind that it would wait for itself.
        """
        self.beside = None
        for path, rule in self.spec.places:
            for marker in sorted(rule.peers - {rule.marker}):
                hold = self.coordinator.registry.find((path, marker, self.owner.key))
                if hold is None:
                    continue
                if marker == self.spec.sibling and (self.spec.is_shared or self.is_upgrade):
                    self.beside = hold
                    return next(node for node in hold.nodes if node.directory == path)
                if marker == self.spec.sibling:
                    raise UpgradeError(path)
                if marker in rule.blockers or self.spec.more:
                    raise AlreadyHeldError(path, "this owner holds its other side; release that first")
        return None

    def is_worth_another(self, outcome: Outcome) -> bool:
        """Whether it failed for the write grant only that it was to stand beside, which another thread released."""
        return (
            outcome == CompanionGone()
            and not self.is_upgrade
            and self.beside is not None
            and self.beside.is_over
            and self.beside.loss() is None
        )

    def claim(self, on_settled: Callable[[], None]) -> Hold | Claim:
        """
        Re-enter, or begin, or find this owner at it elsewhere; see `Registry.claim`. Never `Claim.PARTIAL`.

        Raises:
            AlreadyHeldError: this owner holds it and may not re-enter, or holds some of it.
        """
        claim = self.coordinator.registry.claim(self.keys, on_settled, self)
        if isinstance(claim, Hold) and not self.spec.is_reentrant:
            raise AlreadyHeldError(
                self.spec.title, "this owner holds it already, and the lock is not reentrant"
            )
        if claim is Claim.PARTIAL:
            raise AlreadyHeldError(
                self.spec.title, "this owner holds some of it already, or not as one; release that first"
            )
        return claim

    def start(self, companion: Node | None, on_outcome: Callable[[Outcome], object]) -> Runner:
        """
        Begin to contend. What it wins is noted before `on_outcome` is told, once, on any thread.

        Raises:
            ConnectionLostError: it is one try, and there is no connection.
        """
        session, spec = self.session, self.spec
        if self.is_try and session.guard.session is not None and not session.requests.is_up:
            raise no_answer(self)

        def ended(outcome: Outcome, hold: Hold | None) -> None:
            if hold is not None:
                self.won.append(hold)
            on_outcome(outcome)

        contender = Contender(
            spec.places, self.new_uuid, is_try=self.is_try, companion=companion, is_beside=spec.is_shared
        )
        runner = Runner(
            session,
            spec.places,
            self.owner,
            spec.label,
            spec.acl or self.coordinator.acl,
            contender,
            ended,
            max_hold_s=spec.max_hold_s,
        )
        self.runners.append(runner)
        self.pending.add(runner)
        runner.start(self.list_first and companion is None)
        return runner

    def give_up(self, now: float) -> float | None:
        """Return the call's absolute deadline, given when it began; None = never."""
        if self.timeout_s is None:
            return None
        return now + (self.timeout_s or try_s(self.coordinator))


def with_on_lost(spec: Spec, on_lost: object) -> Spec:
    """
    Return the spec of an asyncio lock that does this to an ``async with`` whose grant is lost.

    Raises:
        ConfigError: neither "cancel" nor "signal".
    """
    if on_lost not in ("cancel", "signal"):
        raise ConfigError(f"on_lost must be 'cancel' or 'signal', not {on_lost!r:.80}")
    return replace(spec, cancels=on_lost == "cancel")


def exclusive_spec(path: object, **options: Any) -> Spec:
    """
    Check the arguments of an exclusive lock; see `_spec`.

    Raises:
        ConfigError: naming the argument.
    """
    return _spec(path, EXCLUSIVE, **options)


def read_write_specs(path: object, **options: Any) -> tuple[Spec, Spec]:
    """
    Check the arguments of a read/write lock; returns the read and the write side.

    Raises:
        ConfigError: naming the argument.
    """
    read, write = _spec(path, READ, **options), _spec(path, WRITE, **options)
    return replace(read, sibling=write.rule.marker), replace(write, sibling=read.rule.marker)


def multi_spec(places: Sequence[tuple[str, Rule]], **options: Any) -> Spec:
    """
    Check the arguments of a multi-lock, whose places are checked already.

    Raises:
        ConfigError: no place, one twice, or places of different dialects.
    """
    if not places:
        raise ConfigError("paths is empty: name at least one lock")
    paths = [path for path, _ in places]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise ConfigError(f"paths has {', '.join(twice)} twice: each may be named once")
    dialects = {rule.dialect for _, rule in places}
    if len(dialects) > 1:
        raise ConfigError(
            f"all locks of a multi-lock must have one dialect, not {' and '.join(sorted(dialects))}"
        )
    (path, rule), *more = places
    return replace(_spec(path, {rule.dialect: rule}, dialect=rule.dialect, **options), more=tuple(more))


def semaphore_spec(path: object, permits: object, **options: Any) -> Spec:
    """
    Check the arguments of a semaphore.

    Raises:
        ConfigError: naming the argument.
    """
    limit = None if permits is None else check_permits("permits", permits)
    rule = permit_rule(1, limit)
    return _spec(path, {rule.dialect: rule}, reentrant=False, dialect=rule.dialect, **options)


def check_permits(name: str, value: object) -> int:
    """
    Check a number of permits.

    Raises:
        ConfigError: not an integer from 1 to 2147483647.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_PERMITS:
        raise ConfigError(f"{name} must be an integer from 1 to {MAX_PERMITS}, not {value!r:.40}")
    return value


def _spec(
    path: object,
    rules: Mapping[str, Rule],
    *,
    timeout: float | None,
    reentrant: object,
    owner: str | None,
    label: str | None,
    dialect: object,
    acl: Sequence[ACL] | None,
    max_hold: float | None = None,
) -> Spec:
    rule = rules.get(dialect) if isinstance(dialect, str) else None
    if rule is None:
        raise ConfigError(f"dialect must be one of {', '.join(sorted(rules))}, not {dialect!r}")
    if not isinstance(reentrant, bool):
        raise ConfigError(f"reentrant must be True or False, not {reentrant!r:.80}")
    return Spec(
        path=normalize(path),
        rule=rule,
        timeout_s=timeout_s("timeout", timeout),
        is_reentrant=reentrant,
        owner=_text("owner", owner),
        label=_text("label", label),
        acl=None if acl is None else check_acl(acl),
        max_hold_s=None if max_hold is None else seconds("max_hold", max_hold, is_positive=True),
    )


def timeout_s(name: str, value: float | None) -> float | None:
    """Check a timeout: None means for ever, 0 means one try."""
    return None if value is None else seconds(name, value)


def try_s(coordinator: Coordinator) -> float:
    """Return how long one try may wait for a silent server."""
    return min(MAX_TRY_S, (coordinator.session_timeout or coordinator.requested_timeout) / 3)


def no_answer(call: AcquireCall) -> ConnectionLostError:
    """Return the error for a try that no server answered."""
    return ConnectionLostError(f"{call.spec.title} was not tried: {unreachable(call.coordinator)}")


def unreachable(coordinator: Coordinator) -> str:
    """Say that no server answers, which ones were asked, and what kazoo complained of last."""
    return f"no ZooKeeper server of {coordinator.hosts} answered in time{problem_of(coordinator)}"


def problem_of(coordinator: Coordinator) -> str:
    """Say what kazoo complained of last, in brackets; nothing if it did not."""
    return f" ({coordinator.last_problem})" if coordinator.last_problem else ""


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be str, not {type(value).__name__}")
    if not value or len(value) > _MAX_TEXT:
        raise ConfigError(f"{name} must have 1 to {_MAX_TEXT} characters, not {len(value)}")
    return value
