"""`EmbeddedServer`: a ZooKeeper in this process, for development and tests."""

import asyncio
import ipaddress
import random
import secrets
import socket
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from zkcoord.errors import ConfigError
from zkcoord.server.engine import CONTAINER_CHECK_INTERVAL_S, ServerEngine, Settings
from zkcoord.server.faults import Action, FaultPlan, Rule
from zkcoord.server.four_letter import NOTICE
from zkcoord.server.transport import Transport
from zkcoord.server.wire import DEFAULT_MAX_FRAME_BYTES

# Sessions may be as short as 2 ticks: 1 s keeps tests of expiry quick, and the longest, 20 ticks = 10 s, is what
# kazoo asks for by default.
TICK_TIME_S = 0.5

# As the real server makes them: a byte for the server's id, five of the clock, two that count.
SERVER_ID = 1
SECRET_BYTES = 32
MIN_FRAME_BYTES = 1024

T = TypeVar("T")


class Fault:
    """
    A rule in force, until ``remove()`` or the end of a ``with`` block.

    Attributes:
        rule: what it does.
    """

    def __init__(self, rule: Rule, remove: Callable[[Rule], None]) -> None:
        self.rule = rule
        self._remove = remove

    @property
    def hits(self) -> int:
        """How many requests it has disturbed so far."""
        return self.rule.hits

    def remove(self) -> None:
        """End it. Connections that it stalled go on where they were. May be called again."""
        self._remove(self.rule)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Faults:
    """
    The faults of one server. Each method starts one at once; its result is a context manager that ends it.

    ``session``, ``operation``, ``path``, ``skip``, ``count`` and ``probability`` say which requests are meant: see
    :class:`~zkcoord.server.faults.Rule`.
    """

    def __init__(self, install: Callable[[Rule], None], remove: Callable[[Rule], None]) -> None:
        self._install = install
        self._remove = remove

    def add(self, rule: Rule) -> Fault:
        """Add a rule behind the ones in force."""
        self._install(rule)
        return Fault(rule, self._remove)

    def delay(
        self,
        seconds: float,
        *,
        session: int | None = None,
        operation: str = "*",
        path: str = "*",
        skip: int = 0,
        count: int | None = None,
        probability: float = 1.0,
    ) -> Fault:
        """Handle matching requests, and what follows on their connections, so many seconds later."""
        return self.add(Rule(Action.DELAY, session, operation, path, skip, count, probability, delay=seconds))

    def stall(
        self, *, session: int | None = None, operation: str = "*", path: str = "*", skip: int = 0
    ) -> Fault:
        """Keep connections open and silent: all at once, or each from its first matching request on."""
        return self.add(Rule(Action.STALL, session, operation, path, skip))

    def cut_before(
        self,
        *,
        session: int | None = None,
        operation: str = "*",
        path: str = "*",
        skip: int = 0,
        count: int | None = 1,
        probability: float = 1.0,
    ) -> Fault:
        """Close the connection of a matching request without applying it."""
        return self.add(Rule(Action.CUT_BEFORE, session, operation, path, skip, count, probability))

    def cut_after(
        self,
        *,
        session: int | None = None,
        operation: str = "*",
        path: str = "*",
        skip: int = 0,
        count: int | None = 1,
        probability: float = 1.0,
    ) -> Fault:
        """Apply a matching request, then close its connection without the reply."""
        return self.add(Rule(Action.CUT_AFTER, session, operation, path, skip, count, probability))

    def slice(
        self, slice_bytes: int = 1, *, session: int | None = None, operation: str = "*", path: str = "*"
    ) -> Fault:
        """Send answers in pieces, on each connection from its first matching request on."""
        return self.add(Rule(Action.SLICE, session, operation, path, slice_bytes=slice_bytes))

    def refuse(self, *, count: int | None = None) -> Fault:
        """Refuse new connections."""
        return self.add(Rule(Action.REFUSE, count=count))

    def expire(
        self,
        *,
        session: int | None = None,
        operation: str = "*",
        path: str = "*",
        skip: int = 0,
        count: int = 1,
    ) -> Fault:
        """Expire the session of a matching request, and do not apply it."""
        return self.add(Rule(Action.EXPIRE, session, operation, path, skip, count))


