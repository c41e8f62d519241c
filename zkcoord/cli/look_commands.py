"""`zkcoord locks`, `holders` and `waiters`: what there is now. They only read."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import click
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord import queues
from zkcoord.cli import render, views
from zkcoord.cli.connect import connected
from zkcoord.cli.options import Settings, common_options, duration
from zkcoord.cli.progress import TreeProgress


@click.command()
@click.argument("root", default="/")
@click.option("--held", is_flag=True, help="Only locks that somebody holds.")
@click.option("--waiting", is_flag=True, help="Only locks that somebody waits for.")
@click.option("--host", metavar="PATTERN", help="Only locks held on such a host: worker-7, or 'worker-*'.")
@click.option(
    "--older-than", type=duration, metavar="TIME", help="Only locks held for longer: 90, 15m, 2h, 1d."
)
@common_options
@click.pass_obj
def locks(
    settings: Settings, root: str, held: bool, waiting: bool, host: str | None, older_than: float | None
) -> None:
    """
    List every lock under ROOT, with its holder and the number of waiters.

    ROOT is "/" when left out. A lock's age is counted from its grant where that is recorded, else from the
    creation of the holder's znode. Rows come in order of path, the first of them while the tree is still being read.

    \b
    Examples:
      zkcoord locks
      zkcoord locks /app --waiting
      zkcoord locks --older-than 1h --host 'worker-*' --json
    """
    keep = Filter(held, waiting, host, older_than)
    with reading(settings) as look:
        found = queues.iter_locks(look.client, root, timeout=look.left(), told=look.told)
        now = datetime.now(UTC)
        view = views.locks_view(
            (lock for lock in found if keep.takes(lock, now)),
            root,
            now,
            is_missing=lambda: look.is_missing(root),
        )
        look.show(view)


@click.command()
@click.argument("path")
@common_options
@click.pass_obj
def holders(settings: Settings, path: str) -> None:
    """
    Show the queue of the lock at PATH: who holds it and who waits, oldest first.

    TOKEN is the fencing token of an exclusive holder.

    \b
    Examples:
      zkcoord holders /locks/orders
      zkcoord holders /locks/orders --json
    """
    _queue(settings, path, only_waiters=False)


@click.command()
@click.argument("path")
@common_options
@click.pass_obj
def waiters(settings: Settings, path: str) -> None:
    """
    Show who waits for the lock at PATH, in the order in which they will get it.

    `zkcoord why PATH` says what they wait for in the end.

    \b
    Example:
      zkcoord waiters /locks/orders
    """
    _queue(settings, path, only_waiters=True)


def _queue(settings: Settings, path: str, *, only_waiters: bool) -> None:
    check_path(path)
    with reading(settings) as look:
        members = queues.read_queue(look.client, path, timeout=look.left())
        view = views.queue_view(
            members,
            path,
            datetime.now(UTC),
            only_waiters=only_waiters,
            is_missing=lambda: look.is_missing(path),
        )
        look.show(view)


def check_path(path: str) -> None:
    """Refuse the root as the path of a lock."""
    if not path.strip("/"):
        raise click.BadParameter("name a lock, for example /locks/orders", param_hint="PATH")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which locks to list: all that every given condition holds for."""

    held: bool = False
    waiting: bool = False
    host: str | None = None
    older_than_s: float | None = None

    def takes(self, lock: queues.LockView, now: datetime) -> bool:
        """Whether a lock is to be listed."""
        return (
            not (self.held and not lock.holders)
            and not (self.waiting and not lock.waiters)
            and (self.host is None or any(self._is_host(member) for member in lock.holders))
            and (self.older_than_s is None or any(self._is_old(member, now) for member in lock.holders))
        )

    def _is_host(self, member: queues.Member) -> bool:
        return fnmatchcase((member.host or "").lower(), (self.host or "").lower())

    def _is_old(self, member: queues.Member, now: datetime) -> bool:
        age = views.age_s(member, now)
        return age is not None and age >= (self.older_than_s or 0.0)


class Look:
    """One look at the tree: a connection, one deadline, a progress bar, and what could not be read."""

    def __init__(
        self, settings: Settings, client: KazooClient, progress: TreeProgress, ends_at: float
    ) -> None:
        self.client = client
        self.told = queues.Told(progress, self._not_readable)
        self._settings = settings
        self._progress = progress
        self._ends_at = ends_at
        self._unreadable: list[str] = []
        self._count = 0

    def left(self) -> float:
        """Return the seconds left; at least a moment, so that a late connection still gets its answer."""
        return max(0.1, self._ends_at - time.monotonic())

    def show(self, view: views.View) -> int:
        """Write a view to stdout, and what could not be read to stderr; return the number of rows."""
        count = render.show(
            view, output=self._settings.output, out=sys.stdout, err=sys.stderr, progress=self._progress
        )
        self._progress.clear()
        self.tell_unreadable()
        return count

    def tell_unreadable(self) -> None:
        """Say on stderr what was left out."""
        if self._count:
            first = queues.printable(self._unreadable[0], views.PATH_LIMIT)
            click.echo(
                f"left out, not readable with these credentials: {first} ({self._count} in all)", err=True
            )

    def is_missing(self, path: str) -> bool:
        """Whether a path that has nothing to show does not exist; False if that is not to be found out."""
        try:
            return self.client.exists_async(f"/{path.strip('/')}").get(timeout=self.left()) is None
        except (KazooException, KazooTimeoutError):
            return False

    def _not_readable(self, path: str) -> None:
        self._count += 1
        if not self._unreadable:
            self._unreadable.append(path)

    def contended(self, root: str) -> Iterable[tuple[tuple[queues.Member, ...], int | None]]:
        """Read the queues under a path at which somebody waits."""
        return queues.iter_contended(self.client, root, timeout=self.left(), told=self.told)


@contextmanager
def reading(settings: Settings) -> Iterator[Look]:
    """Give a connected look at the tree."""
    ends_at = time.monotonic() + settings.timeout
    with connected(settings) as client, TreeProgress(sys.stderr) as progress:
        yield Look(settings, client, progress, ends_at)
