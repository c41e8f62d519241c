"""
The victim's line to its server, and how it is broken: on the embedded server by its own faults, else by the proxy.

A request that is *held* has not been applied, and everything behind it on its connection waits as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kazoo.client import KazooClient

from tests.fault.matrix.points import OPCODES
from tests.support.proxy import FaultProxy, Hold, Rule
from tests.support.waiting import PATIENCE_S, wait_until
from zkcoord.server import EmbeddedServer, Fault


class Struck(Protocol):
    """A request that is awaited."""

    def wait(self) -> None:
        """Wait until it has come."""

    def release(self) -> None:
        """Let it go on."""

    def drop(self) -> None:
        """Break its connection, after `Line.break_down`; it is not applied."""


class Line(Protocol):
    """See the module. Requests of an operation that name `path` ("" = any); `skip` lets that many go by first."""

    hosts: str

    def hold(self, operation: str, skip: int, path: str = "") -> Struck: ...
    def cut_before(self, operation: str, skip: int, path: str = "") -> Struck: ...
    def cut_after(self, operation: str, skip: int, path: str = "") -> Struck: ...

    def break_down(self) -> None:
        """Let no new connection in; one without a held request is broken soon."""

    def black_hole(self) -> None:
        """Pass nothing, in neither direction."""

    def restore(self) -> None:
        """End either."""

    def expire(self, victim: tuple[int, bytes]) -> None:
        """End a session, given with its password, as if its time were up."""


class EmbeddedLine:
    """
    Straight to an embedded server, which has only this victim, and clients that were connected before.

    Args:
        server: running.
        session: tells the victim's session; None while it has none.
    """

    def __init__(self, server: EmbeddedServer, session: Callable[[], int | None]) -> None:
        self.hosts = server.hosts
        self._server = server
        self._session = session
        self._broken: list[Fault] = []

    def hold(self, operation: str, skip: int, path: str = "") -> Struck:
        return self._await(self._server.faults.stall, operation, skip, path)

    def cut_before(self, operation: str, skip: int, path: str = "") -> Struck:
        return self._await(self._server.faults.cut_before, operation, skip, path)

    def cut_after(self, operation: str, skip: int, path: str = "") -> Struck:
        return self._await(self._server.faults.cut_after, operation, skip, path)

    def _await(self, add: Callable[..., Fault], operation: str, skip: int, path: str) -> Struck:
        return _Awaited(add(session=self._session(), operation=operation, path=path or "*", skip=skip))

    def break_down(self) -> None:
        self._broken.append(self._server.faults.cut_before(operation="connect", count=None))
        if self._session() is not None:
            self._broken.append(self._server.faults.cut_before(session=self._session(), count=None))

    def black_hole(self) -> None:
        session = self._session()
        if session is None:
            self._broken.append(self._server.faults.stall(operation="connect"))
        else:
            self._broken.append(self._server.faults.stall(session=session))

    def restore(self) -> None:
        while self._broken:
            self._broken.pop().remove()

    def expire(self, victim: tuple[int, bytes]) -> None:
        assert self._server.expire(victim[0])


class _Awaited:
    """A fault of the embedded server, until it has struck."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def wait(self) -> None:
        wait_until(lambda: self._fault.hits)

    def release(self) -> None:
        self._fault.remove()

    def drop(self) -> None:
        self._fault.remove()  # the server looks at it again, and the line is broken down


class ProxiedLine:
    """Through a proxy of the victim's own to a server that others use as well."""

    def __init__(self, proxy: FaultProxy, direct: str) -> None:
        self.hosts = proxy.hosts
        self._proxy = proxy
        self._direct = direct

    def hold(self, operation: str, skip: int, path: str = "") -> Struck:
        return _Held(self._proxy.hold(OPCODES[operation], skip, path))

    def cut_before(self, operation: str, skip: int, path: str = "") -> Struck:
        return _Ruled(self._proxy.cut_before(OPCODES[operation], skip=skip, path=path))

    def cut_after(self, operation: str, skip: int, path: str = "") -> Struck:
        return _Ruled(self._proxy.drop_reply(OPCODES[operation], skip=skip, path=path))

    def break_down(self) -> None:
        self._proxy.cut()

    def black_hole(self) -> None:
        self._proxy.black_hole()

    def restore(self) -> None:
        self._proxy.restore()

    def expire(self, victim: tuple[int, bytes]) -> None:
        usurper = KazooClient(self._direct, client_id=victim)
        usurper.start(timeout=PATIENCE_S)
        usurper.stop()
        usurper.close()


class _Held:
    """A hold of the proxy."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def wait(self) -> None:
        assert self._hold.wait()

    def release(self) -> None:
        self._hold.release()

    def drop(self) -> None:
        self._hold.cut()


class _Ruled:
    """A rule of the proxy, until it has struck: the request was applied by then, or never will be."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def wait(self) -> None:
        wait_until(lambda: self._rule.struck)

    def release(self) -> None: ...

    def drop(self) -> None: ...
