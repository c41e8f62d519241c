"""The state machine of one acquire: what it asks for after each event, and how it ends."""

from itertools import count

import pytest

from zkcoord._core.contender import Contender, Phase
from zkcoord._core.messages import (
    Abandon,
    Busy,
    CatchUp,
    Confirm,
    Confirmed,
    Conflicted,
    Create,
    Created,
    Exhausted,
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
    Start,
    Stop,
    Stopped,
    Unwatch,
    Up,
    Watch,
    Watched,
    Won,
)
from zkcoord._core.names import EXCLUSIVE

RULE = EXCLUSIVE["curator"]
P1, P2, P3 = (f"_c_u{i}-lock-" for i in (1, 2, 3))


def contender(*directories, is_try=False):
    numbers = count(1)
    places = [(directory, RULE) for directory in directories or ("/a",)]
    return Contender(places, lambda: f"u{next(numbers)}", is_try=is_try)


def node(prefix=P1, number=5, session=7, directory="/a"):
    return Node(directory, f"{prefix}{number:010}", czxid=1000 + number, session=session)


def other(number):
    return f"_c_o-lock-{number:010}"


def creating(*directories, **kwargs):
    it = contender(*directories, **kwargs)
    it.handle(Start(7))
    return it


def queued(**kwargs):
    """Created, and the list behind it still to come."""
    it = creating(**kwargs)
    it.handle(Created(P1, (node(),)))
    return it


def waiting(ahead=(3,), **kwargs):
    it = queued(**kwargs)
    it.handle(Listed(P1, 0, [*map(other, ahead), node().name]))
    return it


def confirming():
    it = queued()
    it.handle(Listed(P1, 0, [node().name]))
    return it


def recovering():
    it = creating()
    it.handle(Up(7))
    return it


def in_parents():
    it = creating()
    it.handle(ParentMissing(P1))
    return it


def ended():
    it = creating()
    it.handle(Stop("enough"))
    return it


def states():
    return {
        "idle": contender(),
        "offline": started_offline(),
        "looking": looking(),
        "creating": creating(),
        "parents": in_parents(),
        "recovering": recovering(),
        "queued": queued(),
        "waiting": waiting(),
        "confirming": confirming(),
    }


def started_offline():
    it = contender()
    it.handle(Start(None))
    return it


def looking(*directories, is_try=True):
    it = contender(*directories, is_try=is_try)
    it.handle(Start(7, list_first=True))
    return it


# --- beginning


def test_start_pipelines_create_and_list():
    assert [Create(P1), List(P1, 0)] == contender().handle(Start(7))


def test_start_without_a_connection_waits_for_one():
    it = contender()

    assert [] == it.handle(Start(None))
    assert Phase.OFFLINE is it.phase
    assert [Create(P1), List(P1, 0)] == it.handle(Up(7))


def test_a_connection_before_start_begins_and_start_then_changes_nothing():
    it = contender()

    assert [Create(P1), List(P1, 0)] == it.handle(Up(7))
    assert [] == it.handle(Start(7))
    assert Phase.CREATING is it.phase


def test_a_try_that_looks_first_creates_nothing_when_somebody_is_there():
    it = contender(is_try=True)

    assert [List("", 0)] == it.handle(Start(7, list_first=True))
    assert [Finish(Busy())] == it.handle(Listed("", 0, [other(3)]))


@pytest.mark.parametrize("children", [None, [], ["config"]])
def test_a_try_that_finds_nobody_creates(children):
    assert [Create(P1), List(P1, 0)] == looking().handle(Listed("", 0, children))


def test_a_look_at_several_places_waits_for_all_of_them():
    it = looking("/a", "/b")

    assert [] == it.handle(Listed("", 0, []))
    assert [Create(P1)] == it.handle(Listed("", 1, []))


def test_a_connection_lost_while_looking_goes_on_with_the_create():
    it = looking()

    assert [Create(P1), List(P1, 0)] == it.handle(Up(7))
    assert [] == it.handle(Listed("", 0, [other(3)]))


# --- no directory


def test_missing_directory_is_made_and_a_new_name_tried():
    it = creating()

    assert [MakeParents()] == it.handle(ParentMissing(P1))
    assert [] == it.handle(Listed(P1, 0, None))
    assert [Create(P2), List(P2, 0)] == it.handle(ParentsMade())


