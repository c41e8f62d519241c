"""`Counter`, `OrderNumbers` and `StripedLock`, for threads and for tasks, on servers and under faults."""

from __future__ import annotations

import asyncio
import os
import struct
import time

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.counter import Counter as KazooCounter

from recipes import (
    AsyncCounter,
    AsyncOrderNumbers,
    AsyncStripedLock,
    Counter,
    CountMismatchError,
    NumberLimitError,
    OrderNumbers,
    StripedLock,
)
from tests.support.waiting import PATIENCE_S, in_thread
from zkcoord import (
    AcquireTimeoutError,
    ConfigError,
    ConnectionLostError,
    Coordinator,
    QueueConflictError,
    ZkLock,
)
from zkcoord.server import EmbeddedServer

pytestmark = pytest.mark.servers("embedded", "real")

FAULTS = ["cut_before", "cut_after", "expire"]


# --- counter


def test_threads_and_processes_add_each_change_once(make_coordinator, path):
    counters = [Counter(path, client=make_coordinator()) for _ in range(4)]
    added = [in_thread(lambda counter=counter: [counter.add() for _ in range(10)]) for counter in counters]

    values = [value for one in added for value in one.result(4 * PATIENCE_S)]

    assert list(range(1, 41)) == sorted(values)
    assert 40 == counters[0].get()


def test_counter_takes_floats_and_begins_where_it_is_told(coordinator, path):
    counter = Counter(path, client=coordinator, initial=10)
    assert 10 == counter.get()
    assert 10.5 == counter.add(0.5)
    assert not counter.compare_and_set(10, 1)
    assert counter.compare_and_set(10.5, 3)
    assert 3 == counter.get()
    counter.set(-2)
    assert -1 == counter.add()


@pytest.mark.parametrize(("form", "layout"), [("curator-int", ">i"), ("curator-long", ">q")])
def test_curators_forms(coordinator, zk, path, form, layout):
    zk.create(path, struct.pack(layout, 41), makepath=True)
    counter = Counter(path, client=coordinator, form=form)

    assert 42 == counter.add()
    assert struct.pack(layout, 42) == zk.get(path)[0]
    limit = 2 ** (8 * struct.calcsize(layout) - 1)
    counter.set(limit - 1)
    with pytest.raises(NumberLimitError, match=str(limit)):
        counter.add()
    assert limit - 1 == counter.get()
    zk.set(path, b"abc")
    with pytest.raises(QueueConflictError):
        counter.get()


def test_kazoos_form(coordinator, zk, path):
    theirs = KazooCounter(zk, path, default=5)
    theirs += 2
    counter = Counter(path, client=coordinator, form="kazoo")

    assert 8 == counter.add()
    assert 8 == KazooCounter(zk, path).value


def test_wrong_use_of_a_counter(coordinator, zk, path):
    for arguments in ({"form": "text"}, {"initial": "1"}, {"initial": True}, {"initial": float("nan")}):
        with pytest.raises(ConfigError):
            Counter(path, client=coordinator, **arguments)
    with pytest.raises(ConfigError):
        Counter(path, client=coordinator, form="kazoo").add(0.5)
    with pytest.raises(NumberLimitError):
        Counter(path, client=coordinator).add(2**63)
    with ZkLock(path, client=coordinator, timeout=10.0), pytest.raises(QueueConflictError):
        Counter(path, client=coordinator).add()
    assert 1 == OrderNumbers(f"{path}-orders", client=coordinator).next()
    with pytest.raises(QueueConflictError):
        Counter(f"{path}-orders", client=coordinator).get()


def test_counter_for_tasks(hosts, path):
    async def work():
        async with Coordinator(hosts) as coordinator:
            counter = AsyncCounter(path, client=coordinator)
            values = await asyncio.gather(*(counter.add() for _ in range(10)))
            assert await counter.compare_and_set(10, 2.5)
            await counter.set(await counter.get() + 1)
            return sorted(values), await counter.get()

    assert (list(range(1, 11)), 3.5) == asyncio.run(work())


