"""Java's clients against the embedded server: ZooKeeper's own command line, and Curator's recipes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.zookeeper import is_real_required
from zkcoord.server import EmbeddedServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
JAVA = Path("/usr/share/java")
# Their manifests name what they need; slf4j's silent default is enough.
CURATOR_JARS = ("curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "zookeeper.jar")
ZOOKEEPER_JARS = ("zookeeper.jar", "commons-cli.jar")
FLAGS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true")
ZKCLI = Path("/usr/share/zookeeper/bin/zkCli.sh")
TIMEOUT_S = 90

RECIPES = [
    "InterProcessMutex ok",
    "InterProcessReadWriteLock ok",
    "InterProcessSemaphoreV2 ok",
    "LeaderLatch ok",
    "CuratorCache ok",
    "SharedCount ok",
    "GroupMember and PersistentTtlNode ok",
    "transactions ok",
]


#: Only a JRE is needed for the real server; the peers come with ``scripts/test``.
JAVA_PEERS = "javac or no Curator (apt-get install libcurator-recipes-java default-jdk-headless)"


def need(what: str, is_there: bool) -> None:
    if is_there:
        return
    if is_real_required():
        pytest.fail(f"ZKCOORD_REQUIRE_REAL is set, but there is no {what}", pytrace=False)
    pytest.skip(f"no {what}")


def class_path(jars: tuple[str, ...]) -> str:
    return os.pathsep.join(str(JAVA / jar) for jar in jars)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as embedded:
        yield embedded


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classes of EmbeddedCheck.java."""
    need(JAVA_PEERS, shutil.which("javac") is not None and (JAVA / CURATOR_JARS[0]).exists())
    target = tmp_path_factory.mktemp("classes")
    source = HERE / "EmbeddedCheck.java"
    command = ["javac", "-d", str(target), "-cp", class_path(CURATOR_JARS), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    return target


def test_curators_recipes_work(server: EmbeddedServer, compiled: Path) -> None:
    path = f"{compiled}{os.pathsep}{class_path(CURATOR_JARS)}"
    command = ["java", *FLAGS, "-cp", path, "EmbeddedCheck", server.hosts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)

    assert RECIPES == [line for line in done.stdout.splitlines() if line.endswith(" ok")], done.stderr
    assert 0 == done.returncode


SCRIPT = """\
create /cli data
create -e /cli/ephemeral
create -s /cli/n- x
create -c /container
create -t 60000 /ttl
get -s /cli
set /cli more
ls -R /cli
stat /cli
getAcl /cli
addauth digest user:password
setAcl /cli/n-0000000001 auth::cdrwa
getAcl /cli/n-0000000001
getEphemerals /cli
getAllChildrenNumber /cli
addWatch -m PERSISTENT_RECURSIVE /cli
delete /cli/ephemeral
removewatches /cli
sync /
whoami
deleteall /cli
config
quit
"""


def test_zookeepers_own_command_line_works(server: EmbeddedServer) -> None:
    need("ZooKeeper's jar or Java", (JAVA / "zookeeper.jar").exists() and shutil.which("java") is not None)
    if ZKCLI.exists():
        command = [str(ZKCLI), "-server", server.hosts]
    else:
        main = "org.apache.zookeeper.ZooKeeperMain"
        command = ["java", *FLAGS, "-cp", class_path(ZOOKEEPER_JARS), main, "-server", server.hosts]
    done = subprocess.run(command, input=SCRIPT, capture_output=True, text=True, timeout=TIMEOUT_S)
    said = done.stdout + done.stderr

    for expected in [
        "Created /cli\n",
        "Created /cli/ephemeral\n",
        "Created /cli/n-0000000001\n",
        "Created /container\n",
        "Created /ttl\n",
        "dataVersion = 0\n",
        "/cli\n/cli/ephemeral\n/cli/n-0000000001\n",
        "'world,'anyone\n: cdrwa\n",
        "'digest,'user:",
        "[/cli/ephemeral]",
        "WatchedEvent state:SyncConnected type:NodeDeleted path:/cli/ephemeral",
        "Sync is OK",
        "ip: 127.0.0.1",
        "digest: user",
    ]:
        assert expected in said
    for wrong in ("KeeperErrorCode", "Exception", "is not valid"):
        assert wrong not in said