def test_a_connection_lost_while_making_the_directory_makes_it_again():
    it = in_parents()

    assert [MakeParents()] == it.handle(Up(8))
    it.handle(ParentsMade())
    assert [] == it.handle(Created(P2, (node(P2, session=8),)))
    assert Phase.QUEUED is it.phase


def test_a_refused_create_leaves_nothing_to_abandon():
    assert [Finish(Stopped("x", None))] == in_parents().handle(Stop("x"))


def test_parent_missing_of_an_earlier_attempt_is_dropped():
    it = creating()

    assert [] == it.handle(ParentMissing(P2))
    it.handle(Created(P1, (node(),)))
    assert [] == it.handle(ParentMissing(P1))


def test_directories_made_that_nobody_asked_for_change_nothing():
    assert [] == creating().handle(ParentsMade())


# --- in the queue


def test_nobody_ahead_asks_for_confirmation_and_only_that_grants():
    it = queued()

    assert [Confirm(P1)] == it.handle(Listed(P1, 0, [node().name, other(9)]))
    assert (0, None) == (it.position, it.head)
    assert [Finish(Won((node(),), 0))] == it.handle(Confirmed(P1))
    assert Phase.ENDED is it.phase


def test_created_without_a_list_grants_nothing():
    it = creating()

    assert [] == it.handle(Created(P1, (node(),)))
    assert [] == it.handle(Confirmed(P1))
    assert Phase.QUEUED is it.phase


def test_a_list_before_the_create_is_answered_means_nothing():
    it = creating()

    assert [] == it.handle(Listed(P1, 0, [node().name]))
    assert Phase.CREATING is it.phase


def test_waiter_watches_the_nearest_ahead_and_tells_position_and_head():
    it = queued()

    assert [Watch(0, other(4))] == it.handle(Listed(P1, 0, [other(2), other(4), node().name]))
    assert (2, other(2), other(4)) == (it.position, it.head, it.waits_for)


def test_nothing_is_watched_at_first():
    assert None is creating().waits_for


def test_a_deleted_predecessor_makes_it_list_again_and_only_the_list_grants():
    it = waiting(ahead=(3,))

    assert [List(P1, 0)] == it.handle(Fired(0, other(3), is_deleted=True))
    assert None is it.waits_for
    assert [] == it.handle(Confirmed(P1))
    assert [Confirm(P1)] == it.handle(Listed(P1, 0, [node().name]))
    assert [Finish(Won((node(),), 1))] == it.handle(Confirmed(P1))


def test_a_predecessor_gone_before_the_watch_makes_it_list_again():
    assert [List(P1, 0)] == waiting().handle(Watched(0, other(3), exists=False))


def test_a_watch_in_place_changes_nothing():
    assert [] == waiting().handle(Watched(0, other(3), exists=True))


def test_changed_data_of_the_predecessor_only_renews_the_watch():
    it = waiting()

    assert [Watch(0, other(3))] == it.handle(Fired(0, other(3), is_deleted=False))
    assert other(3) == it.waits_for


@pytest.mark.parametrize(
    "event",
    [
        Fired(0, other(1), True),
        Fired(1, other(3), True),
        Fired(0, other(1), False),
        Watched(0, other(1), False),
        Watched(1, other(3), False),
    ],
)
def test_news_of_a_member_that_is_not_watched_changes_nothing(event):
    it = waiting()

    assert [] == it.handle(event)
    assert other(3) == it.waits_for


def test_a_watch_that_fires_twice_lists_once():
    it = waiting()
    it.handle(Fired(0, other(3), True))

    assert [] == it.handle(Fired(0, other(3), True))
    assert [] == it.handle(Watched(0, other(3), False))


def test_moving_up_watches_the_next_one_and_keeps_the_first_position():
    it = waiting(ahead=(2, 3))
    it.handle(Fired(0, other(3), True))

    assert [Watch(0, other(2))] == it.handle(Listed(P1, 0, [other(2), node().name]))
    assert (1, other(2)) == (it.position, it.head)
    it.handle(Fired(0, other(2), True))
    it.handle(Listed(P1, 0, [node().name]))
    assert [Finish(Won((node(),), 2))] == it.handle(Confirmed(P1))


