"""The arguments of read/write locks, semaphores and multi-locks, and how their acquires end."""

from dataclasses import replace

import pytest

from tests.unit.test_spec import ARGUMENTS, Somewhere, Waiter
from zkcoord._core.messages import BadLimit, Busy, CompanionGone, Node, Stopped
from zkcoord._core.names import EXCLUSIVE, READ, WRITE
from zkcoord._refusals import refusal
from zkcoord._session.identity import current_thread_owner
from zkcoord._session.registry import Registry
from zkcoord._spec import (
    AcquireCall,
    TimedOut,
    check_permits,
    exclusive_spec,
    multi_spec,
    read_write_specs,
    semaphore_spec,
)
from zkcoord.errors import (
    AlreadyHeldError,
    ConfigError,
    GrantLostError,
    LimitMismatchError,
    UpgradeError,
)

SHARED = {name: value for name, value in ARGUMENTS.items() if name not in ("dialect", "reentrant")}
MULTI = {**SHARED, "reentrant": True}
ME = current_thread_owner()


class Held:
    """A live hold, as far as `companion` looks at it."""

    def __init__(self, *nodes):
        self.nodes = nodes
        self.keys = ()
        self.grants = 1
        self.is_over = False

    def loss(self):
        return None

    def on_lost(self, callback):
        pass


class Place(Somewhere):
    """A coordinator with a registry of its own."""

    def __init__(self):
        self.registry = Registry()

    def hold(self, spec):
        held = Held(*(Node(path, f"x-{rule.marker}0000000001", 17, 7) for path, rule in spec.places))
        keys = spec.keys(ME.key)
        claimant = call(spec, self)
        self.registry.claim(keys, lambda: None, claimant)
        self.registry.settle(keys, held, claimant)
        return held


def call(spec, coordinator=None, **more):
    return AcquireCall(coordinator or Place(), None, spec, ME, 5.0, lambda: "u", set(), **more)


def rw(path="/a", **changes):
    return read_write_specs(path, **{**ARGUMENTS, **changes})


def exclusive(path="/a", **changes):
    return exclusive_spec(path, **{**ARGUMENTS, **changes})


# --- arguments


@pytest.mark.parametrize("dialect", ["curator", "kazoo"])
def test_the_two_sides_know_each_other(dialect):
    read, write = rw(dialect=dialect)

    assert (READ[dialect], WRITE[dialect]) == (read.rule, write.rule)
    assert (write.rule.marker, read.rule.marker) == (read.sibling, write.sibling)
    assert (True, False) == (read.is_shared, write.is_shared)


def test_a_read_write_lock_has_no_latch_dialect():
    with pytest.raises(ConfigError, match="dialect must be one of curator, kazoo"):
        rw(dialect="curator-latch")


def test_a_multi_lock_has_all_places_and_keys_in_order():
    it = multi_spec([("/b", EXCLUSIVE["curator"]), ("/a", READ["curator"])], **MULTI)

    assert "/b + /a" == it.title
    assert (("/b", "lock-", "k"), ("/a", "__READ__", "k")) == it.keys("k")


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([], "empty"),
        ([("/a", EXCLUSIVE["curator"]), ("/a", READ["curator"])], "/a twice"),
        ([("/a", EXCLUSIVE["curator"]), ("/b", EXCLUSIVE["kazoo"])], "not curator and kazoo"),
    ],
)
def test_wrong_places_are_refused(places, message):
    with pytest.raises(ConfigError, match=message):
        multi_spec(places, **MULTI)


def test_a_semaphore_never_re_enters_and_its_limit_may_be_unknown():
    it = semaphore_spec("/s", None, **SHARED)

    assert (False, 1, None) == (it.is_reentrant, it.rule.weight, it.rule.limit)
    assert 4 == semaphore_spec("/s", 4, **SHARED).rule.limit


@pytest.mark.parametrize("wrong", [0, -1, 2**31, True, 1.0, "1", None])
def test_permits_are_a_positive_number(wrong):
    with pytest.raises(ConfigError, match="permits must be an integer from 1 to 2147483647"):
        check_permits("permits", wrong)


