"""The embedded server's faults: the rules by themselves, and what they do to kazoo and to bare connections."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.support.waiting import in_thread, wait_until
from tests.support.zk_raw import ClosedError, RawClient, create, multi, path_watch
from zkcoord import ConfigError
from zkcoord.server import Action, EmbeddedServer, Rule
from zkcoord.server import records as r
from zkcoord.server.codes import Code, Op
from zkcoord.server.faults import FaultPlan, Seen, describe

# --- rules -------------------------------------------------------------------------------------------------------


def plan_of(*rules: Rule, seed: int = 1) -> FaultPlan:
    plan = FaultPlan(random.Random(seed).random)
    for rule in rules:
        plan.add(rule)
    return plan


def test_rule_matches_by_session_operation_and_path() -> None:
    rule = Rule(Action.DELAY, session=7, operation="create*", path="/locks/*")
    seen = Seen(7, "create2", ("/locks/a",))

    assert rule.matches(seen)
    assert not rule.matches(seen._replace(session=8))
    assert not rule.matches(seen._replace(operation="delete"))
    assert not rule.matches(seen._replace(paths=("/other",)))
    assert not rule.matches(seen._replace(paths=()))


def test_multi_matches_by_any_of_its_paths() -> None:
    body = multi((Op.CREATE, create("/a")), (Op.DELETE, r.PathVersionRequest("/b", -1)))

    assert Seen(1, "multi", ("/a", "/b")) == describe(1, Op.MULTI, body)


def test_rule_skips_and_counts() -> None:
    rule = Rule(Action.CUT_BEFORE, skip=1, count=2)
    plan = plan_of(rule)
    verdicts = [plan.decide(Seen(1, "ping", ())) is rule for _ in range(5)]

    assert [False, True, True, False, False] == verdicts
    assert 2 == rule.hits


def test_first_rule_that_applies_decides() -> None:
    shield, cut = Rule(Action.PASS, operation="ping"), Rule(Action.CUT_BEFORE)
    plan = plan_of(shield, cut)

    assert plan.decide(Seen(1, "ping", ())) is None
    assert plan.decide(Seen(1, "exists", ("/",))) is cut


def test_same_seed_gives_the_same_faults() -> None:
    def verdicts(seed: int) -> list[bool]:
        plan = plan_of(Rule(Action.CUT_BEFORE, probability=0.5), seed=seed)
        return [plan.decide(Seen(1, "ping", ())) is not None for _ in range(50)]

    assert verdicts(3) == verdicts(3) != verdicts(4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": "crate"},
        {"skip": -1},
        {"count": -1},
        {"probability": 1.5},
        {"delay": -1.0},
        {"slice_bytes": 0},
    ],
)
def test_senseless_rule_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Rule(Action.DELAY, **wrong)  # type: ignore[arg-type]


# --- in a server -------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(seed=1) as embedded:
        yield embedded


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[RawClient]:
    with RawClient(server.hosts) as raw:
        yield raw


def again(server: EmbeddedServer, client: RawClient) -> RawClient:
    return RawClient(server.hosts, client.response.session_id, client.response.password)


def test_cut_before_applies_nothing(server: EmbeddedServer, client: RawClient) -> None:
    with server.faults.cut_before(operation="create") as fault:
        with pytest.raises(ClosedError):
            client.call(Op.CREATE, create("/a"))
        with again(server, client) as second:
            assert Code.NO_NODE == second.call(Op.EXISTS, path_watch("/a")).error
            assert Code.OK == second.call(Op.CREATE, create("/a")).error  # only the first is cut
    assert 1 == fault.hits


def test_cut_after_applies_and_loses_the_reply(server: EmbeddedServer, client: RawClient) -> None:
    with server.faults.cut_after(operation="create", path="/a*"):
        client.call(Op.CREATE, create("/other"))
        client.send(Op.PING)
        client.send(Op.CREATE, create("/a"))
        assert -2 == client.receive(Op.PING).xid  # what was answered before arrives
        with pytest.raises(ClosedError):
            client.receive(Op.CREATE)
        with again(server, client) as second:
            assert Code.OK == second.call(Op.EXISTS, path_watch("/a")).error


def test_connect_can_lose_its_answer(server: EmbeddedServer) -> None:
    with server.faults.cut_after(operation="connect"):
        with pytest.raises(ClosedError):
            RawClient(server.hosts)
        assert 1 == len(server.sessions())


def test_delay_holds_the_connection_and_no_other(server: EmbeddedServer, client: RawClient) -> None:
    with server.faults.delay(0.2, operation="exists", session=client.response.session_id, count=1):
        began = time.monotonic()
        client.send(Op.EXISTS, path_watch("/"))
        client.send(Op.PING)
        with RawClient(server.hosts) as other:
            other.call(Op.EXISTS, path_watch("/"))
        assert Code.OK == client.receive(Op.EXISTS).error
        assert time.monotonic() - began >= 0.2
        assert -2 == client.receive(Op.PING).xid


def test_stall_is_silent_until_it_ends(server: EmbeddedServer, client: RawClient) -> None:
    client.call(Op.EXISTS, path_watch("/a", watch=True))
    with RawClient(server.hosts) as other:
        with server.faults.stall(session=client.response.session_id):
            client.send(Op.PING)
            other.call(Op.CREATE, create("/a"))
            client.sock.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.sock.recv(1)
            client.sock.settimeout(10)
        client.receive(Op.PING)
    assert ["/a"] == [event.path for event in client.events]


def test_stalled_request_is_applied_when_the_stall_ends(server: EmbeddedServer, client: RawClient) -> None:
    fault = server.faults.stall(operation="create")
    client.send(Op.CREATE, create("/a"))
    with RawClient(server.hosts) as other:
        wait_until(lambda: fault.hits)
        assert Code.NO_NODE == other.call(Op.EXISTS, path_watch("/a")).error
    fault.remove()
    fault.remove()

    assert Code.OK == client.receive(Op.CREATE).error


def test_stalled_session_expires(client: RawClient, server: EmbeddedServer) -> None:
    with EmbeddedServer(tick_time=0.02) as quick, RawClient(quick.hosts, timeout_ms=40) as doomed:
        with quick.faults.stall():
            assert doomed.is_closed_by_server()
        assert () == quick.sessions()


def test_sliced_answers_are_whole(server: EmbeddedServer, client: RawClient) -> None:
    client.call(Op.CREATE, create("/a", bytes(range(256))))
    with server.faults.slice(3):
        data = client.call(Op.GET_DATA, path_watch("/a")).record.data
        client.sock.settimeout(10)

    assert bytes(range(256)) == data


def test_refused_connections_are_reset(server: EmbeddedServer, client: RawClient) -> None:
    with server.faults.refuse():
        with pytest.raises((ClosedError, OSError)):
            RawClient(server.hosts)
        assert Code.OK == client.call(Op.PING).error
    RawClient(server.hosts).close()


def test_expire_takes_session_and_ephemerals(server: EmbeddedServer, client: RawClient) -> None:
    client.call(Op.CREATE, create("/e", b"", 1))
    with server.faults.expire(operation="setData"), pytest.raises(ClosedError):
        client.call(Op.SET_DATA, r.SetDataRequest("/e", b"x", -1))
    with again(server, client) as second:
        assert 0 == second.response.session_id
    with RawClient(server.hosts) as other:
        assert Code.NO_NODE == other.call(Op.EXISTS, path_watch("/e")).error


def test_faults_can_be_set_while_stopped(server: EmbeddedServer) -> None:
    server.stop()
    fault = server.faults.refuse(count=1)
    server.start()
    with pytest.raises((ClosedError, OSError)):
        RawClient(server.hosts)
    RawClient(server.hosts).close()

    assert 1 == fault.hits


def test_clients_in_other_threads_go_on_during_a_delay(server: EmbeddedServer) -> None:
    delay = server.faults.delay(0.3, operation="sync")
    with delay, RawClient(server.hosts) as slow, RawClient(server.hosts) as quick:
        waiting = in_thread(slow.call, Op.SYNC, r.NullablePathRequest("/"))
        for _ in range(50):
            quick.call(Op.PING)
        assert not waiting.done()
        assert Code.OK == waiting.result(10).error