def test_a_second_list_after_the_decision_sets_no_second_watch():
    it = waiting()

    assert [] == it.handle(Listed(P1, 0, [other(3), node().name]))
    assert [] == it.handle(Listed(P1, 0, [node().name]))
    assert other(3) == it.waits_for


def test_a_list_of_an_earlier_attempt_is_dropped():
    assert [] == queued().handle(Listed(P2, 0, [node().name]))


def test_a_try_that_is_not_first_gives_its_member_back():
    it = queued(is_try=True)

    assert [Abandon(0, P1, node()), Finish(Busy())] == it.handle(Listed(P1, 0, [other(3), node().name]))
    assert (1, other(3)) == (it.position, it.head)


def test_a_try_that_is_first_is_granted():
    assert [Confirm(P1)] == queued(is_try=True).handle(Listed(P1, 0, [node().name]))


def test_a_conflict_ends_it_and_names_the_children():
    assert [
        Abandon(0, P1, node()),
        Finish(Conflicted("/a", ("x__lock__0000000001",))),
    ] == queued().handle(Listed(P1, 0, ["x__lock__0000000001", node().name]))


@pytest.mark.parametrize("children", [None, [], [other(3)]])
def test_own_member_missing_from_the_list_queues_again(children):
    assert [Abandon(0, P1, node()), Create(P2), List(P2, 0)] == queued().handle(Listed(P1, 0, children))


def test_own_member_gone_while_waiting_takes_the_watch_back_and_queues_again():
    it = waiting()

    assert [Unwatch(0, other(3)), Abandon(0, P1, node()), Create(P2), List(P2, 0)] == it.handle(
        OwnGone(node().name)
    )
    assert [] == it.handle(Fired(0, other(3), True))


def test_own_member_gone_while_confirming_grants_nothing():
    it = confirming()

    assert [Abandon(0, P1, node()), Create(P2), List(P2, 0)] == it.handle(OwnGone(node().name))
    assert [] == it.handle(Confirmed(P1))


def test_anothers_member_gone_changes_nothing():
    assert [] == waiting().handle(OwnGone(other(3)))
    assert [] == creating().handle(OwnGone(node().name))


def test_a_confirmation_of_an_earlier_attempt_is_dropped():
    it = confirming()

    assert [] == it.handle(Confirmed(P2))
    assert Phase.CONFIRMING is it.phase


def test_an_answer_to_an_earlier_create_is_dropped():
    it = waiting()
    it.handle(OwnGone(node().name))

    assert [] == it.handle(Created(P1, (node(),)))
    assert Phase.CREATING is it.phase


def test_a_second_answer_to_a_create_changes_nothing():
    it = waiting()

    assert [] == it.handle(Created(P1, (node(number=6),)))
    assert [Unwatch(0, other(3)), Abandon(0, P1, node()), Finish(Stopped("x", 1))] == it.handle(Stop("x"))


# --- numbers used up


@pytest.mark.parametrize(
    ("name", "sequence"),
    [
        (f"{P1}2147483647", 2_147_483_647),
        (f"{P1}2146483648", 2_146_483_648),
        (f"{P1}-2147483648", -2_147_483_648),
        (f"{P1}12345", -1),
    ],
)
def test_a_number_near_the_end_is_given_back(name, sequence):
    member = Node("/a", name, session=7)

    assert [Abandon(0, P1, member), Finish(Exhausted("/a", sequence))] == creating().handle(
        Created(P1, (member,))
    )


def test_a_number_near_the_end_is_given_back_also_when_the_creates_answer_was_lost():
    it = recovering()
    member = Node("/a", f"{P1}2147483647", session=7)
    it.handle(Listed(P1, 0, [member.name]))

    assert [Abandon(0, P1, member), Finish(Exhausted("/a", 2_147_483_647))] == it.handle(
        Found(0, member.name, member)
    )


# --- reconnects


def test_a_create_whose_answer_was_lost_is_searched_for_behind_a_sync():
    it = creating()

    assert [CatchUp(), List(P1, 0)] == it.handle(Up(7))
    assert Phase.RECOVERING is it.phase
    assert [Find(0, node().name)] == it.handle(Listed(P1, 0, [other(3), node().name]))
    assert [List(P1, 0)] == it.handle(Found(0, node().name, node()))
    assert [Watch(0, other(3))] == it.handle(Listed(P1, 0, [other(3), node().name]))


