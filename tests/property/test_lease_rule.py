"""
The deadline rule: against its definition, and against a leader that knows the truth.

The simulated ensemble is as ``zkcoord._core.lease`` describes it. A follower tells the leader every half tick which
sessions it heard from; only that touches a session. Requests and reports travel on one stream. Any part may stall, the
client may pause, the follower may be cut off. Every simpler rule that was ever considered is played along and must be
found out, or the simulation would be too kind to say anything about ours.
"""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord._core.lease import SAMPLE_S, Lease, heartbeat_s, margin_s, pair_gap_s

NEVER = float("-inf")


@dataclass
class Answer:
    sent: float
    arrived: float
    is_confirmed: bool


# --- the definition


def basis_by_definition(connections, gap):
    """The newest proof: of each Connect with a confirmation behind it, and of all pairs on one connection."""
    proofs = [NEVER]
    for connect, answers in connections:
        is_confirmed = any(answer.is_confirmed for answer in answers)
        proofs += [] if connect is None or not is_confirmed else [connect]
        proofs += [
            earlier.sent
            for index, later in enumerate(answers)
            if later.is_confirmed
            for earlier in answers[:index]
            if earlier.arrived <= later.sent - gap
        ]
    return max(proofs)


@st.composite
def histories(draw, spacing):
    """Connections of one session: when each Connect was sent, if seen, and its answers in order of arrival."""
    now, connections = 100.0, []
    for _ in range(draw(st.integers(1, 3))):
        connect = draw(st.sampled_from([None, now]))
        answers = []
        for _ in range(draw(st.integers(0, 8))):
            now += draw(st.integers(1, 32)) * spacing
            sent = now - draw(st.integers(0, 64)) * spacing
            answers.append(Answer(sent, now, draw(st.booleans())))
        connections.append((connect, answers))
        now += spacing
    return connections


def fed(connections, timeout):
    lease = Lease(timeout)
    for connect, answers in connections:
        lease.connected(connect)
        for answer in answers:
            lease.answered(answer.sent, answer.arrived, answer.is_confirmed)
    return lease


@settings(max_examples=500, deadline=None)
@given(histories(spacing=1 / 16), st.sampled_from([4.0, 6.0, 8.0]))
def test_the_basis_is_the_newest_proof_by_definition(connections, timeout):
    assert basis_by_definition(connections, pair_gap_s(timeout)) == fed(connections, timeout).basis


@settings(max_examples=200, deadline=None)
@given(histories(spacing=1 / 512), st.sampled_from([0.25, 0.5]))
def test_forgetting_answers_that_come_close_together_only_makes_the_proof_older(connections, timeout):
    by_definition = basis_by_definition(connections, pair_gap_s(timeout))
    basis = fed(connections, timeout).basis

    assert basis <= by_definition
    assert 1 / 512 < SAMPLE_S


# --- the truth


class Rule:
    """One way to reckon until when the session lives, told the same as `Lease`."""

    def __init__(self, until):
        self._until = until
        self.deadline = NEVER

    def connected(self, sent):
        pass

    def answered(self, sent, arrived, is_confirmed):
        if is_confirmed:
            self.deadline = max(self.deadline, self._until(sent))


class Fed:
    """The real rule with wrong input, or with a wrong gap."""

    def __init__(self, lease, distort):
        self._lease = lease
        self._distort = distort

    @property
    def deadline(self):
        return self._lease.deadline

    def connected(self, sent):
        self._lease.connected(sent)

    def answered(self, sent, arrived, is_confirmed):
        self._lease.answered(*self._distort(sent, arrived, is_confirmed))


def rules(timeout, tick):
    h = heartbeat_s(timeout)
    return {
        "c + T": Rule(lambda c: c + timeout),
        "c + T - h": Rule(lambda c: c + timeout - h),
        "c + T - tick/2": Rule(lambda c: c + timeout - tick / 2),
        "c + T - h - tick/2": Rule(lambda c: c + timeout - h - tick / 2),
        "send times compared": Fed(Lease(timeout, tick), lambda s, a, c: (s, s, c)),
        "reckoned from the reply": Fed(Lease(timeout, tick), lambda s, a, c: (a, a, c)),
        "reads confirm": Fed(Lease(timeout, tick), lambda s, a, c: (s, a, True)),
        "gap of a quarter tick": Fed(Lease(timeout, tick / 2), lambda s, a, c: (s, a, c)),
    }


def delay(rng, timeout):
    """Mostly a little; now and then a stall."""
    if rng.random() < 0.12:
        return rng.uniform(0.2, 0.8) * timeout
    return rng.uniform(0.0001, 0.01)


