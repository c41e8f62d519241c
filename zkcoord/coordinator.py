"""
`Coordinator`: one ZooKeeper session for any number of locks, and where it comes from.

It owns the kazoo client when it made one, and only borrows it when one was handed in. Everything that makes the session
trustworthy is in `_session`; this file is about setting up, sharing between processes, and closing in bounded time.
"""

import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from zkcoord._arguments import check_acl, check_auth, check_borrowed, check_hosts, seconds
from zkcoord._core.grant import LossReason
from zkcoord._core.messages import Stop
from zkcoord._session import kazoo_private, process
from zkcoord._session.handler import Handler
from zkcoord._session.log import KazooLog
from zkcoord._session.loops import off_loop
from zkcoord._session.registry import Registry
from zkcoord._session.runner import Cancelled
from zkcoord._session.session import Session
from zkcoord._tls import check_tls
from zkcoord.errors import ConfigError, ConnectionLostError

#: Where ZooKeeper is looked for when nobody says.
DEFAULT_HOSTS = "127.0.0.1:2181"

#: Environment variable that names the hosts.
HOSTS_VARIABLE = "ZKCOORD_HOSTS"

#: Seconds after which a session without a word from its client ends; the ensemble may give less or more.
DEFAULT_SESSION_TIMEOUT_S = 10.0

#: Most that ZooKeeper's protocol can carry: milliseconds in 31 bits.
_MAX_SESSION_TIMEOUT_S = 2_147_483

#: Seconds a release waits for the server before it leaves the delete to the background.
DEFAULT_RELEASE_TIMEOUT_S = 2.0

#: Least time that a host gets to accept a connection and a session, however short the session timeout.
_MIN_CONNECT_S = 0.5

#: Longest pause between two rounds of connection attempts.
_MAX_RECONNECT_DELAY_S = 1.0

#: Longest sleep of a `Coordinator.connect` without a limit before it looks whether the coordinator is still open.
_LOOK_AGAIN_S = 1.0