@pytest.mark.parametrize("wrong", [0, -1.0, "1", True])
def test_a_longest_time_is_a_positive_number(wrong):
    with pytest.raises(ConfigError, match="max_hold"):
        exclusive(max_hold=wrong)


def test_a_longest_time_is_kept():
    assert (2.0, None) == (exclusive(max_hold=2).max_hold_s, exclusive().max_hold_s)


# --- what the owner holds already


def test_who_holds_nothing_stands_alone():
    assert [None, None] == [call(spec).companion() for spec in rw()]


def test_a_reader_stands_beside_its_own_write_member():
    where = Place()
    read, write = rw()
    held = where.hold(write)

    assert held.nodes[0] == call(read, where).companion()


def test_a_reader_stands_beside_the_member_of_its_own_path_in_a_multi_lock():
    where = Place()
    held = where.hold(multi_spec([("/z", EXCLUSIVE["curator"]), ("/a", WRITE["curator"])], **MULTI))

    assert held.nodes[1] == call(rw()[0], where).companion()


def test_a_writer_that_reads_must_say_that_it_upgrades():
    where = Place()
    read, write = rw()
    held = where.hold(read)

    with pytest.raises(UpgradeError):
        call(write, where).companion()
    assert held.nodes[0] == call(write, where, is_upgrade=True).companion()


@pytest.mark.parametrize(("held", "wanted"), [(0, 1), (1, 0)])
def test_a_multi_lock_takes_no_other_side_along(held, wanted):
    where = Place()
    sides = rw()
    where.hold(sides[held])
    multi = multi_spec([("/b", READ["curator"]), ("/a", sides[wanted].rule)], **MULTI)

    with pytest.raises(AlreadyHeldError):
        call(multi, where).companion()


def test_kazoos_plain_lock_does_not_wait_for_its_owners_reader():
    where = Place()
    where.hold(rw(dialect="kazoo")[0])

    with pytest.raises(AlreadyHeldError):
        call(exclusive(dialect="kazoo"), where).companion()


# --- endings


@pytest.mark.parametrize(
    ("asked", "recorded", "error", "message"),
    [
        (None, None, ConfigError, "no limit is recorded at /s"),
        (2, 0, ConfigError, "/s has data of somebody else"),
        (2, 3, LimitMismatchError, "3"),
    ],
)
def test_a_bad_limit_says_what_is_wrong(asked, recorded, error, message):
    it = call(semaphore_spec("/s", asked, **SHARED))

    with pytest.raises(error, match=message):
        raise refusal(it, BadLimit("/s", recorded), Waiter(), 0.1)


def test_more_permits_than_there_are_can_never_be_granted():
    spec = semaphore_spec("/s", None, **SHARED)
    it = call(replace(spec, rule=replace(spec.rule, weight=5)))

    with pytest.raises(ConfigError, match="permits=5 can never be granted by /s, which has 2"):
        raise refusal(it, BadLimit("/s", 2), Waiter(), 0.1)


@pytest.mark.parametrize("is_none_if_busy", [True, False])
def test_a_lost_companion_is_a_lost_grant_also_for_a_try(is_none_if_busy):
    it = call(rw()[0], is_none_if_busy=is_none_if_busy)

    with pytest.raises(GrantLostError, match="stand beside"):
        raise refusal(it, CompanionGone(), Waiter(), 0.1)


@pytest.mark.parametrize("outcome", [Busy(), Stopped(TimedOut.TIMED_OUT, 1)], ids=["try", "timeout"])
def test_busy_multi_lock_names_commands_that_can_be_run(outcome):
    it = multi_spec([("/a b", EXCLUSIVE["curator"]), ("/c", EXCLUSIVE["curator"])], **MULTI)

    error = refusal(call(it, Place()), outcome, Waiter, 1.5)

    assert "/a b + /c" == error.path
    assert "; `zkcoord holders '/a b'` and `zkcoord holders /c` show the whole queues" in str(error)
