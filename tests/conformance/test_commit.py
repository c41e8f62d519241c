"""The lock outlives the commit: `hold_until_commit` and `release_after_commit`, with sqlite3 and SQLAlchemy."""

from __future__ import annotations

import gc
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from kazoo.client import KazooClient
from sqlalchemy import orm, text

from tests.support.faults import members
from tests.support.waiting import PATIENCE_S, in_thread
from zkcoord import (
    AcquireTimeoutError,
    ConfigError,
    Coordinator,
    Grant,
    GrantLostError,
    NotHeldError,
    ZkLock,
    hold_until_commit,
    release_after_commit,
)


@pytest.fixture
def lock(coordinator: Coordinator, path: str) -> ZkLock:
    """The lock that protects the stock."""
    return ZkLock(path, client=coordinator, timeout=PATIENCE_S)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A file with one row: how much is in stock."""
    name = str(tmp_path / "stock.db")
    connection = sqlite3.connect(name)
    with connection:
        connection.execute(
            "CREATE TABLE stock (article TEXT PRIMARY KEY, count INTEGER NOT NULL CHECK (count >= 0))"
        )
        connection.execute("INSERT INTO stock VALUES ('tea', 100)")
    connection.close()
    return name


def in_stock(database: str) -> int:
    """What somebody else sees, which is only what is committed."""
    connection = sqlite3.connect(database)
    (count,) = connection.execute("SELECT count FROM stock").fetchone()
    connection.close()
    assert isinstance(count, int)
    return count


@pytest.fixture
def engine(database: str) -> Iterator[sqlalchemy.Engine]:
    """SQLAlchemy on the same file, with savepoints that work: as its documentation advises for SQLite."""
    made = sqlalchemy.create_engine(f"sqlite:///{database}")

    @sqlalchemy.event.listens_for(made, "connect")
    def no_begin(connection: Any, record: object) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(made, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    yield made
    made.dispose()


@pytest.fixture
def session(engine: sqlalchemy.Engine) -> Iterator[orm.Session]:
    with orm.Session(engine) as made:
        yield made


@pytest.fixture(params=["sqlite3", "sqlite3 by hand", "session", "connection"])
def connection(request: pytest.FixtureRequest, database: str, engine: sqlalchemy.Engine) -> Iterator[Any]:
    """Whatever can be committed, not in a transaction."""
    made: Any
    match request.param:
        case "sqlite3":
            made = sqlite3.connect(database)
        case "sqlite3 by hand":
            made = sqlite3.connect(database, isolation_level=None)
        case "session":
            made = orm.Session(engine)
        case _:
            made = engine.connect()
    yield made
    made.close()


TAKE = "UPDATE stock SET count = count - 1"


def take(connection: Any) -> None:
    connection.execute(TAKE if isinstance(connection, sqlite3.Connection) else text(TAKE))


def lose(grant: Grant, zk: KazooClient) -> None:
    zk.delete(f"{grant.path}/{grant.name}")
    assert grant.lost.wait(PATIENCE_S)


class Spy:
    """A connection that notes whether the lock was held when it was committed and rolled back."""

    def __init__(self, zk: KazooClient, path: str, failure: Exception | None = None) -> None:
        self.held_at: list[tuple[str, int]] = []
        self._count: Callable[[], int] = lambda: len(members(zk, path))
        self._failure = failure

    def begin(self) -> None:
        self.held_at.append(("begin", self._count()))

    def commit(self) -> None:
        self.held_at.append(("commit", self._count()))
        if self._failure is not None:
            raise self._failure

    def rollback(self) -> None:
        self.held_at.append(("rollback", self._count()))


# --- hold_until_commit


def test_transaction_begins_and_commits_inside_the_lock(lock: ZkLock, zk: KazooClient) -> None:
    spy = Spy(zk, lock.path)

    with hold_until_commit(lock, spy) as grant:
        grant.check()

    assert [("begin", 1), ("commit", 1)] == spy.held_at
    assert [] == members(zk, lock.path)


@pytest.mark.parametrize("where", ["body", "commit"])
def test_failure_rolls_back_inside_the_lock(lock: ZkLock, zk: KazooClient, where: str) -> None:
    failure = ValueError(where)
    spy = Spy(zk, lock.path, failure if where == "commit" else None)

    with pytest.raises(ValueError, match=where) as caught, hold_until_commit(lock, spy):  # noqa: PT012
        if where == "body":
            raise failure

    assert failure is caught.value
    assert ("rollback", 1) == spy.held_at[-1]
    assert [] == members(zk, lock.path)


def test_failed_rollback_is_a_note_on_the_error(lock: ZkLock, zk: KazooClient) -> None:
    class Broken(Spy):
        def rollback(self) -> None:
            raise OSError("gone")

    with pytest.raises(ValueError, match="own") as caught, hold_until_commit(lock, Broken(zk, lock.path)):
        raise ValueError("own")

    assert ["rolling back failed as well: OSError('gone')"] == caught.value.__notes__
    assert [] == members(zk, lock.path)


def test_failed_begin_gives_the_lock_back(lock: ZkLock, zk: KazooClient) -> None:
    class Broken(Spy):
        def begin(self) -> None:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"), hold_until_commit(lock, Broken(zk, lock.path)):
        raise AssertionError("no transaction")

    assert [] == members(zk, lock.path)


def test_commit_is_there_when_the_lock_passes_on(lock: ZkLock, connection: Any, database: str) -> None:
    def next_holder() -> int:
        with lock:
            return in_stock(database)

    with hold_until_commit(lock, connection):
        running = in_thread(next_holder)
        take(connection)
        assert 100 == in_stock(database)
    assert 99 == running.result(PATIENCE_S)


def test_lost_grant_is_not_committed(lock: ZkLock, connection: Any, database: str, zk: KazooClient) -> None:
    with pytest.raises(GrantLostError) as caught, hold_until_commit(lock, connection) as grant:  # noqa: PT012
        take(connection)
        lose(grant, zk)

    assert "deleted" == caught.value.reason
    assert 100 == in_stock(database)
    with hold_until_commit(lock, connection):  # and the connection is as good as new
        take(connection)
    assert 99 == in_stock(database)


def test_loss_after_the_commit_is_no_error(lock: ZkLock, zk: KazooClient) -> None:
    class Slow(Spy):
        def commit(self) -> None:
            super().commit()
            lose(grant, zk)

    spy = Slow(zk, lock.path)
    with hold_until_commit(lock, spy) as grant:
        pass

    assert ["begin", "commit"] == [name for name, _ in spy.held_at]


def test_failing_body_rolls_back(lock: ZkLock, connection: Any, database: str) -> None:
    with pytest.raises(ValueError, match="own"), hold_until_commit(lock, connection):  # noqa: PT012
        take(connection)
        raise ValueError("own")

    assert 100 == in_stock(database)


def test_open_transaction_is_refused(lock: ZkLock, connection: Any, zk: KazooClient) -> None:
    with hold_until_commit(lock, connection) as outer:
        take(connection)
        with (
            pytest.raises(ConfigError, match="a transaction is open already"),
            hold_until_commit(lock, connection),
        ):
            raise AssertionError("a body that ran in somebody else's transaction")
        outer.check()
        assert 1 == len(members(zk, lock.path))


def test_busy_lock_leaves_the_connection_alone(lock: ZkLock, connection: Any, zk: KazooClient) -> None:
    busy = ZkLock(lock.path, client=lock._client, timeout=0.05)
    spy = Spy(zk, lock.path)

    def try_it() -> None:
        with hold_until_commit(busy, spy):
            raise AssertionError("the body ran without the lock")

    with lock, pytest.raises(AcquireTimeoutError):
        in_thread(try_it).result(PATIENCE_S)
    assert [] == spy.held_at


def test_threads_with_connections_of_their_own_lose_no_update(lock: ZkLock, database: str) -> None:
    def many() -> None:
        connection = sqlite3.connect(database, timeout=0)
        for _ in range(10):
            with hold_until_commit(lock, connection):
                (count,) = connection.execute("SELECT count FROM stock").fetchone()
                connection.execute("UPDATE stock SET count = ?", (count - 1,))
        connection.close()

    for running in [in_thread(many) for _ in range(4)]:
        running.result(4 * PATIENCE_S)
    assert 60 == in_stock(database)


def test_grant_may_be_handed_in(lock: ZkLock, connection: Any, database: str, zk: KazooClient) -> None:
    with hold_until_commit(lock.acquire(), connection):
        take(connection)

    assert 99 == in_stock(database)
    assert [] == members(zk, lock.path)


def test_lost_grant_that_is_handed_in_starts_nothing(lock: ZkLock, zk: KazooClient) -> None:
    grant = lock.acquire()
    lose(grant, zk)
    spy = Spy(zk, lock.path)

    with pytest.raises(GrantLostError), hold_until_commit(grant, spy):
        raise AssertionError("the body ran without the lock")

    assert [] == spy.held_at


def test_savepoint_inside_is_the_users(lock: ZkLock, session: orm.Session, database: str) -> None:
    with hold_until_commit(lock, session) as grant:
        with session.begin_nested():
            take(session)
        with pytest.raises(ValueError, match="inner"), session.begin_nested():  # noqa: PT012
            take(session)
            raise ValueError("inner")
        grant.check()

    assert 99 == in_stock(database)


def test_wrong_use_says_what_to_do(lock: ZkLock, database: str) -> None:
    class Coroutines:
        async def commit(self) -> None: ...

        async def rollback(self) -> None: ...

    class Autocommit(Spy):
        autocommit = True

    with pytest.raises(ConfigError, match="must be a lock or a grant, not str"):
        hold_until_commit("/locks/a", sqlite3.connect(database))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must have commit\(\) and rollback"):
        hold_until_commit(lock, object())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"has no commit\(\) that a thread can call"):
        hold_until_commit(lock, Coroutines())
    with (
        pytest.raises(ConfigError, match="turn its autocommit off"),
        hold_until_commit(lock, Autocommit(None, "")),  # type: ignore[arg-type]
    ):
        raise AssertionError("nothing could be rolled back")
    with pytest.warns(ResourceWarning, match="never entered, so nothing was locked"):  # noqa: PT031
        hold_until_commit(lock, sqlite3.connect(database))
        gc.collect()
    once = hold_until_commit(lock, orm.Session())
    with once:
        pass
    with pytest.raises(ConfigError, match="call it anew"), once:
        raise AssertionError("entered twice")


# --- release_after_commit


@pytest.mark.parametrize("end", ["commit", "rollback", "close", "leave", "fail"])
def test_lock_is_released_when_the_transaction_ends(
    lock: ZkLock, engine: sqlalchemy.Engine, database: str, end: str
) -> None:
    session = orm.Session(engine)
    followers: list[Future[int]] = []

    def next_holder() -> int:
        with lock:
            return in_stock(database)

    def work() -> None:
        release_after_commit(lock.acquire(), session)
        take(session)
        followers.append(in_thread(next_holder))
        session.flush()
        assert not followers[0].done()

    def work_in_a_block() -> None:
        with session.begin():
            work()
            if end == "fail":
                raise ValueError("own")

    match end:
        case "fail":
            with pytest.raises(ValueError, match="own"):
                work_in_a_block()
        case "leave":
            work_in_a_block()
        case _:
            work()
            getattr(session, end)()

    assert (99 if end in ("commit", "leave") else 100) == followers[0].result(PATIENCE_S)
    session.close()


def test_savepoints_do_not_release(lock: ZkLock, session: orm.Session, database: str) -> None:
    grant = lock.acquire()
    release_after_commit(grant, session)
    with session.begin_nested():
        take(session)
    grant.check()
    with pytest.raises(ValueError, match="inner"), session.begin_nested():  # noqa: PT012
        take(session)
        raise ValueError("inner")
    grant.check()
    session.commit()

    assert grant.is_released
    assert 99 == in_stock(database)


def test_lost_grant_makes_the_commit_fail(
    lock: ZkLock, session: orm.Session, database: str, zk: KazooClient
) -> None:
    grant = lock.acquire()
    release_after_commit(grant, session)
    take(session)
    lose(grant, zk)

    for _ in range(2):  # trying again does not help
        with pytest.raises(GrantLostError):
            session.commit()
    session.rollback()

    assert 100 == in_stock(database)
    assert grant.is_released
    take(session)
    session.commit()  # the next transaction is nobody's business
    assert 99 == in_stock(database)


def test_grant_that_is_released_too_early_makes_the_commit_fail(
    lock: ZkLock, session: orm.Session, database: str
) -> None:
    with lock as grant:
        release_after_commit(grant, session)
        take(session)

    with pytest.raises(NotHeldError):
        session.commit()
    session.rollback()
    assert 100 == in_stock(database)


def test_commit_that_the_database_refuses_releases_after_the_rollback(
    lock: ZkLock, engine: sqlalchemy.Engine, database: str
) -> None:
    with orm.Session(engine) as session, pytest.raises(sqlalchemy.exc.IntegrityError), session.begin():  # noqa: PT012
        grant = lock.acquire()
        release_after_commit(grant, session)
        session.execute(text("UPDATE stock SET count = -1"))

    assert grant.is_released
    assert 100 == in_stock(database)


def test_grant_is_checked_after_the_flush(lock: ZkLock, session: orm.Session, zk: KazooClient) -> None:
    grant = lock.acquire()
    release_after_commit(grant, session)
    sqlalchemy.event.listen(session, "before_flush", lambda *_: lose(grant, zk), once=True)

    class Base(orm.DeclarativeBase):
        pass

    class Stock(Base):
        __tablename__ = "stock"
        article: orm.Mapped[str] = orm.mapped_column(primary_key=True)
        count: orm.Mapped[int]

    session.add(Stock(article="milk", count=1))
    with pytest.raises(GrantLostError):
        session.commit()
    session.rollback()


def test_one_session_again_and_again(
    lock: ZkLock, session: orm.Session, database: str, zk: KazooClient
) -> None:
    other = ZkLock(f"{lock.path}-other", client=lock._client)
    for _ in range(3):
        grants = lock.acquire(), other.acquire()
        for grant in grants:
            release_after_commit(grant, session)
        take(session)
        session.commit()
        assert all(grant.is_released for grant in grants)

    assert 97 == in_stock(database)
    assert [] == members(zk, lock.path) == members(zk, other.path)


def test_scoped_session_follows_its_own_thread(
    lock: ZkLock, engine: sqlalchemy.Engine, database: str
) -> None:
    sessions = orm.scoped_session(orm.sessionmaker(engine))
    barrier = threading.Barrier(4)

    def take_one() -> None:
        barrier.wait(PATIENCE_S)
        release_after_commit(lock.acquire(), sessions)
        (count,) = sessions.execute(text("SELECT count FROM stock")).one()
        sessions.execute(text("UPDATE stock SET count = :count"), {"count": count - 1})
        sessions.commit()
        sessions.remove()

    for running in [in_thread(take_one) for _ in range(4)]:
        running.result(2 * PATIENCE_S)
    assert 96 == in_stock(database)


def test_other_things_than_sessions_are_refused(lock: ZkLock, database: str, session: orm.Session) -> None:
    with lock as grant:
        with pytest.raises(
            ConfigError, match=r"not Connection; .*with hold_until_commit\(lock, connection\)"
        ):
            release_after_commit(grant, sqlite3.connect(database))
        with pytest.raises(ConfigError, match="grant must be a Grant"):
            release_after_commit(lock, session)  # type: ignore[arg-type]
    with pytest.raises(NotHeldError):
        release_after_commit(grant, session)


def test_sqlalchemy_is_not_imported_by_zkcoord(run_script: Callable[..., str]) -> None:
    assert "False\n" == run_script(
        """
import sqlite3, sys, zkcoord

with zkcoord.Coordinator(HOSTS) as coordinator:
    with zkcoord.hold_until_commit(zkcoord.ZkLock(ROOT + "/lock", client=coordinator), sqlite3.connect(":memory:")):
        pass
    with zkcoord.ZkLock(ROOT + "/lock", client=coordinator) as grant:
        try:
            zkcoord.release_after_commit(grant, object())
        except zkcoord.ConfigError:
            print("sqlalchemy" in sys.modules)
"""
    )
