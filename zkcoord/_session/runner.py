"""
Runs one contender against one session: carries out its commands, feeds back what came of them.

Events come from any thread (answers from kazoo's, watches from its callback thread, the caller's own cancel). They are
put in a mailbox, and whoever finds it unattended works it off; nobody ever waits for anybody, and the contender sees
one event at a time. The calling thread or task only sleeps until the outcome is there, under its own deadline.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Exists, GetChildren, GetData
from kazoo.security import ACL

from zkcoord._core.contender import Contender
from zkcoord._core.limits import decode_limit, encode_limit
from zkcoord._core.messages import (
    Abandon,
    CatchUp,
    Command,
    Confirm,
    Confirmed,
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
    Unwatch,
    Watch,
    Watched,
    Won,
)
from zkcoord._core.names import Rule, sibling_prefix
from zkcoord._session.creates import create_all, create_one
from zkcoord._session.hold import Hold
from zkcoord._session.identity import Owner, describe, encode, is_same_owner, with_held_since
from zkcoord._session.limit import record_limit
from zkcoord._session.log import get_logger
from zkcoord._session.requests import Call, LinkLostError
from zkcoord._session.session import Session, is_held_here
from zkcoord._session.watches import Subscription
from zkcoord._session.wire import catch_up, full_path

log = get_logger("acquire")

#: A hold that waited for longer than this gets its member stamped with the moment of the grant, for operators.
STAMP_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Why a contender was stopped: "cancelled" by its user or "closed" with its coordinator."""

    reason: str


