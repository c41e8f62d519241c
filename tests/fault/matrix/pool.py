"""Plays many cells at a time, each on a thread; most of a cell's time is spent waiting."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.fault.matrix.actor import Actor, LocalActor, RemoteActor
from tests.fault.matrix.expected import Cell
from tests.fault.matrix.metronome import Metronome
from tests.fault.matrix.play import Play
from tests.fault.matrix.theatre import Session, Theatre
from tests.fault.matrix.work import SESSION_S
from tests.support.fronts import of_threads
from tests.support.waiting import wait_until

#: Cells at a time. More of them would keep each other from their bounds on two cores.
AT_A_TIME = 8

#: A cell tells nothing if the whole machine stood still for this long meanwhile, as under the fault "stop": sessions
#: end that should not. It is played again then, so many times in all.
PAUSED_S = SESSION_S / 5
PLAYS = 3

#: Gives a cell its theatre, told how to learn the victim's session.
Open = Callable[[Session], AbstractContextManager[Theatre]]

#: What comes of each cell, by its name.
Played = dict[str, Future[None]]


class Pool:
    """A context manager; its end waits for the cells under way, and drops those that wait."""

    def __init__(self, open_theatre: Open, locks: dict[str, Any]) -> None:
        self._open = open_theatre
        self._locks = locks
        self._metronome = Metronome()
        self._local = threading.local()
        self._queue: queue.Queue[tuple[Cell, Future[None]] | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._work, name=f"matrix-{number}", daemon=True)
            for number in range(AT_A_TIME)
        ]

    def __enter__(self) -> Pool:
        self._metronome.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        while not self._queue.empty():
            self._queue.get()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._metronome.stop()

    def play(self, cells: Iterable[Cell]) -> Played:
        """Have cells played, in this order as far as threads are free."""
        played: Played = {}
        for cell in cells:
            played[cell.name] = Future()
            self._queue.put((cell, played[cell.name]))
        return played

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            cell, future = job
            for left in reversed(range(PLAYS)):
                began = time.monotonic()
                try:
                    self._play(cell)
                    future.set_result(None)
                    break
                except BaseException as error:
                    paused_s = self._metronome.worst_since(began)
                    if paused_s < PAUSED_S or not left:
                        future.set_exception(error)
                        break
                    print(f"{cell.name}: the machine stood still for {paused_s:.2f} s; once more")
        self._end_remote()

    def _play(self, cell: Cell) -> None:
        actor: Actor = self._remote() if cell.is_apart else LocalActor(self._locks)
        try:
            with self._open(lambda: actor.look().session) as theatre:
                Play(cell, theatre, actor, self._metronome).run()
        except BaseException:
            if cell.is_apart:
                self._end_remote()  # it may hang
            raise

    def _remote(self) -> RemoteActor:
        """Return this thread's process; it serves one cell after the other."""
        if not hasattr(self._local, "remote"):
            self._local.remote = RemoteActor()
        remote: RemoteActor = self._local.remote
        return remote

    def _end_remote(self) -> None:
        if hasattr(self._local, "remote"):
            self._local.remote.end()
            del self._local.remote


def play_selected(
    request: pytest.FixtureRequest, open_theatre: Open, locks: dict[str, Any] | None = None
) -> Iterator[Played]:
    """Have the cells of a module played that this run asks for; what was used is given back in the end."""
    cells = [
        item.callspec.params["cell"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and "cell" in item.fixturenames
    ]
    descriptors, threads = _count_descriptors(), threading.active_count()
    with Pool(open_theatre, of_threads() if locks is None else locks) as pool:
        yield pool.play(cells)
    wait_until(lambda: threading.active_count() <= threads)
    wait_until(lambda: _count_descriptors() <= descriptors)


def _count_descriptors() -> int:
    here = Path("/proc/self/fd")
    return len(os.listdir(here)) if here.exists() else 0
