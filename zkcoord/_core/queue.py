"""
The queue rule: given the children of a lock's directory, is a member granted, and if not, whom does it wait for?

One pass, no sort. Ten-digit numbers compare as text. A member waits for the *nearest* blocker ahead: while that one
stays it cannot be granted, and when it goes exactly one waiter is woken (ZooKeeper's lock recipe; Curator's
``StandardLockInternalsDriver`` watches the same one).

Curator sorts *all* children by the text after the last marker, or by the whole name. A child that it could sort before
our number, or the member of another library, would see another queue than we do, so it is a conflict and not a guess.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zkcoord._core.names import Rule, parse

_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Granted:
    """Nobody who matters is ahead."""


@dataclass(frozen=True, slots=True)
class Wait:
    """
    Somebody is ahead.

    Attributes:
        name: the member to watch: the nearest blocker ahead.
        head: the member at the front of the queue; the same as `name` when one is ahead.
        position: how many blockers are ahead, at least 1.
        others: more members to watch, for a semaphore: while all of them and `name` stay, we cannot be granted.
    """

    name: str
    head: str
    position: int
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gone:
    """Our own member is not among the children."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Children that another client would order differently; never empty, in name order."""

    children: tuple[str, ...]


Decision = Granted | Wait | Gone | Conflict


def decide(children: Iterable[str], me: str, rule: Rule) -> Decision:
    """
    Decide one member's place.

    Args:
        children: names of all children, in any order.
        me: our member's full name, ending in a ten-digit number.
        rule: who waits for whom.

    Returns:
        Conflict before all else, then Gone, then Granted or Wait.
    """
    mine = me[-_DIGITS:]
    nearest = head = ""
    nearest_key, head_key = "", "~"
    position = 0
    present = False
    conflicts: list[str] = []
    for name in children:
        if name == me:
            present = True
            continue
        marker = _marker(name, rule)
        if marker is None:
            if _is_conflict(name, mine, rule):
                conflicts.append(name)
            continue
        key = name[-_DIGITS:]
        # An equal number cannot be ours to pass: a tie means a frozen counter, where waiting is the safe mistake.
        if key <= mine and marker in rule.blockers:
            position += 1
            if key >= nearest_key:
                nearest, nearest_key = name, key
            if key < head_key:
                head, head_key = name, key
    if conflicts:
        return Conflict(tuple(sorted(conflicts)))
    if not present:
        return Gone()
    return Wait(nearest, head, position) if position else Granted()


def decide_permits(children: Iterable[str], me: str, rule: Rule, limit: int) -> Decision:
    """
    Decide a semaphore member's place: granted while the permits of those ahead and its own fit into the limit.

    It watches the nearest ahead whose permits together exceed what the limit leaves beside its own. While all of those
    stay it cannot be granted, so no wake-up is lost; when one goes it looks again.

    Args:
        children: names of all children, in any order.
        me: our member's full name.
        rule: of a semaphore.
        limit: permits there are; at least the rule's weight.
    """
    mine = me[-_DIGITS:]
    ahead: list[tuple[str, int, str]] = []
    present = False
    conflicts: list[str] = []
    for name in children:
        parsed = parse(name)
        if name == me:
            present = True
        elif parsed is None:
            continue
        elif parsed.marker != rule.marker or parsed.sequence < 0:
            conflicts.append(name)
        elif name[-_DIGITS:] <= mine:
            ahead.append((name[-_DIGITS:], parsed.weight, name))
    if conflicts:
        return Conflict(tuple(sorted(conflicts)))
    if not present:
        return Gone()
    room = limit - rule.weight
    if sum(weight for _, weight, _ in ahead) <= room:
        return Granted()
    ahead.sort(reverse=True)
    enough = count = 0
    while enough <= room:
        enough += ahead[count][1]
        count += 1
    nearest, *others = (name for _, _, name in ahead[:count])
    return Wait(nearest, ahead[-1][2], len(ahead), tuple(others))


def free_permits(children: Iterable[str], limit: int) -> int:
    """
    Return how many of a semaphore's permits nobody holds; those behind the first who must wait hold none.

    The oldest member holds in any case: with more than there are now, it was there before a shrink.
    """
    queue = sorted((name[-_DIGITS:], parsed.weight) for name in children if (parsed := parse(name)))
    taken = 0
    for _, weight in queue:
        if taken and taken + weight > limit:
            break
        taken += weight
    return max(0, limit - taken)


def is_busy(children: Iterable[str], rule: Rule) -> bool:
    """Whether anybody is in the queue at all: a try that finds so need not create a member."""
    return any(_marker(name, rule) in rule.blockers for name in children)


def find_conflicts(names: Iterable[str], rule: Rule) -> tuple[str, ...]:
    """Return the members of other libraries or kinds among `names`, in name order."""
    parsed = ((name, parse(name)) for name in names)
    return tuple(
        sorted(
            name
            for name, member in parsed
            if member and (member.marker not in rule.peers or member.sequence < 0)
        )
    )


def conflicts_of(names: Iterable[str], me: str, rule: Rule) -> tuple[str, ...]:
    """Return the children that are in conflict with our member `me`, in name order; as `decide` would."""
    if rule.weight:
        return find_conflicts(names, rule)
    decision = decide(names, me, rule)
    return decision.children if isinstance(decision, Conflict) else ()


def _marker(name: str, rule: Rule) -> str | None:
    """Return which of the rule's own markers a well-formed member carries."""
    number = name[-_DIGITS:]
    if not (number.isdigit() and number.isascii() and len(number) == _DIGITS):
        return None
    return next((marker for marker in rule.peers if name.endswith(marker, 0, -_DIGITS)), None)


def _is_conflict(name: str, mine: str, rule: Rule) -> bool:
    if parse(name) is not None:
        return True  # another library's member, another kind, or a number past the end of the counter
    key = name
    for marker in sorted(
        rule.peers
    ):  # Curator's order: what follows the last __READ__, and of that the last __WRIT__
        _, _, after = key.rpartition(marker)
        key = after if marker in key else key
    return key <= mine and rule.dialect != "kazoo"  # of equals, Curator takes the one that is listed first