@dataclass(frozen=True, slots=True)
class HeldElsewhere:
    """Why a contender was stopped: this very owner holds the path through another client."""

    member: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a contender was stopped: the server refused a request."""

    path: str
    error: Exception


class Runner:
    """
    One acquire under way. Thread-safe; never blocks.

    Args:
        session: where.
        places: directory and rule of each queue.
        owner: who acquires.
        label: for people.
        acl: for members and for directories made here.
        contender: not yet started.
        max_hold_s: seconds after which the hold ends whatever happens; None = never.
        on_outcome: called once, on any thread. With a hold, guarded already, exactly when the outcome is `Won`.
    """

    def __init__(
        self,
        session: Session,
        places: Sequence[tuple[str, Rule]],
        owner: Owner,
        label: str | None,
        acl: Sequence[ACL],
        contender: Contender,
        on_outcome: Callable[[Outcome, Hold | None], None],
        *,
        max_hold_s: float | None = None,
    ) -> None:
        self._session = session
        self._places = places
        self._owner = owner
        self._label = label
        self._acl = list(acl)
        self._contender = contender
        self._on_outcome = on_outcome
        self._max_hold_s = max_hold_s
        self._mailbox: deque[Event] = deque()
        self._busy = threading.Lock()
        self._create: Call | None = None
        self._attempts: set[str] = set()
        self._created: tuple[str, ...] = ()
        self._is_discarded = False
        self._subscriptions: dict[tuple[int, str], Subscription] = {}
        self._blocker: str | None = None
        self._data = b""
        self.queued_at: float | None = None

    @property
    def blocker(self) -> str | None:
        """The member that is waited for, described for people."""
        head = self._contender.head
        if self._blocker is None or head is None or self._blocker.startswith(head):
            return self._blocker or head
        return f"{head}, and right ahead of us {self._blocker}"

    @property
    def position(self) -> int | None:
        """How many were ahead at the last look; None before it."""
        return self._contender.position

    def start(self, list_first: bool = False) -> None:
        """Begin; `list_first` looks whether anybody is there before it creates anything."""
        self.post(Start(self._session.join(self), list_first))

    def post(self, event: Event) -> None:
        """Take an event in, and work the mailbox off unless another thread is at it."""
        self._mailbox.append(event)
        while self._mailbox and self._busy.acquire(blocking=False):
            try:
                while self._mailbox:
                    for command in self._contender.handle(self._mailbox.popleft()):
                        self._carry_out(command)
            finally:
                self._busy.release()

    def discard(self) -> None:
        """
        Make sure that nothing stays behind, whatever state an interrupt has left this object in.

        For a caller that stops waiting for a reason of its own. May be called again; the outcome is not told any more.
        """
        self._is_discarded = True
        self._on_outcome = self._give_back
        self.post(Stop(None))
        # Normally that was all. An interrupt inside `post` may have lost commands, so what is still registered is
        # searched for by name.
        self._session.forget(self)
        for prefix in tuple(self._attempts):
            first = self._places[0][1]
            for directory, rule in self._places:
                self._session.janitor.search(directory, sibling_prefix(prefix, first, rule))
        for path in self._created:
            self._session.guard.untrack(path)
        for place, name in tuple(self._subscriptions):
            self._unwatch(place, name)

    def _give_back(self, outcome: Outcome, hold: Hold | None) -> None:
        if hold is not None:
            self._session.release(hold)

    # --- commands

    def _carry_out(self, command: Command) -> None:
        match command:
            case Create(prefix, number):
                self._send_create(prefix, number)
            case MakeParents():
                self._make_parents(0)
            case CatchUp():
                request = catch_up(self._session.client)
                self._session.requests.submit(request, lambda value, error: None, is_confirmed=True)
            case List(prefix, place):
                self._send_list(prefix, place)
            case Find(place, name):
                self._send_find(place, name)
            case Watch(place, name):
                self._send_watch(place, name)
            case Unwatch(place, name):
                self._unwatch(place, name)
            case RecordLimit(prefix, place, limit):
                self._record_limit(prefix, place, limit)
            case Confirm(prefix):
                self._session.guard.confirm(lambda: self.post(Confirmed(prefix)))
            case Abandon(place, prefix, node):
                self._abandon(place, prefix, node)
            case Finish(outcome):
                self._finish(outcome)
            case _:
                assert_never(command)

    def _unwatch(self, place: int, name: str) -> None:
        subscription = self._subscriptions.pop((place, name), None)
        if subscription:
            self._session.watches.release(subscription)

    def _send_create(self, prefix: str, number: str) -> None:
        self._attempts.add(prefix)  # before it is sent, so that nothing can fall in between
        self._data = encode(self._owner, self._label)
        directory, _ = self._places[0]

        def answered(nodes: tuple[Node, ...], error: Exception | None) -> None:
            if nodes:
                for node in nodes:
                    self._track(node)
                self.post(Created(prefix, nodes))
            elif isinstance(error, NoNodeError):
                self._attempts.discard(prefix)
                self.post(ParentMissing(prefix))
            else:
                self._refused(directory, error)

        session, data, acl = self._session, self._data, self._acl
        if len(self._places) == 1:
            self._create = create_one(session, directory, prefix, number, data, acl, answered)
        else:
            self._create = create_all(session, self._places, prefix, data, acl, answered)

    def _track(self, node: Node) -> None:
        self._created = (*self._created, node.path)
        self._session.guard.track(node.path, lambda: self.post(OwnGone(node.name)))
        if self._is_discarded:  # its answer came too late for `discard`, and it is on its way out
            self._session.guard.untrack(node.path)

    def _make_parents(self, place: int) -> None:
        if place == len(self._places):
            self.post(ParentsMade())
            return
        directory, rule = self._places[place]

        def made(error: Exception | None) -> None:
            if error is None:
                self._make_parents(place + 1)
            else:
                self._refused(directory, error)

        data = encode_limit(rule.limit) if rule.limit is not None else None
        self._session.parents.make(directory, self._acl, made, data=data)

    def _send_list(self, prefix: str, place: int) -> None:
        directory, rule = self._places[place]
        path = full_path(self._session.client, directory)
        listed: list[list[str]] = []

        def answered(children: list[str] | None, error: Exception | None) -> None:
            if isinstance(error, NoNodeError):
                self.post(Listed(prefix, place, None))
            elif children is None:
                self._refused(directory, error)
            elif rule.weight:
                listed.append(children)
            else:
                self.post(Listed(prefix, place, children))

        def read(reply: tuple[bytes, Any] | None, error: Exception | None) -> None:
            if not listed:
                return
            if reply is not None:
                self.post(Listed(prefix, place, listed[0], decode_limit(reply[0])))
            elif isinstance(error, NoNodeError):
                self.post(Listed(prefix, place, None))
            else:
                self._refused(directory, error)

        self._session.requests.submit(GetChildren(path, None), answered)
        if rule.weight:
            # Behind the list: those ahead only ever become fewer, so whoever fits by that list fits into this limit
            # still. The other way round, a shrink between the two would let somebody in by the old one.
            self._session.requests.submit(GetData(path, None), read)

    def _record_limit(self, prefix: str, place: int, limit: int) -> None:
        directory, _ = self._places[place]
        client = self._session.client

        def recorded(is_replaced: bool, error: Exception | None) -> None:
            if error is not None:
                self._refused(directory, error)
            elif is_replaced:
                self.post(Listed(prefix, place, ()))  # our member went along: it begins again
            else:
                self._send_list(prefix, place)

        head = f"{directory}/{prefix}"
        mine = [full_path(client, path) for path in self._created if path.startswith(head)]
        record_limit(self._session.requests, full_path(client, directory), mine, limit, recorded)

    def _send_find(self, place: int, name: str) -> None:
        directory, _ = self._places[place]

        def answered(stat: Any, error: Exception | None) -> None:
            if error is not None:
                self._refused(f"{directory}/{name}", error)
                return
            node = Node(directory, name, stat.czxid, stat.ephemeralOwner) if stat else None
            if node and node.path not in self._created:
                self._track(node)
            self.post(Found(place, name, node))

        path = full_path(self._session.client, f"{directory}/{name}")
        self._session.requests.submit(Exists(path, None), answered)

    def _send_watch(self, place: int, name: str) -> None:
        directory, rule = self._places[place]
        if self.queued_at is None:
            self.queued_at = self._session.guard.now()
            log.debug("acquire.queued", path=directory, position=self._contender.position)

        def answered(reply: tuple[bytes, Any] | None, error: Exception | None) -> None:
            if error is not None:
                self._refused(f"{directory}/{name}", error)
                return
            if reply is not None and name:
                self._look_at(name, *reply)
            limit = decode_limit(reply[0]) if reply is not None and rule.weight and not name else None
            self.post(Watched(place, name, reply is not None, limit))

        def fired(is_deleted: bool) -> None:
            self.post(Fired(place, name, is_deleted))

        path = f"{directory}/{name}" if name else directory
        self._subscriptions[place, name] = self._session.watches.get(path, answered, fired)

    def _look_at(self, name: str, data: bytes, stat: Any) -> None:
        """
        Remember who is ahead; and see whether that is ourselves, in which case the wait could never end.

        What is left of a session of ours that has ended is not: it goes with that session.
        """
        self._blocker = describe(name, data)
        is_other = stat.ephemeralOwner != self._session.guard.session
        if (
            is_other
            and name == self._contender.head
            and is_same_owner(data, self._owner)
            and is_held_here(name)
        ):
            self.post(Stop(HeldElsewhere(self._blocker)))

    def _abandon(self, place: int, prefix: str, node: Node | None) -> None:
        directory, _ = self._places[place]
        if node is not None:
            self._session.guard.untrack(node.path)
            self._session.janitor.delete(node)
        elif self._create is None or not self._session.requests.cancel(self._create):
            self._session.janitor.search(directory, prefix)

    def _refused(self, path: str, error: Exception | None) -> None:
        if error is not None and not isinstance(error, LinkLostError):
            self.post(Stop(Refused(path, error)))

    def _finish(self, outcome: Outcome) -> None:
        hold = None
        if isinstance(outcome, Won):
            waited_s = 0.0 if self.queued_at is None else self._session.guard.now() - self.queued_at
            _, rule = self._places[0]
            # A write fires the watch of whoever waits behind: of one at most only where nobody shares.
            is_stamped = waited_s > STAMP_AFTER_S and len(rule.peers) == 1 and not rule.weight
            stamp = with_held_since(self._data) if is_stamped else None
            guard = self._session.guard
            hold = Hold(
                self._places[0][0],
                outcome.nodes,
                guard.lease,
                guard,
                token=outcome.token,
                stamp=stamp,
                max_hold_s=self._max_hold_s,
            )
            self._session.guard.add(hold)
            log.debug(
                "acquire.granted", path=hold.path, wait_s=round(waited_s, 6), position=outcome.first_position
            )
        self._session.forget(self)
        self._on_outcome(outcome, hold)
        # Only now: until the hold is in somebody's hands, or the janitor knows of every place, an interrupt leaves it
        # to the search for the attempt's name.
        self._attempts.clear()
