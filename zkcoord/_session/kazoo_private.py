"""
Every private name of kazoo that zkcoord uses. Nothing else in the project touches one.

Each has a test in ``tests/conformance/test_kazoo_private.py`` that fails when a kazoo release changes it.

Why they are needed: kazoo's public calls block without limit while disconnected, hide the negotiated timeout, cannot
take a watch back, and finish on a thread that users' callbacks share.
"""

import atexit
import gc
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState

#: kazoo wakes its connection thread with one byte per queued request through a socket pair that holds some 270 of them,
#: and blocks the caller when that is full. Requests beyond this wait on our side.
MAX_QUEUED = 128


class AnswerSink(Protocol):
    """What kazoo reports a request's answer to, on its connection thread."""

    def set(self, value: Any) -> None: ...

    def set_exception(self, error: BaseException) -> None: ...


def enqueue(client: KazooClient, request: Any, sink: AnswerSink) -> bool:
    """
    Hand a request to the connection thread without ever blocking.

    Returns:
        False when the wake-up byte could not be sent: call `wake` later.
    """
    client._queue.append((request, sink))
    return wake(client)


def wake(client: KazooClient) -> bool:
    """
    Send one wake-up byte, without ever blocking; False when there was no room for it.

    kazoo sends one request per byte; a byte without a request does no harm.
    """
    wake_socket = client._connection._write_sock
    if wake_socket is None:
        return True  # closed meanwhile; the state listener settles the requests
    try:
        wake_socket.send(b"\0", getattr(socket, "MSG_DONTWAIT", 0))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def next_request(client: KazooClient) -> object:
    """Return the request that is to be written next, to be told from others; None when there is none."""
    try:
        return client._queue[0]
    except IndexError:
        return None


def queue_length(client: KazooClient) -> int:
    """Return how many requests wait to be written, anybody's."""
    return len(client._queue)


def purge(client: KazooClient, sinks: Iterable[AnswerSink]) -> None:
    """
    Take requests that were not written back out of kazoo's queue, so that none crosses to the next connection.

    Only on the connection thread, the queue's one consumer.
    """
    doomed = set(map(id, sinks))
    queue = client._queue
    for _ in range(len(queue)):
        try:
            entry = queue.popleft()
        except IndexError:
            return
        if id(entry[1]) not in doomed:
            queue.append(entry)


def is_live(client: KazooClient) -> bool:
    """Whether the connection is up; kazoo clears this before it fails what was pending."""
    return client._live.is_set()


def is_stopped(client: KazooClient) -> bool:
    """Whether the client was never started, or was stopped by its user."""
    return client._stopped.is_set()


def is_dead(client: KazooClient) -> bool:
    """
    Whether the connection thread has ended: by an error inside kazoo, a refused authentication, or stop().

    The thread itself is looked for, since a client that is just starting has the state of one that has ended; and not
    with ``is_alive``, which takes a live thread for ended for ever when Ctrl-C strikes in it (Python 3.11, 3.12).
    """
    routine = client._connection._connection_routine
    return routine is not None and routine not in threading.enumerate()


def has_ended(client: KazooClient) -> bool:
    """Whether no connection will come by itself: the client is stopped, or its connection thread has died."""
    return is_stopped(client) or is_dead(client)


def is_expired(client: KazooClient) -> bool:
    """Whether the server has said that the session has ended by its timeout; for the state listener."""
    return client._state == KeeperState.EXPIRED_SESSION


def is_read_only(client: KazooClient) -> bool:
    """Whether the connection is to a read-only server."""
    return client._state == KeeperState.CONNECTED_RO


def session_id(client: KazooClient) -> int | None:
    """Return the session's id, also before the state listeners have run."""
    return client._session_id


def requested_timeout_s(client: KazooClient) -> float:
    """Return the session timeout that the client asks for."""
    return client._session_timeout / 1000


def is_kazoo_thread(client: KazooClient, thread: threading.Thread) -> bool:
    """Whether `thread` is one of the client's own, on which a blocking call could never be answered."""
    return thread is client._connection._connection_routine or thread in client.handler._workers


def hook_connect(
    client: KazooClient, before: Callable[[], float], after: Callable[[float, float], None]
) -> None:
    """
    Observe each (re)connect.

    Args:
        client: may have other hooks already.
        before: called before the connect; returns the clock.
        after: called on success, authentication included, with that clock and the negotiated timeout in seconds.
    """
    connection = client._connection
    hook = vars(connection).get("_connect")
    if not isinstance(hook, _ConnectHook):
        hook = connection._connect = _ConnectHook(connection._connect)
    hook.observers = (*hook.observers, (before, after))


def unhook_connect(client: KazooClient, after: Callable[[float, float], None]) -> None:
    """Undo the `hook_connect` with this `after`; others stay. The last one leaves the client as it was."""
    hook = vars(client._connection).get("_connect")
    if isinstance(hook, _ConnectHook):
        hook.observers = tuple(pair for pair in hook.observers if pair[1] != after)
        if not hook.observers:
            del client._connection._connect


class _ConnectHook:
    """Stands before kazoo's ``_connect``, for any number of observers that come and go."""

    def __init__(self, original: Callable[[str, str, int], tuple[float, float]]) -> None:
        self.observers: tuple[tuple[Callable[[], float], Callable[[float, float], None]], ...] = ()
        self._original = original

    def __call__(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        begun = [(after, before()) for before, after in self.observers]
        read_ms, connect_ms = self._original(host, hostip, port)
        for after, sent in begun:
            after(sent, read_ms * 1.5 / 1000)  # kazoo reports 2/3 of what was negotiated
        return read_ms, connect_ms


def negotiated_timeout_s(client: KazooClient) -> float | None:
    """Read the negotiated timeout of a client that is already connected from its connection thread's frame."""
    routine = client._connection._connection_routine
    ident = getattr(routine, "ident", None)
    frame = _current_frames().get(ident) if ident is not None else None
    while frame is not None:
        if frame.f_code.co_name == "_connect_attempt":
            read_s = frame.f_locals.get("read_timeout")
            return read_s * 1.5 if isinstance(read_s, float) and read_s < 10_000 else None
        frame = frame.f_back
    return None


def _current_frames() -> dict[int, FrameType]:
    """
    Return all threads' frames, without the deadlock of Python 3.11.

    It holds the interpreter's lock of threads meanwhile; a garbage collection in there may run code that waits for it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if was_enabled:
            gc.enable()


def drop_connection(client: KazooClient) -> None:
    """
    Make the client reconnect, when a server has gone silent.

    kazoo takes every request it sends for a ping and then never looks whether answers come, so our own heartbeats
    would hide a dead connection from it.
    """
    connection = client._connection._socket
    if connection is not None:
        try:
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        except (OSError, ValueError):
            return


def forget_exit_hook(client: KazooClient) -> None:
    """Take back, in a forked child, the exit hook in which kazoo's handler would wait for its parent's threads."""
    atexit.unregister(client.handler.stop)


def watchers(client: KazooClient, full_path: str) -> frozenset[Any]:
    """Return the data watchers that kazoo keeps for a path (with the chroot)."""
    try:
        return frozenset(client._data_watchers.get(full_path, ()))
    except RuntimeError:  # changed under our eyes by the connection thread: somebody is using it
        return frozenset((None,))


def discard_watcher(client: KazooClient, full_path: str, watcher: Any) -> None:
    """Forget a data watcher. Only on the connection thread, which is the one that adds them."""
    kept = client._data_watchers.get(full_path)
    if kept is not None:
        kept.discard(watcher)
        if not kept:
            client._data_watchers.pop(full_path, None)
