"""
Three real ZooKeeper servers on this machine, which can be killed, stopped and cut from one another.

Each server's configuration names its own addresses for the others: they lead through a `Link`, so that what one server
sends to another can be made to vanish while clients reach both. (Not all of an election: a server also connects to the
address that another one announces.)
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient

from tests.support.link import Link
from tests.support.waiting import wait_until
from zkcoord.testing.installed import START_ATTEMPTS, ZooKeeperServer, _scratch_parent
from zkcoord.testing.probe import PortTakenError

#: Seconds that an ensemble may take to elect a leader and serve; on two busy cores it has been seen to need 8.
SERVE_S = 60.0


class Member(ZooKeeperServer):
    """One server of an ensemble. `start` returns when it serves, so a quorum must start at one time."""

    def __init__(self, number: int, port: int, tick_time_ms: int, config: Mapping[str, str]) -> None:
        super().__init__(tick_time_ms=tick_time_ms, config=config)
        self.number = number
        self.port = self.client_port = port

    @property
    def is_paused(self) -> bool:
        """Whether it was stopped with SIGSTOP."""
        return self._paused

    def mode(self) -> str:
        """``leader``, ``follower``, or nothing if it serves nobody now."""
        if not self.is_running() or self.is_paused:
            return ""
        try:
            answer = self.four_letter("srvr", timeout=1.0)
        except OSError:
            return ""
        return next((line[6:].strip() for line in answer.splitlines() if line.startswith("Mode: ")), "")

    def _launch(self, port: int) -> None:
        self.port = self.client_port  # a failed start forgets it
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="zkcoord-zk-", dir=_scratch_parent()))
            data = self._directory / "data"
            data.mkdir()
            (data / "myid").write_text(str(self.number))
        super()._launch(port)


class Ensemble:
    """
    Three servers. A context manager; `start` returns when they serve.

    Args:
        tick_time_ms: their ``tickTime``.
        sync_limit: ticks after which a follower and its leader give each other up.
    """

    def __init__(self, *, tick_time_ms: int, sync_limit: int) -> None:
        self.tick_s = tick_time_ms / 1000
        self.sync_s = self.tick_s * sync_limit
        self._tick_time_ms = tick_time_ms
        self._sync_limit = sync_limit
        self.members: tuple[Member, ...] = ()
        self._links: dict[tuple[int, int], tuple[Link, Link]] = {}  # (from, to) → quorum and election

    # --- life

    def start(self) -> Self:
        """
        Start all, and wait until they serve.

        Raises:
            NoZooKeeperError: none is installed.
            ServerStartError: one did not start; the text ends with its log.
        """
        for attempt in range(START_ATTEMPTS):
            try:
                self._set_up()
                self.start_members(self.members)
                return self
            except PortTakenError:
                self.stop()
                if attempt == START_ATTEMPTS - 1:
                    raise
            except BaseException:
                self.stop()
                raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """End all servers and links, and delete the data."""
        for pair in self._links.values():
            for link in pair:
                link.close()
        self._links = {}
        _at_once(Member.stop, self.members)

    def start_members(self, members: Iterable[Member]) -> None:
        """Start some at one time, on the data they had, and wait until they serve."""
        _at_once(Member.start, members)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _set_up(self) -> None:
        numbers = (1, 2, 3)
        ports = iter(_free_ports(9))
        client, quorum, election = ({number: next(ports) for number in numbers} for _ in range(3))
        pairs = [(one, other) for one in numbers for other in numbers if one != other]
        self._links = {pair: (Link(quorum[pair[1]]), Link(election[pair[1]])) for pair in pairs}

        def addresses(number: int) -> dict[str, str]:
            return {
                f"server.{other}": f"127.0.0.1:{quorum[other]}:{election[other]}"
                if other == number
                else "127.0.0.1:{}:{}".format(*(link.port for link in self._links[number, other]))
                for other in numbers
            }

        limits = {"initLimit": str(max(10, self._sync_limit)), "syncLimit": str(self._sync_limit)}
        self.members = tuple(
            Member(number, client[number], self._tick_time_ms, {**limits, **addresses(number)})
            for number in numbers
        )

    # --- who is who

    @property
    def hosts(self) -> str:
        """The connection string with all servers."""
        return ",".join(member.hosts for member in self.members)

    def leader(self) -> Member:
        """The server that leads; waits for one."""
        return wait_until(
            lambda: next((member for member in self.members if member.mode() == "leader"), None), SERVE_S
        )

    def followers(self) -> list[Member]:
        """The servers that follow now."""
        return [member for member in self.members if member.mode() == "follower"]

    def wait_until_serving(self, members: Iterable[Member] | None = None) -> float:
        """
        Wait until these (all, by default) follow the one leader and a write commits; returns the moment it has.

        A server calls itself leader or follower before it is of use, and for a while after it is of none.
        """
        wanted = tuple(self.members if members is None else members)

        def is_complete() -> bool:
            return all(member.mode() for member in wanted) and self._leaders() == 1

        wait_until(is_complete, SERVE_S)
        client = KazooClient(",".join(member.hosts for member in wanted), timeout=5.0)
        try:
            client.start(timeout=SERVE_S)
            client.retry(client.ensure_path, "/serving")
            client.retry(client.set, "/serving", b"")
        finally:
            client.stop()
            client.close()
        served_at = time.monotonic()
        wait_until(is_complete, SERVE_S)
        return served_at

    def _leaders(self) -> int:
        return sum(member.mode() == "leader" for member in self.members)

    def report(self, last_bytes: int = 6000) -> str:
        """What each server is, and the end of its log, for a test that fails."""
        return "\n".join(
            f"--- server {member.number} at {member.client_port}: {member.mode() or 'serves nobody'}\n"
            f"{member.log(last_bytes)}"
            for member in self.members
        )

    # --- faults

    @contextmanager
    def cut_off(self, member: Member) -> Iterator[None]:
        """Let nothing pass between a server and the other two for the length of a ``with`` block; clients reach it."""
        links = [link for pair, both in self._links.items() if member.number in pair for link in both]
        with ExitStack() as stack:
            for link in links:
                stack.enter_context(link.black_holed())
            yield

    @contextmanager
    def deserted(self, leader: Member) -> Iterator[None]:
        """
        As `cut_off`, but the others notice at once and elect a new leader; the old one does not notice for `sync_s`.

        So there are two servers that call themselves leader. The old one is stopped for a moment: it could tell the
        others that it leads, since servers also connect to the very address that another one announces.
        """
        others = [member for member in self.members if member is not leader]
        with self.cut_off(leader):
            with leader.paused():
                for (_, target), (quorum, _) in self._links.items():
                    if target == leader.number:
                        quorum.desert()
                self.wait_until_serving(others)
            yield

    def revive(self) -> None:
        """Let all go on or start again, whatever was done to them."""
        for member in self.members:
            if member.is_paused:
                member.resume()
        self.start_members(self.members)


def _free_ports(count: int) -> list[int]:
    """Loopback ports that were free a moment ago, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _at_once(do: object, members: Iterable[Member]) -> None:
    """Call it for each on a thread of its own; raises what the first that failed did."""
    todo = list(members)
    if todo:
        with ThreadPoolExecutor(len(todo)) as pool:
            list(pool.map(do, todo))  # type: ignore[arg-type]