class Stream:
    """What is sent in order arrives in order."""

    def __init__(self, rng, timeout):
        self._rng = rng
        self._timeout = timeout
        self._last = NEVER

    def pass_on(self, moment):
        self._last = max(self._last, moment + delay(self._rng, self._timeout)) + 1e-6
        return self._last


def one_connection(rng, timeout, tick, start, end):
    """
    Play one connection of the session.

    Returns:
        the answers as (arrived, sent, is_confirmed), and when the leader touched the session; both in order of time.
    """
    to_follower, to_leader, to_client = (Stream(rng, timeout) for _ in range(3))
    requests, now = [], start + rng.uniform(0.01, 0.1)
    while now < end:
        requests.append((now, to_follower.pass_on(now), rng.random() < 0.6))
        # A client that heartbeats, one that is busy, one that is paused.
        now += rng.choice([heartbeat_s(timeout), rng.uniform(0.01, tick), rng.uniform(0.3, 0.9) * timeout])
    cut_off_at = rng.uniform(start, end) if rng.random() < 0.5 else float("inf")
    # The follower's stream to the leader: reports every half tick, and the forwarded requests.
    phase, last_heard = rng.uniform(0, tick / 2), max((heard for _, heard, _ in requests), default=start)
    reports = [start + phase + i * tick / 2 for i in range(-1, int((last_heard - start) / (tick / 2)) + 3)]
    items = [(moment, None) for moment in reports if moment > start]
    items += [(heard, index) for index, (_, heard, is_write) in enumerate(requests) if is_write]
    touches, at_leader, previous = [start + 0.001], {}, start
    for moment, index in sorted(items, key=lambda item: item[0]):
        if moment >= cut_off_at:
            break
        arrival = to_leader.pass_on(moment)
        if index is not None:
            at_leader[index] = arrival
            continue
        if any(previous < heard <= moment for _, heard, _ in requests):
            touches.append(arrival)
        previous = moment
    answers, ready = [], start
    for index, (sent, heard, is_write) in enumerate(requests):
        if is_write and index not in at_leader:
            break  # never answered, nor is anything behind it
        ready = max(ready, at_leader[index] + 0.001 if is_write else heard)
        answers.append((to_client.pass_on(ready), sent, is_write))
    return answers, touches


def excess(rng, make_rules):
    """Play a session; return by how much each rule's deadline was ever later than the leader's."""
    tick = rng.choice([0.5, 2.0])
    timeout = tick * rng.choice([2, 3, 5, 10, 15])
    players = make_rules(timeout, tick)
    worst = dict.fromkeys(players, NEVER)
    start, alive_until = 100.0, float("inf")
    touches = []
    for _ in range(rng.randint(1, 3)):
        end = start + rng.uniform(0.5, 4) * timeout
        is_seen = rng.random() < 0.5
        for player in players.values():
            player.connected(start if is_seen else None)
        answers, more = one_connection(rng, timeout, tick, start, end)
        for touch in more:
            if touches and touch > touches[-1] + timeout:
                alive_until = touches[-1] + timeout
                break
            touches.append(touch)
        for arrived, sent, is_confirmed in answers:
            if arrived > min(end, alive_until):
                break
            known = max(touch for touch in touches if touch <= arrived)
            for name, player in players.items():
                player.answered(sent, arrived, is_confirmed)
                worst[name] = max(worst[name], player.deadline - (known + timeout))
        start = end + rng.uniform(0.01, 0.3) * timeout
        if alive_until < float("inf") or start > touches[-1] + timeout:
            break  # the session has ended, so there is nothing to come back to
    return worst


@settings(max_examples=1500, deadline=None)
@given(st.integers(0, 2**32))
def test_the_deadline_is_never_later_than_the_leaders(seed):
    def ours(timeout, tick):
        return {"stated": Lease(timeout, tick)}

    def unstated(timeout, tick):
        # The default gap covers these ticks only while T is at least two of them.
        return {"default": Lease(timeout)} if pair_gap_s(timeout) >= tick / 2 else {}

    for make in (ours, unstated):
        for late_s in excess(Random(seed), make).values():
            assert late_s <= -margin_s(1.0) + 1e-9


@pytest.mark.parametrize("name", list(rules(10.0, 2.0)))
def test_every_simpler_rule_is_found_to_be_late(name):
    found = (
        excess(Random(seed), lambda timeout, tick: {name: rules(timeout, tick)[name]})[name] > 0
        for seed in range(5_000)
    )

    assert any(found)


def test_the_simulation_lets_our_rule_use_most_of_the_session_time():
    """A deadline that never comes is safe too: in a session without faults ours must be of use."""
    lease = Lease(10.0, 2.0)
    lease.connected(None)
    for beat in range(20):
        sent = 100.0 + beat * heartbeat_s(10.0)
        lease.answered(sent, sent + 0.01, True)

    assert lease.deadline - sent > 7.0
