"""
Leader election: one process of many leads, and knows when it no longer does.

**Problem.** A scheduler, a compactor, a writer must run once in a cluster, and somewhere else when its host dies.

**Guarantee.** What a `ZkLock` promises: two terms whose deadlines lie ahead never overlap; ``term.lost`` is set before
the ensemble can elect anybody else (or, when an operator deletes the candidate, one round trip later); ``term.token``
is larger than that of every earlier term. Candidates lead in the order in which they came. `LeaderElection.run` never
starts its function twice at once, and queues again by itself after a loss, an error or a resignation.

**Cost.** To join: one round trip. To take over: one notification and one round trip, for the next in line only. While
leading: a heartbeat each eighth of the session timeout. `observe`: two or three reads for each change of leader.

**Not done.** Work that ignores ``term.lost`` is reported, not stopped: Python cannot stop it. Nobody is preferred
as leader. A published value (`Term.proclaim`) goes when the last candidate has gone.

Java's ``LeaderSelector`` takes part with ``dialect="curator"``, ``LeaderLatch`` with ``dialect="curator-latch"``; both
show our candidates as participants. The layout is that of a `ZkLock` of that dialect; what the leader proclaims is
the data of the directory, written in a transaction that only commits while it leads.
"""

import logging
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recipes._terms import Leader, Term, leader_of
from recipes._znodes import Client, Record, Wake, Znodes, check_seconds, left, pause_s
from zkcoord import (
    AcquireCancelledError,
    AlreadyHeldError,
    ConfigError,
    ConnectionLostError,
    Grant,
    GrantLostError,
    Member,
    ZkLock,
)

log = logging.getLogger(__name__)

#: Seconds that a function gets to return after its term has ended before it is reported.
DEFAULT_GRACE_S = 5.0

#: Longest pause after errors: long enough to spare a broken database, short enough for whoever waits for its repair.
_LONGEST_BACK_OFF_S = 30.0
_FIRST_BACK_OFF_S = 0.1

#: How often `stop` repeats its cancel, since an acquire may just be about to begin.
_CANCEL_AGAIN_S = 0.05

#: Seconds for the reads of one look at the election.
_LOOK_S = 5.0


