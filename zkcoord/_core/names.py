"""
Names of members: what each lock library writes, how we write ours, how they are ordered.

A member is a child of the lock's directory. Its name ends in a marker that says which library and kind made it, and
in the sequence number that the server appended. The layouts are the wire format of Curator (``docs/concepts/
queue-rules.md``) and of kazoo; only the marker and the number matter to them.
"""

import re
from dataclasses import dataclass

#: The largest sequence number. From ZooKeeper 3.6 on the counter freezes here, and every later member gets this number.
MAX_SEQUENCE = 2**31 - 1

#: Numbers this close to the end are refused, so that there is time to act while all numbers still differ.
SEQUENCE_HEADROOM = 1_000_000

_MEMBER = re.compile(
    r"(?P<marker>lock-|latch-|__lock__|__rlock__|__READ__|__WRIT__|permit(?P<weight>[1-9][0-9]{0,9})?-)"
    r"(?P<sequence>[0-9]{10}|-[0-9]{9,10})\Z",
    re.ASCII,
)

_KINDS = {
    "lock-": ("exclusive", "curator"),
    "latch-": ("latch", "curator-latch"),
    "__READ__": ("read", "curator"),
    "__WRIT__": ("write", "curator"),
    "__lock__": ("exclusive", "kazoo"),
    "__rlock__": ("read", "kazoo"),
    "permit-": ("permit", "semaphore"),
}


@dataclass(frozen=True, slots=True)
class ParsedName:
    """
    A member's name taken apart.

    Attributes:
        marker: as listed in the module, a permit's without its weight (``permit-``).
        kind: "exclusive", "read", "write", "latch" or "permit".
        sequence: the server's number; negative once a pre-3.6 server's counter has wrapped.
        dialect: "curator", "curator-latch", "kazoo" or "semaphore".
        weight: permits taken; 1 for every other kind.
    """

    marker: str
    kind: str
    sequence: int
    dialect: str
    weight: int = 1


def parse(name: str) -> ParsedName | None:
    """Take a child's name apart; None when no lock library made it."""
    match = _MEMBER.search(name)
    if match is None:
        return None
    weight = int(match["weight"] or 1)
    marker = "permit-" if match["marker"].startswith("permit") else match["marker"]
    kind, dialect = _KINDS[marker]
    return ParsedName(marker, kind, int(match["sequence"]), dialect, weight)


@dataclass(frozen=True, slots=True)
class Rule:
    """
    Who waits for whom in one kind of queue.

    Attributes:
        dialect: the layout's name, as users give it.
        marker: what our own members carry.
        blockers: markers of the members that must not be ahead of us.
        peers: markers that belong in such a directory; any other marker is a conflict.
        weight: permits that our member takes; 0 for everything but a semaphore.
        limit: permits that the caller believes there are; None takes what is recorded.
    """

    dialect: str
    marker: str
    blockers: frozenset[str]
    peers: frozenset[str]
    weight: int = 0
    limit: int | None = None

    def prefix(self, uuid: str) -> str:
        """Return the name to create, to which the server appends the number; `uuid` in canonical form."""
        if self.dialect == "kazoo":
            return f"{uuid.replace('-', '')}{self.marker}"
        if self.weight > 1:
            return f"_c_{uuid}-permit{self.weight}-"
        return f"_c_{uuid}-{self.marker}"


def sibling_prefix(prefix: str, first: Rule, rule: Rule) -> str:
    """Return the name to create in another directory for the same attempt: `prefix`'s uuid with that rule's marker."""
    uuid = prefix.removesuffix(first.marker)
    if first.dialect != "kazoo":
        uuid = uuid.removeprefix("_c_").removesuffix("-")
    return rule.prefix(uuid)


def _exclusive(dialect: str, marker: str, *others: str) -> Rule:
    markers = frozenset((marker, *others))
    return Rule(dialect, marker, markers, markers)


#: The exclusive rule, by dialect. A kazoo Lock overlooks kazoo's own readers; ours waits for them as well.
EXCLUSIVE = {
    "curator": _exclusive("curator", "lock-"),
    "curator-latch": _exclusive("curator-latch", "latch-"),
    "kazoo": _exclusive("kazoo", "__lock__", "__rlock__"),
}


#: Readers share, and wait for writers only; a writer waits for everybody ahead.
READ = {
    "curator": Rule("curator", "__READ__", frozenset(("__WRIT__",)), frozenset(("__READ__", "__WRIT__"))),
    "kazoo": Rule("kazoo", "__rlock__", frozenset(("__lock__",)), frozenset(("__lock__", "__rlock__"))),
}
WRITE = {
    "curator": _exclusive("curator", "__WRIT__", "__READ__"),
    "kazoo": _exclusive("kazoo", "__lock__", "__rlock__"),
}


def permits(weight: int, limit: int | None) -> Rule:
    """Return the rule of a semaphore's member: those ahead and it together must not exceed the limit."""
    marker = frozenset(("permit-",))
    return Rule("semaphore", "permit-", marker, marker, weight, limit)


def is_exhausted(sequence: int) -> bool:
    """Whether a drawn number is so near the end of the counter (or past it) that it must be given back."""
    return sequence < 0 or sequence > MAX_SEQUENCE - SEQUENCE_HEADROOM