@pytest.mark.servers("embedded")
@pytest.mark.parametrize("operation", ["create2", "create", "setData", "getData", "sync"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_break_at_any_request_loses_and_doubles_nothing(server: EmbeddedServer, operation, fault):
    with Coordinator(server.hosts, session_timeout=2.0) as coordinator:
        counter = Counter("/faulty", client=coordinator)
        struck = getattr(server.faults, fault)(operation=operation)
        assert [1, 2, 3] == [counter.add(timeout=PATIENCE_S) for _ in range(3)]
        assert 3 == counter.get(timeout=PATIENCE_S)
        assert struck.hits or operation in ("create2", "create")

        async def add_once():
            with getattr(server.faults, fault)(operation=operation):
                return await AsyncCounter("/faulty", client=coordinator).add(timeout=PATIENCE_S)

        assert 4 == asyncio.run(add_once())


@pytest.mark.servers("embedded")
def test_a_bare_form_says_that_it_cannot_know(server: EmbeddedServer):
    with Coordinator(server.hosts, session_timeout=2.0) as coordinator:
        counter = Counter("/bare", client=coordinator, form="curator-long")
        assert 1 == counter.add()
        server.faults.cut_after(operation="setData")

        with pytest.raises(ConnectionLostError) as lost:
            counter.add()

        assert lost.value.maybe_applied
        assert 2 == counter.get()


@pytest.mark.servers("embedded")
def test_no_server(path):
    with Coordinator("127.0.0.1:1") as coordinator:
        with pytest.raises(ConnectionLostError):
            Counter(path, client=coordinator).add(timeout=0.2)
        with pytest.raises(ConnectionLostError):
            asyncio.run(AsyncCounter(path, client=coordinator).add(timeout=0.2))


# --- order numbers


def test_numbers_of_many_are_unique_and_grow(make_coordinator, path):
    series = [OrderNumbers(path, client=make_coordinator(), block=7, start=100) for _ in range(3)]
    taken = [in_thread(lambda one=one: [one.next() for _ in range(50)]) for one in series]

    each = [one.result(4 * PATIENCE_S) for one in taken]

    assert all(numbers == sorted(numbers) for numbers in each)
    everything = sorted(number for numbers in each for number in numbers)
    assert len(set(everything)) == len(everything) == 150
    assert 100 == everything[0]
    # At most what was left of three blocks is missing.
    assert everything[-1] < 100 + 150 + 3 * 7


@pytest.mark.servers("embedded")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_allocation_gives_no_number_twice(server: EmbeddedServer, fault):
    with Coordinator(server.hosts, session_timeout=2.0) as coordinator:
        numbers = OrderNumbers("/orders", client=coordinator, block=2)
        taken = [numbers.next()]
        for operation in ("setData", "getData"):
            getattr(server.faults, fault)(operation=operation)
            taken += [numbers.next(timeout=PATIENCE_S) for _ in range(4)]
    assert len(set(taken)) == len(taken)
    assert sorted(taken) == taken


@pytest.mark.servers("embedded")
def test_numbers_are_fast_and_end_with_a_word(coordinator, zk, path):
    numbers = OrderNumbers(path, client=coordinator, block=100_000)
    numbers.next()
    began = time.perf_counter()
    for _ in range(99_000):
        numbers.next()
    print(f"{99_000 / (time.perf_counter() - began):,.0f} numbers/s")
    last = OrderNumbers(f"{path}-last", client=coordinator, start=2**63 - 10, block=5)
    assert 2**63 - 10 == last.next()
    with pytest.raises(NumberLimitError):
        [last.next() for _ in range(10)]
    for arguments in ({"block": 0}, {"start": -1}, {"block": True}):
        with pytest.raises(ConfigError):
            OrderNumbers(path, client=coordinator, **arguments)


@pytest.mark.servers("embedded")
def test_a_forked_child_takes_no_number_of_its_parent(hosts, zk, path):
    with Coordinator(hosts) as coordinator:
        numbers = OrderNumbers(path, client=coordinator, block=10)
        first = numbers.next()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                with Coordinator(hosts) as fresh:
                    numbers._znodes.client = fresh
                    os.write(writer, str(numbers.next()).encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        childs = int(os.read(reader, 100))
        os.close(reader)
        os.close(writer)
        assert (1, 2, 11) == (first, numbers.next(), childs)


def test_numbers_for_tasks(hosts, path):
    async def work():
        async with Coordinator(hosts) as coordinator:
            numbers = AsyncOrderNumbers(path, client=coordinator, block=3)
            return await asyncio.gather(*(numbers.next() for _ in range(20)))

    assert list(range(1, 21)) == sorted(asyncio.run(work()))


# --- stripes


def test_a_key_has_the_same_stripe_everywhere_and_keys_are_spread(coordinator, path):
    locks = StripedLock(path, 16, client=coordinator)

    assert [0, 7, 4] == [locks.stripe(key) for key in ("order-17", "ü", "")]
    assert 16 == len({locks.stripe(str(number)) for number in range(300)})


def test_keys_of_one_stripe_exclude_each_other_and_others_do_not(make_coordinator, path):
    mine = StripedLock(path, 4, client=make_coordinator())
    theirs = StripedLock(path, 4, client=make_coordinator(), timeout=2.0)
    same = next(key for key in map(str, range(100)) if mine.stripe(key) == mine.stripe("a") and key != "a")
    other = next(key for key in map(str, range(100)) if mine.stripe(key) != mine.stripe("a"))

    def enter(key):
        with theirs.lock(key):
            pass

    with mine.lock("a"), mine.lock(same):
        in_thread(enter, other).result(PATIENCE_S)
        with pytest.raises(AcquireTimeoutError):
            in_thread(enter, same).result(PATIENCE_S)


def test_all_users_agree_on_the_count(make_coordinator, hosts, path):
    StripedLock(path, 4, client=make_coordinator()).lock("a")
    with pytest.raises(CountMismatchError, match="has 4 stripes, not 5"):
        StripedLock(path, 5, client=make_coordinator()).lock("a")

    async def work():
        async with Coordinator(hosts) as coordinator:
            async with await AsyncStripedLock(path, 4, client=coordinator).lock("a") as grant:
                grant.check()
            with pytest.raises(CountMismatchError):
                await AsyncStripedLock(path, 5, client=coordinator).lock("a")

    asyncio.run(work())


def test_wrong_use_of_stripes(coordinator, path):
    for stripes in (0, 2**17, True, "4"):
        with pytest.raises(ConfigError):
            StripedLock(path, stripes, client=coordinator)
    with pytest.raises(ConfigError):
        StripedLock(path, 4, client=coordinator).lock(17)
    with ZkLock(path, client=coordinator, timeout=10.0), pytest.raises(QueueConflictError):
        StripedLock(path, 4, client=coordinator).lock("a")


@pytest.mark.servers("embedded")
@pytest.mark.parametrize("operation", ["create", "getData", "sync"])
@pytest.mark.parametrize("fault", FAULTS)
def test_stripes_get_over_a_break_at_any_request(server: EmbeddedServer, operation, fault):
    with (
        Coordinator(server.hosts, session_timeout=2.0) as coordinator,
        getattr(server.faults, fault)(operation=operation),
        StripedLock("/stripes", 4, client=coordinator).lock("a", timeout=PATIENCE_S) as grant,
    ):
        grant.verify()


@pytest.fixture
def zk(hosts):
    client = KazooClient(hosts)
    client.start()
    yield client
    client.stop()
    client.close()
