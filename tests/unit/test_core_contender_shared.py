"""The state machine of one acquire, for kinds that share: companions (downgrade, upgrade) and permits."""

from itertools import count

import pytest

from zkcoord._core.contender import Contender
from zkcoord._core.messages import (
    Abandon,
    BadLimit,
    Busy,
    CatchUp,
    CompanionGone,
    Confirm,
    Confirmed,
    Conflicted,
    Create,
    Created,
    Find,
    Finish,
    Fired,
    Found,
    List,
    Listed,
    MakeParents,
    Node,
    OwnGone,
    ParentMissing,
    ParentsMade,
    RecordLimit,
    Start,
    Stop,
    Stopped,
    Unwatch,
    Up,
    Watch,
    Watched,
    Won,
)
from zkcoord._core.names import READ, WRITE, permits

WRITER = Node("/a", "_c_u0-__WRIT__0000000005", czxid=50, session=7)
READER = Node("/a", "_c_u0-__READ__0000000005", czxid=50, session=7)
R1, R2 = (f"_c_u{i}-__READ__" for i in (1, 2))
W1, W2 = (f"_c_u{i}-__WRIT__" for i in (1, 2))


def uuids():
    numbers = count(1)
    return lambda: f"u{next(numbers)}"


def other(marker, number):
    return f"_c_o-{marker}{number:010}"


# --- downgrade: a read member beside the write member, with its number


def downgrade():
    return Contender([("/a", READ["curator"])], uuids(), companion=WRITER, is_beside=True)


BESIDE = Node("/a", f"{R1}0000000005", czxid=60, session=7)


def beside():
    it = downgrade()
    it.handle(Start(7))
    it.handle(Created(R1, (BESIDE,)))
    return it


def test_a_downgrade_takes_the_writers_number_and_token():
    it = downgrade()

    assert [Create(R1, "0000000005"), List(R1, 0)] == it.handle(Start(7))
    assert [] == it.handle(Created(R1, (BESIDE,)))
    children = [WRITER.name, BESIDE.name, other("__WRIT__", 6), other("__WRIT__", 3)]
    assert [Confirm(R1)] == it.handle(Listed(R1, 0, children))
    assert [Finish(Won((BESIDE,), 0, 50))] == it.handle(Confirmed(R1))


def test_a_downgrade_whose_writer_is_gone_ends():
    children = [BESIDE.name, other("__WRIT__", 6)]

    assert [Abandon(0, R1, BESIDE), Finish(CompanionGone())] == beside().handle(Listed(R1, 0, children))


def test_a_downgrade_whose_own_member_is_gone_is_tried_again_beside_the_writer():
    again = [Abandon(0, R1, BESIDE), Create(R2, "0000000005"), List(R2, 0)]

    assert again == beside().handle(Listed(R1, 0, [WRITER.name]))
    assert again == beside().handle(OwnGone(BESIDE.name))


@pytest.mark.parametrize(("children", "is_there"), [([WRITER.name], True), ([other("__WRIT__", 6)], False)])
def test_a_downgrade_that_was_lost_with_the_connection_is_tried_again(children, is_there):
    it = downgrade()
    it.handle(Start(7))

    assert [CatchUp(), List(R1, 0)] == it.handle(Up(7))
    assert [Abandon(0, R1, None), Create(R2, "0000000005"), List(R2, 0)] == it.handle(Listed(R1, 0, children))
    again = Node("/a", f"{R2}0000000005", czxid=70, session=7)
    it.handle(Created(R2, (again,)))
    after = it.handle(Listed(R2, 0, [*children, again.name]))
    assert ([Confirm(R2)] if is_there else [Abandon(0, R2, again), Finish(CompanionGone())]) == after


def test_a_downgrade_whose_answer_was_lost_is_adopted():
    it = downgrade()
    it.handle(Start(7))
    it.handle(Up(7))

    assert [Find(0, BESIDE.name)] == it.handle(Listed(R1, 0, [WRITER.name, BESIDE.name]))
    assert [List(R1, 0)] == it.handle(Found(0, BESIDE.name, BESIDE))
    assert [Confirm(R1)] == it.handle(Listed(R1, 0, [WRITER.name, BESIDE.name]))


@pytest.mark.parametrize("event", [Start(8), Up(8)])
def test_another_session_than_the_writers_ends_it_before_anything_is_created(event):
    assert [Finish(CompanionGone())] == downgrade().handle(event)


