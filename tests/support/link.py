"""
A plain TCP proxy between two servers, to cut one from the other without either of them noticing.

`black_hole()` stops passing anything on: connections stay open, new ones are accepted by the kernel, nothing arrives,
and neither side learns that the other has closed its end. That is what a network that loses all packets looks like.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

#: Most seconds that a write may block on a receiver that takes nothing (a stopped process with full buffers).
SEND_TIMEOUT_S = 5.0

#: Seconds for which a target that refuses is asked again. A follower tries its new leader until that listens; it takes
#: "refused" for "not yet", but a connection that is taken and then closed for a leader that has failed.
CONNECT_S = 1.0


class Link:
    """
    A proxy from a loopback port to ``target_port``. A context manager; passes everything at first.

    Args:
        target_port: a port of the loopback interface; nobody need listen there yet.
        port: where to listen; 0 takes a free one.
    """

    def __init__(self, target_port: int, port: int = 0) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._peers: dict[socket.socket, socket.socket] = {}
        self._nears: set[socket.socket] = set()
        self._deserted: list[socket.socket] = []
        self._lock = threading.Lock()  # held while bytes pass, and while that is switched
        self._is_passing = True
        self._is_closed = False
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"link-{target_port}", daemon=True)
        self._thread.start()

    def black_hole(self) -> None:
        """Pass nothing from now on, in either direction; when it returns, nothing passes any more."""
        with self._lock:
            self._is_passing = False

    def restore(self) -> None:
        """Pass again. Connections that were open are closed, what was held back is lost with them."""
        with self._lock:
            self._is_passing = True
            self._drop()
        self._wake.send(b"x")

    def desert(self) -> None:
        """As `black_hole`, but whoever has connected learns of it: its end is closed, the target's stays open."""
        with self._lock:
            self._is_passing = False
            for near in list(self._nears):
                far = self._peers[near]
                self._selector.unregister(far)
                self._deserted.append(far)
                self._forget(near, far)
                self._selector.unregister(near)
                near.close()

    @contextmanager
    def black_holed(self) -> Iterator[None]:
        """Pass nothing for the length of a ``with`` block."""
        self.black_hole()
        try:
            yield
        finally:
            self.restore()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        with self._lock:
            return len(self._peers) // 2

    def close(self) -> None:
        """Close everything and end the thread. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._wake.send(b"x")
        self._thread.join(2 * SEND_TIMEOUT_S)
        assert not self._thread.is_alive(), "the link's thread did not end"
        with self._lock:
            self._drop()
        for end in (self._listener, self._woken, self._wake):
            end.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(64)
                elif not self._is_passing:
                    self._pause()
                    break
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._pass(key.fileobj)  # type: ignore[arg-type]  # always a socket

    def _pause(self) -> None:
        """Sleep until somebody wakes us: what is ready to be read would keep the selector busy."""
        with selectors.DefaultSelector() as only_wake:
            only_wake.register(self._woken, selectors.EVENT_READ)
            only_wake.select()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = self._connect()
        if far is None:
            near.close()
            return
        with self._lock:
            for end, other in ((near, far), (far, near)):
                end.settimeout(SEND_TIMEOUT_S)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._peers[end] = other
                self._nears.add(near)
                self._selector.register(end, selectors.EVENT_READ)

    def _connect(self) -> socket.socket | None:
        give_up = time.monotonic() + CONNECT_S
        while not self._is_closed and time.monotonic() < give_up:
            try:
                return socket.create_connection(self._target, SEND_TIMEOUT_S)
            except OSError:
                time.sleep(0.01)  # polling a foreign process: there is no event to wait for
        return None

    def _pass(self, end: socket.socket) -> None:
        with self._lock:
            if end not in self._peers or not self._is_passing:
                return  # closed, or cut off, since the selector has seen it
            try:
                data = end.recv(65536)
                if data:
                    self._peers[end].sendall(data)
                    return
            except OSError:
                pass
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        both = (end, self._peers[end])
        self._forget(*both)
        for one in both:
            self._selector.unregister(one)
            one.close()

    def _forget(self, *ends: socket.socket) -> None:
        for one in ends:
            del self._peers[one]
            self._nears.discard(one)

    def _drop(self) -> None:
        while self._deserted:
            self._deserted.pop().close()
        while self._peers:
            self._close(next(iter(self._peers)))
