"""
What a contender is told and what it asks for: events in, commands out, and how it all ended.

`contender.py` is the machine; drivers, the simulator and the tests speak these words.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """
    A member of ours on the server.

    Attributes:
        directory: the lock's path.
        name: its full name.
        czxid: transaction that created it; the fencing token. 0 until known.
        session: the session that owns it; 0 until known.
    """

    directory: str
    name: str
    czxid: int = 0
    session: int = 0

    @property
    def path(self) -> str:
        """The member's full path."""
        return f"{self.directory}/{self.name}"


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Begin. `session` is the current one, None while there is no connection; `list_first` looks before creating."""

    session: int | None
    list_first: bool = False


@dataclass(frozen=True, slots=True)
class Up:
    """A connection is there (again); answers to everything sent before it will never come."""

    session: int


@dataclass(frozen=True, slots=True)
class Created:
    """The create of `prefix` was applied; one node per place, in the order of the places."""

    prefix: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ParentMissing:
    """The create of `prefix` was refused because a lock's directory does not exist."""

    prefix: str


@dataclass(frozen=True, slots=True)
class ParentsMade:
    """The directories of all places exist, or did a moment ago."""


@dataclass(frozen=True, slots=True)
class Listed:
    """
    The children of a place; `children` is None when the directory does not exist.

    `limit` is a semaphore's recorded number of permits; None when there are no data, 0 when there are others.
    """

    prefix: str
    place: int
    children: Sequence[str] | None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The stat of our own member; `node` is None when it does not exist."""

    place: int
    name: str
    node: Node | None


@dataclass(frozen=True, slots=True)
class Watched:
    """
    The answer to Watch; `exists` False: the member is gone and no watch was left.

    `limit` is what a semaphore's directory says by then, as in Listed.
    """

    place: int
    name: str
    exists: bool
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """A watch set by Watch fired."""

    place: int
    name: str
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class OwnGone:
    """Somebody saw that our own member does not exist any more."""

    name: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The session is confirmed for long enough to hand out a grant."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End without a grant: deadline, cancel, a refused request. `why` comes back in the outcome."""

    why: object


Event = (
    Start
    | Up
    | Created
    | ParentMissing
    | ParentsMade
    | Listed
    | Found
    | Watched
    | Fired
    | OwnGone
    | Confirmed
    | Stop
)

# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """
    Create our members, `prefix` + number, in all places at once. Report Created or ParentMissing.

    With a `number` that is the number, and no new one is drawn.
    """

    prefix: str
    number: str = ""


@dataclass(frozen=True, slots=True)
class MakeParents:
    """Make the missing directories. Report ParentsMade."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Have the server learn all that is committed before it answers the next read. Nothing to report."""


@dataclass(frozen=True, slots=True)
class List:
    """Read the children of a place. Report Listed."""

    prefix: str
    place: int


@dataclass(frozen=True, slots=True)
class Find:
    """Read the stat of our own member. Report Found."""

    place: int
    name: str


@dataclass(frozen=True, slots=True)
class Watch:
    """
    Read a member's data and leave a watch. Report Watched, and Fired when it fires.

    An empty name means the directory itself, whose data hold a semaphore's limit.
    """

    place: int
    name: str


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Take back a watch, if it has not fired."""

    place: int
    name: str


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """Write a semaphore's limit into its directory, unless somebody else has; then list again. Report Listed."""

    prefix: str
    place: int
    limit: int


@dataclass(frozen=True, slots=True)
class Confirm:
    """Make sure that the session is confirmed for long enough. Report Confirmed."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """
    Hand an attempt to the janitor: delete `node`, or, when the create's outcome is unknown, whatever has `prefix`.
    """

    place: int
    prefix: str
    node: Node | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The acquire is over. Nothing follows."""

    outcome: "Outcome"


Command = (
    Create | MakeParents | CatchUp | List | Find | Watch | Unwatch | RecordLimit | Confirm | Abandon | Finish
)

# --- outcomes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Won:
    """Granted: the members, in the order of the places, and the position at the first look (0 = nobody ahead)."""

    nodes: tuple[Node, ...]
    first_position: int
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """A try found somebody ahead."""


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Children of another library or kind are in the way."""

    directory: str
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The directory's counter is nearly used up."""

    directory: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Stop was told; `position` is how many were ahead at the last look, None if the queue was never seen."""

    why: object
    position: int | None


@dataclass(frozen=True, slots=True)
class BadLimit:
    """
    A semaphore's recorded limit is not what the caller asked for, or too small for it.

    None: there is none, and the caller named none. 0: the directory has data of somebody else.
    """

    directory: str
    recorded: int | None


@dataclass(frozen=True, slots=True)
class CompanionGone:
    """The member beside which ours was to stand does not exist any more, or belongs to a session that has ended."""


Outcome = Won | Busy | Conflicted | Exhausted | Stopped | BadLimit | CompanionGone