def test_another_session_in_the_middle_ends_it_and_leaves_nothing():
    assert [Abandon(0, R1, BESIDE), Finish(CompanionGone())] == beside().handle(Up(8))


def test_a_directory_that_is_gone_took_the_writer_along():
    it = downgrade()
    it.handle(Start(7))

    assert [Finish(CompanionGone())] == it.handle(ParentMissing(R1))


# --- upgrade: a write member that overlooks its own read member


def upgrade():
    it = Contender([("/a", WRITE["curator"])], uuids(), is_try=True, companion=READER)
    it.handle(Start(7))
    it.handle(Created(W1, (UP,)))
    return it


UP = Node("/a", f"{W1}0000000009", czxid=90, session=7)


def test_a_sole_reader_is_upgraded_and_gets_a_token_of_its_own():
    it = upgrade()

    assert [Confirm(W1)] == it.handle(
        Listed(W1, 0, [READER.name, UP.name, other("__READ__", 10), other("__WRIT__", 11)])
    )
    assert [Finish(Won((UP,), 0, None))] == it.handle(Confirmed(W1))


@pytest.mark.parametrize("ahead", [other("__READ__", 3), other("__READ__", 8), other("__WRIT__", 8)])
def test_anybody_else_ahead_refuses_the_upgrade_and_leaves_nothing(ahead):
    assert [Abandon(0, W1, UP), Finish(Busy())] == upgrade().handle(
        Listed(W1, 0, [READER.name, ahead, UP.name])
    )


def test_an_upgrade_whose_reader_is_gone_ends():
    assert [Abandon(0, W1, UP), Finish(CompanionGone())] == upgrade().handle(Listed(W1, 0, [UP.name]))


def test_an_upgrade_sees_conflicts():
    alien = "x-lock-0000000001"

    assert [Abandon(0, W1, UP), Finish(Conflicted("/a", (alien,)))] == upgrade().handle(
        Listed(W1, 0, [READER.name, UP.name, alien])
    )


# --- permits

P1, P2 = (f"_c_u{i}-permit-" for i in (1, 2))
MINE = Node("/s", f"{P1}0000000005", czxid=50, session=7)


def permit(number, weight=""):
    return f"_c_o-permit{weight}-{number:010}"


def created(limit=2, weight=1, is_try=False):
    it = Contender([("/s", permits(weight, limit))], uuids(), is_try=is_try)
    it.handle(Start(7))
    it.handle(Created(P1, (MINE,)))
    return it


def waiting(limit=2):
    it = created(limit)
    it.handle(Listed(P1, 0, [permit(1), permit(2), permit(3), MINE.name], 2))
    return it


def test_permits_that_fit_are_granted():
    it = created()

    assert [Confirm(P1)] == it.handle(Listed(P1, 0, [permit(1), MINE.name, permit(7)], 2))
    assert [Finish(Won((MINE,), 0))] == it.handle(Confirmed(P1))


def test_a_waiter_watches_enough_of_those_ahead_and_the_limit():
    it = created()

    assert [Watch(0, permit(3)), Watch(0, permit(2)), Watch(0, "")] == it.handle(
        Listed(P1, 0, [permit(1), permit(2), permit(3), MINE.name], 2)
    )
    assert permit(3) == it.waits_for


def test_one_that_leaves_is_replaced_among_the_watched_and_the_others_stay():
    it = waiting()

    assert [List(P1, 0)] == it.handle(Fired(0, permit(2), True))
    assert [Watch(0, permit(1))] == it.handle(Listed(P1, 0, [permit(1), permit(3), MINE.name], 2))
    assert [List(P1, 0)] == it.handle(Fired(0, permit(1), True))
    assert [Unwatch(0, permit(3)), Unwatch(0, ""), Confirm(P1)] == it.handle(
        Listed(P1, 0, [permit(3), MINE.name], 2)
    )


def test_two_that_leave_together_are_listed_once():
    it = waiting()
    it.handle(Fired(0, permit(2), True))

    assert [] == it.handle(Fired(0, permit(3), True))
    assert [Unwatch(0, ""), Confirm(P1)] == it.handle(Listed(P1, 0, [permit(1), MINE.name], 2))


def test_a_changed_limit_makes_it_look_again():
    it = waiting(limit=None)

    assert [List(P1, 0)] == it.handle(Fired(0, "", False))
    assert [Unwatch(0, permit(3)), Unwatch(0, permit(2)), Confirm(P1)] == it.handle(
        Listed(P1, 0, [permit(1), permit(2), permit(3), MINE.name], 4)
    )