def test_the_oldest_of_several_is_adopted_and_the_others_abandoned_by_name():
    it = recovering()
    names = [node(number=n).name for n in (9, 5, 7)]

    assert [
        Abandon(0, P1, Node("/a", node(number=7).name, session=7)),
        Abandon(0, P1, Node("/a", node(number=9).name, session=7)),
        Find(0, node(number=5).name),
    ] == it.handle(Listed(P1, 0, names))


@pytest.mark.parametrize("children", [None, [], [other(3)]])
def test_a_create_that_was_not_applied_is_tried_under_a_new_name(children):
    assert [Abandon(0, P1, None), Create(P2), List(P2, 0)] == recovering().handle(Listed(P1, 0, children))


@pytest.mark.parametrize("found", [None, node(session=6)])
def test_a_find_of_what_is_gone_or_another_sessions_is_not_adopted(found):
    it = recovering()
    it.handle(Listed(P1, 0, [node().name]))

    assert [Abandon(0, P1, None), Create(P2), List(P2, 0)] == it.handle(Found(0, node().name, found))


def test_a_find_of_an_earlier_attempt_is_dropped():
    it = recovering()

    assert [] == it.handle(Found(0, node(P2).name, node(P2)))
    assert Phase.RECOVERING is it.phase


def test_an_answer_that_comes_after_all_ends_the_search():
    it = recovering()

    assert [] == it.handle(Created(P1, (node(),)))
    assert [Confirm(P1)] == it.handle(Listed(P1, 0, [node().name]))


def test_another_loss_while_searching_searches_again():
    it = recovering()
    it.handle(Listed(P1, 0, [node().name]))

    assert [CatchUp(), List(P1, 0)] == it.handle(Up(7))


def test_a_waiter_looks_at_itself_and_its_predecessor_after_a_reconnect():
    it = waiting()

    assert [Find(0, node().name), Watch(0, other(3))] == it.handle(Up(7))
    assert [] == it.handle(Found(0, node().name, node()))
    assert [] == it.handle(Watched(0, other(3), True))
    assert other(3) == it.waits_for


@pytest.mark.parametrize("found", [None, node(session=6)])
def test_a_waiter_whose_member_is_gone_after_a_reconnect_queues_again(found):
    it = waiting()
    it.handle(Up(7))

    assert [Unwatch(0, other(3)), Abandon(0, P1, node()), Create(P2), List(P2, 0)] == it.handle(
        Found(0, node().name, found)
    )


def test_a_find_of_somebody_elses_member_changes_nothing():
    assert [] == waiting().handle(Found(0, other(3), None))


def test_a_list_that_was_lost_with_the_connection_is_asked_for_again():
    assert [List(P1, 0)] == queued().handle(Up(7))


def test_a_confirmation_that_was_lost_with_the_connection_needs_a_new_list():
    it = confirming()

    assert [List(P1, 0)] == it.handle(Up(7))
    assert [] == it.handle(Confirmed(P1))
    assert [Confirm(P1)] == it.handle(Listed(P1, 0, [node().name]))


@pytest.mark.parametrize(
    ("state", "left"),
    [
        ("creating", [Abandon(0, P1, None)]),
        ("recovering", [Abandon(0, P1, None)]),
        ("queued", [Abandon(0, P1, node())]),
        ("waiting", [Unwatch(0, other(3)), Abandon(0, P1, node())]),
        ("confirming", [Abandon(0, P1, node())]),
    ],
)
def test_another_session_begins_again_with_a_new_name(state, left):
    it = states()[state]

    assert [*left, Create(P2), List(P2, 0)] == it.handle(Up(8))
    it.handle(Created(P2, (node(P2, session=8),)))
    assert [Confirm(P2)] == it.handle(Listed(P2, 0, [node(P2).name]))


def test_a_member_created_in_another_session_than_ours_is_not_queued_with():
    stranger = node(session=6)

    assert [Abandon(0, P1, stranger), Create(P2), List(P2, 0)] == creating().handle(Created(P1, (stranger,)))


# --- ending


