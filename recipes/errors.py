"""
Errors of the recipes, below zkcoord's ``ZkCoordError``; what zkcoord has an error for raises that.

    ZkCoordError
    ├── WaitTimeoutError    (also TimeoutError)   the time ran out at a barrier
    ├── BarrierBrokenError                        the others agreed that this round failed
    ├── CountMismatchError  (also ValueError)     others use this path with another number of members, stripes …
    └── NumberLimitError    (also OverflowError)  the number does not fit into its form on the server
"""

from zkcoord import ZkCoordError


class WaitTimeoutError(ZkCoordError, TimeoutError):
    """
    The time ran out at a barrier. Nothing of ours stays behind.

    Attributes:
        path: the barrier's path.
        waited_s: seconds spent in the call.
    """

    def __init__(self, path: str, waited_s: float, why: str) -> None:
        self.path = path
        self.waited_s = waited_s
        super().__init__(f"{path}: {why} within {waited_s:.2f} s")


class BarrierBrokenError(ZkCoordError):
    """
    A round of a double barrier ended without all of its members; every member gets this error.

    Attributes:
        path: the barrier's path.
        missing: the members that died or gave up, as far as known.
    """

    def __init__(self, path: str, missing: tuple[str, ...]) -> None:
        self.path = path
        self.missing = missing
        super().__init__(
            f"{path}: the round is broken, {len(missing)} of its members died or gave up before its end:"
            f" {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}; nobody is left in it, start a new one"
        )


class CountMismatchError(ZkCoordError, ValueError):
    """
    Others use this path with another count; nothing was changed.

    Attributes:
        path: the recipe's path.
        asked: the caller's count.
        recorded: the count on the server.
    """

    def __init__(self, path: str, asked: int, recorded: int, what: str) -> None:
        self.path = path
        self.asked = asked
        self.recorded = recorded
        super().__init__(
            f"{path} has {recorded} {what}, not {asked}: all users of a path must agree; use another path, or"
            " stop its users and delete it"
        )


class NumberLimitError(ZkCoordError, OverflowError):
    """
    A number does not fit into its form on the server; nothing was written.

    Attributes:
        path: the znode.
        value: the number that was to be written.
        lowest, highest: what fits.
    """

    def __init__(self, path: str, value: float, lowest: float, highest: float) -> None:
        self.path = path
        self.value = value
        self.lowest = lowest
        self.highest = highest
        super().__init__(f"{path} holds numbers from {lowest} to {highest}, and {value} is not one of them")