def test_a_limit_that_changed_before_the_watch_stood_makes_it_look_again_once():
    it = waiting(limit=None)

    assert [] == it.handle(Watched(0, permit(3), True))
    assert [] == it.handle(Watched(0, "", True, 2))
    assert [List(P1, 0)] == it.handle(Watched(0, "", True, 4))
    assert [] == it.handle(Watched(0, "", True, 4))
    assert [Unwatch(0, permit(3)), Unwatch(0, permit(2)), Unwatch(0, ""), Confirm(P1)] == it.handle(
        Listed(P1, 0, [permit(1), permit(2), permit(3), MINE.name], 4)
    )
    assert [] == it.handle(Watched(0, "", True, 5))


def test_a_waiters_watches_are_all_set_again_after_a_reconnect():
    it = waiting()

    assert [Find(0, MINE.name), Watch(0, permit(3)), Watch(0, permit(2)), Watch(0, "")] == it.handle(Up(7))


def test_a_list_lost_with_the_connection_is_sent_again_and_all_watches_are_set_anew():
    it = waiting()
    it.handle(Fired(0, permit(2), True))

    assert [Unwatch(0, permit(3)), Unwatch(0, ""), List(P1, 0)] == it.handle(Up(7))
    assert [Watch(0, permit(3)), Watch(0, permit(1)), Watch(0, "")] == it.handle(
        Listed(P1, 0, [permit(1), permit(3), MINE.name], 2)
    )


def test_a_limit_that_nobody_has_recorded_is_recorded_and_listed_again():
    it = created(limit=2)

    assert [RecordLimit(P1, 0, 2)] == it.handle(Listed(P1, 0, [MINE.name], None))
    assert [RecordLimit(P1, 0, 2)] == it.handle(Listed(P1, 0, [MINE.name], None))
    assert [Confirm(P1)] == it.handle(Listed(P1, 0, [MINE.name], 2))


@pytest.mark.parametrize("children", [None, [], [permit(6)]])
@pytest.mark.parametrize("limit", [2, None])
def test_a_directory_that_was_deleted_took_member_and_limit_along_so_it_begins_again(limit, children):
    it = created(limit)

    assert [Abandon(0, P1, MINE), Create(P2), List(P2, 0)] == it.handle(Listed(P1, 0, children, None))


@pytest.mark.parametrize(
    ("limit", "weight", "recorded"), [(2, 1, 3), (3, 1, 2), (None, 3, 2), (None, 1, None), (2, 1, 0)]
)
def test_another_limit_or_too_small_a_one_or_none_ends_it_and_leaves_nothing(limit, weight, recorded):
    prefix = permits(weight, limit).prefix("u1")
    mine = Node("/s", f"{prefix}0000000005", czxid=50, session=7)
    it = Contender([("/s", permits(weight, limit))], uuids())
    it.handle(Start(7))
    it.handle(Created(prefix, (mine,)))

    assert [Abandon(0, prefix, mine), Finish(BadLimit("/s", recorded))] == it.handle(
        Listed(prefix, 0, [mine.name], recorded)
    )


def test_a_missing_directory_is_made_when_there_is_a_limit_to_put_into_it():
    it = Contender([("/s", permits(1, 2))], uuids())
    it.handle(Start(7))

    assert [MakeParents()] == it.handle(ParentMissing(P1))
    assert [Create(P2), List(P2, 0)] == it.handle(ParentsMade())


def test_a_missing_directory_without_a_limit_to_put_into_it_ends_it():
    it = Contender([("/s", permits(1, None))], uuids())
    it.handle(Start(7))

    assert [Finish(BadLimit("/s", None))] == it.handle(ParentMissing(P1))


def test_a_try_without_enough_permits_gives_its_member_back():
    children = [permit(1), permit(2), MINE.name]

    assert [Abandon(0, P1, MINE), Finish(Busy())] == created(is_try=True).handle(Listed(P1, 0, children, 2))


def test_stop_takes_all_watches_back():
    assert [
        Unwatch(0, permit(3)),
        Unwatch(0, permit(2)),
        Unwatch(0, ""),
        Abandon(0, P1, MINE),
        Finish(Stopped("x", 3)),
    ] == waiting().handle(Stop("x"))
