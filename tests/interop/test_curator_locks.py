"""
zkcoord and Java's Curator on one path: exclusion, hand-over, downgrade and revocation, both ways.

By default against Debian's Curator 5.4. ``ZKCOORD_CURATOR_JARS`` names other jars, separated like a class path: those
of 5.5 and later keep a downgraded writer's place, which 5.4 does not (CURATOR-621; only Java's side is concerned).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.interop.test_server_java import CURATOR_JARS, FLAGS, JAVA, JAVA_PEERS, TIMEOUT_S, class_path, need
from tests.support.faults import members
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import AcquireTimeoutError, Coordinator, Grant, QueueConflictError, ZkLock, ZkReadWriteLock

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
OTHER_JARS = os.environ.get("ZKCOORD_CURATOR_JARS", "")
HAND_OVERS = 200


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs CuratorPeer, without its argument."""
    has_curator = bool(OTHER_JARS) or (JAVA / CURATOR_JARS[0]).exists()
    need(JAVA_PEERS, shutil.which("javac") is not None and has_curator)
    jars = OTHER_JARS or class_path(CURATOR_JARS)
    target = tmp_path_factory.mktemp("classes")
    compile_it = ["javac", "-d", str(target), "-cp", jars, str(HERE / "CuratorPeer.java")]
    subprocess.run(compile_it, check=True, capture_output=True, timeout=TIMEOUT_S)
    return ["java", *FLAGS, "-cp", f"{target}{os.pathsep}{jars}", "CuratorPeer"]


