"""A tiny model of a server and of what runs contenders against it, for schedules drawn from a seed."""

from collections import deque
from dataclasses import dataclass, field

from zkcoord._core.contender import Contender
from zkcoord._core.messages import (
    Abandon,
    CatchUp,
    Confirm,
    Confirmed,
    Create,
    Created,
    Find,
    Finish,
    Fired,
    Found,
    List,
    Listed,
    MakeParents,
    Node,
    OwnGone,
    ParentMissing,
    ParentsMade,
    RecordLimit,
    Start,
    Stop,
    Unwatch,
    Up,
    Watch,
    Watched,
    Won,
)
from zkcoord._core.names import Rule, parse, sibling_prefix
from zkcoord._core.queue import Wait, decide, decide_permits

# Rounds in which everything runs to its end; a fair run of five contenders needs some tens.
ROUNDS = 200


@dataclass(eq=False)
class Subscription:
    place: int
    directory: str
    name: str
    is_active: bool = True


@dataclass
class Server:
    """Directories of ephemeral members; one number for transactions, one for each directory's members."""

    directories: dict = field(default_factory=dict)  # directory -> {name: (czxid, session)}
    counters: dict = field(default_factory=dict)
    sessions: set = field(default_factory=set)
    limits: dict = field(default_factory=dict)  # directory -> permits
    watches: dict = field(default_factory=dict)  # path -> [(client, subscription)]
    zxid: int = 100

    def create(self, paths, session):
        if any(directory not in self.directories for directory, _ in paths):
            return None
        self.zxid += 1
        nodes = []
        for directory, prefix in paths:
            number = self.counters[directory]
            self.counters[directory] += 1
            self.directories[directory][f"{prefix}{number:010}"] = (self.zxid, session)
            nodes.append(Node(directory, f"{prefix}{number:010}", self.zxid, session))
        return tuple(nodes)

    def make(self, directory):
        if directory not in self.directories:
            self.directories[directory], self.counters[directory] = {}, 0

    def delete(self, directory, name):
        if self.directories.get(directory, {}).pop(name, None) is not None:
            self.fire(directory, name, True)

    def fire(self, directory, name, is_deleted):
        for client, subscription in self.watches.pop((directory, name), []):
            client.events.append((client.answered + len(client.answers), subscription, is_deleted))

    def end(self, session):
        self.sessions.discard(session)
        for directory, members in self.directories.items():
            for name in [name for name, (_, owner) in members.items() if owner == session]:
                self.delete(directory, name)


