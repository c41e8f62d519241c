"""`zkcoord doctor`: asks every server and reads the locks of a tree, and says what is wrong. It only reads."""

import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import click
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, Permissions

from zkcoord._arguments import check_hosts
from zkcoord._core.paths import normalize
from zkcoord._members import member, ordered, printable
from zkcoord._reads import Deadline, read_members, walk
from zkcoord._session.kazoo_private import negotiated_timeout_s
from zkcoord.cli import exit_codes, render
from zkcoord.cli.checkup import Directory, Finding, Server, check_directories, check_servers
from zkcoord.cli.connect import connected
from zkcoord.cli.look_commands import Look, reading
from zkcoord.cli.options import Settings, common_options
from zkcoord.cli.views import PATH_LIMIT, Entry, View
from zkcoord.coordinator import DEFAULT_SESSION_TIMEOUT_S
from zkcoord.errors import ConnectionLostError, ZkCoordError

#: Reads whose median is a server's latency.
_READS = 5

#: Members of a directory that are read for their hosts' clocks.
_SAMPLE = 3

#: Where ZooKeeper lists the ensemble.
_CONFIG = "/zookeeper/config"

_MAY_CHANGE = Permissions.WRITE | Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN


@click.command()
@click.argument("root", default="/")
@common_options
@click.pass_obj
def doctor(settings: Settings, root: str) -> int:
    """
    Check the ensemble, and the locks under ROOT.

    \b
    Of the ensemble: each server of --hosts can be reached, its role, version and latency; the session timeout that is
    granted, against tickTime and against syncLimit × tickTime.
    Of the locks: queues that two libraries share without seeing each other, children that are no members and what they
    do to each library, sequence numbers left, clocks of the hosts, directories that anybody may change.

    Each line says what was seen, why it matters and what to do. Exits with 1 if there is a fault, with 69 if no server
    answers. Roles and tick times need srvr and conf in the servers' 4lw.commands.whitelist.

    \b
    Examples:
      zkcoord doctor
      zkcoord doctor /app --session-timeout 15 --json
    """
    asked_s = settings.session_timeout or DEFAULT_SESSION_TIMEOUT_S
    addresses, _chroot = collect_hosts(check_hosts(settings.hosts))
    if root.strip("/"):
        normalize(root, "root")
    with ThreadPoolExecutor(len(addresses)) as pool:
        servers = list(
            pool.map(lambda at: ask_server(settings, at[0], at[1], asked_s), [tuple(at) for at in addresses])
        )
    is_up = any(server.error is None for server in servers)
    levels: set[str] = set()

    def told(findings: Iterable[Finding]) -> Iterator[Entry]:
        for finding in findings:
            levels.add(finding.level)
            yield Entry((finding.level, finding.check, finding.where, finding.text), finding_object(finding))

    def show(findings: Iterable[Finding]) -> None:
        view = View(
            title=f"{printable(settings.hosts, PATH_LIMIT)}, locks under {printable(root, PATH_LIMIT)}",
            columns=("LEVEL", "CHECK", "WHERE", "FINDING"),
            entries=told(findings),
            empty=str,
        )
        render.show(view, output=settings.output, out=sys.stdout, err=sys.stderr)

    if not is_up:
        show(check_servers(servers, asked_s, None))
        raise ConnectionLostError(f"no ZooKeeper server of {settings.hosts} answered; see above")
    with reading(settings) as look:

        def everything() -> Iterator[Finding]:
            yield from check_servers(servers, asked_s, ensemble_size(look))
            yield from check_directories(read_directories(look, root))

        show(everything())
        look.tell_unreadable()
    return exit_codes.FAILED if "fault" in levels else exit_codes.OK


def ask_server(settings: Settings, host: str, port: int, asked_s: float) -> Server:
    """Connect to one server, and note what it says."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with connected(settings, hosts=address, session_timeout=asked_s) as client:
            taken = []
            for _ in range(_READS):
                began = time.monotonic()
                client.exists_async("/").get(timeout=settings.timeout)
                taken.append(time.monotonic() - began)
            said, settings_said = _word(client, b"srvr"), _word(client, b"conf")
            tick_ms = _number(settings_said.get("tickTime"))
            return Server(
                address=address,
                latency_s=statistics.median(taken),
                negotiated_s=negotiated_timeout_s(client),
                mode=said.get("Mode"),
                version=said.get("Zookeeper version", "").partition("-")[0] or None,
                tick_s=None if tick_ms is None else tick_ms / 1000,
                sync_limit=_number(settings_said.get("syncLimit")),
            )
    except ConnectionLostError:
        return Server(address, error=f"no answer within {settings.timeout:g} s; does it run, with a quorum?")
    except (KazooException, KazooTimeoutError, ZkCoordError, OSError) as error:
        return Server(address, error=str(error) or type(error).__name__)


def _word(client: KazooClient, word: bytes) -> dict[str, str]:
    """Ask with a four-letter word; return its lines by what stands before ":" or "="; nothing if it is not allowed."""
    try:
        text = client.command(word)
    except (KazooException, KazooTimeoutError, OSError):
        return {}
    pairs = (line.replace("=", ":", 1).partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def ensemble_size(look: Look) -> int | None:
    """Return how many servers take part in the ensemble; None where that may not be read."""
    try:
        data, _ = look.client.get_async(_CONFIG).get(timeout=look.left())
    except (KazooException, KazooTimeoutError):
        return None
    lines = data.decode("utf-8", "replace").splitlines()
    return sum(line.startswith("server.") and ":observer" not in line for line in lines) or None


def read_directories(look: Look, root: str) -> Iterator[Directory]:
    """Read every lock's directory under a path."""
    deadline = Deadline(look.left())
    start = normalize(root, "root") if root.strip("/") else "/"
    look.client.sync_async(start)
    for listed in walk(look.client, start, deadline, look.told):
        if listed is None:
            continue
        path, children = listed
        sample = list(ordered(children).items())[:_SAMPLE]
        found = read_members(look.client, [(path, name) for name, _ in sample], deadline)
        skews = []
        for name, parsed in sample:
            if (path, name) not in found:
                continue
            data, stat = found[path, name]
            one = member(path, name, parsed, False, data, stat)
            if one.host and one.since is not None and stat.ctime:
                skews.append((one.host, one.since.timestamp() - stat.ctime / 1000))
        yield Directory(path, tuple(children), tuple(skews), _is_open(look.client, path, deadline))


def _is_open(client: KazooClient, path: str, deadline: Deadline) -> bool | None:
    try:
        acls: tuple[list[ACL], ZnodeStat] = deadline.answer(client.get_acls_async(path))
    except (NoAuthError, NoNodeError):
        return None
    return any(acl.id.scheme == "world" and acl.perms & _MAY_CHANGE for acl in acls[0])


def finding_object(finding: Finding) -> dict[str, str]:
    """Return a finding for programs."""
    return {
        "level": finding.level,
        "check": finding.check,
        "where": finding.where,
        "text": finding.text,
    }