@pytest.mark.parametrize(
    ("state", "left", "position"),
    [
        ("idle", [], None),
        ("offline", [], None),
        ("looking", [], None),
        ("creating", [Abandon(0, P1, None)], None),
        ("parents", [], None),
        ("recovering", [Abandon(0, P1, None)], None),
        ("queued", [Abandon(0, P1, node())], None),
        ("waiting", [Unwatch(0, other(3)), Abandon(0, P1, node())], 1),
        ("confirming", [Abandon(0, P1, node())], 0),
    ],
)
def test_stop_leaves_nothing_in_any_state(state, left, position):
    it = states()[state]

    assert [*left, Finish(Stopped("why", position))] == it.handle(Stop("why"))
    assert Phase.ENDED is it.phase


@pytest.mark.parametrize(
    "event",
    [
        Start(7),
        Up(7),
        Up(8),
        Created(P1, (node(),)),
        ParentMissing(P1),
        ParentsMade(),
        Listed(P1, 0, [node().name]),
        Found(0, node().name, None),
        Watched(0, other(3), False),
        Fired(0, other(3), True),
        OwnGone(node().name),
        Confirmed(P1),
        Stop("again"),
    ],
)
def test_nothing_follows_the_end(event):
    assert [] == ended().handle(event)


# --- several places at once


BOTH = (node(directory="/a", number=5), node(directory="/b", number=8))


def both_queued():
    it = creating("/a", "/b")
    it.handle(Created(P1, BOTH))
    return it


def test_several_places_are_created_at_once_and_all_must_be_free():
    it = contender("/a", "/b")

    assert [Create(P1)] == it.handle(Start(7))
    assert [List(P1, 0), List(P1, 1)] == it.handle(Created(P1, BOTH))
    assert [] == it.handle(Listed(P1, 0, [BOTH[0].name]))
    assert [Confirm(P1)] == it.handle(Listed(P1, 1, [BOTH[1].name]))
    assert [Finish(Won(BOTH, 0))] == it.handle(Confirmed(P1))


def test_several_places_wait_for_one_blocker_after_the_other():
    it = both_queued()
    it.handle(Listed(P1, 0, [other(2), BOTH[0].name]))

    assert [Watch(0, other(2))] == it.handle(Listed(P1, 1, [other(3), BOTH[1].name]))
    assert [List(P1, 0), Find(1, BOTH[1].name)] == it.handle(Fired(0, other(2), True))
    it.handle(Found(1, BOTH[1].name, BOTH[1]))
    assert [Watch(1, other(3))] == it.handle(Listed(P1, 0, [BOTH[0].name]))
    assert [List(P1, 1), Find(0, BOTH[0].name)] == it.handle(Watched(1, other(3), False))
    assert [] == it.handle(Listed(P1, 1, [BOTH[1].name]))
    assert [Confirm(P1)] == it.handle(Found(0, BOTH[0].name, BOTH[0]))


def test_a_member_deleted_while_another_place_was_waited_for_is_no_grant():
    it = both_queued()
    it.handle(Listed(P1, 0, [BOTH[0].name]))
    it.handle(Listed(P1, 1, [other(3), BOTH[1].name]))
    it.handle(Fired(1, other(3), True))
    it.handle(Listed(P1, 1, [BOTH[1].name]))

    commands = it.handle(Found(0, BOTH[0].name, None))

    assert Create(P2) == commands[-1]
    assert {Abandon(1, P1, BOTH[1])} == {each for each in commands if getattr(each, "place", 0) == 1}


def test_a_conflict_in_the_second_place_names_it():
    it = both_queued()
    it.handle(Listed(P1, 0, [BOTH[0].name]))

    assert [
        Abandon(0, P1, BOTH[0]),
        Abandon(1, P1, BOTH[1]),
        Finish(Conflicted("/b", ("0",))),
    ] == it.handle(Listed(P1, 1, ["0", BOTH[1].name]))


def test_one_number_near_the_end_gives_back_the_members_of_all_places():
    near = Node("/b", f"{P1}2147483647", session=7)

    assert [
        Abandon(0, P1, BOTH[0]),
        Abandon(1, P1, near),
        Finish(Exhausted("/b", 2_147_483_647)),
    ] == creating("/a", "/b").handle(Created(P1, (BOTH[0], near)))


