"""
Where a victim works: on threads of this process, or in one of its own (``python -m tests.fault.matrix.actor``).

The process takes lines of JSON, ``[number, method, arguments]``, and answers ``[number, result]``. Calls that wait run
on its main thread, where Ctrl-C strikes; all others at once, on the thread that reads.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from types import FrameType
from typing import Any, Protocol, TypeVar

from tests.fault.matrix.work import CONNECT_S, Look, Outcome, Work
from tests.support.waiting import PATIENCE_S, in_thread
from zkcoord import Coordinator, ForeignProcessError, ZkLock

T = TypeVar("T")

#: These wait, and so run on the main thread.
WAITING = ("start", "acquire", "hold", "release", "close")


class Actor(Protocol):
    """A victim, wherever it works."""

    def start(self, kind: str, root: str, hosts: str, is_borrowed: bool, is_cold: bool) -> None: ...

    def begin(self, call: str, *arguments: Any) -> Future[Outcome]:
        """Begin `acquire`, `hold`, `release` or `close` of `Work`."""

    def look(self) -> Look: ...
    def cancel(self) -> None: ...
    def leave(self) -> str: ...
    def threads(self) -> int: ...


class LocalActor:
    """On threads of this process."""

    def __init__(self, locks: dict[str, Any]) -> None:
        self._work = Work(locks)
        self.start = self._work.start
        self.look = self._work.look
        self.cancel = self._work.cancel
        self.leave = self._work.leave
        self.threads = self._work.threads

    def begin(self, call: str, *arguments: Any) -> Future[Outcome]:
        return in_thread(getattr(self._work, call), *arguments, name="matrix-victim")


class RemoteActor:
    """In a process of its own, for any number of victims one after the other; `end` it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.matrix.actor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = count()
        self._pending: dict[int, Future[Any]] = {}
        threading.Thread(target=self._read, name="matrix-reader", daemon=True).start()

    def start(self, kind: str, root: str, hosts: str, is_borrowed: bool, is_cold: bool) -> None:
        self._ask("start", kind, root, hosts, is_borrowed, is_cold)

    def begin(self, call: str, *arguments: Any) -> Future[Outcome]:
        return self._send(call, arguments, lambda fields: Outcome(**fields))

    def look(self) -> Look:
        return Look(**self._ask("look"))

    def cancel(self) -> None:
        self._ask("cancel")

    def leave(self) -> str:
        return str(self._ask("leave"))

    def threads(self) -> int:
        return int(self._ask("threads"))

    def fork(self, hosts: str, root: str) -> str:
        """Fork, and have the child try everything; returns what was wrong, if anything."""
        return str(self._ask("fork", hosts, root))

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def stop(self) -> None:
        """Stop the process until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return self._send(method, arguments, lambda value: value).result(PATIENCE_S)
        except TimeoutError:
            self._process.send_signal(signal.SIGUSR1)  # it shows its threads
            raise

    def _send(self, method: str, arguments: tuple[Any, ...], read: Callable[[Any], T]) -> Future[T]:
        number = next(self._numbers)
        answer: Future[Any] = Future()
        result: Future[T] = Future()
        answer.add_done_callback(lambda done: result.set_result(read(done.result())))
        self._pending[number] = answer
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([number, method, arguments]) + "\n")
        self._process.stdin.flush()
        return result

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                number, value = json.loads(line)
                self._pending.pop(number).set_result(value)
        except ValueError:  # closed by `end`
            return


# --- the process -----------------------------------------------------------------------------------------------------


class Child:
    """The other end."""

    def __init__(self) -> None:
        self._work = Work()
        self._calls: queue.Queue[tuple[int, str, list[Any]] | None] = queue.Queue()

    def run(self) -> None:
        """Work until the input ends."""
        signal.signal(signal.SIGINT, self._interrupt)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        threading.Thread(target=self._read, daemon=True).start()
        while (call := self._calls.get()) is not None:
            self._answer(*call)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        """As Python's own handler, but only while something is meant to be interrupted; and then once."""
        if self._work.is_armed:
            self._work.is_armed = False
            raise KeyboardInterrupt

    def _read(self) -> None:
        for line in sys.stdin:
            number, method, arguments = json.loads(line)
            if method in WAITING:
                self._calls.put((number, method, arguments))
            else:
                self._answer(number, method, arguments)
        self._calls.put(None)

    def _answer(self, number: int, method: str, arguments: list[Any]) -> None:
        target = self._fork if method == "fork" else getattr(self._work, method)
        value = target(*arguments)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        os.write(1, (json.dumps([number, value]) + "\n").encode())

    def _fork(self, hosts: str, root: str) -> str:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writer, self._in_fork(hosts, root).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        os.waitpid(pid, 0)
        return "" if text == "all right" else text or "the forked child ended without a word"

    def _in_fork(self, hosts: str, root: str) -> str:
        grant = self._work.grant
        calls: list[Callable[[], object]] = [lambda: self._work._lock.acquire(timeout=1.0)]
        if grant is not None:
            calls += [lambda: grant.status, grant.check, grant.release]
        try:
            for call in calls:
                try:
                    return f"a forked child could use its parent's: {call()!r}"
                except ForeignProcessError:
                    continue
            if hosts:
                with (
                    Coordinator(hosts) as coordinator,
                    ZkLock(f"{root}-fork", client=coordinator).acquire(timeout=CONNECT_S),
                ):
                    pass
        except BaseException as error:
            return repr(error)
        return "all right"


if __name__ == "__main__":
    Child().run()
