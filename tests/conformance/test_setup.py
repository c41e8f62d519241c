"""Setting up: chroot, ACLs, directories that come and go, servers that are not there, options."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, UnimplementedError
from kazoo.protocol.serialization import Create
from kazoo.security import make_acl, make_digest_acl

from tests.conformance.conftest import MakeCoordinator, RunScript
from tests.conftest import MakeClient
from tests.support.tls import CERTIFICATE, ENCRYPTED_KEY
from tests.support.waiting import PATIENCE_S, in_thread, wait_until
from tests.support.zookeeper import ZooKeeperServer
from zkcoord import (
    AcquireTimeoutError,
    ConfigError,
    ConnectionLostError,
    Coordinator,
    GrantLostError,
    ZkLock,
)
from zkcoord._session.parents import Parents
from zkcoord._session.wire import CreateContainer

#: Room above a promised time.
ROOM_S = 0.25


# --- chroot


def test_missing_chroot_is_made_and_all_names_are_below_it(
    make_coordinator: MakeCoordinator, zk: KazooClient, hosts: str, root: str
) -> None:
    coordinator = make_coordinator(f"{hosts}{root}/apps/one")
    lock = ZkLock("/locks/orders", client=coordinator)

    with lock as grant:
        assert "/locks/orders" == lock.path == grant.path
        assert [grant.name] == zk.get_children(f"{root}/apps/one/locks/orders")
        assert [("/locks/orders", grant.name)] == [(member.path, member.name) for member in lock.queue()]
        grant.verify()
        with grant.transaction() as tx:
            tx.create("/state", b"made under the chroot")
        with pytest.raises(AcquireTimeoutError) as caught:
            in_thread(lambda: lock.acquire(timeout=0.1)).result(PATIENCE_S)
        assert "/locks/orders" == caught.value.path
    assert [] == zk.get_children(f"{root}/apps/one/locks/orders")
    assert b"made under the chroot" == zk.get(f"{root}/apps/one/state")[0]


def test_loss_is_noticed_below_a_chroot(
    make_coordinator: MakeCoordinator, zk: KazooClient, hosts: str, root: str
) -> None:
    grant = ZkLock("orders", client=make_coordinator(f"{hosts}{root}/app")).acquire()
    zk.delete(f"{root}/app/orders/{grant.name}")
    assert grant.lost.wait(PATIENCE_S)
    with pytest.raises(GrantLostError, match=r"of /orders \("):
        grant.verify()


def test_waiter_below_a_chroot_is_woken_and_leaves_no_watch(
    make_coordinator: MakeCoordinator, zk: KazooClient, hosts: str, root: str
) -> None:
    lock = ZkLock("orders", client=make_coordinator(f"{hosts}{root}/app"))
    grant = lock.acquire()
    assert in_thread(lambda: lock.try_acquire(timeout=0.1)).result(PATIENCE_S) is None
    waiter = in_thread(lock.acquire)
    wait_until(lambda: 2 == len(zk.get_children(f"{root}/app/orders")))
    grant.release()
    waiter.result(PATIENCE_S).release()


# --- authentication


@pytest.fixture
def guarded(root: str, make_client: MakeClient, make_coordinator: MakeCoordinator) -> Iterator[Coordinator]:
    """A coordinator with credentials, whose znodes only they may touch."""
    yield make_coordinator(auth=[("digest", "app:secret")], acl=[make_digest_acl("app", "secret", all=True)])
    client = make_client(auth_data=[("digest", "app:secret")])
    client.delete(root, recursive=True)


def test_znodes_belong_to_the_credentials_that_made_them(
    guarded: Coordinator, zk: KazooClient, path: str
) -> None:
    with ZkLock(path, client=guarded) as grant:
        for attempt in (
            lambda: zk.get(f"{path}/{grant.name}"),
            lambda: zk.delete(f"{path}/{grant.name}"),
            lambda: zk.create(f"{path}/intruder"),
            lambda: zk.get_children(path),
        ):
            with pytest.raises(NoAuthError):
                attempt()
        grant.verify()
        assert in_thread(ZkLock(path, client=guarded).try_acquire).result(PATIENCE_S) is None


@pytest.mark.parametrize("auth", [[("digest", "app:wrong")], []], ids=["wrong", "none"])
def test_wrong_credentials_are_an_error_that_says_what_to_do(
    guarded: Coordinator,
    make_coordinator: MakeCoordinator,
    make_client: MakeClient,
    hosts: str,
    path: str,
    auth: list[tuple[str, str]],
) -> None:
    looker = make_client(auth_data=[("digest", "app:secret")])
    with ZkLock(path, client=guarded) as grant:
        lock = ZkLock(path, client=make_coordinator(auth=auth))
        for attempt in (lock.acquire, lock.try_acquire):
            with pytest.raises(ConfigError) as caught:
                attempt()
            assert hosts in str(caught.value)
            assert path in str(caught.value)
            assert "auth=" in str(caught.value)
            assert "secret" not in str(caught.value)
            assert isinstance(caught.value.__cause__, NoAuthError)
        assert [grant.name] == looker.get_children(path)


def test_refused_parent_is_an_error_too(
    guarded: Coordinator, make_coordinator: MakeCoordinator, root: str
) -> None:
    with (
        ZkLock(f"{root}/lock", client=guarded),
        pytest.raises(ConfigError, match="does not allow it"),
    ):
        ZkLock(f"{root}/other/deep", client=make_coordinator()).acquire(timeout=PATIENCE_S)


def test_locks_own_acl_is_used_for_member_and_directory(
    coordinator: Coordinator, zk: KazooClient, path: str
) -> None:
    acl = make_digest_acl("ops", "secret", read=True)
    open_to_all = zk.get_acls("/")[0]
    with ZkLock(path, client=coordinator, acl=[*open_to_all, acl]) as grant:
        assert acl in zk.get_acls(path)[0]
        assert acl in zk.get_acls(f"{path}/{grant.name}")[0]


def test_acl_without_read_is_no_deletion(coordinator: Coordinator, path: str) -> None:
    """Nobody may look at such a member, so it cannot be confirmed; that must not be told as a delete."""
    write_only = make_acl("world", "anyone", create=True, delete=True, write=True)
    directory = make_acl("world", "anyone", all=True)
    with ZkLock(path, client=coordinator, acl=[directory]):
        pass
    grant = ZkLock(path, client=coordinator, acl=[write_only]).acquire()
    with pytest.raises(ConfigError, match="acl must give READ"):
        grant.verify()
    with pytest.raises(ConfigError, match="acl must give READ"), grant.transaction() as writes:
        writes.create(f"{path}-written")
    assert grant.loss_reason is None
    assert grant.release()


def test_acl_that_the_server_does_not_understand_is_named(coordinator: Coordinator, path: str) -> None:
    """``auth`` stands for the session's own credentials, of which there are none."""
    acl = make_digest_acl("a", "b", all=True)
    nobody = acl._replace(id=acl.id._replace(scheme="auth", id=""))
    with pytest.raises(ConfigError, match="refuses the acl"):
        ZkLock(path, client=coordinator, acl=[nobody]).acquire()


