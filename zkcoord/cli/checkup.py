"""
What `zkcoord doctor` makes of what it has seen. No I/O: facts in, findings out.

Each finding says what was seen, why it matters and what to do. Levels: ``ok``; ``note``, worth knowing; ``warning``,
may hurt one day; ``fault``, some promise of a lock library does not hold.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zkcoord._core.lease import pair_gap_s
from zkcoord._core.names import MAX_SEQUENCE, parse
from zkcoord._members import FAMILIES, printable

#: Servers older than this are not supported.
_OLDEST = (3, 6)

#: Answers slower than this eat into the safety of a lease with usual timeouts.
_SLOW_S = 0.1

#: Clocks of hosts further apart than this make ages in listings wrong; no promise rests on them.
_SKEW_S = 5.0

#: Parts of all sequence numbers of a path that may be used up without a word, and without an alarm.
_USED_WARNING, _USED_FAULT = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: level, what was checked, where, and what it says."""

    level: str
    check: str
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Server:
    """
    What one server said.

    Attributes:
        address: host and port, as in ``--hosts``.
        error: why it could not be asked; None when it answered.
        latency_s: median round trip of a read.
        negotiated_s: session timeout it grants for the one asked for.
        mode: "leader", "follower", "observer" or "standalone"; None and the following too when it tells nobody
            (``4lw.commands.whitelist``).
        version: as "3.8.4".
        tick_s, sync_limit: ``tickTime`` in seconds and ``syncLimit`` in ticks.
    """

    address: str
    error: str | None = None
    latency_s: float = 0.0
    negotiated_s: float | None = None
    mode: str | None = None
    version: str | None = None
    tick_s: float | None = None
    sync_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Directory:
    """
    What was seen of one lock's directory.

    Attributes:
        path: it.
        children: names of all children.
        skews_s: by host: its clock minus the server's when it queued.
        is_open: anybody may change it; None when that may not be read.
    """

    path: str
    children: tuple[str, ...]
    skews_s: tuple[tuple[str, float], ...] = ()
    is_open: bool | None = None


def check_servers(servers: Sequence[Server], asked_s: float, known: int | None) -> Iterator[Finding]:
    """
    Judge the ensemble.

    Args:
        servers: those that ``--hosts`` names.
        asked_s: the session timeout that was asked for.
        known: how many servers the ensemble has; None when that may not be read.
    """
    yield from map(_server, servers)
    up = [server for server in servers if server.error is None]
    if not up:
        return
    yield _roles(up, known)
    if known is not None and len(servers) < min(known, 3):
        yield Finding(
            "warning",
            "hosts",
            "-",
            f"--hosts names {len(servers)} of {known} servers: name all, or clients cannot move when one fails",
        )
    versions = sorted({server.version for server in up if server.version})
    if versions and _number(versions[0]) < _OLDEST:
        yield Finding("fault", "version", "-", f"{versions[0]} is too old: zkcoord needs 3.6 or newer")
    elif len(versions) > 1:
        yield Finding("warning", "version", "-", f"{' and '.join(versions)} side by side: finish the upgrade")
    yield from _timeouts(up, asked_s)


def _server(server: Server) -> Finding:
    if server.error is not None:
        return Finding("fault", "server", server.address, f"cannot be reached: {server.error}")
    said = " ".join(part for part in (server.mode, server.version) if part)
    text = f"{said or 'answers'}, {server.latency_s * 1000:.1f} ms a read"
    if server.mode is None:
        text += "; it says no more, allow srvr and conf in its 4lw.commands.whitelist"
        return Finding("note", "server", server.address, text)
    if server.latency_s > _SLOW_S:
        return Finding("warning", "server", server.address, f"{text}: slow; look at its disk and network")
    return Finding("ok", "server", server.address, text)


def _roles(up: Sequence[Server], known: int | None) -> Finding:
    modes = [server.mode for server in up if server.mode]
    leaders, alone = modes.count("leader"), modes.count("standalone")
    if len(modes) < len(up):
        return Finding("note", "roles", "-", "unknown: not every server says which role it has")
    if alone:
        text = "a server on its own: when it stops, all locks stop; three survive the loss of one"
        return Finding("note" if len(up) == 1 else "fault", "roles", "-", text)
    if leaders > 1:
        return Finding(
            "fault", "roles", "-", f"{leaders} servers say that they lead: --hosts mixes ensembles"
        )
    if not leaders and known is not None and len(up) >= known:
        return Finding("fault", "roles", "-", "no leader: an election is under way, or there is no quorum")
    if not leaders:
        return Finding("note", "roles", "-", "the leader is none of the servers that answered")
    return Finding("ok", "roles", "-", f"1 leader, {len(modes) - 1} others")


