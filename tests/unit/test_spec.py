"""Arguments are checked at the edge, and an ending becomes the error that says what to do."""

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, InvalidACLError, NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from zkcoord._arguments import check_hosts, seconds
from zkcoord._core.messages import Busy, Conflicted, Exhausted, Stopped, Won
from zkcoord._core.names import EXCLUSIVE
from zkcoord._refusals import refusal
from zkcoord._session.identity import current_thread_owner
from zkcoord._session.runner import Cancelled, HeldElsewhere, Refused
from zkcoord._spec import DEFAULT, AcquireCall, TimedOut, exclusive_spec, no_answer, timeout_s, try_s
from zkcoord.coordinator import Coordinator, coordinator_for
from zkcoord.errors import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AlreadyHeldError,
    ConfigError,
    ConnectionLostError,
    QueueConflictError,
    SequenceExhaustedError,
    ZkCoordError,
)

ARGUMENTS = {
    "timeout": None,
    "reentrant": True,
    "owner": None,
    "label": None,
    "dialect": "curator",
    "acl": None,
}


class Somewhere:
    """What `refusal` reads of a coordinator."""

    hosts = "zk1:2181"
    last_problem = ""
    session_timeout = None
    requested_timeout = 10.0


class Waiter:
    """What `refusal` reads of a runner."""

    position = 3
    blocker = "host h"


def call(coordinator=Somewhere, timeout=5.0, is_none_if_busy=False):
    return AcquireCall(
        coordinator,
        None,
        spec(),
        current_thread_owner(),
        timeout,
        lambda: "u",
        set(),
        is_none_if_busy=is_none_if_busy,
    )


def spec(path="/a", **changes):
    return exclusive_spec(path, **{**ARGUMENTS, **changes})


# --- a lock's arguments


def test_a_lock_is_described_by_its_checked_arguments():
    it = spec("locks//a/", timeout=5, owner="job", label="nightly", acl=OPEN_ACL_UNSAFE)

    assert ("/locks/a", EXCLUSIVE["curator"], 5.0, True, "job", "nightly", tuple(OPEN_ACL_UNSAFE)) == (
        it.path,
        it.rule,
        it.timeout_s,
        it.is_reentrant,
        it.owner,
        it.label,
        it.acl,
    )
    assert (("/locks/a", "lock-", "k"),) == it.keys("k")
    assert None is spec().acl


@pytest.mark.parametrize("dialect", ["curator", "curator-latch", "kazoo"])
def test_every_dialect_has_its_rule(dialect):
    assert dialect == spec(dialect=dialect).rule.dialect


@pytest.mark.parametrize("dialect", ["zookeeper", "", None, 5])
def test_another_dialect_is_refused_naming_the_choices(dialect):
    with pytest.raises(ConfigError, match="dialect must be one of curator, curator-latch, kazoo, not"):
        spec(dialect=dialect)


@pytest.mark.parametrize("name", ["owner", "label"])
def test_texts_have_one_to_a_thousand_characters(name):
    assert "x" * 1000 == getattr(spec(**{name: "x" * 1000}), name)
    for wrong in ("", "x" * 1001):
        with pytest.raises(ConfigError, match=f"{name} must have 1 to 1000 characters, not {len(wrong)}"):
            spec(**{name: wrong})
    with pytest.raises(ConfigError, match=f"{name} must be str, not int"):
        spec(**{name: 5})


def test_default_says_its_name():
    assert "DEFAULT" == repr(DEFAULT)


# --- durations


@pytest.mark.parametrize(("value", "number"), [(0, 0.0), (5, 5.0), (0.25, 0.25), (1e300, 1e300)])
def test_seconds_takes_any_number_from_zero(value, number):
    assert number == seconds("timeout", value)


@pytest.mark.parametrize("value", [True, False, "5", None, b"5", [5], 5j])
def test_seconds_refuses_what_is_no_number(value):
    with pytest.raises(ConfigError, match=f"timeout must be a number of seconds, not {type(value).__name__}"):
        seconds("timeout", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 10**400])