# --- directories that come and go


def test_empty_directories_are_removed_and_made_again_but_the_chroot_stays(
    container_server: ZooKeeperServer,
) -> None:
    looker = KazooClient(container_server.hosts)
    looker.start(timeout=20)
    with Coordinator(f"{container_server.hosts}/apps/one") as coordinator:
        lock = ZkLock("/locks/deep/orders", client=coordinator)
        with lock as first:
            pass
        wait_until(lambda: looker.exists("/apps/one/locks") is None)
        assert [] == looker.get_children("/apps/one")
        with lock as second:
            assert second.token > first.token
            assert first.name[-10:] == second.name[-10:]
    looker.stop()
    looker.close()


def test_directories_vanishing_at_any_moment_fail_no_acquire(container_server: ZooKeeperServer) -> None:
    with Coordinator(container_server.hosts) as coordinator:
        locks = [ZkLock(f"/locks/{number}/x", client=coordinator, timeout=PATIENCE_S) for number in range(3)]

        def work() -> list[list[int]]:
            tokens: list[list[int]] = [[] for _ in locks]
            for number in range(150):
                with locks[number % 3] as grant:
                    tokens[number % 3].append(grant.token)
            return tokens

        results = [done.result(60.0) for done in [in_thread(work) for _ in range(3)]]
    for tokens in (tokens for result in results for tokens in result):
        assert sorted(set(tokens)) == tokens


class OldServer:
    """Answers as a server before 3.5.1, which knows no containers; stands for `Requests`."""

    def __init__(self) -> None:
        self.asked: list[tuple[type, str]] = []

    def submit(self, request: Any, done: Any, **options: Any) -> None:
        self.asked.append((type(request), request.path))
        is_container = isinstance(request, CreateContainer)
        done(None if is_container else request.path, UnimplementedError() if is_container else None)


def test_server_without_containers_gets_plain_directories(make_client: MakeClient) -> None:
    server = OldServer()
    parents = Parents(make_client(start=False), server)  # type: ignore[arg-type]
    outcomes: list[Exception | None] = []

    parents.make("/locks/a", (), outcomes.append)
    parents.make("/locks/b", (), outcomes.append)

    assert [None, None] == outcomes
    assert [(CreateContainer, "/locks/a"), (Create, "/locks/a"), (Create, "/locks/b")] == server.asked


# --- servers that are not there


