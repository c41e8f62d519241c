"""
An embedded ZooKeeper for development and tests: in memory, in this process, with faults on demand.

    with EmbeddedServer() as server:
        client = KazooClient(server.hosts)

`ServerEngine` is the same server without sockets, threads and clocks.
"""

from zkcoord.server.embedded import EmbeddedServer, Fault, Faults
from zkcoord.server.engine import ServerEngine, Settings
from zkcoord.server.faults import Action, Rule

__all__ = ["Action", "EmbeddedServer", "Fault", "Faults", "Rule", "ServerEngine", "Settings"]
