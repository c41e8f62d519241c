"""
The kazoo handler of clients that zkcoord makes itself: bounded connects, and `poll` instead of an epoll object a call.

A handler is kazoo's documented extension point. kazoo gives a whole session time to each host that does not answer, so
that one dead server of three can cost the session; here a host gets T/8. `select` with a fresh epoll object for every
call is also the larger part of kazoo's round trip (``docs/concepts/architecture.md``).
"""

import select
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class Handler(SequentialThreadingHandler):
    """
    kazoo's threading handler with two methods replaced.

    Args:
        connect_timeout_s: most seconds for a TCP (and TLS) connect to one host.
    """

    def __init__(self, connect_timeout_s: float) -> None:
        super().__init__()
        self._connect_timeout_s = connect_timeout_s
        self._is_connecting = False

    def connected(self) -> None:
        """Say that the session is up: from here on kazoo's own time limits hold."""
        self._is_connecting = False

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect within our own bound."""
        self._is_connecting = True
        kwargs["timeout"] = min(kwargs.get("timeout") or self._connect_timeout_s, self._connect_timeout_s)
        return super().create_connection(*args, **kwargs)

    def select(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for sockets, as ``select.select`` does, without its limit of 1,024 descriptors."""
        if self._is_connecting and len(args) == 4:
            # The handshake: a server that took the connection and says nothing must not cost a whole session time.
            args = (*args[:3], min(args[3], self._connect_timeout_s))
        if kwargs or not hasattr(select, "poll"):
            return super().select(*args, **kwargs)
        return _poll(*args)


def _poll(
    readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout_s: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    poller = select.poll()
    masks: dict[int, int] = {}
    for sockets, mask in ((readers, select.POLLIN), (writers, select.POLLOUT)):
        for sock in sockets:
            descriptor = sock.fileno()
            if descriptor < 0:
                raise OSError("socket is closed")
            masks[descriptor] = masks.get(descriptor, 0) | mask
    for descriptor, mask in masks.items():
        poller.register(descriptor, mask)
    timeout_ms = None if timeout_s is None else max(0, int(timeout_s * 1000 + 0.999))
    ready = dict(poller.poll(timeout_ms))
    failed = select.POLLERR | select.POLLHUP | select.POLLNVAL
    return (
        [sock for sock in readers if ready.get(sock.fileno(), 0) & (select.POLLIN | failed)],
        [sock for sock in writers if ready.get(sock.fileno(), 0) & (select.POLLOUT | failed)],
        [],
    )
