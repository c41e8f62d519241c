"""Virtual time: what is to happen when, and message streams that keep their order. One thread, no clock."""

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

#: A usual hop between two machines, in seconds; and the longest that is not a fault.
HOP_S = (0.0003, 0.004)


class Scheduler:
    """Runs what was planned, in order of time; what was planned for one moment, in the order of planning."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._plan: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def at(self, moment: float, act: Callable[[], object]) -> None:
        """Plan something; a moment in the past is now."""
        self._count += 1
        heapq.heappush(self._plan, (max(moment, self.now), self._count, act))

    def after(self, delay_s: float, act: Callable[[], object]) -> None:
        """Plan something for later."""
        self.at(self.now + delay_s, act)

    def step(self) -> bool:
        """Do the next thing; False when there is none."""
        if not self._plan:
            return False
        self.now, _, act = heapq.heappop(self._plan)
        self.steps += 1
        act()
        return True


class Stream:
    """
    One direction of a connection: what is sent arrives later, and in order.

    Args:
        scheduler: the time.
        random: decides how long a hop takes.
    """

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler = scheduler
        self._random = random
        self._last = 0.0
        self._stalled_until = 0.0
        self._epoch = 0
        self._under_way: deque[Callable[[], object]] = deque()

    def send(self, act: Callable[[], object]) -> None:
        """Have something done at the other end."""
        epoch = self._epoch
        self._under_way.append(act)
        self._last = max(self._last, self._scheduler.now + self._random.uniform(*HOP_S), self._stalled_until)

        def arrive() -> None:
            if epoch != self._epoch:
                return  # it was on its way when the connection broke
            if self._scheduler.now < self._stalled_until:
                self._scheduler.at(self._stalled_until, arrive)
            else:
                self._under_way.popleft()()

        self._scheduler.at(self._last, arrive)

    def stall(self, until: float) -> None:
        """Let nothing arrive before then, not even what is on its way; nothing is lost."""
        self._stalled_until = max(self._stalled_until, until)

    def cut(self) -> None:
        """Lose what is on its way."""
        self._epoch += 1
        self._under_way.clear()
        self._stalled_until = 0.0
