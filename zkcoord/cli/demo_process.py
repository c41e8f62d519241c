"""Worker processes as the demo sees them: started, told to go, read from, killed."""

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field

#: What a worker may write to stderr before it is cut, in characters: the end of a traceback.
_STDERR_CHARS = 2000


class DemoError(Exception):
    """The demo could not be carried through; says why and what was left."""


@dataclass(frozen=True, slots=True)
class Job:
    """
    What a worker is to do.

    Attributes:
        hosts: the ensemble.
        root: the demo's own node; holds ``counter`` and the lock ``lock``.
        worker: its number, from 0.
        counts: order numbers to draw, one count a thread.
        session_timeout: seconds asked of the server.
        with_lock: whether to draw under the lock.
        hold_after: thread 0 takes its turn after this many orders and keeps it until killed; None = never.
    """

    hosts: str
    root: str
    worker: int
    counts: tuple[int, ...]
    session_timeout: float
    with_lock: bool = True
    hold_after: int | None = None

    def dump(self) -> str:
        """Write it as the command-line argument."""
        return json.dumps(asdict(self))

    @staticmethod
    def load(text: str) -> "Job":
        """Undo `dump`."""
        fields = json.loads(text)
        return Job(**{**fields, "counts": tuple(fields["counts"])})


@dataclass(frozen=True, slots=True)
class Report:
    """
    One line of a worker.

    Attributes:
        worker: its number.
        at: when it came, on the monotonic clock.
        event: "ready", "order", "holding", "error", "done", or "end" when its output ended.
        fields: the rest of the line.
    """

    worker: int
    at: float
    event: str
    fields: dict[str, object] = field(default_factory=dict)


class WorkerProcess:
    """
    One worker process. Started by the constructor, with a new interpreter: nothing is inherited by fork.

    Its reports arrive in `inbox`, put there by a daemon thread.
    """

    def __init__(self, job: Job, inbox: "queue.SimpleQueue[Report]") -> None:
        """Start the process for `job`; `inbox` is shared with other workers."""
        self.job = job
        self.is_killed = False
        self._inbox = inbox
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "zkcoord.cli.demo_worker", job.dump()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, name=f"worker-{job.worker}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def go(self) -> None:
        """Let it begin."""
        if self._process.stdin is not None:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()

    def kill(self) -> float:
        """Send SIGKILL; return when, on the monotonic clock."""
        self.is_killed = True
        at = time.monotonic()
        self._process.kill()
        return at

    def close(self) -> None:
        """End the process if it still runs, and free what it held. Twice is fine."""
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5.0)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def complaint(self) -> str:
        """Return the end of what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace").strip()[-_STDERR_CHARS:]

    def _read(self) -> None:
        for line in self._process.stdout or ():
            at = time.monotonic()
            fields = json.loads(line)
            self._inbox.put(Report(self.job.worker, at, str(fields.pop("event")), fields))
        self._inbox.put(Report(self.job.worker, time.monotonic(), "end"))