class Client:
    """One contender and what carries out its commands, as `Runner` does."""

    def __init__(self, world, number, places, is_try):
        self.world = world
        self.number = number
        self.places = places
        self.directories = [directory for directory, _ in places]
        self.attempts = 0
        self.session = None
        self.is_up = False
        self.requests = deque()
        self.answers = deque()
        self.answered = 0
        self.events = []  # (after how many answers, subscription, is_deleted)
        self.confirms = []
        self.subscriptions = {}
        self.tracked = {}
        self.open_deletes = []
        self.made = []  # every node the server made for it
        self.abandoned = []
        self.outcomes = []
        self.contender = Contender(places, self.new_uuid, is_try=is_try)

    def new_uuid(self):
        self.attempts += 1
        return f"{self.number}x{self.attempts}"

    def tell(self, event):
        for command in self.contender.handle(event):
            self.carry_out(command)

    def carry_out(self, command):
        assert not self.outcomes, f"{command} after the end"
        match command:
            case Create() | List() | Find() | CatchUp() | MakeParents() | RecordLimit():
                self.send(command)
            case Watch(place, name):
                old = self.subscriptions.get((place, name))
                assert not (old and old.is_active), "a watch that nobody takes back"
                self.subscriptions[place, name] = Subscription(place, self.directories[place], name)
                self.send((command, self.subscriptions[place, name]))
            case Unwatch(place, name):
                self.subscriptions.pop((place, name)).is_active = False
            case Confirm(prefix):
                self.confirms.append(prefix)
            case Abandon(place, prefix, node):
                self.abandoned.append(command)
                if node is not None:
                    self.tracked.pop(node.path, None)
                self.clean(self.directories[place], prefix if node is None else node.name)
            case Finish(outcome):
                self.outcomes.append(outcome)
                assert not any(each.is_active for each in self.subscriptions.values()), (
                    "a watch outlives the acquire"
                )
                if isinstance(outcome, Won):
                    self.world.won(self, outcome)

    def clean(self, directory, start):
        self.open_deletes.append((directory, start))
        self.send(("clean", directory, start))

    def send(self, request):
        if self.is_up:
            self.requests.append(request)

    # --- the server's side

    def serve(self):
        server, request = self.world.server, self.requests.popleft()
        match request:
            case Create(prefix):
                _, first = self.places[0]
                paths = [(where, sibling_prefix(prefix, first, rule)) for where, rule in self.places]
                nodes = server.create(paths, self.session)
                self.made += nodes or ()
                if nodes and len(nodes) > 1:  # a transaction answers with names only
                    nodes = tuple(Node(node.directory, node.name) for node in nodes)
                self.answers.append(ParentMissing(prefix) if nodes is None else Created(prefix, nodes))
            case List(prefix, place):
                self.answers.append(self.listed(prefix, place))
            case RecordLimit(prefix, place, limit):
                if server.limits.setdefault(self.directories[place], limit) == limit:
                    server.fire(self.directories[place], "", False)
                self.answers.append(self.listed(prefix, place))
            case Find(place, name):
                self.answers.append(Found(place, name, self.stat(place, name)))
            case CatchUp():
                pass
            case MakeParents():
                for directory, rule in self.places:
                    server.make(directory)
                    if rule.limit:
                        server.limits.setdefault(directory, rule.limit)
                self.answers.append(ParentsMade())
            case (Watch(place, name), subscription):
                exists = self.stat(place, name) is not None or not name
                if exists:
                    watchers = server.watches.setdefault((self.directories[place], name), [])
                    watchers.append((self, subscription))
                limit = None if name else server.limits.get(self.directories[place])
                self.answers.append((Watched(place, name, exists, limit), subscription))
            case ("clean", directory, start):
                for name in [
                    name for name in server.directories.get(directory, ()) if name.startswith(start)
                ]:
                    server.delete(directory, name)
                self.answers.append(("cleaned", (directory, start)))

    def listed(self, prefix, place):
        directory = self.directories[place]
        members = self.world.server.directories.get(directory)
        return Listed(
            prefix,
            place,
            None if members is None else list(members),
            self.world.server.limits.get(directory),
        )

    def stat(self, place, name):
        directory = self.directories[place]
        found = self.world.server.directories.get(directory, {}).get(name)
        return Node(directory, name, *found) if found else None

    # --- the client's side

    def receive(self):
        self.answered += 1
        match self.answers.popleft():
            case (Watched() as watched, subscription):
                if not watched.exists:
                    subscription.is_active = False
                self.tell(watched)
            case ("cleaned", what):
                if what in self.open_deletes:
                    self.open_deletes.remove(what)
            case event:
                for node in getattr(event, "nodes", None) or filter(None, [getattr(event, "node", None)]):
                    self.tracked[node.path] = node
                self.tell(event)

    def next_event(self):
        return next((event for event in self.events if event[0] <= self.answered), None)

    def receive_event(self):
        event = self.next_event()
        self.events.remove(event)
        _, subscription, is_deleted = event
        if subscription.is_active:
            subscription.is_active = False
            self.tell(Fired(subscription.place, subscription.name, is_deleted))

    def confirm(self):
        """The leader's quorum has answered: the session is open, for some time to come."""
        assert self.session in self.world.server.sessions
        confirms, self.confirms = self.confirms, []
        for prefix in confirms:
            self.tell(Confirmed(prefix))

    def missing(self):
        """An own member of which the next heartbeat will say that it is gone."""
        present = self.world.server.directories
        return next(
            (node for node in self.tracked.values() if node.name not in present.get(node.directory, ())), None
        )

    def heartbeat(self):
        node = self.missing()
        del self.tracked[node.path]
        self.tell(OwnGone(node.name))

    def disconnect(self):
        self.is_up = False
        self.requests.clear()
        self.answers.clear()
        self.events.clear()
        self.confirms.clear()
        for subscription in self.subscriptions.values():
            subscription.is_active = False
        for watchers in self.world.server.watches.values():
            watchers[:] = [pair for pair in watchers if pair[0] is not self]

    def connect(self):
        self.is_up = True
        if self.session not in self.world.server.sessions:
            self.tracked.clear()
            self.session = self.world.new_session()
        for directory, start in self.open_deletes:
            self.send(("clean", directory, start))
        self.tell(Up(self.session))