class Coordinator:
    """
    One ZooKeeper session, shared by any number of locks, with a fixed number of threads.

    It connects at the first acquire, under that acquire's deadline, and reconnects for ever, at least once a second.
    As a context manager it is closed on exit; ``async with`` works as well, and starts and closes off the loop. Threads
    and event loops may share one.

    Args:
        hosts: ``"zk1:2181,zk2:2181/chroot"``; None takes ``ZKCOORD_HOSTS``, else ``127.0.0.1:2181``. The chroot is
            created when it is missing.
        kazoo: a started `KazooClient` to borrow instead, with kazoo's threading handler and not ``read_only``. It gets
            one state listener and one hook; it is never started, stopped or reconfigured, and `close` leaves it as it
            was.
        session_timeout: seconds asked for; the ensemble decides (2 to 20 of its ticks by default), and all deadlines
            use what it decided. Ignored for a borrowed client.
        tick_time: the ensemble's ``tickTime`` in seconds. Needed above 2.8 s, and where ``minSessionTimeout`` is less
            than two ticks; otherwise it only makes deadlines a little longer.
        negotiated_timeout: seconds the server granted a borrowed client; only needed if zkcoord cannot find out.
        release_timeout: seconds that a release waits for the server before the delete goes on in the background.
        auth: ``[("digest", "user:password"), …]``, as for kazoo.
        acl: ACL of the znodes that are made; None takes the borrowed client's default, else open to all.
        tls: use TLS. `ca`, `certfile`, `keyfile`, `keyfile_password`, `verify_certs` and `check_hostname` go with it;
            unlike in kazoo the host name is checked by default.
        sasl_options: passed to kazoo (needs ``pure-sasl``).

    Raises:
        ConfigError: an argument is wrong, or the borrowed client cannot be used.

    Safety: all methods may be called from any thread. An object made before a fork refuses to work in the child with
    `ForeignProcessError`; the parent's is unharmed.
    """

    def __init__(
        self,
        hosts: str | None = None,
        *,
        kazoo: KazooClient | None = None,
        session_timeout: float = DEFAULT_SESSION_TIMEOUT_S,
        tick_time: float | None = None,
        negotiated_timeout: float | None = None,
        release_timeout: float = DEFAULT_RELEASE_TIMEOUT_S,
        auth: Sequence[tuple[str, str]] = (),
        acl: Sequence[ACL] | None = None,
        tls: bool = False,
        ca: str | None = None,
        certfile: str | None = None,
        keyfile: str | None = None,
        keyfile_password: str | None = None,
        verify_certs: bool = True,
        check_hostname: bool = True,
        sasl_options: dict[str, Any] | None = None,
    ) -> None:
        if kazoo is not None and hosts is not None:
            raise ConfigError("give either hosts or kazoo, not both")
        own_acl = () if acl is None else check_acl(acl)
        auth_data = check_auth(auth)
        self.release_timeout = seconds("release_timeout", release_timeout)
        self._tick_s = None if tick_time is None else seconds("tick_time", tick_time, is_positive=True)
        self._negotiated_s = (
            None
            if negotiated_timeout is None
            else seconds("negotiated_timeout", negotiated_timeout, is_positive=True)
        )
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closing = False
        self._is_borrowed = kazoo is not None
        self._log = KazooLog()
        self.registry = Registry()
        self._session: Session | None = None
        if kazoo is not None:
            check_borrowed(kazoo)
            self.hosts = ",".join(f"{host}:{port}" for host, port in kazoo.hosts) + (kazoo.chroot or "")
            self._client = kazoo
            self._session = self._attach(kazoo)
        else:
            self.hosts = check_hosts(
                hosts if hosts is not None else os.environ.get(HOSTS_VARIABLE, DEFAULT_HOSTS)
            )
            timeout_s = seconds("session_timeout", session_timeout, is_positive=True)
            if timeout_s > _MAX_SESSION_TIMEOUT_S:
                raise ConfigError(
                    f"session_timeout must be at most {_MAX_SESSION_TIMEOUT_S} seconds, not {session_timeout!r}"
                )
            check_tls(
                tls=tls,
                ca=ca,
                certfile=certfile,
                keyfile=keyfile,
                keyfile_password=keyfile_password,
                verify_certs=verify_certs,
                check_hostname=check_hostname,
            )
            self._client = KazooClient(
                hosts=self.hosts,
                timeout=timeout_s,
                handler=Handler(max(timeout_s / 8, _MIN_CONNECT_S)),
                connection_retry=KazooRetry(
                    max_tries=-1,
                    delay=0.02,
                    max_delay=min(_MAX_RECONNECT_DELAY_S, timeout_s / 20),
                    sleep_func=Handler.sleep_func,
                ),
                logger=self._log.logger,
                auth_data=auth_data or None,
                use_ssl=tls,
                ca=ca,
                certfile=certfile,
                keyfile=keyfile,
                keyfile_password=keyfile_password,
                verify_certs=verify_certs,
                check_hostname=check_hostname,
                sasl_options=sasl_options,
            )
        self.acl: tuple[ACL, ...] = own_acl or tuple(self._client.default_acl or OPEN_ACL_UNSAFE)
        process.close_at_exit(self)

    def __enter__(self) -> Self:
        self.check_process()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self.check_process()
        try:
            await off_loop(self.session)
        except BaseException:  # no body will run, nor anybody leave it
            threading.Thread(target=self.close, name="zkcoord-close", daemon=True).start()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await off_loop(self.close)

    def __repr__(self) -> str:
        return f"<Coordinator {self.hosts} {'closed' if self._closing else 'open'}>"

    def __del__(self) -> None:
        session = self.__dict__.get("_session")  # None also when the constructor has failed
        if session is None or self._closing or self._is_borrowed or self._pid != os.getpid():
            return
        if not sys.is_finalizing():
            warnings.warn(
                f"{self!r} was dropped without close(): its session is ended now",
                ResourceWarning,
                stacklevel=2,
            )
            self._closing = True
            ending = threading.Thread(
                target=_end, args=(self._client, session), name="zkcoord-stop", daemon=True
            )
            ending.start()

    @classmethod
    def of(cls, client: "Coordinator | KazooClient | None" = None) -> "Coordinator":
        """
        Return the coordinator that a lock with this ``client=`` uses; None gives this process's default one.

        Look it up at each use, as locks do, and a forked child gets its own.

        Raises:
            ConfigError: neither a `Coordinator` nor a `KazooClient` that can be used.
        """
        if client is not None:
            return coordinator_for(client)
        from zkcoord._default import default_coordinator

        return default_coordinator()

    def connect(self, timeout: float | None = None) -> KazooClient:
        """
        Wait for a connection and return the kazoo client, for reads and writes beside the locks.

        Args:
            timeout: most seconds to wait; None = for ever.

        Raises:
            ConnectionLostError: no server answered in time.
            ConfigError: closed, or a borrowed client was stopped.
            ForeignProcessError: made in another process.
        """
        limit_s = None if timeout is None else seconds("timeout", timeout)
        session = self.session()
        while not session.wait_connected(_LOOK_AGAIN_S if limit_s is None else limit_s):
            if limit_s is not None:
                raise ConnectionLostError(
                    f"no ZooKeeper server of {self.hosts} answered within {limit_s:.2f} s"
                    f"{f' ({self.last_problem})' if self.last_problem else ''}"
                )
            session = self.session()
        return self._client

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    @property
    def is_started(self) -> bool:
        """Whether `session` answers at once, since connecting has begun. For zkcoord's own front ends."""
        return self._session is not None and (self._is_borrowed or not kazoo_private.has_ended(self._client))

    @property
    def session_timeout(self) -> float | None:
        """Seconds the server granted; None before the first connection."""
        return self._session.guard.timeout_s if self._session else None

    @property
    def requested_timeout(self) -> float:
        """Seconds of session timeout that the client asks for."""
        return kazoo_private.requested_timeout_s(self._client)

    @property
    def session_id(self) -> int | None:
        """The current session's id; None before the first connection and after its end."""
        return self._session.guard.session if self._session else None

    @property
    def client(self) -> KazooClient:
        """The kazoo client, for reading around the locks; see `connect`. Starting and stopping it is not for you."""
        return self._client

    @property
    def last_problem(self) -> str:
        """What kazoo last complained of while connecting, for messages; empty if nothing."""
        return self._log.last_warning

    def check_process(self) -> None:
        """
        Refuse to work in a forked child.

        Raises:
            ForeignProcessError: this process is not the one that made the coordinator.
        """
        process.check(self._pid, "this Coordinator")

    def session(self) -> Session:
        """
        Return the session, connecting in the background if need be. For zkcoord's own front ends.

        Raises:
            ConfigError: closed, a borrowed client was stopped, or the interpreter is shutting down.
            ForeignProcessError: made in another process.
        """
        self.check_process()
        if sys.is_finalizing():
            raise ConfigError(
                "the interpreter is shutting down, and no thread runs any more: use locks before, or in atexit"
            )
        if self._closing:
            raise ConfigError("this Coordinator is closed: make a new one")
        if self._is_borrowed:
            if kazoo_private.is_stopped(self._client):
                raise ConfigError("the KazooClient was stopped: start it again, or hand in another one")
            assert self._session is not None
            return self._session
        if self._session is None or kazoo_private.has_ended(self._client):
            # On a thread of its own, which Ctrl-C cannot leave half-way.
            starter = threading.Thread(target=self._start, name="zkcoord-start", daemon=True)
            starter.start()
            starter.join()
        assert self._session is not None
        return self._session

    def _start(self) -> None:
        """Start the client, or start it again when kazoo's thread has died. Once: kazoo hangs in a second start."""
        with self._lock:
            if self._session is None:
                self._session = self._attach(self._client)
            if kazoo_private.has_ended(self._client) and not self._closing:
                self._client.start_async()

    def close(self, timeout: float = 5.0) -> None:
        """
        Give back everything and end the session.

        Pending acquires end with `AcquireCancelledError`, grants are lost with reason "closed", their znodes are
        deleted. A client that zkcoord made is stopped; a borrowed one is left as it was found.

        Args:
            timeout: most seconds to wait for the server. When it runs out, the session ends by its own timeout; on a
                borrowed client, whose session goes on, the deletes do too, in the background.

        Safety: callable from any thread and any callback, and again.
        """
        if os.getpid() != self._pid:
            return
        give_up = time.monotonic() + seconds("timeout", timeout)
        with self._lock:
            if self._closing:
                return
            self._closing = True
            session = self._session
        process.is_closed(self)
        may_block = not kazoo_private.is_kazoo_thread(self._client, threading.current_thread())
        if session is not None:
            session.stop_waiting(Stop(Cancelled("closed")))
            session.guard.lose_all(LossReason.CLOSED)
            if may_block and session.requests.is_up:
                session.janitor.wait_idle(max(0.0, give_up - time.monotonic()))
        if self._is_borrowed:
            if session is not None:
                session.close(when_clean=True)
            return
        if not kazoo_private.is_stopped(self._client):
            # kazoo waits for its own threads, ten seconds or more: not on ours.
            stopper = threading.Thread(target=self._stop_client, name="zkcoord-stop", daemon=True)
            stopper.start()
            if may_block:
                stopper.join(max(0.0, give_up - time.monotonic()))
        if session is not None:
            session.close()

    def disinherit(self) -> None:
        """Forget, in a forked child, what kazoo would do at this process's exit with its parent's threads."""
        if not self._is_borrowed:
            kazoo_private.forget_exit_hook(self._client)

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()

    def _attach(self, client: KazooClient) -> Session:
        # Weakly, so that a coordinator which is thrown away does not live on in its threads.
        start = weakref.WeakMethod(self._start)

        def revive() -> None:
            alive = start()
            if alive is not None:
                alive()

        name = f"zkcoord-{id(self) & 0xFFFF:04x}"
        session = Session(client, name, self._tick_s, None if self._is_borrowed else revive)
        if self._is_borrowed and not session.adopt(self._negotiated_s):
            session.close()
            raise ConfigError(
                "cannot find out the negotiated session timeout of this KazooClient: give negotiated_timeout= in"
                " seconds, as the server granted it"
            )
        return session


def _end(client: KazooClient, session: Session) -> None:
    client.stop()
    client.close()
    session.close()


_borrowed: "weakref.WeakKeyDictionary[KazooClient, Coordinator]" = weakref.WeakKeyDictionary()
_borrowed_lock = threading.Lock()


def coordinator_for(client: object) -> Coordinator:
    """
    Return the coordinator for a lock's ``client=`` argument: itself, or the one that borrows a `KazooClient`.

    Raises:
        ConfigError: neither, or a client that cannot be used.
    """
    if isinstance(client, Coordinator):
        return client
    if not isinstance(client, KazooClient):
        raise ConfigError(f"client must be a Coordinator or a KazooClient, not {type(client).__name__}")
    with _borrowed_lock:
        known = _borrowed.get(client)
        if known is None or known.is_closed or known._pid != os.getpid():
            known = _borrowed[client] = Coordinator(kazoo=client)
        return known


def _forget_borrowed() -> None:
    global _borrowed, _borrowed_lock
    _borrowed = weakref.WeakKeyDictionary()
    _borrowed_lock = threading.Lock()


process.in_child(_forget_borrowed)
