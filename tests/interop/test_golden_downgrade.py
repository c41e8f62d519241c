"""
The layout of a downgrade, byte for byte as Curator 5.9 left it in a run against a Python peer.

Debian has Curator 5.4, whose downgrade is broken (CURATOR-621), so what newer ones write and how they read ours is held
fast here as a transcript: both sides' names, in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.support.faults import members
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from zkcoord import AcquireTimeoutError, Coordinator, ZkReadWriteLock

#: Java holds the write lock and takes the read lock as well: its suffix is the writer's, and it is not sequential.
JAVA_WRITER = "_c_0dbbd021-f728-4d7e-ad50-0365de06bc3f-__WRIT__"
JAVA_READER = "_c_181e9664-7c8a-4d4a-94ae-0dc069605fac-__READ__"
JAVA_NEXT_WRITER = "_c_f2463854-a57f-42c2-ae3d-10d48938597b-__WRIT__"
DATA = b"127.0.0.1"


@pytest.fixture
def rw(hosts: str, path: str) -> Iterator[ZkReadWriteLock]:
    with Coordinator(hosts) as coordinator:
        yield ZkReadWriteLock(path, client=coordinator)


def suffixes(zk: KazooClient, path: str) -> list[str]:
    return sorted((name[-18:] for name in members(zk, path)), key=lambda name: (name[-10:], name))


def javas_order(names: list[str]) -> list[str]:
    """As ``InterProcessReadWriteLock`` sorts them: by what follows the last marker of readers, then of writers."""
    return sorted(names, key=lambda name: name.rpartition("__READ__")[2].rpartition("__WRIT__")[2])


def javas_read(zk: KazooClient, path: str) -> str:
    created: str = zk.create(f"{path}/{JAVA_WRITER}", DATA, ephemeral=True, sequence=True, makepath=True)
    zk.create(f"{path}/{JAVA_READER}{created[-10:]}", DATA, ephemeral=True)
    return created


def test_our_writer_waits_behind_javas_downgraded_reader(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    write = javas_read(zk, path)
    assert ["__READ__0000000000", "__WRIT__0000000000"] == suffixes(zk, path)
    writing = in_thread(rw.write.acquire)
    wait_until(lambda: len(members(zk, path)) == 3)
    zk.delete(write)
    assert ["__READ__0000000000", "__WRIT__0000000002"] == suffixes(zk, path)
    with pytest.raises(AcquireTimeoutError):
        rw.write.acquire(timeout=0.3)
    assert not writing.done()
    zk.delete(f"{path}/{members(zk, path)[0]}")
    writing.result(PATIENCE_S).release()


def test_our_reader_shares_with_javas_downgraded_one_but_not_before(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    write = javas_read(zk, path)
    assert None is rw.read.try_acquire(timeout=0.1)
    reading = in_thread(rw.read.acquire)
    wait_until(lambda: len(members(zk, path)) == 3)
    assert not reading.done()
    zk.delete(write)
    reading.result(PATIENCE_S).release()


def test_our_downgraded_reader_is_ahead_of_javas_waiting_writer(
    rw: ZkReadWriteLock, zk: KazooClient, path: str
) -> None:
    for _ in range(2):  # the transcript's first two numbers
        zk.delete(zk.create(f"{path}/x", ephemeral=True, sequence=True, makepath=True))
    write = rw.write.acquire()
    read = rw.read.acquire()
    write.release()
    zk.create(f"{path}/{JAVA_NEXT_WRITER}", DATA, ephemeral=True, sequence=True)
    assert ["__READ__0000000002", "__WRIT__0000000004"] == suffixes(zk, path)
    assert (
        read.name == javas_order(members(zk, path))[0]
    )  # Java's writer must be the first of all to be granted
    read.verify()
    assert [True, False] == [member.holds for member in rw.write.queue()]
    read.release()