def test_recovering_several_places_waits_for_all_finds():
    it = creating("/a", "/b")

    assert [CatchUp(), List(P1, 0), List(P1, 1)] == it.handle(Up(7))
    assert [Find(0, BOTH[0].name)] == it.handle(Listed(P1, 0, [BOTH[0].name]))
    assert [Find(1, BOTH[1].name)] == it.handle(Listed(P1, 1, [BOTH[1].name]))
    assert [] == it.handle(Found(0, BOTH[0].name, BOTH[0]))
    assert [List(P1, 0), List(P1, 1)] == it.handle(Found(1, BOTH[1].name, BOTH[1]))


def test_a_reconnect_looks_at_the_members_of_all_places():
    it = both_queued()
    it.handle(Listed(P1, 0, [BOTH[0].name]))
    it.handle(Listed(P1, 1, [other(3), BOTH[1].name]))

    assert [Find(0, BOTH[0].name), Find(1, BOTH[1].name), Watch(1, other(3))] == it.handle(Up(7))


BARE = tuple(Node(each.directory, each.name) for each in BOTH)


def both_bare():
    """As a transaction answers: names only."""
    it = creating("/a", "/b")
    it.handle(Created(P1, BARE))
    return it


def test_members_of_a_transaction_are_looked_at_for_their_owner_and_number():
    it = creating("/a", "/b")

    assert [Find(0, BOTH[0].name), Find(1, BOTH[1].name), List(P1, 0), List(P1, 1)] == it.handle(
        Created(P1, BARE)
    )
    assert [] == it.handle(Found(0, BOTH[0].name, BOTH[0]))
    assert [] == it.handle(Listed(P1, 0, [BOTH[0].name]))
    assert [] == it.handle(Listed(P1, 1, [BOTH[1].name]))
    assert [Confirm(P1)] == it.handle(Found(1, BOTH[1].name, BOTH[1]))
    assert [] == it.handle(Found(1, BOTH[1].name, BOTH[1]))


@pytest.mark.parametrize("found", [None, node(session=6, directory="/b", number=8)])
def test_a_transactions_member_that_is_gone_or_another_sessions_begins_again(found):
    assert [
        Abandon(0, P1, BARE[0]),
        Abandon(1, P1, BARE[1]),
        Create(P2),
    ] == both_bare().handle(Found(1, BOTH[1].name, found))


def test_looks_at_members_that_were_lost_with_the_connection_are_sent_again():
    it = both_bare()
    it.handle(Listed(P1, 0, [BOTH[0].name]))
    it.handle(Listed(P1, 1, [BOTH[1].name]))
    it.handle(Found(0, BOTH[0].name, BOTH[0]))

    assert [Find(1, BOTH[1].name), List(P1, 0), List(P1, 1)] == it.handle(Up(7))
    it.handle(Found(1, BOTH[1].name, BOTH[1]))
    it.handle(Listed(P1, 0, [BOTH[0].name]))
    assert [Confirm(P1)] == it.handle(Listed(P1, 1, [BOTH[1].name]))


def test_the_missing_directories_of_several_places_are_made_and_all_created_again():
    it = creating("/a", "/b")

    assert [MakeParents()] == it.handle(ParentMissing(P1))
    assert [Create(P2)] == it.handle(ParentsMade())


def test_several_places_are_recovered_by_one_list_each_and_none_is_half_adopted():
    it = creating("/a", "/b")
    it.handle(Up(7))
    it.handle(Listed(P1, 0, [BOTH[0].name]))

    assert [Abandon(0, P1, None), Abandon(1, P1, None), Create(P2)] == it.handle(Listed(P1, 1, []))


def test_any_own_member_gone_begins_again_in_all_places():
    assert [
        Abandon(0, P1, BOTH[0]),
        Abandon(1, P1, BOTH[1]),
        Create(P2),
    ] == both_queued().handle(OwnGone(BOTH[1].name))


def test_kazoos_dialect_names_its_members_kazoos_way():
    it = Contender([("/a", EXCLUSIVE["kazoo"])], lambda: "0-1-2")

    assert [Create("012__lock__"), List("012__lock__", 0)] == it.handle(Start(7))


def test_a_node_knows_its_path():
    assert "/a/x" == Node("/a", "x").path
