"""Which processes there are: the living ones of a group, and descendants. From ``/proc`` where there is one."""

import os
from collections.abc import Iterator
from typing import NamedTuple


class _Process(NamedTuple):
    pid: int
    state: str
    parent: int
    group: int


def group_lives(group: int) -> bool:
    """Whether a process group has a process that is not a zombie (without ``/proc``: any process)."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    found = [process for process in _all() if process.group == group]
    return (not found and not os.path.isdir("/proc/self")) or any(
        process.state not in "ZX" for process in found
    )


def descendants(pid: int) -> list[int]:
    """Return the pids of a process's living descendants; empty without ``/proc``."""
    children: dict[int, list[_Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found, at = [], [pid]
    while at:
        for process in children.get(at.pop(), ()):
            at.append(process.pid)
            if process.state not in "ZX":
                found.append(process.pid)
    return found


def _all() -> Iterator[_Process]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:  # gone meanwhile
            continue
        # "pid (name) state parent group …"; the name may contain anything, parentheses too.
        fields = text.rpartition(b")")[2].split()
        if len(fields) > 2:
            yield _Process(int(name), fields[0].decode(), int(fields[1]), int(fields[2]))
