"""
Who waits for whom, over many locks: the wait-for graph, what in it can never move, and the cycles. No I/O.

Those who wait are *actors*: a zkcoord thread, task or named owner; of other libraries' members only the session is
known, which may be shared by many threads, so that what rests on one is possible and not certain.

A waiter needs all blockers ahead of it to go, of a semaphore only as many as make room. So "stuck" is what remains when
everybody is let go who can: first those who wait for nothing, then whoever waits only for such, and so on. A cycle
among the stuck is a deadlock; the others are behind one.

Of those ahead a waiter keeps the holders and the nearest ones: whoever stands between waits for the same, and so is
stuck with them.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zkcoord._core.names import parse
from zkcoord._members import FAMILIES, Member

#: What tells an actor from all others.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Actor:
    """
    Somebody who holds and waits.

    Attributes:
        key: the same for all members of one actor.
        is_exact: it is one thread, task or owner, and not a whole session.
    """

    key: Key
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """
    One member that waits.

    Attributes:
        member: it.
        actor: whose it is.
        ahead: the members that it waits for, holders first, with their actors.
        room: permits that those ahead may keep and yet let it in; None = all of them must go.
    """

    member: Member
    actor: Actor
    ahead: tuple[tuple[Member, Actor], ...]
    room: int | None

    def blockers(self, stuck: frozenset[Key] | set[Key]) -> list[tuple[Member, Actor]]:
        """Return the stuck members ahead that keep it from moving; empty when it can move once the others go."""
        found = [
            (member, actor)
            for member, actor in self.ahead
            if actor.key in stuck and not (actor.key == self.actor.key and not actor.is_exact)
        ]
        if self.room is not None and sum(_weight(member) for member, _ in found) <= self.room:
            return []
        return found


@dataclass(frozen=True, slots=True)
class Step:
    """One link of a chain: a waiting member, and one that it waits for."""

    waiter: Member
    blocker: Member
    is_exact: bool


class WaitGraph:
    """
    The waits of many queues.

    Args:
        queues: (members of one lock, oldest first; the limit of a semaphore or None).
    """

    def __init__(self, queues: Iterable[tuple[tuple[Member, ...], int | None]]) -> None:
        queues = list(queues)
        self._actors = _name_actors(member for members, _ in queues for member in members)
        self.waits: list[Wait] = [wait for members, limit in queues for wait in self._waits(members, limit)]
        self._by_actor: dict[Key, list[Wait]] = {}
        for wait in self.waits:
            self._by_actor.setdefault(wait.actor.key, []).append(wait)

    def actor(self, member: Member) -> Actor:
        """Return whose a member is."""
        return self._actors.get((member.path, member.name)) or _actor(member)

    def waits_of(self, actor: Actor) -> list[Wait]:
        """Return what an actor waits for; empty when it moves."""
        return self._by_actor.get(actor.key, [])

    def stuck(self) -> set[Key]:
        """Return the actors that can never move by what is known: in a deadlock, or behind one."""
        behind: dict[Key, set[Key]] = {}
        for wait in self.waits:
            for _, actor in wait.ahead:
                behind.setdefault(actor.key, set()).add(wait.actor.key)
        stuck = set(self._by_actor)
        pending = deque(self._by_actor)
        while pending:
            key = pending.popleft()
            if key in stuck and not any(wait.blockers(stuck) for wait in self._by_actor[key]):
                stuck.remove(key)
                pending.extend(behind.get(key, ()))
        return stuck

    def cycles(self) -> list[tuple[Step, ...]]:
        """
        Return the deadlocks, each once: the shortest cycles that together touch every actor that is in one.

        A member that only stands in line between two others is left out where the cycle closes without it.
        """
        stuck = self.stuck()
        found: list[tuple[Step, ...]] = []
        covered: set[Key] = set()
        for only_holders in (True, False):
            edges = self._edges(stuck, only_holders)
            for component in _components(edges):
                if not only_holders and component & covered:
                    continue
                for start in sorted(component):
                    if start not in covered and (cycle := _shortest(edges, start, component)):
                        covered.update(self.actor(step.waiter).key for step in cycle)
                        found.append(cycle)
        return found

    def _edges(self, stuck: set[Key], only_holders: bool) -> dict[Key, dict[Key, Step]]:
        edges: dict[Key, dict[Key, Step]] = {key: {} for key in sorted(stuck)}
        for key, targets in edges.items():
            for wait in self._by_actor[key]:
                for member, actor in wait.blockers(stuck):
                    if member.holds or not only_holders:
                        step = Step(wait.member, member, wait.actor.is_exact and actor.is_exact)
                        targets.setdefault(actor.key, step)
        return edges

    def _waits(self, members: tuple[Member, ...], limit: int | None) -> Iterator[Wait]:
        named = [(member, self.actor(member)) for member in members]
        families = [_family(member) for member in members]
        holders: list[int] = []
        for index, (member, actor) in enumerate(named):
            if member.holds:
                holders.append(index)
            elif member.kind == "permit":
                room = None if limit is None else limit - _weight(member)
                yield Wait(member, actor, tuple(named[:index]), room)
            else:
                ahead = _ahead(members, families, holders, index)
                yield Wait(member, actor, tuple(named[place] for place in ahead), None)


def _ahead(
    members: tuple[Member, ...], families: list[str | None], holders: list[int], index: int
) -> list[int]:
    """Pick the holders ahead and the nearest blockers: back to one that itself waits for everybody ahead."""
    waiter = members[index]

    def blocks(place: int) -> bool:
        """Whether the waiter needs that member ahead of it to go."""
        is_shared = waiter.kind == "read" and members[place].kind == "read"
        return families[place] == families[index] and not is_shared

    near = []
    for place in range(index - 1, -1, -1):
        if blocks(place):
            if not members[place].holds:
                near.append(place)
            if members[place].kind != "read":
                break
    return [*filter(blocks, holders), *near]


def _family(member: Member) -> str | None:
    parsed = parse(member.name)
    return FAMILIES[parsed.marker] if parsed else None


def _weight(member: Member) -> int:
    parsed = parse(member.name)
    return parsed.weight if parsed else 1


def _name_actors(members: Iterable[Member]) -> dict[tuple[str, str], Actor]:
    """Find everybody's actor. One that says nothing is the session's only other one, if there is just one."""
    actors: dict[tuple[str, str], Actor] = {}
    of_session: dict[int, set[Key]] = {}
    silent: list[Member] = []
    for member in members:
        actor = actors[member.path, member.name] = _actor(member)
        if actor.is_exact:
            of_session.setdefault(member.session, set()).add(actor.key)
        else:
            silent.append(member)
    for member in silent:
        known = of_session.get(member.session, set())
        if len(known) == 1:
            actors[member.path, member.name] = Actor(next(iter(known)), False)
    return actors


def _actor(member: Member) -> Actor:
    try:
        fields = json.loads(member.raw)
        thread = fields["thread"]["key"]
        if fields["v"] == 1 and isinstance(thread, str):
            # A semaphore's members are counted, since it does not re-enter: the thread is what stands before that.
            thread = thread.rpartition("/")[0] if member.kind == "permit" else thread
            place = (str(fields[name])[:200] for name in ("host", "boot", "pid"))
            return Actor(("thread", *place, thread), True)
    except (
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ):  # not ours, or revoked: its data are overwritten
        pass
    return Actor(("session", str(member.session)), False)


def _components(edges: Mapping[Key, Mapping[Key, Step]]) -> list[set[Key]]:
    """Return the strongly connected components that have a cycle (Kosaraju), in the order of their first keys."""
    order: list[Key] = []
    seen: set[Key] = set()
    for root in edges:
        stack: list[tuple[Key, Iterator[Key]]] = [] if root in seen else [(root, iter(edges[root]))]
        seen.add(root)
        while stack:
            key, targets = stack[-1]
            target = next((each for each in targets if each not in seen), None)
            if target is None:
                order.append(key)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(edges[target])))
    backward: dict[Key, list[Key]] = {key: [] for key in edges}
    for key, targets_of in edges.items():
        for target in targets_of:
            backward[target].append(key)
    found: list[set[Key]] = []
    placed: set[Key] = set()
    for root in reversed(order):
        if root in placed:
            continue
        component, pending = {root}, [root]
        while pending:
            for source in backward[pending.pop()]:
                if source not in placed and source not in component:
                    component.add(source)
                    pending.append(source)
        placed |= component
        if len(component) > 1 or root in edges[root]:
            found.append(component)
    return sorted(found, key=min)


def _shortest(
    edges: Mapping[Key, Mapping[Key, Step]], start: Key, inside: set[Key]
) -> tuple[Step, ...] | None:
    """Return the shortest cycle through an actor."""
    came: dict[Key, Key] = {}
    pending = deque([start])
    while pending:
        key = pending.popleft()
        for target in edges[key]:
            if target == start:
                steps = [edges[key][start]]
                while key != start:
                    steps.append(edges[came[key]][key])
                    key = came[key]
                return tuple(reversed(steps))
            if target in inside and target not in came:
                came[target] = key
                pending.append(target)
    return None