def _timeouts(up: Sequence[Server], asked_s: float) -> Iterator[Finding]:
    granted = [server.negotiated_s for server in up if server.negotiated_s]
    if not granted:
        return
    timeout_s = min(granted)
    if abs(timeout_s - asked_s) > 0.001 * asked_s:
        yield Finding(
            "warning",
            "session timeout",
            "-",
            f"{asked_s:g} s were asked for and {timeout_s:g} s granted: see minSessionTimeout and maxSessionTimeout",
        )
    ticks = [server.tick_s for server in up if server.tick_s]
    if not ticks:
        return
    tick_s = max(ticks)
    if pair_gap_s(timeout_s) < pair_gap_s(timeout_s, tick_s):
        yield Finding(
            "fault",
            "tick time",
            "-",
            f"tickTime is {tick_s:g} s, longer than zkcoord assumes: say Coordinator(tick_time={tick_s:g}), or a holder"
            " may believe in its lock too long",
        )
    limits = [server.sync_limit for server in up if server.sync_limit]
    if not limits:
        return
    unnoticed_s = max(limits) * tick_s
    seen = f"{timeout_s:g} s, and a server notices after {unnoticed_s:g} s (syncLimit × tickTime) that it is cut off"
    if timeout_s < unnoticed_s:
        yield Finding(
            "warning",
            "session timeout",
            "-",
            f"{seen}: till then it answers its clients, whose sessions have ended. zkcoord's holders stop by their own"
            f" deadline; kazoo's and Curator's go on for up to {unnoticed_s - timeout_s:g} s beside the next holder",
        )
    else:
        yield Finding("ok", "session timeout", "-", f"{seen}: sooner than a session ends")


def check_directories(directories: Iterable[Directory]) -> Iterator[Finding]:
    """Judge the locks of a tree; what holds for many is told once, at the end."""
    skews: dict[str, float] = {}
    count, opened = 0, 0
    for directory in directories:
        count += 1
        opened += directory.is_open is True
        for host, skew_s in directory.skews_s:
            if abs(skew_s) > abs(skews.get(host, 0.0)):
                skews[host] = skew_s
        yield from _children(directory)
    for host, skew_s in sorted(skews.items()):
        if abs(skew_s) > _SKEW_S:
            way = "ahead of" if skew_s > 0 else "behind"
            yield Finding(
                "warning",
                "clock",
                printable(host),
                f"{abs(skew_s):.0f} s {way} the servers': ages in listings are wrong by that; no lock rests on it",
            )
    if opened:
        yield Finding(
            "note",
            "acl",
            "-",
            f"{opened} of {count} lock directories may be changed by anybody who can connect: give acl= (and auth=) to"
            " Coordinator where that matters",
        )
    if count and not opened:
        yield Finding("ok", "acl", "-", f"no lock directory of {count} is known to be open to everybody")


def _children(directory: Directory) -> Iterator[Finding]:
    where = printable(directory.path, 1000)
    members = {name: parsed for name in directory.children if (parsed := parse(name)) is not None}
    families = sorted({FAMILIES[parsed.marker] for parsed in members.values()})
    if len(families) > 1:
        yield Finding(
            "fault",
            "mixed queue",
            where,
            f"members of {' and '.join(families)} on one path do not see each other, so there may be two holders:"
            " use one kind and dialect",
        )
    highest = max((parsed.sequence for parsed in members.values()), default=0)
    strangers = [name for name in directory.children if name not in members]
    for name in sorted(strangers)[:3]:
        yield _foreign(where, name, families, f"{highest + 1:010d}")
    if len(strangers) > 3:
        yield Finding("warning", "foreign child", where, f"and {len(strangers) - 3} more of them")
    used = highest / MAX_SEQUENCE if highest >= 0 else 1.0
    if used > _USED_WARNING:
        yield Finding(
            "fault" if used > _USED_FAULT else "warning",
            "sequence",
            where,
            f"{used:.0%} of the path's sequence numbers are used up; at the end nobody can queue any more: move to"
            " another path, or delete this one while nobody uses it",
        )


def _foreign(where: str, name: str, families: Sequence[str], next_key: str) -> Finding:
    """Say what a child that no lock library made does to whom."""
    what = f"{printable(name)} is no member: zkcoord and kazoo ignore it"
    if "permit" in families:
        return Finding("note", "foreign child", where, what)
    # Curator sorts the whole name in between the digits of its members, and waits for whatever sorts first.
    if name < next_key:
        return Finding(
            "warning", "foreign child", where, f"{what}, Curator waits for it for ever: delete or move it"
        )
    return Finding("note", "foreign child", where, f"{what}, Curator too")


def _number(version: str) -> tuple[int, int]:
    major, minor, *_ = [*version.split("."), "0", "0"]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else _OLDEST
