"""
``zkcoord demo``: processes and threads draw order numbers from one counter that is not atomic by itself.

The counter is a znode, read with ``get`` and written back with an unconditional ``set``: two draws at once
give the same number twice. Under ``ZkLock`` they cannot be at once, not even when a process is killed in the
middle of one.
"""

import queue
import time
import uuid
from collections import Counter
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord.cli.demo_checks import Findings, Kill, Order, judge
from zkcoord.cli.demo_live import Display, Snapshot
from zkcoord.cli.demo_process import DemoError, Job, Report, WorkerProcess
from zkcoord.errors import ConnectionLostError
from zkcoord.queues import Member, read_queue

#: Seconds asked for the workers' sessions: the least that a server with the usual tick of 2 s gives. It is
#: how long a killed holder keeps the lock, and so most of the demo's time.
SESSION_TIMEOUT_S = 4.0

#: Seconds between looks at the queue.
_LOOK_S = 0.2

#: Seconds for one request of the demo itself.
_REQUEST_S = 5.0

#: Seconds after which something hangs: this much in any case, and so much more for each order number.
_PATIENCE_S, _PATIENCE_PER_ORDER_S = 60.0, 0.2


@dataclass(frozen=True, slots=True)
class Options:
    """
    What to run.

    Attributes:
        hosts: the ensemble, for the workers.
        processes, threads: how many processes, and threads in each.
        orders: order numbers a thread.
        with_lock: whether to draw under the lock.
        with_kill: whether to kill one holder; only with the lock.
    """

    hosts: str
    processes: int
    threads: int
    orders: int
    with_lock: bool
    with_kill: bool

    @property
    def wanted(self) -> int:
        """Order numbers in all."""
        return self.processes * self.threads * self.orders