class LeaderElection:
    """
    One candidate. Make an object for each; it may be shared between threads.

    Args:
        path: the election's directory; put nothing else into it.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator.
        name: shown to others as `Leader.name`.
        dialect: "curator" (``LeaderSelector``) or "curator-latch" (``LeaderLatch``); the same for all candidates.
        grace: seconds that the function of `run` gets to return when its term has ended, before it is reported.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(
        self,
        path: str,
        *,
        client: Client = None,
        name: str | None = None,
        dialect: str = "curator",
        grace: float = DEFAULT_GRACE_S,
    ) -> None:
        if dialect not in ("curator", "curator-latch"):
            raise ConfigError(f"dialect must be curator or curator-latch, not {dialect!r:.80}")
        self._znodes = Znodes(client)
        self._name = name
        self._dialect = dialect
        self._grace_s = check_seconds("grace", grace)
        self._owner = f"election-{uuid.uuid4()}"
        self._lock = self._new_lock(path, None)
        self.path = self._lock.path
        self._record = Record(self.path, "leader-election")
        self._campaign = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._stopping = threading.Event()
        self._term: Term | None = None
        self._thread: int | None = None
        self._wakes: set[Wake] = set()

    def __repr__(self) -> str:
        return f"<LeaderElection {self.path} {self._name or ''}>"

    # --- to lead

    @contextmanager
    def lead(self, *, timeout: float | None = None) -> Iterator[Term]:
        """
        Wait for the leadership, and lead while the body runs.

        Args:
            timeout: seconds to wait; None = for ever, 0 = one try.

        Raises:
            GrantLostError: the body ended well, but the leadership had been lost.
            AcquireCancelledError: `stop` was called.
            AlreadyHeldError: this candidate leads or waits already.
            AcquireTimeoutError, QueueConflictError and others: as for ``ZkLock.acquire``.
        """
        with self._campaigning():
            lock = self._new_lock(self.path, timeout)
            self._lock = lock
            if self._stopping.is_set():
                raise AcquireCancelledError(self.path, "cancelled")
            with lock as grant:
                term = Term(grant, self._record)
                try:
                    self._begin(term)
                    yield term
                finally:
                    self._end(term)

    def run(self, function: Callable[[Term], object]) -> None:
        """
        Campaign until `stop`: call ``function(term)`` on this thread for each term, one after the other.

        The function leads until ``term.lost`` is set, and must return then. When it returns earlier, it resigns and
        queues again behind the others. When it raises, that is logged, the leadership is given up at once, and after a
        pause (0.1 s, doubled up to 30 s while errors follow each other) it queues again. While it has not returned, no
        other term begins here, and, unless the term was lost, nowhere else.

        Raises:
            AlreadyHeldError: this candidate leads or waits already.
            ConfigError, ForeignProcessError, QueueConflictError, SequenceExhaustedError: what waiting does not mend.
            AcquireCancelledError: the coordinator was closed.
        """
        if not callable(function):
            raise ConfigError(f"function must be callable, not {type(function).__name__}")
        with self._campaigning():
            failures = 0
            while not self._stopping.is_set():
                failures = failures + 1 if self._run_term(function) else 0
                if failures:
                    self._stopping.wait(pause_s(failures, _LONGEST_BACK_OFF_S, _FIRST_BACK_OFF_S))

    def stop(self, timeout: float | None = 10.0) -> bool:
        """
        End the campaign for good, from any thread or from the function itself.

        A waiting candidate leaves the queue. A leader sees ``term.lost`` and is given the time to return; the
        leadership ends when it has.

        Args:
            timeout: most seconds to wait for that; None = for ever.

        Returns:
            Whether the campaign has ended. Always False on the campaigning thread itself, where it ends later.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        self._stopping.set()
        for wake in tuple(self._wakes):
            wake.ring()
        if self._thread == threading.get_ident():
            # In the function itself, or in a signal handler: it can only end when this call has returned.
            threading.Thread(target=self.stop, args=(timeout,), name="zkcoord-election", daemon=True).start()
            if self._term is not None:
                self._term.lost.set()
            return False
        while not self._idle.is_set():
            self._lock.cancel()
            term = self._term
            if term is not None:
                term.lost.set()
            rest = left(give_up)
            if rest == 0:
                return False
            self._idle.wait(_CANCEL_AGAIN_S if rest is None else min(rest, _CANCEL_AGAIN_S))
        return True

    # --- to look

    def leader(self, *, timeout: float = _LOOK_S) -> Leader | None:
        """
        Return who leads now, by a fresh read; None when nobody does.

        Raises:
            ConnectionLostError: no answer in time.
            QueueConflictError: the path is used by another recipe or dialect.
        """
        return self._look(time.monotonic() + timeout, None)

    def candidates(self, *, timeout: float = _LOOK_S) -> tuple[Member, ...]:
        """Return leader and candidates, in the order in which they will lead; `Member.label` is the name."""
        return self._lock.queue(timeout=timeout)

    def observe(self) -> Iterator[Leader | None]:
        """
        Yield the leader (None = nobody), at once and after each change, until `stop`.

        Who takes long between two steps may miss a leader that came and went, but never the latest. While no server
        answers, nothing is yielded.

        Raises:
            QueueConflictError, ConfigError: as for `leader`.
        """
        wake = Wake()
        self._wakes.add(wake)
        try:
            last: list[Leader | None] = []
            failures = 0
            while not self._stopping.is_set():
                wake.clear()
                try:
                    found = self._look(time.monotonic() + _LOOK_S, wake)
                except ConnectionLostError:
                    failures += 1
                    wake.wait(pause_s(failures))
                    continue
                failures = 0
                if [found] != last:
                    last = [found]
                    yield found
                if not self._stopping.is_set():
                    wake.wait()
        finally:
            self._wakes.discard(wake)

    # --- how

    def _new_lock(self, path: str, timeout: float | None) -> ZkLock:
        return ZkLock(
            path,
            client=self._znodes.client,
            timeout=timeout,
            reentrant=False,
            owner=self._owner,
            label=self._name,
            dialect=self._dialect,
        )

    @contextmanager
    def _campaigning(self) -> Iterator[None]:
        if not self._campaign.acquire(blocking=False):
            raise AlreadyHeldError(
                self.path, "this candidate leads or waits already; make one LeaderElection for each candidate"
            )
        try:
            self._thread = threading.get_ident()
            self._idle.clear()
            yield
        finally:
            self._thread = None
            self._campaign.release()
            self._idle.set()

    def _begin(self, term: Term) -> None:
        self._term = term
        if self._stopping.is_set():
            term.lost.set()

    def _end(self, term: Term) -> None:
        self._term = None
        term._close()

    def _run_term(self, function: Callable[[Term], object]) -> bool:
        """Wait for one term and lead; whether it failed in a way that calls for a pause."""
        try:
            with self._lock as grant:
                return self._lead_once(grant, function)
        except GrantLostError:
            return False
        except AcquireCancelledError as error:
            if error.reason == "cancelled":
                return False
            raise
        except ConnectionLostError:
            log.warning("election.unreachable: %s", self.path, exc_info=True)
            return True

    def _lead_once(self, grant: Grant, function: Callable[[Term], object]) -> bool:
        term = Term(grant, self._record)
        done = threading.Event()
        threading.Thread(target=self._watch, args=(term, done), name="zkcoord-election", daemon=True).start()
        try:
            self._begin(term)
            function(term)
        except Exception:
            log.exception("election.failed: the function of %s, token %s", self.path, term.token)
            return True
        finally:
            done.set()
            self._end(term)
        return False

    def _watch(self, term: Term, done: threading.Event) -> None:
        """Report a function that goes on after its term."""
        term.lost.wait()
        if done.wait(self._grace_s):
            return
        text = (
            f"the function that led {self.path} (token {term.token}) still runs {self._grace_s:g} s after its term"
            " ended: it must return when term.lost is set; no new term begins here before"
        )
        log.error("election.overdue: %s", text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _look(self, give_up: float, wake: Wake | None) -> Leader | None:
        found = self._znodes.get(self.path, give_up, None if wake is None else wake.ring)
        if found is None:
            if wake is not None and self._znodes.exists(self.path, give_up, wake.ring) is not None:
                wake.ring()  # made in between
            return None
        proclaimed = self._record.decode(found[0])
        leader = leader_of(self._queue(give_up), proclaimed)
        if wake is None:
            return leader
        if leader is None:
            # Look once more behind the watch, which tells of whoever comes after that.
            self._znodes.children(self.path, give_up, wake.ring)
            leader = leader_of(self._queue(give_up), proclaimed)
        if leader and self._znodes.get(f"{self.path}/{leader.member.name}", give_up, wake.ring) is None:
            wake.ring()  # gone in between
        return leader

    def _queue(self, give_up: float) -> tuple[Member, ...]:
        return self._lock.queue(timeout=max(0.1, left(give_up) or 0.0))


def example() -> None:
    """One candidate leads until it is stopped, and tells others where to find it."""
    election = LeaderElection("/examples/election", name="host-1")

    def work(term: Term) -> None:
        term.proclaim("http://host-1:8080")
        print("leading with token", term.token, "at", next(LeaderElection("/examples/election").observe()))
        while not term.lost.wait(0.01):
            term.check()
            election.stop()  # usually called by whoever shuts the program down

    election.run(work)
    with LeaderElection("/examples/election", name="host-2").lead(timeout=5.0) as term:
        print("led by", election.candidates()[0].label, "with token", term.token)


if __name__ == "__main__":
    example()
