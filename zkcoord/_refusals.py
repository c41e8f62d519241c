"""
What the ending of an acquire means to its caller, if it is not a grant: which error, and what it says.

Both front ends use this, so an outcome means the same in either.
"""

from typing import assert_never

from kazoo.exceptions import InvalidACLError, NoAuthError

from zkcoord._core.grant import LossReason
from zkcoord._core.messages import BadLimit, Busy, CompanionGone, Conflicted, Exhausted, Outcome, Stopped, Won
from zkcoord._session.runner import Cancelled, HeldElsewhere, Refused, Runner
from zkcoord._session.session import ClientEnded
from zkcoord._spec import AcquireCall, Spec, no_answer, problem_of, unreachable
from zkcoord.coordinator import Coordinator
from zkcoord.errors import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AlreadyHeldError,
    ConfigError,
    ConnectionLostError,
    GrantLostError,
    LimitMismatchError,
    QueueConflictError,
    SequenceExhaustedError,
    ZkCoordError,
    how_to_look,
)


def refusal(call: AcquireCall, outcome: Outcome, runner: Runner, waited_s: float) -> ZkCoordError | None:
    """Return the error for an acquire that ended in any way but `Won`; None where the call wants None."""
    spec = call.spec
    match outcome:
        case Busy():
            if call.is_none_if_busy:
                return None
            return _busy(spec, waited_s, runner.position or 1, runner.blocker)
        case Conflicted(directory, children):
            return QueueConflictError(directory, children)
        case Exhausted(directory, sequence):
            return SequenceExhaustedError(directory, sequence)
        case Stopped(why, position):
            return _stopped(call, why, position, runner.blocker, waited_s)
        case BadLimit(directory, recorded):
            return _bad_limit(spec, directory, recorded)
        case CompanionGone():
            hold = call.beside
            reason = hold.loss() if hold is not None else None
            return GrantLostError(
                spec.path,
                hold.token if hold is not None else 0,
                (reason or LossReason.DELETED).value,
                "the grant that this one was to stand beside is gone",
            )
        case Won():
            raise AssertionError("a grant is no refusal")
    assert_never(outcome)


def _stopped(
    call: AcquireCall, why: object, position: int | None, blocker: str | None, waited_s: float
) -> ZkCoordError:
    path = call.spec.title
    match why:
        case Cancelled(reason):
            return AcquireCancelledError(path, reason)
        case ClientEnded():
            return ConnectionLostError(
                f"{path} was not acquired: the kazoo client of {call.coordinator.hosts} was stopped or has ended"
                f"{problem_of(call.coordinator)}; acquire again once it is mended"
            )
        case HeldElsewhere(member):
            return AlreadyHeldError(
                path,
                f"this very owner holds it through another client, as {member}; waiting for it would never end:"
                " use one client (or Coordinator) for both, or release the other grant first",
            )
        case Refused(where, error):
            return refused(where, error, call.coordinator)
    if call.is_try:
        return no_answer(call)
    if position is None:
        return AcquireTimeoutError(path, waited_s, None, None, unreachable(call.coordinator))
    return _busy(call.spec, waited_s, position, blocker)


def _busy(spec: Spec, waited_s: float, position: int, blocker: str | None) -> AcquireTimeoutError:
    look = how_to_look(*(path for path, _ in spec.places))
    return AcquireTimeoutError(spec.title, waited_s, position, blocker, look)


def _bad_limit(spec: Spec, directory: str, recorded: int | None) -> ZkCoordError:
    asked, weight = spec.rule.limit, spec.rule.weight
    if recorded == 0:
        return ConfigError(f"{directory} has data of somebody else: it cannot be a semaphore's directory")
    if recorded is None:
        return ConfigError(f"no limit is recorded at {directory}: give permits= to the semaphore")
    if asked not in (None, recorded):
        return LimitMismatchError(directory, asked or 0, recorded)
    return ConfigError(f"permits={weight} can never be granted by {directory}, which has {recorded}")


def refused(path: str, error: Exception, coordinator: Coordinator) -> ZkCoordError:
    """Return the error for a request that the server refused."""
    if isinstance(error, ConfigError):
        return error
    if isinstance(error, NoAuthError):
        problem: ZkCoordError = ConfigError(
            f"{coordinator.hosts} does not allow it on {path}: the lock's directory needs CREATE, READ and DELETE for"
            " these credentials; give auth=[('digest', 'user:password')] or mend the ACL"
        )
    elif isinstance(error, InvalidACLError):
        problem = ConfigError(f"{coordinator.hosts} refuses the acl for {path}: check acl= and auth=")
    else:
        problem = ZkCoordError(f"{coordinator.hosts} refused a request on {path}: {error!r}")
    problem.__cause__ = error
    return problem


def refused_turn(call: AcquireCall, why: object, waited_s: float, elsewhere: str) -> ZkCoordError:
    """Return the error for a call that gave up waiting for another one of its owner's, `elsewhere`."""
    if isinstance(why, Cancelled):
        return AcquireCancelledError(call.spec.title, why.reason)
    holder = f"this owner ({call.owner.name}), acquiring in another {elsewhere}"
    return AcquireTimeoutError(call.spec.title, waited_s, 1, holder)
