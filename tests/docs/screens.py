"""
The screens that the pages show, made by the commands themselves: ``python -m tests.docs.screens`` writes them anew.

The locks are made up, of fixed members on a fresh server, so that the same screens come out each time.
"""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from kazoo.client import KazooClient
from rich.console import Console
from rich.text import Text

from zkcoord.cli.app import run
from zkcoord.server import EmbeddedServer

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"

WIDTH = 110

#: What is shown, by the name of its picture.
COMMANDS = {
    "locks": "zkcoord locks /locks",
    "holders": "zkcoord holders /locks/orders",
    "why": "zkcoord why /locks/stock",
    "deadlocks": "zkcoord deadlocks /locks",
}

#: Path, marker, who (host, pid, thread, label), and since when: seconds, over an hour, where ages are shown in minutes,
#: and half a minute into each.
MEMBERS = (
    ("orders", "-lock-", ("worker-7", 311, "MainThread", "nightly report"), 7530),
    ("orders", "-lock-", ("worker-3", 94, "MainThread", None), 4230),
    ("stock", "-lock-", ("worker-3", 94, "MainThread", None), 4290),
    ("stock", "-lock-", ("worker-1", 20, "pool-4", None), 3870),
    ("invoices", "-__READ__", ("worker-1", 20, "pool-1", None), 94_530),
    ("invoices", "-__READ__", ("worker-2", 77, "pool-2", None), 94_530),
    ("mail", "-permit-", ("worker-2", 77, "pool-5", None), 9030),
    ("north", "-lock-", ("worker-4", 501, "MainThread", "resettle north"), 5430),
    ("south", "-lock-", ("worker-5", 17, "MainThread", "resettle south"), 5430),
    ("north", "-lock-", ("worker-5", 17, "MainThread", "resettle south"), 5370),
    ("south", "-lock-", ("worker-4", 501, "MainThread", "resettle north"), 5370),
)


class Screen(io.StringIO):
    """A terminal of `WIDTH` columns."""

    def isatty(self) -> bool:
        return True


@contextmanager
def stage() -> Iterator[str]:
    """Give the hosts of a server with the members."""
    with EmbeddedServer() as server:
        client = KazooClient(server.hosts, timeout=30.0)
        client.start()
        try:
            client.ensure_path("/locks")
            client.create("/locks/mail", b'{"v":1,"permits":4}')
            for number, (path, marker, who, since_s) in enumerate(MEMBERS):
                host, pid, thread, label = who
                since = datetime.now(UTC) - timedelta(seconds=since_s)
                data = {
                    "v": 1,
                    "host": host,
                    "boot": host,
                    "pid": pid,
                    "thread": {"id": 1, "name": thread, "key": thread},
                    "label": label,
                    "since": since.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                }
                client.create(
                    f"/locks/{path}/_c_{uuid.UUID(int=number)}{marker}",
                    json.dumps(data).encode(),
                    ephemeral=True,
                    sequence=True,
                    makepath=True,
                )
            yield server.hosts
        finally:
            client.stop()
            client.close()


def shown(hosts: str, command: str) -> str:
    """Run a command on a terminal; give all that it shows, with its colours."""
    screen = Screen()
    program, *arguments = command.split()
    assert "zkcoord" == program
    terminal = {"COLUMNS": str(WIDTH), "LINES": "40", "TERM": "xterm-256color", "ZKCOORD_HOSTS": hosts}
    with mock.patch.dict("os.environ", terminal), redirect_stdout(screen):
        run(arguments)
    return screen.getvalue()


def picture(name: str, command: str, output: str) -> str:
    """Draw a screen as SVG, without fonts from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {command}\n{output}"), soft_wrap=True)
    drawn = console.export_svg(title="zkcoord", unique_id=f"zkcoord-{name}")
    return re.sub(r" *@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)


def words(drawn: str) -> list[str]:
    """Return the text of a picture, without how it is drawn."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with stage() as hosts:
        for name, command in COMMANDS.items():
            drawn = picture(name, command, shown(hosts, command))
            (IMAGES / f"{name}.svg").write_text(drawn, "utf-8")
            print(f"docs/images/{name}.svg")


if __name__ == "__main__":
    main()