class World:
    def __init__(self, plans, kind, is_made, mischief, can_grow):
        self.kind = kind
        self.can_grow = can_grow
        self.server = Server()
        self.last_session = 0
        self.holders = {}
        self.fences = {}
        self.by_hand = set()
        self.mischief = mischief
        if is_made:
            for directory in "/a", "/b":
                self.server.make(directory)
        self.clients = [Client(self, i, plan.places, plan.is_try) for i, plan in enumerate(plans)]
        for client, plan in zip(self.clients, plans, strict=True):
            client.plan = plan

    def new_session(self):
        self.last_session += 1
        self.server.sessions.add(self.last_session)
        return self.last_session

    def start(self, client):
        plan, client.plan = client.plan, None
        if plan.is_up:
            client.is_up = True
            client.session = self.new_session()
        client.tell(Start(client.session, plan.list_first))
        if plan.is_up and plan.is_told_twice:
            client.tell(Up(client.session))

    # --- what is promised

    def won(self, client, outcome):
        assert [node.directory for node in outcome.nodes] == list(client.directories)
        for node in outcome.nodes:
            assert node in client.made, "somebody else's member"
            assert node.session == client.session, "another session's member"
            if node.name in self.by_hand:
                continue  # deleted by hand before its owner could know: not promised
            self.check_place(client, node, dict(client.places)[node.directory])
        self.holders[client] = outcome.nodes

    def check_place(self, client, node, rule: Rule):
        members = self.server.directories[node.directory]
        assert node.name in members
        holders = [
            (holder, other.name)
            for holder, nodes in self.holders.items()
            for other in nodes
            if other.directory == node.directory and other.name in members
        ]
        if rule.weight:
            limit = self.server.limits[node.directory]
            ahead = sum(parse(name).weight for name in members if name[-10:] <= node.name[-10:])
            assert ahead <= limit, "too much is ahead"
            held = sum(parse(name).weight for _, name in holders)
            assert held + rule.weight <= limit, "more is held than there is"
            return
        assert not any(
            name[-10:] < node.name[-10:] and parse(name).marker in rule.blockers for name in members
        ), "somebody is ahead"
        for holder, name in holders:
            assert rule.marker == parse(name).marker == "__READ__", (
                f"{holder.number} and {client.number} hold {node.directory}"
            )
        if rule.marker in rule.blockers:
            assert node.czxid > self.fences.get(node.directory, 0), "a fence that does not rise"
            self.fences[node.directory] = node.czxid

    def check_ended(self, client):
        (outcome,) = client.outcomes
        kept = outcome.nodes if isinstance(outcome, Won) else ()
        for node in client.made:
            named = any(
                gone.node.name == node.name if gone.node else node.name.startswith(gone.prefix)
                for gone in client.abandoned
            )
            assert (node in kept) != named, f"{node} is {'kept and abandoned' if named else 'forgotten'}"

    # --- steps

    def steps(self):
        for client in self.clients:
            if client.plan:
                yield self.start, client
                continue
            if client.is_up:
                if client.requests and client.session in self.server.sessions:
                    yield Client.serve, client
                if client.answers:
                    yield Client.receive, client
                if client.next_event():
                    yield Client.receive_event, client
                if client.session in self.server.sessions:
                    if client.confirms:
                        yield Client.confirm, client
                    if client.missing() and not client.outcomes:
                        yield Client.heartbeat, client
            else:
                yield Client.connect, client
            if client in self.holders:
                yield self.release, client

    def mischiefs(self):
        if not self.mischief:
            return
        for client in self.clients:
            if client.plan:
                continue
            if client.is_up:
                yield Client.disconnect, client
            if client.session in self.server.sessions:
                yield self.expire, client
            if not client.outcomes:
                yield self.stop, client
        for directory, members in self.server.directories.items():
            for name in members:
                yield self.delete_by_hand, (directory, name)
                yield self.touch, (directory, name)
            if not members and self.kind != "semaphore":
                yield self.collect, directory
            if self.can_grow and self.server.limits.get(directory, 9) < 5:
                yield self.grow, directory

    def step(self, random):
        """One step; now and then something goes wrong, while there is any of that left."""
        choices = list(self.mischiefs()) if random.random() < 0.08 else []
        if choices:
            self.mischief -= 1
            # One kind first: there are many more members to delete than connections to break.
            kind = random.choice(sorted({act.__name__ for act, _ in choices}))
            choices = [choice for choice in choices if choice[0].__name__ == kind]
        choices = choices or list(self.steps())
        if choices:
            act, subject = random.choice(choices)
            act(subject)

    def expire(self, client):
        self.server.end(client.session)
        self.holders.pop(client, None)  # its lease ran out before

    def stop(self, client):
        client.tell(Stop("enough"))

    def release(self, client):
        for node in self.holders.pop(client):
            client.clean(node.directory, node.name)

    def must_wait(self, client):
        """Whether somebody really is ahead of a waiter, in one of its places at least."""
        for directory, rule in client.places:
            members = self.server.directories[directory]
            me = next(
                node.name for node in client.made if node.directory == directory and node.name in members
            )
            if rule.weight:
                decision = decide_permits(members, me, rule, self.server.limits[directory])
            else:
                decision = decide(members, me, rule)
            if isinstance(decision, Wait):
                return True
        return False

    def delete_by_hand(self, member):
        self.by_hand.add(member[1])
        self.server.delete(*member)

    def touch(self, member):
        self.server.fire(*member, False)

    def grow(self, directory):
        self.server.limits[directory] += 1
        self.server.fire(directory, "", False)

    def collect(self, directory):
        del self.server.directories[directory], self.server.counters[directory]

    def run_out(self):
        """Nothing goes wrong any more: let all that is under way happen, and see that it ends."""
        for _ in range(ROUNDS):
            for client in self.clients:
                if client.is_up and client.session not in self.server.sessions:
                    client.disconnect()
            steps = [step for step in self.steps() if step[0] != self.release]
            if not steps:
                for client in self.clients:
                    assert client.outcomes or self.must_wait(client), f"{client.number} waits in vain"
                if not self.holders:
                    break
                steps = [(self.release, next(iter(self.holders)))]
            for act, subject in steps:
                # Another step of the round may have used it up.
                if any(act == other and subject is whom for other, whom in self.steps()):
                    act(subject)
        stuck = [client.number for client in self.clients if not client.outcomes]
        assert [] == stuck
