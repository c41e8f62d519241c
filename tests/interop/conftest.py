"""A Java process with Curator's recipes, driven from Python; compiled and started once a module."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from pathlib import Path

import pytest

from tests.interop.test_server_java import CURATOR_JARS, FLAGS, JAVA, JAVA_PEERS, TIMEOUT_S, class_path, need
from tests.support.turns import Turn
from tests.support.waiting import PATIENCE_S
from tests.support.zookeeper import Server
from zkcoord import Coordinator

HERE = Path(__file__).parent

#: Other jars than Debian's Curator 5.4, separated like a class path.
OTHER_JARS = os.environ.get("ZKCOORD_CURATOR_JARS", "")


class Java:
    """The process. Each command has a tag, by which its answer is known."""

    def __init__(self, command: list[str]) -> None:
        self._tags = count(1)
        self._open: dict[str, Future[str]] = {}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, name="curator-answers", daemon=True)
        self._reader.start()

    def send(self, peer: str, *words: object) -> Future[str]:
        tag = str(next(self._tags))
        answer = self._open[tag] = Future()
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, (tag, peer, *words))) + "\n")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(PATIENCE_S)
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            tag, _, text = line.strip().partition(" ")
            if text.startswith("!"):
                self._open.pop(tag).set_exception(RuntimeError(text[1:]))
            else:
                self._open.pop(tag).set_result(text)
        for answer in self._open.values():
            answer.set_exception(RuntimeError("the Java process has ended"))


class Peer:
    """One owner in the Java process, with a session and a thread of its own; it does one command after another."""

    def __init__(self, java: Java, name: str) -> None:
        self.name = name
        self._java = java

    def start(self, *words: object) -> Future[str]:
        """Have one command done in the background."""
        return self._java.send(self.name, *words)

    def tell(self, *words: object) -> str:
        """Have one command done; returns the answer."""
        return self.start(*words).result(TIMEOUT_S)

    def turns(self, kind: str, path: str, count: int) -> Future[str]:
        """Take turns in the background; the result is for `history`."""
        return self.start("turns", kind, path, count)

    def history(self, answer: Future[str]) -> list[Turn]:
        """Wait for the end of the turns, and return them."""
        turns = answer.result(TIMEOUT_S).rstrip(",").split(",")
        return [Turn(*map(int, turn.split(":")), self.name) for turn in turns]


@pytest.fixture(scope="module")
def java(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """The process that runs CuratorPeer on the real server: with Debian's jars, or with ``ZKCOORD_CURATOR_JARS``."""
    has_curator = bool(OTHER_JARS) or (JAVA / CURATOR_JARS[0]).exists()
    need(JAVA_PEERS, shutil.which("javac") is not None and has_curator)
    jars = OTHER_JARS or class_path(CURATOR_JARS)
    target = tmp_path_factory.mktemp("classes")
    compile_it = ["javac", "-d", str(target), "-cp", jars, str(HERE / "CuratorPeer.java")]
    subprocess.run(compile_it, check=True, capture_output=True, timeout=TIMEOUT_S)
    started = Java(["java", *FLAGS, "-cp", f"{target}{os.pathsep}{jars}", "CuratorPeer", zookeeper.hosts])
    yield started
    started.close()


_names = count(1)


@pytest.fixture
def make_peer(java: Java, root: str) -> Iterator[Callable[[], Peer]]:
    """``make_peer()``: another owner; its session is closed after the test."""
    peers: list[Peer] = []

    def make() -> Peer:
        peers.append(Peer(java, f"java{next(_names)}"))
        return peers[-1]

    yield make
    for peer in peers:
        peer.tell("close")


@pytest.fixture
def peer(make_peer: Callable[[], Peer]) -> Peer:
    return make_peer()


@pytest.fixture
def coordinator(hosts: str, root: str) -> Iterator[Coordinator]:
    """Our side, with a session of its own."""
    with Coordinator(hosts) as made:
        yield made


@pytest.fixture
def path(root: str) -> str:
    """A lock's path that no other test uses."""
    return f"{root}/lock"
