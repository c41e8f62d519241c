"""
One kazoo client made trustworthy: its connection watched, its requests bounded, its session guarded.

`Session` wires the parts together and passes on what kazoo says about the connection, in a fixed order: first the
requests under way are settled, then watches, guard and janitor, then whoever waits. kazoo's own words are taken with
care: CONNECTED is said before authentication is done (so the connect hook counts, which comes after it), SUSPENDED may
come late or never, and LOST only once a server has said so.
"""

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from zkcoord._core.grant import LossReason
from zkcoord._core.messages import Event, Stop, Up
from zkcoord._session import clock, kazoo_private
from zkcoord._session.callbacks import Callbacks
from zkcoord._session.guard import Guard
from zkcoord._session.handler import Handler
from zkcoord._session.hold import Hold
from zkcoord._session.janitor import Janitor
from zkcoord._session.log import get_logger
from zkcoord._session.parents import Parents
from zkcoord._session.requests import Requests
from zkcoord._session.watches import Watches

log = get_logger("session")

#: Tries to read the negotiated timeout of a client that is connected already; a reconnect may get in between.
_ATTACH_TRIES = 50

#: Between two looks whether a session that is closing has been cleaned up.
_CLEAN_POLL_S = 0.05


#: Between two tries to wake kazoo's thread while it has as many bytes to read as fit.
_WAKE_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class ClientEnded:
    """Why a contender was stopped: kazoo's connection thread has ended, or the client was stopped by its user."""


class Waiting(Protocol):
    """Somebody who wants to know of connections: a runner."""

    def post(self, event: Event) -> None: ...


#: Every session of this process, to see whether a member belongs to one of them.
_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def is_held_here(name: str) -> bool:
    """Whether a live hold of this process, through any client, has a member of that name; names are unique."""
    return any(session.guard.holds(name) for session in _sessions)