class Peer:
    """A Java process that does as it is told."""

    def __init__(self, command: list[str], hosts: str) -> None:
        self._process = subprocess.Popen(
            [*command, hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        assert "ready" == self._read()

    def tell(self, *words: object) -> str:
        """Have one command done; returns the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        return self._read()

    def start(self, *words: object) -> Future[str]:
        """Have one command done in the background."""
        return in_thread(lambda: self.tell(*words))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture
def make_peer(java: list[str], hosts: str, root: str) -> Iterator[Callable[[], Peer]]:
    peers: list[Peer] = []

    def make() -> Peer:
        peers.append(Peer(java, hosts))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


@pytest.fixture
def peer(make_peer: Callable[[], Peer]) -> Peer:
    return make_peer()


@pytest.fixture
def coordinator(hosts: str, root: str) -> Iterator[Coordinator]:
    with Coordinator(hosts) as made:
        yield made


@pytest.fixture
def path(root: str) -> str:
    return f"{root}/lock"


def ours(kind: str, path: str, coordinator: Coordinator) -> ZkLock:
    if kind == "mutex":
        return ZkLock(path, client=coordinator)
    side: ZkLock = getattr(ZkReadWriteLock(path, client=coordinator), kind)
    return side


def queued(zk: KazooClient, path: str, count: int) -> None:
    wait_until(lambda: len(members(zk, path)) == count)


@pytest.mark.parametrize(
    ("theirs", "mine", "share"),
    [
        ("mutex", "mutex", False),
        ("write", "write", False),
        ("write", "read", False),
        ("read", "write", False),
        ("read", "read", True),
    ],
)
def test_each_side_keeps_the_other_out_and_hands_over(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, theirs: str, mine: str, share: bool
) -> None:
    lock = ours(mine, path, coordinator)
    if share:
        with lock:
            assert "true" == peer.tell("acquire", theirs, path, 10_000)
            with lock:
                pass
        with lock:
            assert "released" == peer.tell("release", theirs, path)
        return
    with lock:
        assert "false" == peer.tell("acquire", theirs, path, 200)
        queued(zk, path, 1)
        waiting = peer.start("acquire", theirs, path, 10_000)
        queued(zk, path, 2)
        assert not waiting.done()
    assert "true" == waiting.result(PATIENCE_S)
    assert None is lock.try_acquire()
    with pytest.raises(AcquireTimeoutError) as caught:
        lock.acquire(timeout=0.2)
    assert caught.value.holder
    acquiring = in_thread(lock.acquire)
    queued(zk, path, 2)
    assert "released" == peer.tell("release", theirs, path)
    acquiring.result(PATIENCE_S).release()
    assert [] == members(zk, path)


@pytest.mark.parametrize("kind", ["mutex", "write"])
def test_no_increment_is_lost_and_the_fence_rises_through_many_hand_overs(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, root: str, path: str, kind: str
) -> None:
    counter = f"{root}/counter"
    zk.create(counter, b"0", makepath=True)
    counting = peer.start("count", kind, path, counter, HAND_OVERS)
    lock = ours(kind, path, coordinator)
    tokens = []
    for _ in range(HAND_OVERS):
        with lock.acquire(timeout=60.0) as grant:
            zk.set(counter, b"%d" % (int(zk.get(counter)[0]) + 1))
            tokens.append(grant.token)
    assert "counted" == counting.result(60.0)
    assert b"%d" % (2 * HAND_OVERS) == zk.get(counter)[0]
    assert sorted(set(tokens)) == tokens


def test_our_downgrade_keeps_javas_waiting_writer_out_and_lets_its_readers_in(
    make_peer: Callable[[], Peer], coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    writer, reader = make_peer(), make_peer()
    rw = ZkReadWriteLock(path, client=coordinator)
    write = rw.write.acquire()
    reading = reader.start("acquire", "read", path, 20_000)
    queued(zk, path, 2)
    writing = writer.start("acquire", "write", path, 20_000)
    queued(zk, path, 3)
    read = rw.read.acquire(timeout=PATIENCE_S)
    write.release()
    assert "true" == reading.result(PATIENCE_S)
    assert not writing.done()
    assert "released" == reader.tell("release", "read", path)
    queued(zk, path, 2)
    read.verify()
    assert not writing.done()
    read.release()
    assert "true" == writing.result(PATIENCE_S)
    writer.tell("release", "write", path)


@pytest.mark.xfail(
    not OTHER_JARS,
    reason="Curator 5.4 gives a downgraded reader a later number than the waiting writer (CURATOR-621)",
    strict=True,
)
def test_javas_downgrade_keeps_our_waiting_writer_out(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    assert "true" == peer.tell("acquire", "write", path, 10_000)
    lock = ours("write", path, coordinator)
    waiting = in_thread(lambda: lock.acquire(timeout=3.0))
    queued(zk, path, 2)
    assert "true" == peer.tell("acquire", "read", path, 10_000)
    peer.tell("release", "write", path)
    try:
        with pytest.raises(AcquireTimeoutError):
            waiting.result(PATIENCE_S)
    finally:
        if waiting.exception(PATIENCE_S) is None:
            waiting.result().release()
        peer.tell("release", "read", path)


def test_a_golden_layout_of_a_newer_javas_downgrade_is_understood(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    """As Curator 5.9 writes it: the read member has the writer's suffix and is not sequential."""
    zk.ensure_path(path)
    head = f"{path}/_c_0dbbd021-f728-4d7e-ad50-0365de06bc3f-__WRIT__"
    write = zk.create(head, b"127.0.0.1", ephemeral=True, sequence=True)
    read = f"{path}/_c_181e9664-7c8a-4d4a-94ae-0dc069605fac-__READ__{write[-10:]}"
    zk.create(read, b"127.0.0.1", ephemeral=True)
    rw = ZkReadWriteLock(path, client=coordinator)
    writing = in_thread(rw.write.acquire)
    queued(zk, path, 3)
    zk.delete(write)
    with pytest.raises(AcquireTimeoutError):
        rw.write.acquire(timeout=0.3)
    assert not writing.done()
    zk.delete(read)
    writing.result(PATIENCE_S).release()


@pytest.mark.parametrize("kind", ["mutex", "write", "read"])
def test_java_asks_for_our_lock(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    grant = ours(kind, path, coordinator).acquire()
    told: list[Grant] = []
    grant.on_revoke(lambda grant: (told.append(grant), grant.release()))
    assert "sent" == peer.tell("revoke", f"{path}/{grant.name}")
    wait_until(lambda: [] == members(zk, path))
    assert [grant] == told


@pytest.mark.parametrize("kind", ["mutex", "write", "read"])
def test_we_ask_for_javas_lock(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str, kind: str
) -> None:
    peer.tell("revocable", kind, path)
    assert "true" == peer.tell("acquire", kind, path, 10_000)
    lock = ours(kind, path, coordinator)
    revoking = in_thread(lambda: lock.revoke(wait=PATIENCE_S))
    assert "true" == peer.tell("asked", kind, path, 10_000)
    assert "released" == peer.tell("release", kind, path)
    assert revoking.result(PATIENCE_S)


def test_kinds_that_do_not_see_each_other_are_a_conflict_on_our_side(
    peer: Peer, coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    assert "true" == peer.tell("acquire", "mutex", path, 10_000)
    for kind in ("read", "write"):
        with pytest.raises(QueueConflictError):
            ours(kind, path, coordinator).acquire()
    with pytest.raises(QueueConflictError):
        ZkLock(path, client=coordinator, dialect="kazoo").acquire()
    peer.tell("release", "mutex", path)
    assert "true" == peer.tell("acquire", "read", path, 10_000)
    with pytest.raises(QueueConflictError):
        ours("mutex", path, coordinator).acquire()
    peer.tell("release", "read", path)
