"""`RunOnce`: one run at a time, each slot done once, and the truth when the lock is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest

from recipes import AsyncRunOnce, Counter, Outcome, RunOnce
from tests.support.faults import end_session
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import ConfigError, ConnectionLostError, Coordinator, GrantLostError, QueueConflictError, ZkLock
from zkcoord.server import EmbeddedServer

pytestmark = pytest.mark.servers("embedded", "real")


class Job:
    """Counts its runs; the first waits until it may go on."""

    def __init__(self):
        self.tokens = []
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, grant):
        self.tokens.append(grant.token)
        assert self.go_on.wait(PATIENCE_S)
        grant.check()
        return len(self.tokens)


@pytest.fixture
def job():
    return Job()


def test_each_slot_is_done_once_on_all_hosts(make_coordinator, path, job):
    hosts = [RunOnce(path, client=make_coordinator(), busy="wait") for _ in range(3)]
    runs = [in_thread(lambda host=host: host.run(job, slot="monday")) for host in hosts]

    outcomes = sorted(run.result(PATIENCE_S).outcome for run in runs)

    assert [Outcome.DONE, Outcome.DONE, Outcome.RAN] == outcomes
    assert 1 == len(job.tokens)
    again = hosts[0].run(job, slot="tuesday")
    assert (True, 2, job.tokens[1]) == (again.ran, again.value, again.token)
    assert not hosts[1].run(job, slot="monday").ran
    assert hosts[2].run(job).ran  # without a slot each call is a new one


def test_busy_is_skipped_or_waited_for_or_taken_over(make_coordinator, path, job):
    job.go_on.clear()
    first = in_thread(lambda: RunOnce(path, client=make_coordinator()).run(job))
    wait_until(lambda: job.tokens)

    assert Outcome.BUSY == RunOnce(path, client=make_coordinator()).run(job).outcome
    waiter = RunOnce(path, client=make_coordinator(), busy="wait", timeout=1.0)
    assert Outcome.BUSY == waiter.run(job).outcome
    taker = RunOnce(path, client=make_coordinator(), busy="take over", timeout=3.0)
    took = in_thread(lambda: taker.run(job))
    wait_until(lambda: 2 == len(job.tokens))
    job.go_on.set()
    assert took.result(PATIENCE_S).ran
    with pytest.raises(GrantLostError):
        first.result(PATIENCE_S)
    assert job.tokens[0] < job.tokens[1]


def test_a_run_that_fails_or_is_lost_leaves_its_slot_undone(make_coordinator, hosts, path, job):
    coordinator = make_coordinator()
    once = RunOnce(path, client=coordinator)

    def fail(grant):
        raise ZeroDivisionError

    def lose(grant):
        end_session(coordinator.client, hosts)

    with pytest.raises(ZeroDivisionError):
        once.run(fail, slot="monday")
    with pytest.raises(GrantLostError):
        once.run(lose, slot="monday")
    assert RunOnce(path, client=make_coordinator()).run(job, slot="monday").ran


def test_slots_survive_everybody_and_are_kept_for_a_while(make_coordinator, zk, path, job):
    first = make_coordinator()
    assert RunOnce(path, client=first).run(job, slot="0").ran
    first.close()
    once = RunOnce(path, client=make_coordinator())
    assert not once.run(job, slot="0").ran
    for number in range(1, 66):
        once.run(job, slot=str(number))
    assert not once.run(job, slot="65").ran
    assert once.run(job, slot="0").ran  # forgotten
    assert 0 == zk.exists(path).ephemeralOwner


def test_the_lock_is_kept_for_as_long_as_told(make_coordinator, path, job):
    first = in_thread(lambda: RunOnce(path, client=make_coordinator(), min_hold=PATIENCE_S).run(job))
    wait_until(lambda: job.tokens)
    assert Outcome.BUSY == RunOnce(path, client=make_coordinator()).run(job).outcome
    ZkLock(f"{path}/lock", client=make_coordinator()).break_holder(job.tokens[0])
    with pytest.raises(GrantLostError):
        first.result(PATIENCE_S)


def test_wrong_use(coordinator, path, job):
    async def coroutine(grant):
        pass

    for arguments in ({"busy": "steal"}, {"min_hold": -1}, {"timeout": "1"}):
        with pytest.raises(ConfigError):
            RunOnce(path, client=coordinator, **arguments)
    for slot in ("", "x" * 201, 17):
        with pytest.raises(ConfigError):
            RunOnce(path, client=coordinator).run(job, slot=slot)
    with pytest.raises(ConfigError):
        RunOnce(path, client=coordinator).run(coroutine)
    Counter(f"{path}-counter", client=coordinator).add()
    with pytest.raises(QueueConflictError):
        RunOnce(f"{path}-counter", client=coordinator).run(job)
    assert not job.tokens


def test_job_for_tasks(hosts, path):
    async def work():
        tokens = []

        async def job(grant):
            tokens.append(grant.token)
            await asyncio.sleep(0)
            return "done"

        async with Coordinator(hosts) as one, Coordinator(hosts) as other:
            jobs = [AsyncRunOnce(path, client=client, busy="wait") for client in (one, other)]
            runs = await asyncio.gather(*(each.run(job, slot="monday") for each in jobs))
            assert ["done", "ran"] == sorted(run.outcome for run in runs)
            assert "done" == next(run.value for run in runs if run.ran)
            assert not (await AsyncRunOnce(path, client=one).run(job, slot="monday")).ran
        return len(tokens)

    assert 1 == asyncio.run(work())


@pytest.mark.servers("embedded")
@pytest.mark.parametrize(
    "operation", ["create", "create2", "getChildren", "getData", "multi", "delete", "sync"]
)
@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
def test_a_break_at_any_request_neither_doubles_nor_forgets(server: EmbeddedServer, job, operation, fault):
    with Coordinator(server.hosts, session_timeout=4.0) as coordinator:
        getattr(server.faults, fault)(operation=operation)
        once = RunOnce("/job", client=coordinator, busy="wait")
        run = None
        while run is None:
            try:
                run = once.run(job, slot="monday")
            except ConnectionLostError:  # the caller tries again, and does it, or learns that it was done
                continue
        assert run.outcome in (Outcome.RAN, Outcome.DONE)
        assert Outcome.DONE == once.run(job, slot="monday").outcome
