"""
Four-letter words: what a person or a monitor asks a server in plain text.

Source: ZooKeeper 3.8, package ``server.command``; ``cons`` and ``mntr`` leave out what only a JVM has.
"""

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from zkcoord.server.codes import OP_NAMES
from zkcoord.server.engine import Connection, ServerEngine
from zkcoord.server.watches import WatchTable

WORD_BYTES = 4

NOTICE = "zkcoord embedded server, for development and tests; in memory"
# Clients read the number before the dash.
VERSION = f"3.8.0-zkcoord ({NOTICE})"


class Facts:
    """What the transport knows and the engine does not."""

    def __init__(self, port: int, max_frame_bytes: int) -> None:
        self.port = port
        self.max_frame_bytes = max_frame_bytes
        self.ports: dict[int, int] = {}


class Question(NamedTuple):
    """All that an answer is made of."""

    engine: ServerEngine
    facts: Facts
    now: float


def answer(word: bytes, engine: ServerEngine, facts: Facts, now: float) -> str | None:
    """
    Answer a four-letter word.

    Args:
        word: the first four bytes of a connection.
        engine: only looked at.
        facts: of the transport.
        now: seconds, the engine's clock.

    Returns:
        The text; None when the bytes are no such word, and so the length of a frame.
    """
    words = _WORDS.get(word)
    return None if words is None else words(Question(engine, facts, now))


def _ruok(question: Question) -> str:
    return "imok"


def _isro(question: Question) -> str:
    return "rw"


def _srvr(question: Question) -> str:
    return f"Zookeeper version: {VERSION}\n{_statistics(question)}"


def _stat(question: Question) -> str:
    clients = "".join(f"{_client(link, question, is_brief=True)}\n" for link in _links(question))
    return f"Zookeeper version: {VERSION}\nClients:\n{clients}\n{_statistics(question)}"


def _statistics(question: Question) -> str:
    engine = question.engine
    return (
        "Latency min/avg/max: 0/0.0/0\n"
        f"Received: {engine.received}\nSent: {engine.sent}\nConnections: {len(engine.connections)}\n"
        f"Outstanding: 0\nZxid: 0x{engine.replica.tree.last_zxid:x}\nMode: standalone\n"
        f"Node count: {_node_count(engine)}\n"
    )


def _node_count(engine: ServerEngine) -> int:
    return engine.replica.tree.count + 1


def _links(question: Question) -> list[Connection]:
    return list(question.engine.connections.values())


def _client(link: Connection, question: Question, is_brief: bool) -> str:
    port = question.facts.ports.get(link.number, 0)
    text = f" /{link.address}:{port}[{int(link.session_id != 0)}](queued=0,recved={link.received},sent={link.sent}"
    if not is_brief and link.session_id:
        text += (
            f",sid=0x{link.session_id:x},lop={OP_NAMES.get(link.last_op, 'NA')},est={link.opened_ms}"
            f",to={link.timeout_ms},lcxid=0x{link.last_xid & 0xFFFFFFFF:x},lzxid=0x{_hex(link.last_zxid)}"
            f",lresp={link.last_reply_ms},llat=0,minlat=0,avglat=0,maxlat=0"
        )
    return text + ")"


def _hex(number: int) -> str:
    return f"{number & 0xFFFFFFFFFFFFFFFF:x}"


def _cons(question: Question) -> str:
    return "".join(f"{_client(link, question, is_brief=False)}\n" for link in _links(question)) + "\n"


def _conf(question: Question) -> str:
    settings = question.engine.settings
    return (
        f"clientPort={question.facts.port}\nsecureClientPort=-1\ndataDir=(in memory)\ndataLogDir=(in memory)\n"
        f"tickTime={settings.tick_ms}\nmaxClientCnxns=0\nminSessionTimeout={settings.min_timeout_ms}\n"
        f"maxSessionTimeout={settings.max_timeout_ms}\nclientPortListenBacklog=-1\nserverId=0\n"
        f"jute.maxbuffer={question.facts.max_frame_bytes}\n"
    )


def _mntr(question: Question) -> str:
    engine = question.engine
    tree, watches = engine.replica.tree, engine.replica.watches
    values: dict[str, object] = {
        "version": VERSION,
        "server_state": "standalone",
        "ephemerals_count": sum(len(paths) for paths in tree.ephemerals.values()),
        "num_alive_connections": len(engine.connections),
        "avg_latency": 0.0,
        "outstanding_requests": 0,
        "znode_count": _node_count(engine),
        "global_sessions": len(engine.sessions.sessions),
        "packets_sent": engine.sent,
        "packets_received": engine.received,
        "watch_count": watches.data.count() + watches.children.count(),
        "min_latency": 0,
        "max_latency": 0,
        "approximate_data_size": tree.data_bytes(),
        "local_sessions": 0,
        "uptime": int(question.now * 1000) - engine.started_ms,
    }
    return "".join(f"zk_{name}\t{value}\n" for name, value in values.items())


def _dump(question: Question) -> str:
    engine = question.engine
    by_due = engine.sessions.by_due()
    lines = ["SessionTracker dump:", f"Session Sets ({len(by_due)})/({len(engine.sessions.sessions)}):"]
    for due_ms, ids in by_due:
        due = datetime.fromtimestamp(due_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
        lines.append(f"{len(ids)} expire at {due}:")
        lines += [f"\t0x{session_id:x}" for session_id in ids]
    ephemerals = engine.replica.tree.ephemerals
    lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(ephemerals)}):"]
    for session_id, paths in ephemerals.items():
        lines.append(f"0x{session_id:x}:")
        lines += [f"\t{path}" for path in paths]
    lines.append("Connections dump:")
    lines += [
        f"\tip: /{link.address}:{question.facts.ports.get(link.number, 0)} sessionId: 0x{link.session_id:x}"
        for link in _links(question)
    ]
    return "\n".join(lines) + "\n"


def _wchs(question: Question) -> str:
    table = question.engine.replica.watches.data
    return (
        f"{len(table.by_watcher)} connections watching {len(table.by_path)} paths\n"
        f"Total watches:{table.count()}\n"
    )


# Like the real server, these three tell of data watches only.
def _wchc(question: Question) -> str:
    table = question.engine.replica.watches.data
    lines: list[str] = []
    for watcher, paths in table.by_watcher.items():
        lines.append(f"0x{_session(question, watcher):x}")
        lines += [f"\t{path}" for path in sorted(paths)]
    return _lines(lines)


def _wchp(question: Question) -> str:
    table: WatchTable = question.engine.replica.watches.data
    lines: list[str] = []
    for path, watchers in table.by_path.items():
        lines.append(path)
        lines += [f"\t0x{_session(question, watcher):x}" for watcher in watchers]
    return _lines(lines)


def _session(question: Question, watcher: int) -> int:
    return question.engine.connections[watcher].session_id


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines) + "\n"


def _envi(question: Question) -> str:
    return (
        f"Environment:\nzookeeper.version={VERSION}\nhost.name={platform.node()}\n"
        f"python.version={platform.python_version()}\npython.implementation={platform.python_implementation()}\n"
        f"os.name={platform.system()}\nos.arch={platform.machine()}\nos.version={platform.release()}\n"
    )


_WORDS: dict[bytes, Callable[[Question], str]] = {
    b"ruok": _ruok,
    b"isro": _isro,
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"conf": _conf,
    b"mntr": _mntr,
    b"dump": _dump,
    b"wchs": _wchs,
    b"wchc": _wchc,
    b"wchp": _wchp,
    b"envi": _envi,
}
