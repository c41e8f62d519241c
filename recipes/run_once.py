"""
Run once: a scheduled job that all hosts start and one of them does.

**Problem.** Cron fires on every host; the nightly report must be sent by one. Clocks differ, so a late host finds the
lock free again; and a job may still run when it is due again.

**Guarantee.** At most one run at a time, with the truth about loss of a `ZkLock`. A slot (the occasion, "2026-12-01")
is done once: that it is done is written in a transaction that commits only while the lock is held, and who comes later
is told ``DONE``. Without slots, ``min_hold`` keeps the lock for longer than clocks differ.

**Cost.** Four round trips for whoever runs: acquire, read, write, release. One for whoever finds it busy, three where
the slot is done. One or two more with the first run of an object.

**Not done.** A job whose host dies at its very end, behind its work and before the slot is written, is done again: work
that must not happen twice needs the fencing token, ``grant.token``. The last 64 slots are remembered.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recipes._znodes import (
    DEFAULT_TIMEOUT_S,
    Client,
    Found,
    Record,
    Znodes,
    check_path,
    check_seconds,
    check_timeout,
)
from recipes._znodes_aio import AsyncZnodes
from zkcoord import (
    AcquireTimeoutError,
    AsyncGrant,
    AsyncZkLock,
    ConfigError,
    Grant,
    ZkLock,
)

#: Slots that are remembered.
REMEMBERED = 64

#: Most characters of a slot's name.
LONGEST_SLOT = 200


class Outcome(StrEnum):
    """What came of a call: it ran here, another run was under way, or the slot was done already."""

    RAN = "ran"
    BUSY = "busy"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Run:
    """
    What came of a call.

    Attributes:
        outcome: `Outcome`.
        value: what the function returned, if it ran.
        token: fencing token of the run; None if it did not run.
    """

    outcome: Outcome
    value: Any = None
    token: int | None = None

    @property
    def ran(self) -> bool:
        """Whether the function ran here."""
        return self.outcome is Outcome.RAN


class _RunOnce:
    """What both front ends have: the arguments, and the decisions."""

    def __init__(
        self,
        path: str,
        *,
        client: Client,
        busy: str,
        timeout: float | None,
        min_hold: float,
        name: str | None,
    ) -> None:
        if busy not in ("skip", "wait", "take over"):
            raise ConfigError(f"busy must be skip, wait or 'take over', not {busy!r:.80}")
        self.path = check_path(path)
        self._client = client
        self._busy = busy
        self._timeout_s = None if timeout is None else check_seconds("timeout", timeout)
        self._min_hold_s = check_seconds("min_hold", min_hold)
        self._name = name
        self._record = Record(self.path, "run-once")
        self._is_made = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def _lock_path(self) -> str:
        return f"{self.path}/lock"

    def _patience(self) -> float | None:
        return 0.0 if self._busy == "skip" else self._timeout_s

    def _check_slot(self, slot: object) -> None:
        if slot is None:
            return
        if not isinstance(slot, str) or not 0 < len(slot) <= LONGEST_SLOT:
            raise ConfigError(f"slot must be text of 1 to {LONGEST_SLOT} characters, not {slot!r:.80}")

    def _slots(self, found: Found) -> list[str]:
        self._is_made = True
        return list((self._record.found(found) or {}).get("slots", []))

    def _done(self, slots: list[str], slot: str) -> bytes:
        return self._record.encode(slots=[slot, *slots][:REMEMBERED])


class RunOnce(_RunOnce):
    """
    The job at `path`.

    Args:
        path: its znode, which remembers the slots that are done; the lock is below it.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator.
        busy: what to do while another run is under way: "skip"; "wait", at most `timeout` seconds; or "take over": ask
            its holder to give up, wait for `timeout` seconds, then break it.
        timeout: seconds; None = for ever.
        min_hold: seconds for which the lock is kept at least, from the beginning of the run.
        name: shown to operators.

    Raises:
        ConfigError: an argument is wrong.

    Safety: may be shared between threads.
    """

    def __init__(
        self,
        path: str,
        *,
        client: Client = None,
        busy: str = "skip",
        timeout: float | None = DEFAULT_TIMEOUT_S,
        min_hold: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(path, client=client, busy=busy, timeout=timeout, min_hold=min_hold, name=name)
        self._znodes = Znodes(client)

    def run(self, function: Callable[[Grant], Any], *, slot: str | None = None) -> Run:
        """
        Call ``function(grant)`` here, unless another run is under way or the slot is done.

        Args:
            function: does the job; it looks at ``grant.lost`` or calls ``grant.check()`` before steps that count.
            slot: the occasion, the same text on all hosts; None = every call is a new one.

        Raises:
            GrantLostError: the lock was lost by the end of the run; the slot is not done.
            AcquireTimeoutError: no server answered in time.
            ConfigError: `slot` is wrong, or `function` cannot be called.
            QueueConflictError: the path is used for something else.
            Whatever the function raises: the slot is not done then.
        """
        self._check_slot(slot)
        if inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"function must be an ordinary function, for AsyncRunOnce a coroutine: {function!r:.80}"
            )
        self._make()
        lock = ZkLock(self._lock_path, client=self._client, label=self._name, reentrant=False)
        if self._busy == "take over":
            lock.revoke(wait=self._timeout_s or 0.0, then_break=True)
        try:
            grant = lock.acquire(timeout=self._patience())
        except AcquireTimeoutError as error:
            if error.position is None:
                raise
            return Run(Outcome.BUSY)
        with grant:
            began = time.monotonic()
            slots: list[str] = []
            if slot is not None:
                slots = self._slots(self._znodes.get(self.path, check_timeout(DEFAULT_TIMEOUT_S)))
                if slot in slots:
                    return Run(Outcome.DONE)
            value = function(grant)
            if slot is not None:
                with grant.transaction() as writes:
                    writes.set_data(self.path, self._done(slots, slot))
            left_s = self._min_hold_s - (time.monotonic() - began)
            if left_s > 0:
                grant.lost.wait(left_s)
            return Run(Outcome.RAN, value, grant.token)

    def _make(self) -> None:
        """Make the znode that remembers, and look whose it is. One that the lock makes would go with its last user."""
        if not self._is_made:
            give_up = check_timeout(DEFAULT_TIMEOUT_S)
            self._znodes.create(self.path, self._record.encode(slots=[]), give_up)
            self._slots(self._znodes.get(self.path, give_up))


class AsyncRunOnce(_RunOnce):
    """`RunOnce` for tasks: the same arguments and errors. When the lock is lost, the function is cancelled."""

    def __init__(
        self,
        path: str,
        *,
        client: Client = None,
        busy: str = "skip",
        timeout: float | None = DEFAULT_TIMEOUT_S,
        min_hold: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(path, client=client, busy=busy, timeout=timeout, min_hold=min_hold, name=name)
        self._znodes = AsyncZnodes(client)

    async def run(self, function: Callable[[AsyncGrant], Awaitable[Any]], *, slot: str | None = None) -> Run:
        """Await ``function(grant)`` here, unless another run is under way or the slot is done; as `RunOnce.run`."""
        self._check_slot(slot)
        await self._make()
        lock = AsyncZkLock(self._lock_path, client=self._client, label=self._name, reentrant=False)
        if self._busy == "take over":
            await lock.revoke(wait=self._timeout_s or 0.0, then_break=True)
        try:
            grant = await lock.acquire(timeout=self._patience())
        except AcquireTimeoutError as error:
            if error.position is None:
                raise
            return Run(Outcome.BUSY)
        async with grant:
            began = time.monotonic()
            slots: list[str] = []
            if slot is not None:
                slots = self._slots(await self._znodes.get(self.path, check_timeout(DEFAULT_TIMEOUT_S)))
                if slot in slots:
                    return Run(Outcome.DONE)
            value = await function(grant)
            if slot is not None:
                async with grant.transaction() as writes:
                    writes.set_data(self.path, self._done(slots, slot))
            left_s = self._min_hold_s - (time.monotonic() - began)
            if left_s > 0:
                await asyncio.sleep(left_s)
            return Run(Outcome.RAN, value, grant.token)

    async def _make(self) -> None:
        if not self._is_made:
            give_up = check_timeout(DEFAULT_TIMEOUT_S)
            await self._znodes.create(self.path, self._record.encode(slots=[]), give_up)
            self._slots(await self._znodes.get(self.path, give_up))


def example() -> None:
    """Two hosts start the nightly report; one sends it."""

    def report(grant: Grant) -> str:
        grant.check()
        return "sent"

    job = RunOnce("/examples/report", name="nightly report")
    print(job.run(report, slot="2026-12-01").outcome)
    print(job.run(report, slot="2026-12-01").outcome)


if __name__ == "__main__":
    example()
