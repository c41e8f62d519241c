"""
Plain reads and writes of znodes for the recipes, for tasks: what `recipes._znodes` does for threads.

Nothing blocks the loop: kazoo's answers are handed over to it. Only a wait for a connection takes a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import WatchedEvent

from recipes._znodes import LINK_LOST, Client, Found, is_over, left, lost, pause_s, refused
from zkcoord import Coordinator

T = TypeVar("T")


async def answer(result: IAsyncResult[T], give_up: float | None) -> T:
    """
    Wait for an answer of kazoo's.

    Raises:
        KazooTimeoutError: none came in time.
        Whatever kazoo says.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    def done(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(wake)

    result.rawlink(done)
    try:
        async with asyncio.timeout(left(give_up)):
            await future
    except TimeoutError:
        raise KazooTimeoutError("no answer in time") from None
    return result.get(block=False)


class AsyncZnodes:
    """
    Reads and writes through a recipe's client, below its chroot.

    Args:
        client: as the user gave it; looked up at each use.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        if client is not None:
            Coordinator.of(client)

    def coordinator(self) -> Coordinator:
        """Return the coordinator."""
        return Coordinator.of(self.client)

    async def get(
        self, path: str, give_up: float | None, watch: Callable[[WatchedEvent], object] | None = None
    ) -> Found:
        """Return a node's data and stat, None when there is none; `watch` is armed only on one that exists."""
        return await self._read(path, give_up, lambda client: client.get_async(path, watch=watch))

    async def exists(
        self, path: str, give_up: float | None, watch: Callable[[WatchedEvent], object]
    ) -> object | None:
        """Return a node's stat, None when there is none; `watch` is armed in both cases."""
        return await self._read(path, give_up, lambda client: client.exists_async(path, watch=watch))

    async def create(self, path: str, value: bytes, give_up: float | None) -> bool:
        """Create a persistent node and what is missing above it; False when it exists."""
        acl = self.coordinator().acl
        try:
            await self._write(
                path, give_up, lambda client: client.create_async(path, value, acl=acl, makepath=True)
            )
        except NodeExistsError:
            return False
        return True

    async def set(self, path: str, value: bytes, version: int, give_up: float | None) -> int | None:
        """Write if the node has that version; returns the new one, or None when it has another or is gone."""
        try:
            stat = await self._write(path, give_up, lambda client: client.set_async(path, value, version))
        except (BadVersionError, NoNodeError):
            return None
        return int(stat.version)

    async def delete(self, path: str, version: int, give_up: float | None) -> bool | None:
        """Delete if the node has that version (-1: any); False when it has another, None when it is gone."""
        try:
            await self._write(path, give_up, lambda client: client.delete_async(path, version))
        except BadVersionError:
            return False
        except NoNodeError:
            return None
        return True

    async def _client(self, give_up: float | None) -> KazooClient:
        coordinator = self.coordinator()
        if coordinator.session_id is not None and coordinator.client.connected:
            return coordinator.client
        return await asyncio.to_thread(coordinator.connect, left(give_up))

    async def _read(
        self, path: str, give_up: float | None, send: Callable[[KazooClient], IAsyncResult[T]]
    ) -> T | None:
        tries = 0
        while True:
            client = await self._client(give_up)
            try:
                # One behind the other on one connection: the read sees at least what was committed when we asked.
                synced = client.sync_async(path)
                read = send(client)
                await answer(synced, give_up)
                return await answer(read, give_up)
            except NoNodeError:
                return None
            except LINK_LOST as error:
                if is_over(give_up):
                    raise lost(path, error) from error
            except KazooException as error:
                raise refused(path, error) from error
            tries += 1
            await asyncio.sleep(
                pause_s(tries) if give_up is None else min(pause_s(tries), left(give_up) or 0)
            )

    async def _write(
        self, path: str, give_up: float | None, send: Callable[[KazooClient], IAsyncResult[T]]
    ) -> T:
        client = await self._client(give_up)
        try:
            return await answer(send(client), give_up)
        except LINK_LOST as error:
            raise lost(path, error, is_write=True) from error
        except (BadVersionError, NoNodeError, NodeExistsError):
            raise
        except KazooException as error:
            raise refused(path, error) from error


class AsyncWake:
    """
    An alarm of the running loop that watches ring: one function for all of them.

    Clear it, arm the watches with `ring` while reading, decide by what was read, then `wait`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.clear = self._event.clear

    def ring(self, event: object = None) -> None:
        """Wake whoever waits. From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float | None = None) -> bool:
        """Sleep until it rings, at most `timeout` seconds; whether it did."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
