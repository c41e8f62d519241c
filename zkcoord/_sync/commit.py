"""
Locks that are given back after the database has committed, never before.

The classic trap: a function takes the lock, writes, and gives the lock back; the transaction around it commits later.
In between the next holder reads what was there before. `hold_until_commit` ends the transaction itself, inside the
lock; `release_after_commit` follows a SQLAlchemy session that somebody else ends. SQLAlchemy is never imported here:
whoever has a session has imported it.
"""

import inspect
import sqlite3
import sys
import warnings
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from zkcoord._spec import DEFAULT
from zkcoord._sync.base import Lock
from zkcoord._sync.grants import Grant, leave
from zkcoord.errors import ConfigError

#: Where a session keeps the grants that wait for its end.
_GRANTS = "zkcoord.release_after_commit"


class Transactional(Protocol):
    """What can be committed: a DB-API connection, or a session or connection of SQLAlchemy."""

    def commit(self) -> object:
        """Make the changes permanent."""
        ...

    def rollback(self) -> object:
        """Drop the changes."""
        ...


class HeldTransaction(AbstractContextManager[Grant, None]):
    """What `hold_until_commit` returns. Entered once."""

    def __init__(self, lock: Lock | Grant, connection: Transactional) -> None:
        if not isinstance(lock, Lock | Grant):
            raise ConfigError(f"lock must be a lock or a grant, not {type(lock).__name__}")
        for name in ("commit", "rollback"):
            method = getattr(connection, name, None)
            if not callable(method) or inspect.iscoroutinefunction(method):
                raise ConfigError(
                    f"connection must have commit() and rollback(), as a DB-API connection or a SQLAlchemy session;"
                    f" {type(connection).__name__} has no {name}() that a thread can call"
                )
        self._lock = lock
        self._connection = connection
        self._into: list[Grant] = []
        self._is_entered = False

    def __enter__(self) -> Grant:
        if self._is_entered:
            raise ConfigError("hold_until_commit() is entered once: call it anew for each transaction")
        self._is_entered = True
        into = self._into
        try:
            _check_idle(self._connection)
            if isinstance(self._lock, Grant):
                into.append(self._lock)
                self._lock.check()
            else:
                self._lock._wait(DEFAULT, into)
            _begin(self._connection)
        except BaseException:
            if into:  # no body will run; the guard makes sure of it, whatever strikes in here
                into[0]._session.guard.unfinished.append(into[0]._drop)
                into[0].release()
                into[0]._session.guard.finished(into[0]._drop)
            raise
        return into[0]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._into[0]
        try:
            if error is not None:
                self._end_badly(error)
                return
            try:
                grant.check()
                self._connection.commit()
            except BaseException as failure:
                self._end_badly(failure)
                raise
            # Not `leave`: after the commit no error may say that there was none.
            grant.release()
        except BaseException:
            grant._session.guard.unfinished.append(grant._drop)  # if an interrupt came in between
            grant.release()
            grant._session.guard.finished(grant._drop)
            raise

    def __del__(self) -> None:
        if not getattr(self, "_is_entered", True):
            warnings.warn(
                "hold_until_commit() was never entered, so nothing was locked: use it in a `with`",
                ResourceWarning,
                stacklevel=2,
            )

    def _end_badly(self, error: BaseException) -> None:
        try:
            self._connection.rollback()
        except Exception as failure:
            error.add_note(f"rolling back failed as well: {failure!r}")
        finally:
            leave(self._into[0], error)


