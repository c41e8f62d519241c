"""Plays many cells at a time, each on a thread; most of a cell's time is spent waiting."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager

from tests.fault.matrix.actor import Actor, LocalActor, RemoteActor
from tests.fault.matrix.expected import Cell
from tests.fault.matrix.play import Play
from tests.fault.matrix.theatre import Session, Theatre

#: Cells at a time. More of them would keep each other from their bounds on two cores.
AT_A_TIME = 8

#: Gives a cell its theatre, told how to learn the victim's session.
Open = Callable[[Session], AbstractContextManager[Theatre]]


class Pool:
    """A context manager; its end waits for the cells under way, and drops those that wait."""

    def __init__(self, open_theatre: Open) -> None:
        self._open = open_theatre
        self._queue: queue.Queue[tuple[Cell, Future[None]] | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._work, name=f"matrix-{number}", daemon=True)
            for number in range(AT_A_TIME)
        ]

    def __enter__(self) -> Pool:
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

    def play(self, cells: Iterable[Cell]) -> dict[str, Future[None]]:
        """Have cells played, in this order as far as threads are free; returns what comes of them, by their names."""
        played: dict[str, Future[None]] = {}
        for cell in cells:
            played[cell.name] = Future()
            self._queue.put((cell, played[cell.name]))
        return played

    def _work(self) -> None:
        remote: RemoteActor | None = None
        while (job := self._queue.get()) is not None:
            cell, future = job
            if cell.is_apart and remote is None:
                remote = RemoteActor()
            actor: Actor = remote if cell.is_apart and remote is not None else LocalActor()
            try:
                with self._open(lambda: actor.look().session) as theatre:
                    Play(cell, theatre, actor).run()
                future.set_result(None)
            except BaseException as error:
                future.set_exception(error)
                if actor is remote:
                    remote.end()
                    remote = None
        if remote is not None:
            remote.end()
