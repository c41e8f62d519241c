"""
Runs the code blocks of a documentation page: ``python -m tests.support.doc_pages PAGE``.

All ``python`` blocks of a page run in order in one namespace. Of ``console`` and ``bash`` blocks, each line that starts
with ``$ zkcoord`` is a command (a trailing backslash continues it). ``<!-- not run: REASON -->`` on the line directly
above a block excludes that block; nothing else does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *(?:(?:[-*+]|\d+[.)]) +)?)(?P<ticks>```+|~~~+)(?P<info>.*)$")
NOT_RUN = re.compile(r"^\s*<!--\s*not run:\s*(?P<reason>\S.*?)\s*-->\s*$")
PROMPT = "$ zkcoord"
CONSOLE_LANGUAGES = frozenset({"console", "bash", "sh", "shell", "text"})


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is the number of its first line of code, from 1."""

    language: str
    line: int
    code: str
    not_run: str | None


def read_blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    lines = page.read_text("utf-8").splitlines()
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        start = at + 1
        at = start
        while at < len(lines) and not _closes(lines[at], opening["ticks"]):
            at += 1
        if at == len(lines):
            raise ValueError(f"{page}:{start}: the code block is never closed")
        indent = len(opening["indent"])
        code = "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines[start:at])
        excluded = NOT_RUN.match(lines[start - 2]) if start >= 2 else None
        language = opening["info"].strip().split(" ")[0].lower()
        yield Block(language, start + 1, code + "\n", excluded["reason"] if excluded else None)
        at += 1


def _closes(line: str, ticks: str) -> bool:
    stripped = line.strip()
    return stripped.startswith(ticks) and not stripped.strip(ticks[0])


def python_blocks(page: Path) -> list[Block]:
    """The blocks that are run, in order."""
    return [block for block in read_blocks(page) if block.language == "python" and block.not_run is None]


def zkcoord_commands(page: Path) -> list[tuple[int, str]]:
    """Line number and command (without the prompt, starting with ``zkcoord``) of each command that is run."""
    commands = []
    for block in read_blocks(page):
        if block.language not in CONSOLE_LANGUAGES or block.not_run is not None:
            continue
        lines = iter(enumerate(block.code.splitlines(), block.line))
        for number, line in lines:
            if not line.lstrip().startswith(PROMPT):
                continue
            command = line.lstrip().removeprefix("$ ")
            while command.endswith("\\"):
                command = command[:-1] + next(lines, (0, ""))[1].lstrip().removeprefix("> ")
            commands.append((number, command))
    return commands


def run_python(page: Path) -> None:
    """Execute the page's Python here; tracebacks name the page and its lines."""
    namespace: dict[str, object] = {"__name__": "__main__", "__file__": str(page)}
    for block in python_blocks(page):
        padded = "\n" * (block.line - 1) + block.code
        exec(compile(padded, str(page), "exec"), namespace)


if __name__ == "__main__":
    run_python(Path(sys.argv[1]))