class EmbeddedServer:
    """
    A ZooKeeper server in this process, on a thread of its own. For development and tests; in memory.

    It speaks the client protocol of ZooKeeper 3.8 to any client. Use it as a context manager (``with`` or
    ``async with``), or ``start()`` and ``stop()`` it. Stopping closes all connections and keeps nodes and sessions;
    starting again brings the server back on the same port with both, as a restart of a real server would.

    Args:
        port: 0 = a free one.
        host: an address to listen on. Anything but loopback needs ``allow_remote``.
        tick_time: seconds. Session timeouts are negotiated to between 2 and 20 ticks, unless the next two say
            otherwise.
        min_session_timeout: seconds.
        max_session_timeout: seconds.
        container_check_interval: seconds between looks for empty containers and old TTL nodes.
        has_ttl_nodes: False refuses TTL nodes, as a real server does by default.
        max_frame_bytes: the longest request (``jute.maxbuffer``).
        allow_remote: listen where other machines can connect. There is no encryption and no limit on what they may
            do: a warning says so.
        seed: of the faults' probabilities; None = another one in every run.

    Raises:
        ConfigError: an argument makes no sense, or the address is not loopback and ``allow_remote`` is not set.

    Safety: all methods may be called from any thread.
    """

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        tick_time: float = TICK_TIME_S,
        min_session_timeout: float | None = None,
        max_session_timeout: float | None = None,
        container_check_interval: float = CONTAINER_CHECK_INTERVAL_S,
        has_ttl_nodes: bool = True,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        allow_remote: bool = False,
        seed: int | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ConfigError(f"port={port} is not a port")
        if not tick_time >= 0.001 or not container_check_interval > 0:
            raise ConfigError("tick_time= is at least 0.001 s, and container_check_interval= more than 0")
        if max_frame_bytes < MIN_FRAME_BYTES:
            raise ConfigError(f"max_frame_bytes={max_frame_bytes} is less than {MIN_FRAME_BYTES}")
        _check_host(host, allow_remote)
        self._host = host
        self._port = port
        self._max_frame_bytes = max_frame_bytes
        self._settings = Settings(
            tick_time, min_session_timeout, max_session_timeout, container_check_interval, has_ttl_nodes
        )
        # Wall time for ctime and mtime, but monotonic: a clock that is set must expire no sessions.
        self._epoch = time.time() - time.monotonic()
        self._engine = ServerEngine(
            self._now(),
            self._settings,
            first_session_id=_first_session_id(),
            secret=secrets.token_bytes(SECRET_BYTES),
        )
        self._plan = FaultPlan(random.Random(seed).random)
        self._transport: Transport | None = None
        self.faults = Faults(self._install, self._remove)

    @property
    def port(self) -> int:
        """The port it listens on; 0 before the first start if a free one is wanted."""
        return self._port

    @property
    def hosts(self) -> str:
        """The connection string for clients, ``127.0.0.1:PORT``."""
        if not self._port:
            raise RuntimeError("the embedded server was never started: call start() first")
        # A server on all addresses is reached on loopback from here.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether it serves clients."""
        return self._transport is not None

    def start(self) -> Self:
        """
        Listen and serve. Does nothing when it runs.

        Raises:
            OSError: the port is taken, or the address is not this machine's.
        """
        if self._transport is not None:
            return self
        listener = self._bind()
        self._port = listener.getsockname()[1]
        now_ms = int(self._now() * 1000)
        for session in list(self._engine.sessions.sessions.values()):
            self._engine.sessions.touch(session.id, session.timeout_ms, now_ms)
        self._transport = Transport(self._engine, listener, self._now, self._plan, self._max_frame_bytes)
        self._transport.start()
        return self

    def stop(self) -> None:
        """Close all connections and the port. Blocks until the thread has ended. Does nothing when it is stopped."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.stop()

    def expire(self, session_id: int) -> bool:
        """
        End a session as if its time were up: its ephemeral nodes are deleted, and its connection is closed.

        Returns:
            Whether there was such a session.
        """

        def expire(transport: Transport) -> bool:
            is_alive = session_id in self._engine.sessions.sessions
            transport.deliver(self._engine.expire(session_id, self._now()))
            return is_alive

        return self._call(expire)

    def sessions(self) -> tuple[int, ...]:
        """Return the ids of all live sessions, oldest first."""
        return self._call(lambda _: tuple(sorted(self._engine.sessions.sessions)))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        where = f"on {self.hosts}" if self.is_running else "stopped"
        return f"<EmbeddedServer {where}: {NOTICE}>"

    def _now(self) -> float:
        return self._epoch + time.monotonic()

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
        except OSError:
            listener.close()
            raise
        return listener

    def _install(self, rule: Rule) -> None:
        self._change_plan(lambda: self._plan.add(rule))

    def _remove(self, rule: Rule) -> None:
        self._change_plan(lambda: self._plan.remove(rule))

    def _change_plan(self, change: Callable[[], None]) -> None:
        if self._transport is None:
            change()
            return

        def change_and_look(transport: Transport) -> None:
            change()
            transport.refresh_faults()

        self._call(change_and_look)

    def _call(self, function: Callable[[Transport], T]) -> T:
        transport = self._transport
        if transport is None:
            raise RuntimeError("the embedded server is not running: call start() first")
        return transport.call(lambda: function(transport))


def _check_host(host: str, allow_remote: bool) -> None:
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if is_loopback:
        return
    if not allow_remote:
        raise ConfigError(
            f"host={host!r} can be reached from other machines, and this server is for development and tests: use"
            " 127.0.0.1, or allow it (allow_remote=True, on the command line --allow-remote)"
        )
    warnings.warn(
        f"the embedded ZooKeeper listens on {host}, where other machines can reach it; it is {NOTICE.split(', ')[1]}",
        RuntimeWarning,
        stacklevel=3,
    )


def _first_session_id() -> int:
    # As the real server: ids of a later start are larger, so an old client's session is never somebody else's.
    return (SERVER_ID << 56) | ((int(time.time() * 1000) & 0xFFFFFFFFFF) << 16)
