"""`ZkLock`: the exclusive lock, for threads."""

import uuid
from collections.abc import Sequence
from types import TracebackType

from kazoo.client import KazooClient
from kazoo.security import ACL

from zkcoord import queues
from zkcoord._core.messages import Stop
from zkcoord._core.queue import find_conflicts
from zkcoord._default import default_coordinator
from zkcoord._session import clock
from zkcoord._session.identity import current_thread_owner
from zkcoord._session.runner import Cancelled
from zkcoord._session.session import Waiting
from zkcoord._session.spec import DEFAULT, AcquireCall, Default, Spec, exclusive_spec, timeout_s, unreachable
from zkcoord._sync.driver import acquire
from zkcoord._sync.grants import Grant, leave
from zkcoord.coordinator import Coordinator, coordinator_for, seconds
from zkcoord.errors import (
    AcquireTimeoutError,
    ConnectionLostError,
    ForeignProcessError,
    NotHeldError,
    QueueConflictError,
)

#: Least time for the reads of `queue`, whatever the connecting has left.
_LAST_LOOK_S = 0.1


class ZkLock:
    """
    An exclusive lock: at most one owner holds a path at a time, in the order of asking.

    A lock object describes; the `Grant` that an acquire returns is what one holds. The object may be shared between
    threads and made at module level; without ``client=`` it finds its process's default coordinator at each use, so it
    works in forked workers too. Locks are re-entrant per owner, also through another object for the same path.

    Use it as ``with ZkLock("/locks/orders", timeout=5.0) as grant:``; leaving the body raises `GrantLostError` when the
    grant was lost while it ran.

    Args:
        path: the lock's directory; its missing ancestors are made, as containers where the server has them. Put nothing
            else into it. Encode names that come from data with `zkcoord.quote`.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator (see `zkcoord.configure`).
        timeout: seconds that an acquire waits by default; None = for ever, 0 = one try.
        reentrant: False makes an acquire by the owner that holds it raise `AlreadyHeldError` instead of re-entering.
        owner: a name for the owner, instead of the calling thread, so that a hold can travel between threads.
        label: shown to operators beside host, process and thread.
        dialect: the layout of the members: "curator" (default; Java's ``InterProcessMutex`` and ``LeaderSelector``),
            "curator-latch" (``LeaderLatch``) or "kazoo" (kazoo's ``Lock`` and ``WriteLock``).
        acl: for the member and for directories made here; None = the coordinator's.

    Raises:
        ConfigError: an argument is wrong.

    Source: the lock recipe of ZooKeeper's "Recipes and Solutions"; what is promised, and what it assumes, is in
    ``docs/concepts/session-loss.md``.
    """

    def __init__(
        self,
        path: str,
        *,
        client: Coordinator | KazooClient | None = None,
        timeout: float | None = None,
        reentrant: bool = True,
        owner: str | None = None,
        label: str | None = None,
        dialect: str = "curator",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._spec: Spec = exclusive_spec(
            path, timeout=timeout, reentrant=reentrant, owner=owner, label=label, dialect=dialect, acl=acl
        )
        self._client = client
        if client is not None:
            coordinator_for(client)
        self._pending: set[Waiting] = set()
        self._entered: list[tuple[str, Grant]] = []
        self._was_busy = False

    def __repr__(self) -> str:
        return f"<ZkLock {self._spec.path}>"

    @property
    def path(self) -> str:
        """The lock's path, in its one spelling."""
        return self._spec.path

    def acquire(self, *, timeout: float | Default | None = DEFAULT) -> Grant:
        """
        Wait for the lock and return the grant.

        Args:
            timeout: seconds for everything, connecting included; DEFAULT = the constructor's, None = for ever,
                0 = one try.

        Raises:
            AcquireTimeoutError: the time ran out; who is in the way is in its fields.
            AcquireCancelledError: `cancel`, or the coordinator was closed.
            AlreadyHeldError: this owner holds it and the lock is not reentrant, or holds it through another client.
            QueueConflictError: the directory has members of another lock library or kind.
            SequenceExhaustedError: the directory's counter is nearly used up.
            ConnectionLostError: one try (``timeout=0``) got no answer, or the client has ended meanwhile.
            ConfigError: the coordinator is closed, the client stopped, or its credentials do not suffice.
            ForeignProcessError: the coordinator was made by this process's parent.

        On the server: nothing of ours remains after an error, as soon as the connection is back; Ctrl-C and any other
        exception included.
        """
        return self._wait(timeout, [])

    def _wait(self, timeout: float | Default | None, into: list[Grant]) -> Grant:
        limit_s = self._spec.timeout_s if isinstance(timeout, Default) else timeout_s("timeout", timeout)
        grant = self._acquire(limit_s, into, is_none_if_busy=False)
        assert grant is not None
        return grant

    def try_acquire(self, *, timeout: float = 0.0) -> Grant | None:
        """
        Return the grant, or None when somebody is ahead.

        Args:
            timeout: seconds to wait for those ahead; 0 = one look. It takes its place in the queue like everybody else
                and never overtakes.

        Raises:
            ConnectionLostError: not connected, or no answer within `timeout` (for 0: a third of the session timeout, at
                most 1 s). None only ever means busy.
            AcquireCancelledError, AlreadyHeldError, QueueConflictError, SequenceExhaustedError, ConfigError,
                ForeignProcessError: as for `acquire`.
        """
        limit_s = timeout_s("timeout", timeout)
        try:
            grant = self._acquire(limit_s, [], is_none_if_busy=True)
        except AcquireTimeoutError as error:
            if error.position is None:
                raise ConnectionLostError(str(error)) from error
            grant = None
        self._was_busy = grant is None
        return grant

    def cancel(self) -> None:
        """
        End the acquires of this object that are pending now, with `AcquireCancelledError`. Otherwise do nothing.

        Safety: from any thread; does not block.
        """
        for waiting in tuple(self._pending):
            waiting.post(Stop(Cancelled("cancelled")))

    def queue(self, *, timeout: float = 10.0) -> tuple[queues.Member, ...]:
        """
        Return holders and waiters, oldest first; empty when there are none.

        Args:
            timeout: most seconds for everything, connecting included; more than 0.

        Raises:
            ConfigError: `timeout` is wrong, or these credentials may not list the path.
            ConnectionLostError: no answer in time.
            QueueConflictError: the directory has members of another lock library or kind.
        """
        give_up = clock.now() + seconds("timeout", timeout, is_positive=True)
        client = _connected_client(self._coordinator(), give_up)
        # At least a moment: a connection that came in the last instant still gets an answer or a proper error.
        members = queues.read_queue(client, self.path, timeout=max(_LAST_LOOK_S, give_up - clock.now()))
        conflicts = find_conflicts((member.name for member in members), self._spec.rule)
        if conflicts:
            raise QueueConflictError(self.path, conflicts)
        return members

    def __enter__(self) -> Grant:
        into: list[Grant] = []
        try:
            self._wait(DEFAULT, into)
            self._entered.append((self._owner_key(), into[0]))
            return into[0]
        except BaseException:
            # An interrupt may strike when the grant is there already; the body will not run, nor anybody give it back.
            if into:
                into[0].release()
                entry = (self._owner_key(), into[0])
                if entry in self._entered:
                    self._entered.remove(entry)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            leave(self._entered_here()[1], error)
        finally:
            self._drop_entered()

    def _entered_here(self) -> tuple[str, Grant]:
        """Return this owner's newest entry of `with`; another owner's only if it is the one open entry there is."""
        entry = self._find_entered()
        if entry is not None:
            return entry
        count = len(self._entered)
        why = (
            f"this thread entered no `with`, and {count} grants are open: leave it where it was entered, or name the"
            " owner with owner="
            if count
            else "no `with` of this lock is open"
        )
        raise NotHeldError(self.path, why)

    def _find_entered(self) -> tuple[str, Grant] | None:
        key = self._owner_key()
        entries = tuple(self._entered)
        own = next((entry for entry in reversed(entries) if entry[0] == key), None)
        return own or (entries[0] if len(entries) == 1 else None)

    def _drop_entered(self) -> None:
        """Take the newest entry off, and release its grant if an interrupt has kept `leave` from it."""
        entry = self._find_entered()
        if entry is not None:
            try:
                entry[1].release()
            except ForeignProcessError:
                pass  # a forked child that ends inside its parent's `with`; `leave` has told, the body's error goes on
            self._entered.remove(entry)

    def _acquire(self, limit_s: float | None, into: list[Grant], *, is_none_if_busy: bool) -> Grant | None:
        """Acquire, and put the grant `into` a list as soon as it exists."""
        coordinator = self._coordinator()
        owner = current_thread_owner(self._spec.owner)
        ask = AcquireCall(
            coordinator,
            self._spec,
            owner,
            limit_s,
            _new_uuid,
            self._pending,
            list_first=limit_s == 0 and self._was_busy,
            is_none_if_busy=is_none_if_busy,
        )
        session = coordinator.session()
        try:
            hold = acquire(ask, session)
            return None if hold is None else Grant(ask, session, hold, into)
        except BaseException:
            # Twice, so that a second interrupt inside the first try leaves nothing behind either.
            try:
                ask.undo(session)
            finally:
                ask.undo(session)
            raise

    def _owner_key(self) -> str:
        return current_thread_owner(self._spec.owner).key

    def _coordinator(self) -> Coordinator:
        return default_coordinator() if self._client is None else coordinator_for(self._client)


def _new_uuid() -> str:
    return str(uuid.uuid4())


def _connected_client(coordinator: Coordinator, give_up: float) -> KazooClient:
    if not coordinator.session().wait_connected(max(0.0, give_up - clock.now())):
        raise ConnectionLostError(unreachable(coordinator))
    return coordinator.client