def test_seconds_refuses_what_is_not_finite(value):
    with pytest.raises(ConfigError, match="timeout must be finite"):
        seconds("timeout", value)


@pytest.mark.parametrize(
    ("value", "is_positive"), [(-1, False), (-0.001, False), (-1, True), (0, True), (0.0, True)]
)
def test_seconds_refuses_what_is_too_small(value, is_positive):
    with pytest.raises(ConfigError, match="must be positive" if is_positive else "must be at least 0"):
        seconds("timeout", value, is_positive=is_positive)


def test_no_timeout_is_for_ever():
    assert (None, 0.0, 1.5) == (timeout_s("t", None), timeout_s("t", 0), timeout_s("t", 1.5))


@pytest.mark.parametrize(
    ("granted", "requested", "expected"),
    [(None, 10.0, 1.0), (None, 1.5, 0.5), (1.2, 10.0, 0.4), (30.0, 1.0, 1.0)],
)
def test_a_try_waits_a_third_of_the_session_time_at_most_a_second(granted, requested, expected):
    class There(Somewhere):
        session_timeout = granted
        requested_timeout = requested

    assert expected == pytest.approx(try_s(There))


# --- hosts


@pytest.mark.parametrize(
    "hosts",
    [
        "zk1:2181",
        "zk1",
        "zk1:2181,zk2:2182",
        "zk1:2181,zk2:2181/app/x",
        "zk1:2181, zk2:2181",
        "[::1]:2181",
        "127.0.0.1:65535",
    ],
)
def test_connection_strings_are_taken(hosts):
    assert hosts == check_hosts(f" {hosts} ")


@pytest.mark.parametrize(
    "hosts",
    [
        "",
        "  ",
        None,
        5,
        ["zk1"],
        "zk1:port",
        "zk1:65536",
        "zk1:0",
        "a:1,zk1:0/app",
        "zk1:-1",
        "a b",
        "zk1:2181 zk2:2181",
    ],
)
def test_other_connection_strings_are_refused_with_the_form(hosts):
    with pytest.raises(ConfigError, match="hosts"):
        check_hosts(hosts)