class Demo:
    """One run. `run` once; everything it made on the server is gone afterwards."""

    def __init__(self, client: KazooClient, options: Options, display: Display) -> None:
        """
        Prepare a run; nothing happens yet.

        Args:
            client: started; used for the demo's node and for looking at the queue.
            options: what to run.
            display: entered.
        """
        self._client = client
        self._options = options
        self._display = display
        self._root = f"/zkcoord-demo-{uuid.uuid4().hex[:12]}"
        self._inbox: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._workers: dict[int, WorkerProcess] = {}
        self._running: set[int] = set()
        self._orders: list[Order] = []
        self._troubles: list[str] = []
        self._kill: Kill | None = None
        self._killed_at = 0.0
        self._news = ""

    def run(self) -> Findings:
        """
        Run to the end.

        Raises:
            DemoError: a worker failed, or something hangs.
            ConnectionLostError: the server cannot be reached any more.
        """
        deadline = time.monotonic() + _PATIENCE_S + self._options.wanted * _PATIENCE_PER_ORDER_S
        try:
            self._prepare()
            for index in range(self._options.processes):
                self._start(index, (self._options.orders,) * self._options.threads, self._hold_after(index))
            self._wait_until_ready(deadline)
            for worker in self._workers.values():
                worker.go()
            self._watch(deadline)
        finally:
            for worker in self._workers.values():
                worker.close()
            self._remove()
        return judge(
            self._orders,
            self._options.wanted,
            with_lock=self._options.with_lock,
            kill=self._kill,
            wants_kill=self._options.with_kill,
        )

    def _hold_after(self, index: int) -> int | None:
        is_victim = self._options.with_kill and index == self._options.processes - 1
        return self._options.orders // 2 if is_victim else None

    def _prepare(self) -> None:
        try:
            self._client.create_async(self._root, b"").get(timeout=_REQUEST_S)
            self._client.create_async(f"{self._root}/counter", b"0").get(timeout=_REQUEST_S)
        except (KazooException, KazooTimeoutError) as error:
            raise ConnectionLostError(f"{self._root} could not be created: {error!r}") from error

    def _start(self, index: int, counts: tuple[int, ...], hold_after: int | None) -> None:
        options = self._options
        job = Job(options.hosts, self._root, index, counts, SESSION_TIMEOUT_S, options.with_lock, hold_after)
        self._workers[index] = WorkerProcess(job, self._inbox)
        self._running.add(index)

    def _wait_until_ready(self, deadline: float) -> None:
        waiting = set(self._workers)
        while waiting:
            report = self._next(deadline)
            if report is not None and report.event == "ready":
                waiting.discard(report.worker)
            elif report is not None:
                self._handle(report)

    def _watch(self, deadline: float) -> None:
        """Handle reports until all workers are done, looking at the queue now and then."""
        look_at = 0.0
        while self._running:
            report = self._next(deadline)
            if report is not None:
                self._handle(report)
            if time.monotonic() >= look_at or not self._running:
                members = self._look()
                self._display.update(Snapshot(len(self._orders), self._options.wanted, members, self._news))
                look_at = time.monotonic() + _LOOK_S

    def _next(self, deadline: float) -> Report | None:
        if time.monotonic() > deadline:
            raise DemoError(
                f"{len(self._orders)} of {self._options.wanted} order numbers after a long time:"
                f" something hangs; {'; '.join(self._troubles) or 'no worker complained'}"
            )
        try:
            return self._inbox.get(timeout=_LOOK_S)
        except queue.Empty:
            return None

    def _handle(self, report: Report) -> None:
        match report.event:
            case "order":
                self._add_order(report)
            case "holding":
                self._kill_holder(report)
            case "error":
                self._troubles.append(f"process {report.worker}: {report.fields.get('message')}")
            case "ready":  # only a replacement is ready this late
                self._workers[report.worker].go()
            case "done":
                self._running.discard(report.worker)
            case "end":
                self._after_end(report.worker)

    def _add_order(self, report: Report) -> None:
        order = Order(worker=report.worker, **report.fields)  # type: ignore[arg-type]  # our worker's
        self._orders.append(order)
        kill = self._kill
        if kill is not None and kill.moved_on_s is None and (order.token or 0) > kill.token:
            moved_on_s = report.at - self._killed_at
            self._kill = Kill(kill.pid, kill.token, moved_on_s)
            self._tell(f"the lock moved on {moved_on_s:.2f} s after the kill, to process {order.worker}")

    def _kill_holder(self, report: Report) -> None:
        """Kill the worker that reported to hold, once the server says the same."""
        worker, token = self._workers[report.worker], report.fields["token"]
        if not any(member.holds and member.token == token for member in self._look()):
            raise DemoError(
                f"process {report.worker} reported to hold with token {token}; the server disagrees"
            )
        self._killed_at = worker.kill()
        self._kill = Kill(worker.pid, int(str(token)), None)
        self._tell(f"killed process {report.worker} (pid {worker.pid}) with SIGKILL while it held the lock")

    def _after_end(self, index: int) -> None:
        if index not in self._running:
            return
        self._running.discard(index)
        worker = self._workers[index]
        if not worker.is_killed:
            self._troubles.append(f"process {index} ended early: {worker.complaint()}")
            raise DemoError("; ".join(self._troubles))
        drawn = Counter(order.thread for order in self._orders if order.worker == index)
        rest = tuple(count - drawn[thread] for thread, count in enumerate(worker.job.counts))
        successor = len(self._workers)
        self._start(successor, rest, None)
        self._tell(f"started process {successor} for the {sum(rest)} order numbers it had left")

    def _look(self) -> tuple[Member, ...]:
        if not self._options.with_lock:
            return ()
        return read_queue(self._client, f"{self._root}/lock", timeout=_REQUEST_S)

    def _tell(self, text: str) -> None:
        self._news = text
        self._display.tell(f"  {text}")

    def _remove(self) -> None:
        """Remove the demo's node; the killed worker's znodes may still be there and go with it."""
        try:
            remove_tree(self._client, self._root)
        except (KazooException, KazooTimeoutError) as error:
            self._display.tell(f"  {self._root} is left on the server ({error!r}): delete it")


def remove_tree(client: KazooClient, path: str) -> None:
    """
    Delete a node and all below it; nothing happens when it is gone.

    Raises:
        KazooException, KazooTimeoutError: as kazoo does; part of it may be left.
    """
    try:
        for name in client.get_children_async(path).get(timeout=_REQUEST_S):
            remove_tree(client, f"{path}/{name}")
        client.delete_async(path).get(timeout=_REQUEST_S)
    except NoNodeError:
        return
    except NotEmptyError:  # somebody came in between; their number is finite, all workers have ended
        remove_tree(client, path)
