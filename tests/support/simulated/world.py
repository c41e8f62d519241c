"""
Whole schedules in virtual time: clients that take turns on an ensemble, and everything that can go wrong.

`play` runs a plan and checks at every step what users are promised:

* grants whose local deadline is ahead never overlap (of a semaphore: never hold more than there is);
* tokens of exclusive grants grow, and nobody is granted while somebody stands ahead of it;
* once nothing goes wrong any more, everybody's acquires end, and nothing is left: no member, watch or task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kazoo.protocol.serialization import Exists
from kazoo.security import OPEN_ACL_UNSAFE

from tests.support.simulated.client import Process, SimulatedKazoo
from tests.support.simulated.followers import Quorum
from tests.support.simulated.plan import LIMIT, Disturbance, Plan, Round, rule_of
from tests.support.simulated.virtual import Scheduler
from zkcoord._core.contender import Contender
from zkcoord._core.messages import Node, Outcome, Stop, Stopped
from zkcoord._core.names import Rule, parse
from zkcoord._session import kazoo_private
from zkcoord._session.hold import Hold
from zkcoord._session.identity import Owner
from zkcoord._session.runner import Refused, Runner

#: More steps than any schedule takes; more is a loop without progress.
MOST_STEPS = 60_000

TIMED_OUT, CANCELLED = "timed out", "cancelled"


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(eq=False)
class _Held:
    client: Client
    hold: Hold
    round: Round
    release: Callable[[], object] = lambda: None

    @property
    def is_believed(self) -> bool:
        """Whether its owner may think that it holds."""
        return not self.hold.is_over and self.hold.deadline > self.client.process.clock()


@dataclass(eq=False)
class Client:
    """One client and its work."""

    number: int
    process: Process
    kazoo: SimulatedKazoo
    rounds: list[Round]
    runner: Runner | None = None
    attempts: int = 0
    is_busy: bool = False  # with a round, from its acquire on
    is_done: bool = False
    triggers: list[Disturbance] = field(default_factory=list)

    @property
    def owner(self) -> Owner:
        return Owner(f"client {self.number}", f"client {self.number}", self.number, "main")

    @property
    def prefix(self) -> str:
        """How the names of its members begin."""
        return f"_c_{self.number:08x}-"

    def new_uuid(self) -> str:
        self.attempts += 1
        return f"{self.number:08x}-{self.attempts:04x}-4000-8000-000000000000"


class World:
    """A plan in play."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.scheduler = Scheduler()
        self.quorum = Quorum(self.scheduler, plan.tick_s, 3, Random(plan.seed + 1))
        self.live: list[_Held] = []
        self.by_hand: set[str] = set()
        #: Members that take another's number: they may appear in front of a grant, but are worth nothing by themselves.
        self.beside: set[str] = set()
        self.ended: set[int] = set()
        self.tokens: dict[str, int] = {}
        self.log: list[str] = []
        self.violations: list[str] = []  # found where an exception would be caught
        self.grants = 0
        self.calm_from = 0.0
        self.clients = []
        for number, (drift, rounds) in enumerate(zip(plan.drifts, plan.rounds, strict=True)):
            process = Process(self.scheduler, drift, 100.0 * (number + 1))
            kazoo = SimulatedKazoo(process, self.quorum, plan.timeout_s, Random(plan.seed + 2 + number))
            self.clients.append(Client(number, process, kazoo, list(rounds)))
        for client in self.clients:
            self._next_round(client)
            client.kazoo.on_connected = lambda client=client: self._trigger(client, "connection")
            if plan.chatter_s is not None:
                self._chat(client, plan.chatter_s)
        for disturbance in plan.disturbances:
            if disturbance.since == "start":
                self._plan(disturbance)
            elif disturbance.who < len(self.clients):
                self.clients[disturbance.who].triggers.append(disturbance)

    def say(self, text: str) -> None:
        self.log.append(f"{self.scheduler.now:9.4f} {text}")

    # --- what clients do

    def _chat(self, client: Client, every_s: float) -> None:
        client.kazoo.session.requests.submit(Exists("/", None), lambda value, error: None)
        client.process.after(every_s, lambda: self._chat(client, every_s))

    def _next_round(self, client: Client) -> None:
        client.is_busy = False
        if not client.rounds:
            client.is_done = True
            return
        now = client.rounds.pop(0)
        client.process.after(now.pause_s, lambda: self._acquire(client, now))

    def _acquire(self, client: Client, what: Round, first: _Held | None = None) -> None:
        """Begin an acquire; of the other side of a read/write lock, if `first` holds the one."""
        session = client.kazoo.session
        is_beside = first is not None and what.side == "read"

        def new_uuid() -> str:
            uuid = client.new_uuid()
            if is_beside:
                self.beside.add(f"_c_{uuid}-__READ__")
            return uuid

        places = [(path, rule_of(what)) for path in what.paths]
        contender = Contender(
            places,
            new_uuid,
            is_try=what.is_try,
            companion=first.hold.nodes[0] if first else None,
            is_beside=is_beside,
        )

        def outcome_is(outcome: Outcome, hold: Hold | None) -> None:
            client.runner = None
            if hold is not None:
                self._granted(client, what, hold, first)
                return
            self.say(f"client {client.number} ends with {outcome}")
            if isinstance(outcome, Stopped) and isinstance(outcome.why, Refused):
                self.violations.append(f"client {client.number}: {outcome}")
            self._go_on(client)

        runner = Runner(session, places, client.owner, None, OPEN_ACL_UNSAFE, contender, outcome_is)
        client.runner, client.is_busy = runner, True
        runner.start()
        if what.timeout_s is not None:
            client.process.after(what.timeout_s, lambda: runner.post(Stop(TIMED_OUT)))

    def _go_on(self, client: Client) -> None:
        """Begin the next round when nothing of this one is left."""

        def go_on() -> None:
            if (
                client.is_busy
                and client.runner is None
                and not any(held.client is client for held in self.live)
            ):
                self._next_round(client)

        client.process.after(0.0, go_on)

    def _granted(self, client: Client, what: Round, hold: Hold, first: _Held | None) -> None:
        self.grants += 1
        self.say(f"client {client.number} granted {what.side} {what.paths}, token {hold.token}")
        held = _Held(client, hold, what)
        for node in hold.nodes:
            self._check_place(client, node, rule_of(what))
        self.live.append(held)
        self._trigger(client, "grant")

        def over(text: str) -> None:
            self.say(f"client {client.number} {text} token {hold.token}")
            self.live.remove(held)
            self._go_on(client)

        def release() -> None:
            if hold.release():
                over("released")

        def take_other_side() -> None:
            if not hold.is_over:
                side = "write" if what.then == "upgrade" else "read"
                other = replace(what, side=side, then="", is_try=side == "write", hold_s=what.hold_s / 2)
                self._acquire(client, other, held)

        held.release = release
        hold.on_lost(lambda reason: over(f"lost ({reason.value})"))
        client.process.after(what.hold_s, release)
        if what.then:
            client.process.after(what.hold_s / 2, take_other_side)
        if first is not None and what.side == "read":
            first.release()

    # --- what goes wrong

    def _plan(self, disturbance: Disturbance) -> None:
        until = self.scheduler.now + disturbance.after_s + disturbance.length_s
        self.calm_from = max(self.calm_from, until)
        self.scheduler.after(disturbance.after_s, lambda: self._disturb(disturbance))

    def _trigger(self, client: Client, since: str) -> None:
        for disturbance in [each for each in client.triggers if each.since == since]:
            if self.scheduler.now >= disturbance.from_s:
                client.triggers.remove(disturbance)
                self._plan(disturbance)

    def _disturb(self, disturbance: Disturbance) -> None:
        if disturbance.who < len(self.clients):
            self.say(f"*** {disturbance.what} client {disturbance.who} {disturbance.length_s:.3f} s")
            getattr(self, disturbance.what)(self.clients[disturbance.who], disturbance.length_s)

    def cut_connection(self, client: Client, length_s: float) -> None:
        """The connection breaks; what is on its way is lost."""
        wire = client.kazoo._wire
        if wire is not None:
            wire.up.cut()
            wire.down.cut()
            client.process.run(lambda: client.kazoo.disconnected(wire))

    def stall_connection(self, client: Client, length_s: float) -> None:
        """Nothing gets through for a while, then everything at once."""
        self._stall(client, length_s, up=True, down=True)

    def stall_requests(self, client: Client, length_s: float) -> None:
        self._stall(client, length_s, up=True, down=False)

    def stall_answers(self, client: Client, length_s: float) -> None:
        self._stall(client, length_s, up=False, down=True)

    def _stall(self, client: Client, length_s: float, *, up: bool, down: bool) -> None:
        wire = client.kazoo._wire
        if wire is not None:
            for stream in [wire.up] * up + [wire.down] * down:
                stream.stall(self.scheduler.now + length_s)

    def cut_server_off(self, client: Client, length_s: float) -> None:
        """The client's server loses the leader, and goes on answering reads."""
        if client.kazoo.server is not None:
            client.kazoo.server.cut_off(length_s)

    def stop_server(self, client: Client, length_s: float) -> None:
        if client.kazoo.server is not None:
            client.kazoo.server.stop(self.scheduler.now + length_s)

    def elect(self, client: Client, length_s: float) -> None:
        """The leader dies."""
        self.quorum.elect(length_s)

    def desert(self, client: Client, length_s: float) -> None:
        """The client's server was the leader; the others elect another, and it goes on for a while without them."""
        server = client.kazoo.server
        if server is not None and not server.is_deserted:
            server.desert(self.scheduler.now + max(length_s, 1.0))
            self.quorum.elect(min(length_s / 4, 1.0), server)

    def pause(self, client: Client, length_s: float) -> None:
        """The whole process stands still."""
        client.process.pause(length_s)
        self.scheduler.after(length_s + 1e-6, lambda: self._trigger(client, "resumption"))

    def cancel(self, client: Client, length_s: float) -> None:
        runner = client.runner
        if runner is not None:
            client.process.run(lambda: runner.post(Stop(CANCELLED)))

    def delete_by_hand(self, client: Client, length_s: float) -> None:
        """An operator deletes one of the client's members."""
        for path in self.quorum.paths():
            if path.rpartition("/")[2].startswith(client.prefix):
                self.by_hand.add(path)
                self.quorum.delete(path)
                return

    def end_session(self, client: Client, length_s: float) -> None:
        """Somebody closes the client's session from outside."""
        session = client.kazoo._session_id
        if session is not None:
            self.ended.add(session)
            self.quorum.end_session(session)

    # --- what is promised

    def _is_exempt(self, node: Node) -> bool:
        return node.path in self.by_hand or node.session in self.ended

    def _check_place(self, client: Client, node: Node, rule: Rule) -> None:
        """At the moment of a grant."""
        if self._is_exempt(node):
            return
        directory = self.quorum.engine.replica.tree.find(node.directory)
        members = list(directory.children or ()) if directory is not None else []
        me = parse(node.name)
        assert me is not None
        if node.name not in members:
            self.violations.append(f"client {client.number} is granted {node.name}, which is gone")
        others = [
            parse(name)
            for name in members
            if not name.startswith(client.prefix) and name[:-10] not in self.beside
        ]
        ahead = [other for other in others if other and other.sequence < me.sequence]
        if rule.weight:
            if sum(other.weight for other in ahead) + rule.weight > LIMIT:
                self.violations.append(f"client {client.number} is granted past {ahead}")
            return
        if any(other.marker in rule.blockers for other in ahead):
            self.violations.append(f"client {client.number} is granted past {ahead}")
        if rule.marker in rule.blockers:
            if node.czxid <= self.tokens.get(node.directory, 0):
                self.violations.append(f"token {node.czxid} after {self.tokens[node.directory]}")
            self.tokens[node.directory] = node.czxid

    def check_exclusion(self) -> None:
        """At every moment: who believes to hold, may."""
        for path in {path for held in self.live for path in held.round.paths}:
            believing = [
                held
                for held in self.live
                if path in held.round.paths
                and held.is_believed
                and not any(self._is_exempt(node) for node in held.hold.nodes)
            ]
            sides = {held.round.side for held in believing}
            if "permits" in sides:
                is_fine = sum(held.round.weight for held in believing) <= LIMIT
            else:
                is_fine = sides <= {"read"} or len({held.client for held in believing}) < 2
            if not is_fine:
                raise Violation(
                    f"{[f'client {held.client.number} token {held.hold.token}' for held in believing]} all hold {path}"
                )

    def left_behind(self) -> list[str]:
        """What is not as it was before."""
        left = [path for path in self.quorum.paths() if parse(path.rpartition("/")[2])]
        left += [f"watch on {path}" for path in self.quorum.watched()]
        for client in self.clients:
            session = client.kazoo.session
            for what in (
                session.guard._holds,
                session.guard._members,
                session.janitor._tasks,
                session.watches._entries,
                session._waiting,
                client.kazoo._data_watchers,
            ):
                left += [f"client {client.number}: {each}" for each in what]
        return left

    def run(self) -> None:
        """Play it to its end."""
        limit_s = 40 * self.plan.timeout_s + sum(
            each.hold_s + each.pause_s for rounds in self.plan.rounds for each in rounds
        )
        while not all(client.is_done for client in self.clients) or self.scheduler.now < self.calm_from:
            self._step()
            if self.scheduler.now > self.calm_from + limit_s:
                stuck = [client.number for client in self.clients if not client.is_done]
                raise Violation(f"clients {stuck} wait in vain")
        # Whatever is left goes at once, or with its session.
        until = self.scheduler.now + 2 * self.plan.timeout_s + 2 * self.plan.tick_s
        while self.scheduler.now < until:
            if not self.left_behind():
                return
            count = self.scheduler.steps + 20
            while self.scheduler.steps < count:
                self._step()
        raise Violation(f"left behind: {self.left_behind()}")

    def _step(self) -> None:
        self.scheduler.step()
        if self.violations:
            raise Violation("; ".join(self.violations))
        if self.scheduler.steps > MOST_STEPS:
            raise Violation("no end of it")
        if len(self.live) > 1:
            self.check_exclusion()


def _drop_connection(client: Any) -> None:
    client.drop()


def play(plan: Plan) -> World:
    """
    Run a plan.

    Raises:
        Violation: a promise was broken.
    """
    world = World(plan)
    original = kazoo_private.drop_connection
    kazoo_private.drop_connection = _drop_connection
    try:
        world.run()
    except Violation as error:
        error.add_note("\n".join([str(plan), *world.log[-60:]]))
        raise
    finally:
        kazoo_private.drop_connection = original
    return world
