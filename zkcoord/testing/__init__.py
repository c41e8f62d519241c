"""
A test kit for everybody who uses ZooKeeper from Python: a server in the test process, with faults on demand.

``pip install 'zkcoord[testing]'`` is enough: pytest finds the plugin by itself. Its fixtures:

* ``zk_server``: the server, one for the whole run; embedded unless ``--zk-server=real`` or ``--zk-server=HOST:PORT``;
* ``zk_hosts``: its connection string, with a chroot of the test's own, which is empty at first and removed afterwards;
* ``zk_client``: a started `KazooClient` for it;
* ``zk_coordinator``: a `Coordinator` for it, for threads and for asyncio;
* ``zk_run(coroutine)``: runs a coroutine, and fails if it leaves anything behind;
* ``expire_session(client)``: ends a client's session on the server, as its expiry would;
* ``zk_faults``: delays, stalls, cuts and lost replies, on the embedded server.

`History` writes down what the clients of a lock do and see; `zkcoord.testing.checks` judges it.

For development and tests; the embedded server keeps everything in memory.
"""

from zkcoord.server import EmbeddedServer, Fault, Faults
from zkcoord.testing.checks import assert_sound
from zkcoord.testing.find import find_zookeeper
from zkcoord.testing.history import History
from zkcoord.testing.installed import ZooKeeperServer
from zkcoord.testing.loops import LeftBehindError, run
from zkcoord.testing.probe import NoZooKeeperError, Server, ServerStartError
from zkcoord.testing.sessions import expire

__all__ = [
    "EmbeddedServer",
    "Fault",
    "Faults",
    "History",
    "LeftBehindError",
    "NoZooKeeperError",
    "Server",
    "ServerStartError",
    "ZooKeeperServer",
    "assert_sound",
    "expire",
    "find_zookeeper",
    "run",
]
