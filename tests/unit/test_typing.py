"""What a type checker makes of the decorator: ``mypy --strict`` on a user's code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

SOURCE = """
from collections.abc import Iterator
from collections.abc import AsyncIterator
from zkcoord import AcquireTimeoutError, AsyncGrant, AsyncZkReadWriteLock, Grant, ZkReadWriteLock, locked

def waited(error: AcquireTimeoutError) -> float:
    return error.waited_s

@locked("/a/{order_id}")
def plain(order_id: int, *, region: str = "eu") -> str:
    return region

@locked("/a", timeout=0, on_busy="skip")
def skipped(order_id: int) -> str:
    return "x"

@locked("/a", timeout=0, on_busy=False)
def valued(order_id: int) -> str:
    return "x"

@locked("/a", timeout=0, on_busy=waited)
def computed(order_id: int) -> str:
    return "x"

@locked("/a", grant="grant", max_hold=2.0, label="x")
def granted(order_id: int, *, grant: Grant) -> str:
    return str(grant.token)

@locked("/a", timeout=0, on_busy="skip", grant="grant")
def granted_skipped(order_id: int, *, grant: Grant) -> str:
    return str(grant.token)

@locked("/a", lock=lambda path, **options: ZkReadWriteLock(path, **options).read)
def reading() -> Iterator[int]:
    yield 1

class Shop:
    @locked("/a/{self.name}/{order_id}")
    def ship(self, order_id: int) -> str:
        return "x"

    @staticmethod
    @locked("/a/{order_id}")
    def static(order_id: int) -> str:
        return "x"

    @classmethod
    @locked("/a")
    def of_class(cls, order_id: int) -> str:
        return "x"

@locked("/a/{order_id}", on_lost="signal")
async def waiting(order_id: int) -> str:
    return "x"

@locked("/a", timeout=0, on_busy="skip", grant="grant")
async def waiting_skipped(order_id: int, *, grant: AsyncGrant) -> str:
    return "x"

@locked("/a", lock=lambda path, **options: AsyncZkReadWriteLock(path, **options).read)
async def streaming() -> AsyncIterator[int]:
    yield 1

async def main() -> None:
    reveal_type(await waiting(1))  # -> str
    reveal_type(await waiting_skipped(1))  # -> str | None
    reveal_type(streaming())  # -> AsyncIterator[int]
    await waiting("1")  # error

reveal_type(plain(1, region="us"))  # -> str
reveal_type(skipped(1))  # -> str | None
reveal_type(valued(1))  # -> str | bool
reveal_type(computed(1))  # -> str | float
reveal_type(granted(1))  # -> str
reveal_type(granted_skipped(1))  # -> str | None
reveal_type(reading())  # -> Iterator[int]
reveal_type(Shop().ship(1))  # -> str
reveal_type(Shop.static(1))  # -> str
reveal_type(Shop.of_class(1))  # -> str
plain("1")  # error
plain()  # error
Shop().ship("1")  # error
locked("/a", nonsense=1)  # error
locked("/a", timeout="1")  # error
"""

REVEALED = re.compile(r'^\S+?:(\d+): note: Revealed type is "(.*)"$', re.MULTILINE)
ERROR = re.compile(r"^\S+?:(\d+): error: ", re.MULTILINE)


def test_decorator_keeps_the_types(tmp_path: Path) -> None:
    page = tmp_path / "user.py"
    page.write_text(SOURCE, "utf-8")
    root = Path(__file__).resolve().parents[2]
    options = [
        "--strict",
        "--config-file",
        str(root / "pyproject.toml"),
        "--cache-dir",
        str(root / ".mypy_cache"),
    ]

    output, complaint, _ = api.run([*options, str(page)])

    assert "" == complaint
    lines = list(enumerate(SOURCE.splitlines(), 1))
    wanted = {number: line.partition("# -> ")[2] for number, line in lines if "# -> " in line}
    revealed = {
        int(number): re.sub(r"\b(?:builtins|collections\.abc|typing)\.", "", shown)
        for number, shown in REVEALED.findall(output)
    }
    assert wanted == revealed, output
    assert {number for number, line in lines if line.endswith("# error")} == {
        int(number) for number in ERROR.findall(output)
    }, output
