"""Asking a ZooKeeper server by four-letter words, and what may be asked of any server that a test uses."""

import socket
import time
from collections.abc import Callable
from typing import Protocol, Self

# A cold JVM answers in about a second; on a busy machine with two cores it has been seen to need ten.
START_TIMEOUT_S = 60.0


class NoZooKeeperError(RuntimeError):
    """No real ZooKeeper can be had here; the text says what was looked for and what to do."""


class ServerStartError(RuntimeError):
    """A server did not start; the text ends with the end of its log."""


class PortTakenError(ServerStartError):
    """The port was taken by somebody else between finding and binding it."""


class Server(Protocol):
    """What tests may ask of any real ZooKeeper, however it came to be."""

    @property
    def hosts(self) -> str: ...
    @property
    def description(self) -> str: ...
    def start(self) -> Self: ...
    def stop(self) -> None: ...
    def four_letter(self, word: str, timeout: float = ...) -> str: ...
    def mntr(self) -> dict[str, str]: ...


def four_letter(host: str, port: int, word: str, timeout: float = 5.0) -> str:
    """Send a four-letter word (``ruok``, ``srvr``, ``mntr``, ``wchs``, …) and return the whole answer."""
    with socket.create_connection((host, port), timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(word.encode("ascii"))
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def parse_mntr(text: str) -> dict[str, str]:
    """Split the answer to ``mntr`` into its values, by name (``zk_watch_count``, ``zk_num_alive_connections``, …)."""
    pairs = (line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return {name: value for name, value in pairs}


def first_address(hosts: str) -> tuple[str, int]:
    """Return host and port of the first server of a connection string such as ``a:2181,b:2181/chroot``."""
    first = hosts.split("/", 1)[0].split(",", maxsplit=1)[0].strip()
    host, _, port = first.rpartition(":")
    if not host:
        host, port = first, "2181"
    return host.strip("[]"), int(port)


class _HasHosts(Protocol):
    @property
    def hosts(self) -> str: ...


class FourLetterWords:
    """``four_letter`` and ``mntr`` for anything that has ``hosts``."""

    def four_letter(self: _HasHosts, word: str, timeout: float = 5.0) -> str:
        host, port = first_address(self.hosts)
        return four_letter(host, port, word, timeout)

    def mntr(self: _HasHosts) -> dict[str, str]:
        host, port = first_address(self.hosts)
        return parse_mntr(four_letter(host, port, "mntr"))


def wait_until_ready(
    hosts: str, timeout: float = START_TIMEOUT_S, check: Callable[[], None] = lambda: None
) -> None:
    """
    Wait until the first server of ``hosts`` serves clients.

    ``ruok`` alone is answered before the server takes sessions, ``srvr`` with a ``Mode:`` line only after. ``check`` is
    called between attempts and may raise to end the wait early (a dead process).

    Raises:
        ServerStartError: not ready within ``timeout`` seconds.
    """
    host, port = first_address(hosts)
    deadline = time.monotonic() + timeout
    answer = "no answer"
    while time.monotonic() < deadline:
        check()
        try:
            answer = four_letter(host, port, "srvr", timeout=2.0)
        except OSError as error:
            answer = repr(error)
        if "\nMode: " in answer:
            return
        time.sleep(0.05)  # polling a foreign process: there is no event to wait for
    raise ServerStartError(
        f"ZooKeeper at {host}:{port} not ready after {timeout:.0f} s, last answer: {answer}"
    )