@pytest.fixture
def refused_hosts() -> Iterator[str]:
    """An address that refuses connections: bound, so that nobody else takes it, but not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_refused_port_is_a_timeout_in_time_that_names_it(
    refused_hosts: str, make_coordinator: MakeCoordinator
) -> None:
    lock = ZkLock("/locks/orders", client=make_coordinator(refused_hosts))
    began = time.monotonic()

    with pytest.raises(AcquireTimeoutError) as caught:
        lock.acquire(timeout=0.5)

    assert time.monotonic() - began < 0.5 + ROOM_S
    assert (None, None) == (caught.value.position, caught.value.holder)
    assert refused_hosts in str(caught.value)
    assert "refused" in str(caught.value)


def test_unknown_host_is_a_timeout_in_time_that_names_it(make_coordinator: MakeCoordinator) -> None:
    lock = ZkLock("/locks/orders", client=make_coordinator("no-such-host.invalid:2181"))
    began = time.monotonic()

    with pytest.raises(AcquireTimeoutError) as caught:
        lock.acquire(timeout=1.0)

    assert time.monotonic() - began < 1.0 + ROOM_S
    assert "no-such-host.invalid:2181" in str(caught.value)
    assert "Cannot resolve" in str(caught.value)


def test_try_without_a_server_says_that_it_does_not_know(
    refused_hosts: str, make_coordinator: MakeCoordinator
) -> None:
    lock = ZkLock("/locks/orders", client=make_coordinator(refused_hosts, session_timeout=3.0))
    for attempt in (lock.try_acquire, lambda: lock.acquire(timeout=0)):
        began = time.monotonic()
        with pytest.raises(ConnectionLostError, match=refused_hosts):
            attempt()
        assert time.monotonic() - began < 1.0 + ROOM_S


def test_try_with_a_timeout_without_a_server_is_no_none(
    refused_hosts: str, make_coordinator: MakeCoordinator
) -> None:
    lock = ZkLock("/locks/orders", client=make_coordinator(refused_hosts))
    with pytest.raises(ConnectionLostError, match=refused_hosts):
        lock.try_acquire(timeout=0.3)


def test_queue_without_a_server_says_so(refused_hosts: str, make_coordinator: MakeCoordinator) -> None:
    lock = ZkLock("/locks/orders", client=make_coordinator(refused_hosts))
    with pytest.raises(ConnectionLostError, match=refused_hosts):
        lock.queue(timeout=0.3)


def test_one_dead_host_of_two_does_not_matter(
    refused_hosts: str, make_coordinator: MakeCoordinator, hosts: str, path: str
) -> None:
    coordinator = make_coordinator(f"{refused_hosts},{hosts}")
    ZkLock(path, client=coordinator).acquire(timeout=5.0).release()


# --- the default coordinator and its options


def test_configure_names_the_default_coordinators_hosts(run_script: RunScript) -> None:
    printed = run_script("""
import zkcoord
zkcoord.configure(hosts=HOSTS + ROOT, session_timeout=5.0)
with zkcoord.ZkLock("/locks/orders") as outer, zkcoord.ZkLock("/locks/orders") as inner:
    print(outer.token == inner.token, outer.remaining() <= 5.0)
""")
    assert "True True\n" == printed


def test_environment_names_the_default_coordinators_hosts(
    run_script: RunScript, zk: KazooClient, hosts: str, root: str
) -> None:
    source = """
import zkcoord
zkcoord.ZkLock("/locks/orders").acquire(timeout=20).release()
"""
    run_script(source, ZKCOORD_HOSTS=hosts + root)
    assert zk.exists(f"{root}/locks/orders") is not None


def test_configure_after_use_is_refused(run_script: RunScript) -> None:
    printed = run_script("""
import zkcoord
zkcoord.configure(hosts=HOSTS + "/wrong")
zkcoord.configure(hosts=HOSTS + ROOT)  # not in use yet: the last word counts
lock = zkcoord.ZkLock("/locks/orders")
with lock:
    try:
        zkcoord.configure(hosts=HOSTS)
    except zkcoord.ConfigError as error:
        print(error)
with lock as grant:
    print(grant.status.value)
""")
    assert "configure() must come before the first use of a lock without client=\nHELD\n" == printed


def test_tls_options_reach_the_client(make_coordinator: MakeCoordinator, tmp_path: Path) -> None:
    ca, certfile, keyfile = (str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key"))
    for name, text in ((ca, CERTIFICATE), (certfile, CERTIFICATE), (keyfile, ENCRYPTED_KEY)):
        Path(name).write_text(text)
    coordinator = make_coordinator(
        "zk1.invalid:2281",
        tls=True,
        ca=ca,
        certfile=certfile,
        keyfile=keyfile,
        keyfile_password="secret",
        verify_certs=False,
        check_hostname=False,
    )
    client: Any = coordinator.client
    assert (True, ca, certfile, keyfile, "secret", False, False) == (
        client.use_ssl,
        client.ca,
        client.certfile,
        client.keyfile,
        client.keyfile_password,
        client.verify_certs,
        client.check_hostname,
    )
    assert "secret" not in repr(coordinator)


def test_tls_checks_certificate_and_host_name_by_default(make_coordinator: MakeCoordinator) -> None:
    client: Any = make_coordinator("zk1.invalid:2281", tls=True).client
    assert (True, True, True) == (client.use_ssl, client.verify_certs, client.check_hostname)


def test_session_timeout_is_what_the_server_decides(make_coordinator: MakeCoordinator, path: str) -> None:
    coordinator = make_coordinator(session_timeout=500.0)
    assert coordinator.session_timeout is None
    ZkLock(path, client=coordinator).acquire().release()
    assert (500.0, 10.0) == (coordinator.requested_timeout, coordinator.session_timeout)
