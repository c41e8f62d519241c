"""
Data watches that are shared and taken back.

ZooKeeper keeps one data watch per path and connection, and kazoo cannot remove any. Here every subscriber of a path
shares one entry; when the last one leaves before the watch has fired, it is removed on the server and from kazoo's
tables, so that a thousand timed-out waits leave nothing. A broken connection ends all watches: whoever waits is told
by the session, and reads again.
"""

import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import EventType, WatchedEvent

from zkcoord._session import kazoo_private
from zkcoord._session.requests import Requests
from zkcoord._session.wire import RemoveWatches, full_path

#: Called with True when the node was deleted, False when its data changed. On kazoo's watch thread; must not block.
OnFired = Callable[[bool], None]


class Subscription:
    """One subscriber's share of a watch; give it to `Watches.release`."""

    __slots__ = ("entry", "on_fired")

    def __init__(self, entry: "_Entry", on_fired: OnFired) -> None:
        self.entry = entry
        self.on_fired = on_fired


class _Entry:
    """The watcher object that kazoo holds for one path."""

    def __init__(self, watches: "Watches", path: str) -> None:
        self.path = path
        self.subscriptions: dict[Subscription, None] = {}
        self._watches = watches

    def __call__(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # NONE: the connection broke
            self._watches.fired(self, event.type == EventType.DELETED)


class Watches:
    """The data watches of one client. Thread-safe; never blocks."""

    def __init__(self, client: KazooClient, requests: Requests) -> None:
        self._client = client
        self._requests = requests
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(
        self,
        path: str,
        on_answer: Callable[[tuple[bytes, Any] | None, Exception | None], None],
        on_fired: OnFired,
    ) -> Subscription:
        """
        Read a node's data and leave a watch.

        Args:
            path: below the chroot.
            on_answer: called once with (data, stat), or with None when the node does not exist and no watch was left,
                or with an error.
            on_fired: called at most once.
        """
        with self._lock:
            entry = self._entries.get(path)
            if entry is None:
                entry = self._entries[path] = _Entry(self, path)
            subscription = Subscription(entry, on_fired)
            entry.subscriptions[subscription] = None
            is_sending = True
            failed_at_once: list[Exception] = []

            def answered(value: Any, error: Exception | None) -> None:
                if error is None:
                    on_answer(value, None)
                elif is_sending:
                    failed_at_once.append(error)  # the lock is held: tell after it is let go
                else:
                    self._drop(subscription)
                    on_answer(None, None if isinstance(error, NoNodeError) else error)

            # Sent under the lock, so that it cannot slip in front of a RemoveWatches for the same path.
            self._requests.submit(GetData(full_path(self._client, path), entry), answered)
            is_sending = False
        for error in failed_at_once:
            self._drop(subscription)
            on_answer(None, error)
        return subscription

    def release(self, subscription: Subscription) -> None:
        """Take a subscription back; the last one of a path takes the watch with it. Does nothing once it has fired."""
        with self._lock:
            entry = self._drop_locked(subscription)
            if entry is None or not self._requests.is_up:
                return
            path = full_path(self._client, entry.path)
            kept = kazoo_private.watchers(self._client, path) | {entry}
            if not all(isinstance(watcher, _Entry) and not watcher.subscriptions for watcher in kept):
                return  # the client's user watches the same node; ours just falls silent

            def removed(value: Any, error: Exception | None) -> None:
                for watcher in kept:
                    kazoo_private.discard_watcher(self._client, path, watcher)

            self._requests.submit(RemoveWatches(path), removed)

    def fired(self, entry: _Entry, is_deleted: bool) -> None:
        """Fan an event out. Called by the entry."""
        with self._lock:
            if self._entries.get(entry.path) is entry:
                del self._entries[entry.path]
            subscriptions = list(entry.subscriptions)
            entry.subscriptions.clear()
        for subscription in subscriptions:
            subscription.on_fired(is_deleted)

    def down(self) -> None:
        """Forget all: the connection that carried them is gone."""
        with self._lock:
            for entry in self._entries.values():
                entry.subscriptions.clear()
            self._entries.clear()

    def _drop(self, subscription: Subscription) -> None:
        with self._lock:
            self._drop_locked(subscription)

    def _drop_locked(self, subscription: Subscription) -> _Entry | None:
        """Remove it; return the entry if that was the last and the watch may still be armed."""
        entry = subscription.entry
        if subscription not in entry.subscriptions:
            return None
        del entry.subscriptions[subscription]
        if entry.subscriptions or self._entries.get(entry.path) is not entry:
            return None
        del self._entries[entry.path]
        return entry