class Session:
    """
    The session of one kazoo client, and of its successors. Thread-safe.

    Args:
        client: hooked and listened to from here on; never started, stopped or reconfigured.
        name: for the threads.
        tick_s: the ensemble's tickTime in seconds, if known.
        revive: starts the client again if kazoo's connection thread has died while somebody waits; None for a borrowed
            client, which only its user may start.
        now: the lease's clock.
    """

    def __init__(
        self,
        client: KazooClient,
        name: str,
        tick_s: float | None = None,
        revive: Callable[[], None] | None = None,
        now: Callable[[], float] = clock.now,
    ) -> None:
        self.client = client
        self._revive = revive
        self._now = now
        self.requests = Requests(client, now, self._answered, self._wake_later)
        self.watches = Watches(client, self.requests)
        self.janitor = Janitor(client, self.requests)
        self.parents = Parents(client, self.requests)
        self.callbacks = Callbacks(name)
        self.guard = Guard(
            client, now, self.requests, self.watches, self.janitor, tick_s=tick_s, kick=self._kick
        )
        self._name = name
        self._lock = threading.Lock()
        self._waiting: dict[Waiting, None] = {}
        self._epoch = 0
        self._connected = threading.Condition(self._lock)
        self._kicked = threading.Event()
        self._unwoken = 0
        self._stopped: Stop | None = None
        self._is_closed = False
        self._is_closing = False
        self._has_thread = False
        _sessions.add(self)
        client.add_listener(self._on_state)
        kazoo_private.hook_connect(client, now, self._on_connect)

    # --- what kazoo says

    def adopt(self, timeout_s: float | None) -> bool:
        """
        Take over a connection that existed before the hook.

        Args:
            timeout_s: the negotiated timeout if the user knows it; None reads it from kazoo.

        Returns:
            False when the client is connected but its negotiated timeout cannot be read.
        """
        for _ in range(_ATTACH_TRIES):
            with self._lock:
                epoch = self._epoch
            if not kazoo_private.is_live(self.client) or self.requests.is_up:
                return True  # the hook will see, or has seen, the connect
            negotiated = timeout_s or kazoo_private.negotiated_timeout_s(self.client)
            session = kazoo_private.session_id(self.client)
            if negotiated and session:
                with self._lock:
                    is_still = epoch == self._epoch and kazoo_private.is_live(self.client)
                if is_still:
                    self._connect(session, negotiated, None)
                    return True
            time.sleep(0.01)
        return False

    def _on_connect(self, sent: float, timeout_s: float) -> None:
        if isinstance(self.client.handler, Handler):
            self.client.handler.connected()
        with self._lock:
            self._epoch += 1
        session = kazoo_private.session_id(self.client)
        if session is not None and not kazoo_private.is_read_only(self.client):
            try:
                self._connect(session, timeout_s, sent)
            except Exception:
                # A bug of ours must not end kazoo's thread, and with it a client that is not ours.
                log.exception("connect.failed")

    def _connect(self, session: int, timeout_s: float, sent: float | None) -> None:
        log.info("session.connected", session=hex(session), timeout_s=timeout_s)
        self.guard.connected(session, timeout_s, sent)
        with self._lock:  # not the condition itself, whose Python code Ctrl-C could leave with the lock taken
            if self._is_closed:
                return
            # Together: whoever joins is either told of this connection or finds it up, never both.
            self.requests.up()
            waiting = list(self._waiting)
            self._connected.notify_all()
        self.janitor.up(session)
        for runner in waiting:
            runner.post(Up(session))
        self._kick()

    def _on_state(self, state: str) -> None:
        """kazoo's state listener, on its connection thread."""
        if state == KazooState.CONNECTED:
            return
        with self._lock:
            self._epoch += 1
        self.requests.down()
        self.watches.down()
        self.guard.disconnected()
        log.info("session.disconnected", state=state)
        if state == KazooState.LOST:
            is_expired = kazoo_private.is_expired(self.client)
            self.guard.session_ended(LossReason.EXPIRED if is_expired else LossReason.CLOSED)
        self._kick()

    def _answered(self, sent: float, arrived: float, is_confirmed: bool) -> None:
        self.guard.answered(sent, arrived, is_confirmed)

    # --- who waits

    def join(self, runner: Waiting) -> int | None:
        """Tell `runner` of every connection from now on; returns the current session, None without a connection."""
        with self._lock:
            self._waiting[runner] = None
            session = self.guard.session if self.requests.is_up else None
            stopped = self._stopped
        self._start_thread()
        if stopped is not None:
            runner.post(stopped)  # whoever comes too late for `stop_waiting` must not wait for ever
        return session

    def forget(self, runner: Waiting) -> None:
        """Stop telling."""
        with self._lock:
            self._waiting.pop(runner, None)

    def stop_waiting(self, event: Stop) -> None:
        """Tell everybody who waits to stop, and whoever comes later."""
        with self._lock:
            self._stopped = event
        self._stop_those_who_wait(event)

    def _stop_those_who_wait(self, event: Stop) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for runner in waiting:
            runner.post(event)

    def wait_connected(self, timeout_s: float) -> bool:
        """Wait for a connection; whether there is one."""
        self._start_thread()
        with self._lock:  # not the condition itself, whose Python code Ctrl-C could leave with the lock taken
            return self._connected.wait_for(lambda: self.requests.is_up, timeout_s)

    # --- giving back

    def release(self, hold: Hold, on_done: Callable[[bool], None] | None = None) -> bool:
        """
        End a hold and have its members deleted.

        Args:
            hold: of this session.
            on_done: told once; with False if somebody else had deleted its first member.

        Returns:
            False when it was over already; `on_done` is not called then.
        """
        return hold.release(on_done)

    def close(self, *, when_clean: bool = False) -> None:
        """
        Take hook and listener off the client and end our threads. What was held is lost already.

        Args:
            when_clean: first have the janitor finish, in the background, since that may need a connection. For a client
                that goes on living: its session would keep our members for as long.
        """
        self.callbacks.close()
        if when_clean and not self._is_clean():
            self._start_thread()
            self._is_closing = True
            self._kick()
            return
        with self._lock:
            self._is_closed = True
        self.client.remove_listener(self._on_state)
        kazoo_private.unhook_connect(self.client, self._on_connect)
        self.requests.close()
        self.watches.down()
        self._kick()

    def _is_clean(self) -> bool:
        """Whether nothing of ours is left on the server, or the session that owned it has ended."""
        return not len(self.janitor) or self.guard.session is None

    # --- the guard's thread

    def _start_thread(self) -> None:
        with self._lock:
            if self._has_thread or self._is_closed:
                return
            thread = threading.Thread(target=self._watch_over, name=f"{self._name}-guard", daemon=True)
            try:
                thread.start()
            finally:
                self._has_thread = thread.ident is not None  # also when an interrupt struck in between

    def _watch_over(self) -> None:
        while not self._is_closed:
            self._kicked.clear()
            due = self.turn()
            if kazoo_private.has_ended(self.client):
                if self._waiting and self._revive is not None:
                    self._revive()
                else:
                    self._stop_those_who_wait(
                        Stop(ClientEnded())
                    )  # no connection will come by itself any more
                with self._lock:
                    if not self._waiting and not self._is_closing:
                        self._has_thread = False  # whoever joins starts another one
                        return
            if self._is_closing:
                if self._is_clean():
                    self.close()
                due = min(due, self._now() + _CLEAN_POLL_S)
            self._kicked.wait(max(0.0, due - self._now()))

    def turn(self) -> float:
        """Do what is due now, as the guard's thread; return when to look again."""
        while self._unwoken and kazoo_private.wake(self.client):
            self._unwoken -= 1
        try:
            due = self.guard.tick(self._now())
        except Exception:
            log.exception("guard.failed")
            due = self._now() + 0.1
        return min(due, self._now() + _WAKE_AGAIN_S) if self._unwoken else due

    def _kick(self) -> None:
        self._kicked.set()

    def _wake_later(self) -> None:
        self._unwoken += 1
        self._kick()
