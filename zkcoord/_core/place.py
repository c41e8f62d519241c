"""One queue that a contender stands in: its member there, and what the last list said."""

from collections.abc import Sequence
from dataclasses import dataclass

from zkcoord._core.messages import BadLimit, Exhausted, Node, Outcome
from zkcoord._core.names import Rule, is_exhausted, parse
from zkcoord._core.queue import Decision, Gone, Granted, decide, decide_permits


@dataclass(slots=True)
class Place:
    """
    A directory and its rule.

    Attributes:
        prefix: our attempt's name, to which the server appends the number.
        node: our member; None until the create is answered.
        decision: what the last list means for us; None while a list is under way.
        limit: a semaphore's limit, as the last list knew it.
    """

    directory: str
    rule: Rule
    prefix: str = ""
    node: Node | None = None
    decision: Decision | None = None
    limit: int | None = None

    @property
    def me(self) -> str:
        """Our member's name."""
        assert self.node is not None
        return self.node.name

    @property
    def is_known(self) -> bool:
        """Whether our member's owner and transaction are known; a transaction of several does not tell them."""
        return self.node is not None and self.node.czxid != 0

    def exhaustion(self) -> Outcome | None:
        """Return how an acquire ends whose number is too near the end of the counter."""
        parsed = parse(self.me)
        if parsed is None or is_exhausted(parsed.sequence):
            return Exhausted(self.directory, parsed.sequence if parsed else -1)
        return None

    def bad_limit(self, recorded: int | None) -> Outcome | None:
        """Return how an acquire ends that believes in another limit, or wants more; all must agree."""
        asked = self.rule.limit
        if not recorded or recorded < self.rule.weight or asked not in (None, recorded):
            return BadLimit(self.directory, recorded)
        return None

    def decide(self, children: Sequence[str], companion: Node | None, is_beside: bool) -> Decision:
        """Decide our place from a list, in which the companion, if there is one, stands."""
        if self.rule.weight:
            assert self.limit is not None
            return decide_permits(children, self.me, self.rule, self.limit)
        if companion is None:
            return decide(children, self.me, self.rule)
        if is_beside:
            return Granted() if self.me in children else Gone()
        return decide((name for name in children if name != companion.name), self.me, self.rule)