def hold_until_commit(
    lock: Lock | Grant, connection: Transactional
) -> AbstractContextManager[Grant, bool | None]:
    """
    Run a database transaction inside a lock: ``with hold_until_commit(lock, connection) as grant:``.

    It acquires, then begins the transaction. At the end of the body it checks the grant, commits, and only then gives
    the lock back. If the body or the commit fails it rolls back first, and the error propagates. If the grant is lost
    by the end of the body, it rolls back and raises `GrantLostError`: that always means that nothing was committed.

    A grant that is lost *while* the database commits cannot be seen in time by anybody. Write `grant.token` as a fence
    in the same transaction where that matters.

    Args:
        lock: any lock, acquired with its own timeout; or a grant, which is released at the end.
        connection: a DB-API connection (sqlite3, psycopg, PyMySQL, …), or a SQLAlchemy ``Session`` or ``Connection``.
            No transaction may be open on it, since what that has read may be older than the lock. ``begin()`` is called
            where there is one.

    Raises:
        ConfigError: no such objects, a transaction is open already, or the connection is in autocommit mode.
        GrantLostError: the grant was lost before the commit; rolled back.
        As `acquire`, and what the connection raises.

    Safety: the body runs, and the transaction ends, in the calling thread.
    """
    return HeldTransaction(lock, connection)


def release_after_commit(grant: Grant, session: Transactional) -> None:
    """
    Release a grant when a SQLAlchemy session's transaction has ended, by whoever ends it: commit, rollback or close.

    For code inside a transaction that is committed further up, ``with Session.begin() as session:`` for instance. Take
    the lock before the session's first statement. Savepoints do not end it. Before the commit the session is flushed
    and the grant checked: if it is lost, the commit raises `GrantLostError` and nothing is committed.

    Args:
        grant: held; nobody else should release it.
        session: a ``Session`` or ``scoped_session``. A transaction is begun if there is none. Where the session is
            joined into a transaction of its connection, that one ends later, unseen.

    Raises:
        ConfigError: not a SQLAlchemy session.
        GrantLostError, NotHeldError: the grant is lost or released already.

    Safety: the release happens in the thread that ends the transaction.
    """
    if not isinstance(grant, Grant):
        raise ConfigError(f"grant must be a Grant, as acquire() returns it, not {type(grant).__name__}")
    real = _sqlalchemy_session(session)
    grant.check()
    grants: list[Grant] | None = real.info.get(_GRANTS)
    if grants is None:
        # The listeners stay: SQLAlchemy cannot take one off while it is called.
        grants = real.info[_GRANTS] = []
        listen = sys.modules["sqlalchemy"].event.listen
        listen(real, "before_commit", _check_before_commit)
        listen(real, "after_transaction_end", _release_after_end)
    if not real.in_transaction():
        real.begin()
    grants.append(grant)


def _check_before_commit(session: Any) -> None:
    grants: list[Grant] = session.info[_GRANTS]
    if grants:
        session.flush()  # which may take its time: look at the grants after it
    for grant in grants:
        grant.check()


def _release_after_end(session: Any, transaction: Any) -> None:
    if transaction.parent is not None:
        return  # a savepoint, or a part of a flush
    grants: list[Grant] = session.info[_GRANTS]
    while grants:
        grants.pop().release()


def _sqlalchemy_session(session: object) -> Any:
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(session, orm.scoped_session):
        session = session()
    if orm is None or not isinstance(session, orm.Session):
        raise ConfigError(
            f"session must be a SQLAlchemy Session, which tells when it has committed, not {type(session).__name__};"
            " for other connections use `with hold_until_commit(lock, connection):`"
        )
    return session


def _check_idle(connection: object) -> None:
    """Refuse a connection whose transaction would be older than the lock, or is none."""
    if getattr(connection, "autocommit", None) is True:
        raise ConfigError("the connection commits each statement by itself: turn its autocommit off")
    if isinstance(connection, sqlite3.Connection) and _always_in_transaction(connection):
        return
    is_open = getattr(connection, "in_transaction", False)
    if is_open() if callable(is_open) else is_open:
        raise ConfigError(
            "a transaction is open already, and what it has read may be older than the lock: commit or roll it back"
            " first; for a SQLAlchemy session that somebody else commits there is release_after_commit()"
        )


def _begin(connection: object) -> None:
    begin = getattr(connection, "begin", None)
    if callable(begin):
        begin()
    elif isinstance(connection, sqlite3.Connection) and not _always_in_transaction(connection):
        connection.execute("BEGIN")


def _always_in_transaction(connection: sqlite3.Connection) -> bool:
    """Whether this is a connection of Python 3.12 with ``autocommit=False``, which opens the next one by itself."""
    return getattr(connection, "autocommit", None) is False