def test_hosts_come_from_the_argument_or_the_environment_or_the_default(monkeypatch):
    monkeypatch.setenv("ZKCOORD_HOSTS", "zk9:2181")
    with Coordinator() as from_environment, Coordinator("zk8:2181") as given:
        assert ("zk9:2181", "zk8:2181") == (from_environment.hosts, given.hosts)
    monkeypatch.delenv("ZKCOORD_HOSTS")
    with Coordinator() as by_default:
        assert "127.0.0.1:2181" == by_default.hosts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hosts": "zk1", "kazoo": object()}, "either hosts or kazoo"),
        ({"kazoo": object()}, "kazoo must be a KazooClient, not object"),
        ({"session_timeout": 0}, "session_timeout must be positive"),
        ({"session_timeout": 2_147_484}, "session_timeout must be at most 2147483 seconds"),
        ({"tick_time": 0}, "tick_time must be positive"),
        ({"negotiated_timeout": -1}, "negotiated_timeout must be positive"),
        ({"release_timeout": -1}, "release_timeout must be at least 0"),
    ],
)
def test_a_coordinators_arguments_are_checked_by_name(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Coordinator(**arguments)


def test_a_client_that_was_not_started_or_is_read_only_is_refused():
    with pytest.raises(ConfigError, match="not started"):
        Coordinator(kazoo=KazooClient())
    with pytest.raises(ConfigError, match="read_only"):
        Coordinator(kazoo=KazooClient(read_only=True))


def test_a_lock_takes_a_coordinator_or_a_kazoo_client():
    with Coordinator("zk1") as coordinator:
        assert coordinator is coordinator_for(coordinator)
    with pytest.raises(ConfigError, match="client must be a Coordinator or a KazooClient, not str"):
        coordinator_for("zk1")


def test_a_closed_coordinator_says_so():
    coordinator = Coordinator("zk1")
    assert "<Coordinator zk1 open>" == repr(coordinator)
    coordinator.close()
    coordinator.close()

    assert ("<Coordinator zk1 closed>", True) == (repr(coordinator), coordinator.is_closed)
    with pytest.raises(ConfigError, match="closed: make a new one"):
        coordinator.session()


# --- endings


@pytest.mark.parametrize(
    ("outcome", "kind", "fields", "words"),
    [
        (
            Busy(),
            AcquireTimeoutError,
            {"position": 3, "holder": "host h", "path": "/a"},
            "3 ahead, held up by host h",
        ),
        (Conflicted("/b", ("x",)), QueueConflictError, {"path": "/b", "children": ("x",)}, "'x'"),
        (
            Exhausted("/b", 2_147_000_000),
            SequenceExhaustedError,
            {"path": "/b", "sequence": 2_147_000_000},
            "used up",
        ),
        (
            Stopped(TimedOut.TIMED_OUT, 2),
            AcquireTimeoutError,
            {"position": 2, "holder": "host h", "waited_s": 1.5},
            "2 ahead, held up by host h",
        ),
        (
            Stopped(TimedOut.TIMED_OUT, None),
            AcquireTimeoutError,
            {"position": None, "holder": None},
            "no ZooKeeper server of zk1:2181 answered in time",
        ),
        (
            Stopped(Cancelled("closed"), None),
            AcquireCancelledError,
            {"reason": "closed", "path": "/a"},
            "closed",
        ),
        (
            Stopped(HeldElsewhere("host me"), 1),
            AlreadyHeldError,
            {"path": "/a"},
            "through another client, as host me",
        ),
        (Stopped(Refused("/b", NoAuthError()), None), ConfigError, {}, "does not allow it on /b"),
        (Stopped(Refused("/b", InvalidACLError()), None), ConfigError, {}, "refuses the acl for /b"),
        (Stopped(Refused("/b", BadVersionError("why")), None), ZkCoordError, {}, "refused a request on /b"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | dict) else "",
)
def test_every_ending_has_its_error(outcome, kind, fields, words):
    error = refusal(call(), outcome, Waiter, 1.5)

    assert kind is type(error)
    assert fields == {name: getattr(error, name) for name in fields}
    assert words in str(error)


def test_a_refusal_has_the_servers_error_as_its_cause():
    cause = NoAuthError()

    assert cause is refusal(call(), Stopped(Refused("/b", cause), None), Waiter, 1.5).__cause__


def test_a_grant_is_no_refusal():
    with pytest.raises(AssertionError):
        refusal(call(), Won((), 0), Waiter, 1.5)


def test_a_try_without_an_answer_tells_what_kazoo_complained_of():
    class Unresolved(Somewhere):
        last_problem = "Cannot resolve zk1"

    error = no_answer(call(Unresolved, timeout=0))

    assert (ConnectionLostError, False) == (type(error), error.maybe_applied)
    assert "no ZooKeeper server of zk1:2181 answered in time (Cannot resolve zk1)" in str(error)


def test_a_busy_try_that_wants_none_gets_none():
    assert None is refusal(call(timeout=0, is_none_if_busy=True), Busy(), Waiter, 0.1)


def test_a_try_that_timed_out_had_no_answer_however_far_it_came():
    for position in (None, 1):
        outcome = Stopped(TimedOut.TIMED_OUT, position)
        assert ConnectionLostError is type(refusal(call(timeout=0), outcome, Waiter, 0.1))


@pytest.mark.parametrize(("timeout", "deadline"), [(None, None), (5.0, 105.0), (0, 101.0)])
def test_a_calls_deadline_is_absolute_and_one_try_waits_a_bounded_time(timeout, deadline):
    assert deadline == call(timeout=timeout).give_up(100.0)
    assert (timeout == 0) == call(timeout=timeout).is_try


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_reentrant_is_true_or_false(value):
    with pytest.raises(ConfigError, match="reentrant must be True or False"):
        spec(reentrant=value)
