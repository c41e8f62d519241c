"""The pytest plugin, as a user's project would use it: found by pytest itself, embedded by default."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USER_TESTS = """
import asyncio

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError
import pytest

from zkcoord import AsyncZkLock, Coordinator, ZkLock
from zkcoord.testing import LeftBehindError


def test_client_has_a_place_of_its_own(zk_client, zk_hosts):
    assert [] == [name for name in zk_client.get_children("/") if name != "zookeeper"]
    zk_client.create("/a", b"x")
    other = KazooClient(zk_hosts)
    other.start()
    assert b"x" == other.get("/a")[0]
    other.stop()
    other.close()


def test_next_test_starts_empty(zk_client):
    assert zk_client.exists("/a") is None


def test_session_ends_on_the_server(zk_client, zk_hosts, expire_session):
    states = []
    zk_client.add_listener(states.append)
    zk_client.create("/mine", b"", ephemeral=True)
    other = KazooClient(zk_hosts)
    other.start()
    expire_session(zk_client)
    assert other.exists("/mine") is None
    other.stop()
    other.close()


def test_tasks_work(zk_coordinator, zk_run):
    async def hold(name):
        async with AsyncZkLock(f"/locks/{name}", client=zk_coordinator, timeout=10) as grant:
            return grant.token

    async def main():
        return await asyncio.gather(hold("a"), hold("a"), hold("b"))

    assert 3 == len(set(zk_run(main())))


def test_what_is_left_behind_is_an_error(zk_run):
    async def main():
        main.left = asyncio.create_task(asyncio.sleep(60))

    with pytest.raises(LeftBehindError, match="still running"):
        zk_run(main())


def test_locks_work(zk_hosts):
    with Coordinator(zk_hosts) as coordinator, ZkLock("/locks/a", client=coordinator, timeout=10) as grant:
        assert grant.token > 0
"""

FAULT_TESTS = """
import pytest
from kazoo.exceptions import ConnectionLoss


def test_a_lost_reply_and_nothing_left_of_the_fault(zk_client, zk_faults):
    zk_faults.cut_after(operation="create*")
    with pytest.raises(ConnectionLoss):
        zk_client.create("/a")
    zk_client.retry(zk_client.get_children, "/")
    assert zk_client.retry(zk_client.exists, "/a")


def test_the_next_test_is_undisturbed(zk_client):
    zk_client.create("/a")
"""


@pytest.fixture(params=["embedded", "hosts"])
def choice(request: pytest.FixtureRequest) -> str:
    """What is given to ``--zk-server``."""
    if request.param == "embedded":
        return "embedded"
    hosts: str = request.getfixturevalue("hosts")
    return hosts


def test_fixtures_work_on_every_server(pytester: pytest.Pytester, choice: str) -> None:
    pytester.makepyfile(USER_TESTS)
    result = pytester.runpytest_subprocess(f"--zk-server={choice}", "-p", "no:randomly", "-W", "error")
    result.assert_outcomes(passed=6)


def test_real_server_is_started_for_the_run(pytester: pytest.Pytester, hosts: str) -> None:
    pytester.makepyfile("def test_it(zk_client, zk_server):\n    assert zk_server.mntr()\n")
    result = pytester.runpytest_subprocess("--zk-server=real")
    result.assert_outcomes(passed=1)


def test_embedded_is_the_default_and_faults_end_with_their_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAULT_TESTS)
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=2)


def test_faults_elsewhere_are_skipped_with_the_reason(pytester: pytest.Pytester, hosts: str) -> None:
    pytester.makepyfile(FAULT_TESTS)
    result = pytester.runpytest_subprocess(f"--zk-server={hosts}", "-rs", "-k", "lost_reply")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*faults need the embedded server*"])


def test_unreachable_servers_fail_at_once_and_by_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(zk_client):\n    pass\n")
    result = pytester.runpytest_subprocess("--zk-server=127.0.0.1:1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["--zk-server=127.0.0.1:1 cannot be reached: *"])


def test_session_of_a_client_without_connection_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kazoo.client import KazooClient
        from zkcoord import ConfigError

        def test_it(expire_session):
            with pytest.raises(ConfigError, match="not connected"):
                expire_session(KazooClient())
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_fresh_environment_needs_only_the_extra(tmp_path: Path) -> None:
    """A wheel of this tree, in a new environment, found by pytest itself; kazoo.testing and its helpers stay out."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{ROOT}[testing]"]
    subprocess.run(install, check=True, timeout=240)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_mine.py").write_text(
        "import sys\n\n\ndef test_it(zk_client):\n"
        "    zk_client.create('/a')\n"
        "    assert not {'kazoo.testing', 'OpenSSL', 'jks', 'click', 'rich'} & set(sys.modules)\n"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ZKCOORD"))}
    run = [python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."]
    done = subprocess.run(run, cwd=project, env=bare, capture_output=True, text=True, timeout=120)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_examples_of_the_docs_pass(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "howto" / "test-your-kazoo-code.md").read_text()
    first, coroutines = (piece.split("```")[0] for piece in page.split("```python\n")[1:3])
    pytester.makepyfile(first + coroutines)
    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=4)
