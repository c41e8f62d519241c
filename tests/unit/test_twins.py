"""The two front ends say the same: files, names, order, signatures, docstrings; exceptions stand in this file."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import zkcoord
from zkcoord._aio.base import AsyncLock
from zkcoord._aio.grants import AsyncLostSignal, AsyncTransaction
from zkcoord._aio.read_write import AsyncReadLock, AsyncWriteLock
from zkcoord._sync.base import Lock
from zkcoord._sync.grants import LostSignal, Transaction
from zkcoord._sync.read_write import ReadLock, WriteLock

PACKAGE = Path(zkcoord.__file__).parent
ONLY_SYNC = {"commit.py"}  # a transaction of a database driver for threads
ONLY_AIO = {"scope.py"}  # a thread cannot be cancelled

PUBLIC = [name for name in zkcoord.__all__ if f"Async{name}" in zkcoord.__all__]
TWINS = [
    *((getattr(zkcoord, name), getattr(zkcoord, f"Async{name}")) for name in PUBLIC),
    (Lock, AsyncLock),
    (ReadLock, AsyncReadLock),
    (WriteLock, AsyncWriteLock),
    (LostSignal, AsyncLostSignal),
    (Transaction, AsyncTransaction),
]
ENTER = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
# What only one of them has: a task is cancelled itself, and its body with the grant.
ONLY_SYNC_METHODS = {"cancel"}
ONLY_AIO_PARAMETERS = {"on_lost"}
# Where asyncio's docstring says more, or another thing, than "task" for "thread": what is taken out of either.
MORE = [
    ('on_lost: what is done to the body of an ``with`` whose grant is lost: "cancel" (default) cancels its task, and'
     ' `GrantLostError` comes out of the ``with``; "signal" leaves it to `Grant.lost`, `check` and `on_lost`. '),
    ", or is a coroutine function",
    " When its loop is closed it is released within a heartbeat.",
    "`cancel`, or ",
]  # fmt: skip
SAME = [
    ("max_hold, on_lost: as for", "max_hold: as for"),
    ("; cancellation and any other exception included", "; Ctrl-C and any other exception included"),
    ("the running task", "the calling thread"),
    (" on the grant's loop, as a plain function; what", " on a thread of zkcoord's; what"),
    (" on a thread of zkcoord's, never on kazoo's; what", " on a thread of zkcoord's; what"),
    ("An Grant", "A Grant"),
]


def words(text: str | None) -> str:
    """A docstring as both should have it."""
    found = " ".join((text or "").split()).replace("Async", "").replace("async with", "with")
    for piece in MORE:
        found = found.replace(piece, "")
    for ours, theirs in SAME:
        found = found.replace(ours, theirs)
    return re.sub(r"\btasks?\b", lambda task: task[0].replace("task", "thread"), found)


def methods(cls: type) -> dict[str, object]:
    """The public methods and properties of a class, in order, and how it is entered and left."""
    return {
        name: value
        for base in cls.__mro__[-2::-1]
        for name, value in vars(base).items()
        if not name.startswith("_") or name in {*ENTER, *ENTER.values()}
    }


def parameters(function: object) -> list[str]:
    """The parameters as text, without types."""
    return [
        f"{parameter.kind.name} {name} {parameter.default!r}"
        for name, parameter in inspect.signature(function).parameters.items()  # type: ignore[arg-type]
        if name not in ONLY_AIO_PARAMETERS
    ]


def test_the_public_list_has_each_lock_twice() -> None:
    assert {"Grant", "ZkLock", "ZkReadWriteLock", "ZkSemaphore", "ZkMultiLock"} == set(PUBLIC)
    assert len(PUBLIC) == sum(name.startswith("Async") for name in zkcoord.__all__)


def test_files_and_what_they_define_come_in_the_same_order() -> None:
    sync, aio = ({path.name: path for path in (PACKAGE / part).glob("*.py")} for part in ("_sync", "_aio"))

    assert set(sync) - ONLY_SYNC == set(aio) - ONLY_AIO
    for name in set(sync) & set(aio):
        tops = [
            [
                re.sub(r"^(_?)Async", r"\1", node.name)
                for node in ast.parse(path.read_text("utf-8")).body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            ]
            for path in (sync[name], aio[name])
        ]
        assert tops[0] == [top for top in tops[1] if top in tops[0]], name


@pytest.mark.parametrize(("sync", "aio"), TWINS, ids=lambda cls: cls.__name__)
class TestTwins:
    def test_methods_have_the_same_names_in_the_same_order(self, sync: type, aio: type) -> None:
        expected = [ENTER.get(name, name) for name in methods(sync) if name not in ONLY_SYNC_METHODS]

        assert expected == list(methods(aio))

    def test_signatures_are_the_same(self, sync: type, aio: type) -> None:
        if "__init__" in vars(sync):
            assert parameters(sync.__init__) == parameters(aio.__init__)
        theirs = methods(aio)
        for name, method in methods(sync).items():
            if inspect.isfunction(method) and name not in ONLY_SYNC_METHODS:
                assert parameters(method) == parameters(theirs[ENTER.get(name, name)]), name

    def test_docstrings_are_the_same(self, sync: type, aio: type) -> None:
        assert words(sync.__doc__) == words(aio.__doc__)
        theirs = methods(aio)
        for name, method in methods(sync).items():
            if name not in ONLY_SYNC_METHODS:
                assert words(method.__doc__) == words(theirs[ENTER.get(name, name)].__doc__), name

    def test_what_waits_is_awaited(self, sync: type, aio: type) -> None:
        waiting = {
            "acquire",
            "try_acquire",
            "try_upgrade",
            "queue",
            "revoke",
            "break_holder",
            "available",
            "resize",
        }
        waiting |= {"release", "verify", "wait", "commit", "__aenter__", "__aexit__"}
        for name, method in methods(aio).items():
            assert inspect.iscoroutinefunction(method) == (name in waiting), name
