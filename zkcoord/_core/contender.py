"""
The state machine of one acquire, from the first request to the grant or to giving up.

A contender takes part in the queues of one or more places (a lock's directory and its rule) at once; a plain lock has
one. It is told events and answers with commands; it does no I/O and keeps no time. Whoever runs it must carry out the
commands in order and report what came of them.

    IDLE ──Start──► OFFLINE (no session yet) ──Up──► CREATING
    IDLE ──Start──► LOOKING (a try that lists first) ──► CREATING, or ENDED as busy
    CREATING ──Created, Listed──► QUEUED ⇄ (watch fired: list again) ──nobody ahead──► CONFIRMING ──► ENDED as granted
    CREATING ──CreateRefused (no parent)──► PARENTS ──ParentsMade──► CREATING
    CREATING ──Up, same session: was it applied?──► RECOVERING ──► QUEUED or CREATING
    any ──Up with another session, or own member gone──► CREATING with a new name
    any ──Stop──► ENDED; what may be on the server is handed to the janitor

A *companion* is a member that the same owner holds on the same path already. A writer that takes the read lock as well
puts a read member with its own number beside its write member (Curator ≥ 5.5 does the same): it is granted because, and
only if, the write member still stands when the read member does. A reader that tries to upgrade queues a write member
which overlooks its own read member. Without the companion neither has a right to its place, and ends.

Three rules keep it small:

* A lost connection is no event. Every request that was under way is void, and the next ``Up`` says from where to go on.
* Watches are hints. Whatever fires, the list is read again, and only a list grants.
* Every attempt has a name of its own, so an answer that belongs to an earlier one is recognised and dropped, and an
  abandoned create can be found and removed by name even if its answer never came.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import assert_never

from zkcoord._core.messages import (
    Abandon,
    BadLimit,
    Busy,
    CatchUp,
    Command,
    CompanionGone,
    Confirm,
    Confirmed,
    Conflicted,
    Create,
    Created,
    Event,
    Find,
    Finish,
    Fired,
    Found,
    List,
    Listed,
    MakeParents,
    Node,
    Outcome,
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
from zkcoord._core.names import Rule
from zkcoord._core.place import Place
from zkcoord._core.queue import Conflict, Gone, Granted, Wait, is_busy


class Phase(Enum):
    """Where the contender is; see the module."""

    IDLE = auto()
    OFFLINE = auto()
    LOOKING = auto()
    CREATING = auto()
    PARENTS = auto()
    RECOVERING = auto()
    QUEUED = auto()
    CONFIRMING = auto()
    ENDED = auto()


class Contender:
    """
    One acquire. Feed it with `handle`; carry out what it returns, in order.

    Args:
        places: directory and rule of each queue; at least one, all of one dialect when there are several.
        new_uuid: gives a new random uuid, canonical form, for each attempt.
        is_try: give up as soon as a list shows somebody ahead.
        companion: the owner's own member, of the other kind, beside which ours is to stand.
        is_beside: take the companion's number, and be granted with it.
    """

    def __init__(
        self,
        places: Sequence[tuple[str, Rule]],
        new_uuid: Callable[[], str],
        *,
        is_try: bool = False,
        companion: Node | None = None,
        is_beside: bool = False,
    ) -> None:
        self.phase = Phase.IDLE
        self.position: int | None = None
        self.head: str | None = None
        self._places = [Place(directory, rule) for directory, rule in places]
        self._new_uuid = new_uuid
        self._is_try = is_try
        self._companion = companion
        self._number = companion.name[-10:] if companion and is_beside else ""
        self._session = 0
        self._prefix = ""
        self._watching: dict[tuple[int, str], None] = {}
        self._first_position: int | None = None

    @property
    def waits_for(self) -> str | None:
        """Name of the nearest member that is watched now, for messages."""
        return next((name for _, name in self._watching if name), None)

    def handle(self, event: Event) -> list[Command]:
        """
        Take one event in.

        Returns:
            What to do now, in order. Empty when the event changes nothing (late, or of an earlier attempt).
        """
        if self.phase is Phase.ENDED:
            return []
        match event:
            case Start():
                return self._start(event)
            case Up():
                return self._up(event.session)
            case Created():
                return self._created(event)
            case ParentMissing():
                return self._parent_missing(event)
            case ParentsMade():
                return self._create() if self.phase is Phase.PARENTS else []
            case Listed():
                return self._listed(event)
            case Found():
                return self._found(event)
            case Watched():
                return self._watched(event)
            case Fired():
                return self._fired(event)
            case OwnGone():
                return self._restart() if self._is_own(event.name) else []
            case Confirmed():
                return self._confirmed(event)
            case Stop():
                return self._end(Stopped(event.why, self.position))
        assert_never(event)

    # --- beginning and beginning again

    def _start(self, event: Start) -> list[Command]:
        if self.phase is not Phase.IDLE:
            return []  # a connection came first, and its Up has begun already
        if event.session is None:
            self.phase = Phase.OFFLINE
            return []
        self._session = event.session
        if self._companion is not None and self._companion.session != event.session:
            return self._end(CompanionGone())
        if not event.list_first:
            return self._create()
        self.phase = Phase.LOOKING
        return self._list_all()

    def _create(self) -> list[Command]:
        """Draw a new name and ask for it. The list goes out behind the create, so that one round trip decides."""
        self.phase = Phase.CREATING
        uuid = self._new_uuid()
        for place in self._places:
            place.node = None
            place.prefix = place.rule.prefix(uuid)
        self._prefix = self._places[0].prefix
        create = Create(self._prefix, self._number)
        # The names that a transaction created are known only from its answer; lists go out behind that.
        return [create, *self._list_all()] if len(self._places) == 1 else [create]

    def _restart(self) -> list[Command]:
        """Leave what we have to the janitor and queue again, at the end."""
        return [*self._give_up(), *self._create()]

    def _up(self, session: int) -> list[Command]:
        assert self.phase is not Phase.ENDED  # nothing follows the end
        is_same = session == self._session
        self._session = session
        if self._companion is not None and self._companion.session != session:
            return self._end(CompanionGone())
        match self.phase:
            case Phase.OFFLINE | Phase.IDLE | Phase.LOOKING:
                return self._create()
            case Phase.PARENTS:
                return [MakeParents()]
            case Phase.CREATING | Phase.RECOVERING | Phase.QUEUED | Phase.CONFIRMING:
                if not is_same:
                    return self._restart()
                if self.phase in (Phase.CREATING, Phase.RECOVERING):
                    self.phase = Phase.RECOVERING
                    return [CatchUp(), *self._list_all()]
                return self._check_place()
        assert_never(self.phase)

    def _check_place(self) -> list[Command]:
        """After a reconnect, which took all watches along: are our members still there, and those we wait for?"""
        finds = [Find(index, place.me) for index, place in enumerate(self._places)]
        if self._watching and all(place.decision and place.is_known for place in self._places):
            return [*finds, *(Watch(place, name) for place, name in self._watching)]
        self.phase = Phase.QUEUED
        unknown = [find for find in finds if not self._places[find.place].is_known]
        return [*self._watch(-1, ()), *unknown, *self._list_all()]

    # --- answers

    def _created(self, event: Created) -> list[Command]:
        if event.prefix != self._prefix or self.phase not in (Phase.CREATING, Phase.RECOVERING):
            return []
        for place, node in zip(self._places, event.nodes, strict=True):
            place.node = node
        joined = self._join()
        if joined or len(self._places) == 1:
            return joined  # the list sent behind the create is on its way
        finds = [Find(index, place.me) for index, place in enumerate(self._places) if not place.is_known]
        return [*finds, *self._list_all()]

    def _join(self) -> list[Command]:
        """All our members are known: queue with them, unless they must not stay."""
        for place in self._places:
            exhausted = place.exhaustion()
            if exhausted:
                return self._end(exhausted)
            if place.node and place.is_known and place.node.session != self._session:
                return self._restart()
        self.phase = Phase.QUEUED
        return []

    def _parent_missing(self, event: ParentMissing) -> list[Command]:
        if event.prefix != self._prefix or self.phase is not Phase.CREATING:
            return []
        self.phase = Phase.PARENTS
        if self._companion is not None:
            return self._end(CompanionGone())
        for place in self._places:
            if place.rule.weight and place.rule.limit is None:
                return self._end(BadLimit(place.directory, None))  # nothing to write into the directory
        return [MakeParents()]

    def _listed(self, event: Listed) -> list[Command]:
        if event.prefix != self._prefix:
            return []
        place = self._places[event.place]
        children = event.children or ()
        if self.phase is Phase.LOOKING:
            if is_busy(children, place.rule):
                return self._end(Busy())
            place.decision = Granted()
            return self._create() if all(other.decision for other in self._places) else []
        if self.phase is Phase.RECOVERING:
            return self._recovered(event.place, children)
        if self.phase is not Phase.QUEUED or place.decision is not None:
            return []  # the create was refused, or an earlier list has decided and only what it left may go on
        if self._companion is not None and self._companion.name not in children:
            return self._end(CompanionGone())
        if place.rule.weight:
            if place.me not in children:
                return (
                    self._restart()
                )  # perhaps the directory went along, and the record of the limit with it
            place.limit = event.limit
            if event.limit is None and place.rule.limit is not None:
                return [RecordLimit(self._prefix, event.place, place.rule.limit)]
            wrong = place.bad_limit(event.limit)
            if wrong:
                return self._end(wrong)
        place.decision = place.decide(children, self._companion, bool(self._number))
        return self._advance()

    def _recovered(self, index: int, children: Sequence[str]) -> list[Command]:
        """Did the create whose answer was lost take effect? The server had caught up, so the list is conclusive."""
        place = self._places[index]
        found = sorted(
            (name for name in children if name.startswith(place.prefix)), key=lambda name: name[-10:]
        )
        if not found:
            return self._restart()
        oldest, *others = found
        commands: list[Command] = [
            Abandon(index, place.prefix, Node(place.directory, name, session=self._session))
            for name in others
        ]
        return [*commands, Find(index, oldest)]

    def _found(self, event: Found) -> list[Command]:
        place = self._places[event.place]
        if self.phase is Phase.RECOVERING:
            if not event.name.startswith(place.prefix):
                return []
            if event.node is None or event.node.session != self._session:
                return self._restart()
            place.node = event.node
            if any(other.node is None for other in self._places):
                return []
            return self._join() or self._list_all()
        if not self._is_own(event.name):
            return []
        if event.node is None or event.node.session != self._session:
            return self._restart()
        if place.is_known:
            return []
        place.node = event.node  # a transaction's member, whose stat was not in its answer; or seen again
        return self._advance()

    def _watched(self, event: Watched) -> list[Command]:
        if not event.exists:
            return self._look_again(event.place, event.name)
        place = self._places[event.place]
        is_other = not event.name and event.limit != place.limit and place.decision is not None
        if (event.place, event.name) not in self._watching or not is_other:
            return []
        place.decision = None  # the limit has changed between the list and the watch, which stands now
        return [List(self._prefix, event.place)]

    def _fired(self, event: Fired) -> list[Command]:
        if (event.place, event.name) not in self._watching:
            return []
        if not event.is_deleted and event.name:
            return [Watch(event.place, event.name)]  # its data changed, its place did not
        return self._look_again(event.place, event.name)

    def _look_again(self, index: int, name: str) -> list[Command]:
        if (index, name) not in self._watching:
            return []
        del self._watching[index, name]
        if self._places[index].decision is None:
            return []  # a list is under way; it was sent after what this tells, so it will show it
        self._places[index].decision = None
        return [List(self._prefix, index), *self._find_others(index)]

    def _find_others(self, index: int) -> list[Command]:
        """Look at our members in the other places, too: they were last seen when those were listed, maybe long ago."""
        finds: list[Command] = []
        for other, place in enumerate(self._places):
            if other != index and place.node is not None and place.is_known:
                place.node = replace(place.node, czxid=0)
                finds.append(Find(other, place.me))
        return finds

    def _confirmed(self, event: Confirmed) -> list[Command]:
        if event.prefix != self._prefix or self.phase is not Phase.CONFIRMING:
            return []
        self.phase = Phase.ENDED
        nodes = tuple(place.node for place in self._places if place.node)
        token = self._companion.czxid if self._companion and self._number else None
        return [Finish(Won(nodes, self._first_position or 0, token))]

    # --- deciding

    def _advance(self) -> list[Command]:
        """Act on the decisions, once all of them are in."""
        decisions = [place.decision for place in self._places]
        if None in decisions or not all(place.is_known for place in self._places):
            return []
        for index, decision in enumerate(decisions):
            match decision:
                case Conflict(children):
                    return self._end(Conflicted(self._places[index].directory, children))
                case Gone():
                    return self._restart()
                case Wait(name, head, position, others):
                    self._note(position, head)
                    if self._is_try:
                        return self._end(Busy())
                    return self._watch(
                        index, (name, *others, *([""] if self._places[index].rule.weight else []))
                    )
                case _:
                    assert decision == Granted()
        self._note(0, None)
        self.phase = Phase.CONFIRMING
        return [*self._watch(-1, ()), Confirm(self._prefix)]

    def _watch(self, index: int, names: tuple[str, ...]) -> list[Command]:
        """Watch exactly these members of one place: leave those watched already, take back the others."""
        wanted = dict.fromkeys((index, name) for name in names)
        commands: list[Command] = [Unwatch(*old) for old in self._watching if old not in wanted]
        commands += [Watch(*new) for new in wanted if new not in self._watching]
        self._watching = wanted
        return commands

    def _note(self, position: int, head: str | None) -> None:
        self.position = position
        self.head = head
        if self._first_position is None:
            self._first_position = position

    def _list_all(self) -> list[Command]:
        for place in self._places:
            place.decision = None
        return [List(self._prefix, index) for index in range(len(self._places))]

    def _is_own(self, name: str) -> bool:
        return self.phase in (Phase.QUEUED, Phase.CONFIRMING) and any(
            place.node is not None and place.node.name == name for place in self._places
        )

    # --- ending

    def _give_up(self) -> list[Command]:
        """Leave nothing: the watch is taken back, and whatever may be on the server goes to the janitor."""
        commands = self._watch(-1, ())
        if self._prefix and self.phase is not Phase.PARENTS:
            commands += [Abandon(index, place.prefix, place.node) for index, place in enumerate(self._places)]
        return commands

    def _end(self, outcome: Outcome) -> list[Command]:
        commands = self._give_up()
        self.phase = Phase.ENDED
        return [*commands, Finish(outcome)]
