"""
Deletes that must happen.

Whatever we created and nobody holds must go: the member of an acquire that ended, and the member of a released hold.
The janitor keeps each such task until the server has confirmed it, over reconnects, or until the session that owns the
member has ended and taken it along. A member is found by its attempt's unique name when the answer to its create was
lost; that search is conclusive behind a request that the leader's quorum has answered.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete, GetChildren

from zkcoord._core.messages import Node
from zkcoord._session.log import get_logger
from zkcoord._session.requests import Call, LinkLostError, Requests
from zkcoord._session.wire import catch_up, full_path

log = get_logger("janitor")

#: Called once: False when somebody else had removed the node before; True in all other cases: this delete did, or it
#: went with its session, or the server refused.
OnDeleted = Callable[[bool], None]


@dataclass(eq=False, slots=True)
class _Task:
    """One thing to remove: a known node, or whatever carries `prefix` in `directory`."""

    directory: str
    prefix: str
    node: Node | None
    session: int
    on_done: list[OnDeleted]
    is_running: bool = False
    was_sent: bool = False
    connection: int = 0
    call: Call | None = None
    is_suspect: bool = False


class Janitor:
    """The clean-up of one session. Thread-safe; never blocks."""

    def __init__(self, client: KazooClient, requests: Requests) -> None:
        self._client = client
        self._requests = requests
        # Entered itself, never by the condition, whose Python code an interrupt could leave with the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._tasks: dict[_Task, None] = {}
        self._deletes: dict[str, _Task] = {}  # those of known nodes, by path
        self._session = 0
        self._connections = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def search(self, directory: str, prefix: str) -> None:
        """Remove whatever the attempt `prefix` left in `directory`, if anything."""
        self._add(_Task(directory, prefix, None, self._session, []))

    def delete(self, node: Node, on_done: OnDeleted | None = None) -> None:
        """Remove a member of ours; once, however many ask for it meanwhile."""
        told = [] if on_done is None else [on_done]
        with self._lock:
            task = self._deletes.get(node.path)
            if task is None:
                task = self._deletes[node.path] = _Task(node.directory, "", node, node.session, [])
            task.on_done += told
            self._tasks[task] = None
        self._run(task)

    def up(self, session: int) -> None:
        """Go on with what is open, on a new connection."""
        with self._lock:
            self._session = session
            self._connections += 1
            tasks = list(self._tasks)
        for task in tasks:
            self._run(task)

    def sweep(self) -> None:
        """
        Send again what is marked as sent and is not under way: an interrupt in a user's thread can leave it so.

        Only what was found so twice: the first time it may just be between the two.
        """
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            if task.is_running and (task.call is None or not self._requests.is_pending(task.call)):
                if task.is_suspect:
                    task.is_running = False
                    task.was_sent = True  # for all that is known
                task.is_suspect = not task.is_suspect
            self._run(task)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do; False when the time ran out."""
        with self._lock:
            return self._changed.wait_for(lambda: not self._tasks, timeout_s)

    def _add(self, task: _Task) -> None:
        with self._lock:
            self._tasks[task] = None
        self._run(task)

    def _run(self, task: _Task) -> None:
        if task.session not in (0, self._session):
            self._strike(task, True)  # an ephemeral of a session that has ended
            return
        with self._lock:
            if task.is_running or not self._requests.is_up:
                return
            task.is_running = True
            task.connection = self._connections
        if task.node is None:
            self._search(task)
            return

        def deleted(value: Any, error: Exception | None) -> None:
            match error:
                case None:
                    self._strike(task, True)
                case NoNodeError():
                    self._strike(task, task.was_sent)  # our own earlier delete may have been the one
                case LinkLostError():
                    task.was_sent = task.was_sent or error.maybe_applied
                    self._postpone(task)
                case _:
                    log.warning("delete.refused", path=task.node and task.node.path, error=repr(error))
                    self._strike(task, True)

        path = full_path(self._client, task.node.path)
        task.call = self._requests.submit(Delete(path, -1), deleted, is_confirmed=True)

    def _search(self, task: _Task) -> None:
        path = full_path(self._client, task.directory)

        def listed(children: list[str] | None, error: Exception | None) -> None:
            if isinstance(error, LinkLostError):
                self._postpone(task)
                return
            if error is not None and not isinstance(error, NoNodeError):
                log.warning("search.refused", path=task.directory, error=repr(error))
            for name in children or ():
                if name.startswith(task.prefix):
                    log.debug("orphan.found", path=f"{task.directory}/{name}")
                    self.delete(Node(task.directory, name, session=self._session))
            self._strike(task, True)

        self._requests.submit(catch_up(self._client), lambda value, error: None, is_confirmed=True)
        task.call = self._requests.submit(GetChildren(path, None), listed)

    def _postpone(self, task: _Task) -> None:
        """Leave it to the next connection; unless that has come while we were being told that there is none."""
        with self._lock:
            task.is_running = False
            is_here = task.connection != self._connections
        if is_here:
            self._run(task)

    def _strike(self, task: _Task, was_there: bool) -> None:
        with self._lock:
            if task not in self._tasks:
                return
            del self._tasks[task]
            if task.node is not None:
                self._deletes.pop(task.node.path, None)
            self._changed.notify_all()
        for on_done in task.on_done:
            on_done(was_there)
