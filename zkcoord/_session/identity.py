"""
Who we are: the JSON that every member carries, and telling whether a member is this very thread's.

`host`, `boot` and `pid` name the process for people and across restarts; `thread.key` names a thread for ever, while
an operating system's thread number comes back. Wall time is for display only, nothing is decided by it.
"""

import asyncio
import json
import os
import socket
import threading
import uuid
import weakref
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

from zkcoord.errors import ConfigError

_serial = count(1)
_local = threading.local()
_task_keys: "weakref.WeakKeyDictionary[asyncio.Task[Any], str]" = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Owner:
    """
    Who acquires: a thread or task, or a name that travels between them.

    Attributes:
        key: unique within the machine's life; re-entry compares it.
        name: the name given with ``owner=``, or None.
        thread_id: the operating system's thread number.
        thread_name: for people.
        task: name of the asyncio task, or None.
    """

    key: str
    name: str | None
    thread_id: int
    thread_name: str
    task: str | None = None


@cache
def _host() -> str:
    return socket.gethostname()


@cache
def _boot() -> str:
    """Return an identifier of this boot of the machine, so that a pid from before a reboot is told apart."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _library() -> str:
    try:
        return f"zkcoord/{version('zkcoord')}"
    except PackageNotFoundError:
        return "zkcoord/0"


# Now, since reading it imports modules; see `process` for what a fork makes of that at a bad moment.
_LIBRARY = _library()

_process = uuid.uuid4().hex[:12]


def _new_process() -> None:
    global _process, _local, _task_keys
    _process = uuid.uuid4().hex[:12]
    _local = threading.local()
    _task_keys = weakref.WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_process)


def current_thread_owner(name: str | None = None) -> Owner:
    """
    Return the calling thread as an owner.

    Args:
        name: the ``owner=`` argument; two owners with one name are the same one, whatever thread they are on.
    """
    thread_id = threading.get_native_id()
    thread_name = threading.current_thread().name
    if name is not None:
        return Owner(f"name:{name}", name, thread_id, thread_name)
    key = getattr(_local, "key", None)
    if key is None:
        # A thread-local dies with its thread, so a later thread with the same ident draws a new key.
        key = _local.key = f"{_process}-{next(_serial)}"
    return Owner(key, None, thread_id, thread_name)


def current_task_owner(name: str | None = None) -> Owner:
    """
    Return the running asyncio task as an owner.

    Args:
        name: the ``owner=`` argument, as for a thread; a thread and a task of one name are the same owner.

    Raises:
        ConfigError: no task is running here.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        raise ConfigError("a lock for asyncio is used in a task: await it in a coroutine that a loop runs")
    thread_id = threading.get_native_id()
    thread_name = threading.current_thread().name
    if name is not None:
        return Owner(f"name:{name}", name, thread_id, thread_name, task.get_name())
    key = _task_keys.get(task)
    if key is None:
        # The key goes with the task, so a later task at the same address draws a new one.
        key = _task_keys[task] = f"{_process}-{next(_serial)}"
    return Owner(key, None, thread_id, thread_name, task.get_name())


def alone(owner: Owner) -> Owner:
    """Return an owner for one acquire that re-enters nothing: same person, key of its own."""
    return replace(owner, key=f"{owner.key}/{next(_serial)}")


def encode(owner: Owner, label: str | None) -> bytes:
    """Return a member's data: one JSON object, UTF-8."""
    return json.dumps(
        {
            "v": 1,
            "host": _host(),
            "boot": _boot(),
            "pid": os.getpid(),
            "thread": {"id": owner.thread_id, "name": owner.thread_name, "key": owner.key},
            "task": owner.task,
            "owner": owner.name,
            "label": label,
            "lib": _LIBRARY,
            "since": stamp(),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode("utf-8", "backslashreplace")


def with_held_since(data: bytes) -> bytes:
    """Return a member's data with the moment of its grant added, for display."""
    value = {**decode(data), "held_since": stamp()}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def stamp() -> str:
    """Return the wall time for display, ISO 8601 in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def decode(data: bytes) -> dict[str, Any]:
    """Return a member's data as a dictionary; empty when it is not zkcoord's."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and value.get("v") == 1 else {}


def is_same_owner(data: bytes, owner: Owner) -> bool:
    """Whether a member's data name this very thread (or named owner) of this very process."""
    value = decode(data)
    thread = value.get("thread")
    return (
        isinstance(thread, dict)
        and thread.get("key") == owner.key
        and value.get("host") == _host()
        and value.get("boot") == _boot()
        and value.get("pid") == os.getpid()
    )


def describe(name: str, data: bytes) -> str:
    """Describe a member in one line for people; foreign data is escaped and cut."""
    value = decode(data)
    if not value:
        text = ascii(data[:60].decode("utf-8", "replace"))
        return f"{name} (data {text})" if data else name
    thread = value.get("thread")
    parts = [f"host {value.get('host')}", f"pid {value.get('pid')}"]
    if isinstance(thread, dict):
        parts.append(f"thread {thread.get('name')}")
    parts += [f"{key} {value[key]}" for key in ("task", "owner", "label", "since") if value.get(key)]
    line = ", ".join(parts)
    return f"{name} ({ascii(line)[1:-1][:300]})"
