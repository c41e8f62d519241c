"""The pages agree with each other and with the code: links, names, errors, options, JSON keys, exit codes."""

from __future__ import annotations

import inspect
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

import recipes
import zkcoord
from zkcoord import errors
from zkcoord._core import lease
from zkcoord._waits import Step
from zkcoord.cli import exit_codes, views
from zkcoord.cli.act_views import Deed, deeds_view
from zkcoord.cli.app import cli
from zkcoord.cli.checkup import Finding
from zkcoord.cli.demo_checks import Findings, Kill
from zkcoord.cli.doctor_command import finding_object
from zkcoord.cli.run_command import HOLD_KEYS
from zkcoord.cli.wait_views import Link, deadlocks_view, why_view
from zkcoord.queues import LockView, Member

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
ERRORS, CLI, CONFIGURATION = (
    DOCS / "reference" / f"{name}.md" for name in ("errors", "cli", "configuration")
)
SESSION_LOSS = DOCS / "concepts" / "session-loss.md"

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCED.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page)))
    return {heading.strip().replace(" ", "-") for heading in kept}


def section(page: Path, heading: str) -> str:
    """The text between a heading of the second level and the next one."""
    parts = re.split(r"^## ", prose(page), flags=re.MULTILINE)
    found = [part for part in parts if part.partition("\n")[0] == heading]
    assert 1 == len(found), f"{page.name} needs one section {heading!r}"
    return found[0]


def first_cells(text: str) -> set[str]:
    """What stands in code quotes in the first column of a text's tables."""
    rows = (line for line in text.splitlines() if line.startswith("| `"))
    return {name for row in rows for name in CODE.findall(row.split(" | ")[0])}


def page_id(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


# --- between pages


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert [] == broken


def test_index_links_to_every_page() -> None:
    linked = {(DOCS / link).resolve() for link in LINK.findall(prose(DOCS / "README.md"))}

    assert set(DOCS.rglob("*.md")) - {DOCS / "README.md"} == linked


# --- names


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_public_names_on_the_page_exist(page: Path) -> None:
    """Whatever is written as ``zkcoord.name``, or looks like one of our errors, can be imported."""
    # What kazoo and Python call theirs, as far as pages mention it.
    foreign = {
        "ValueError",
        "TimeoutError",
        "BadVersionError",
        "NodeExistsError",
        "NoNodeError",
        "CancelledError",
    }
    code = CODE.findall(prose(page))
    dotted = {name for text in code for name in re.findall(r"^zkcoord\.(\w+)", text)}
    named = {
        text.removesuffix("()") for text in code if re.fullmatch(r"[A-Z]\w+Error(\(\))?", text)
    } - foreign
    modules = {path.stem for path in (REPOSITORY / "zkcoord").iterdir()}
    loggers = {"session", "acquire", "grant", "janitor", "callbacks", "operator", "kazoo"}

    assert set() == named - set(zkcoord.__all__) - set(recipes.__all__)
    assert set() == dotted - set(zkcoord.__all__) - modules - loggers - {"__all__"}


def test_error_reference_lists_every_error_in_the_order_of_the_tree() -> None:
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ZkCoordError)
    ]

    assert classes == re.findall(r"^## (\w+)$", prose(ERRORS), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in zkcoord.__all__ if name.endswith("Error")])
def test_error_reference_names_fields_and_remedy(name: str) -> None:
    text = section(ERRORS, name)
    error = getattr(errors, name)
    fields = set(inspect.signature(error.__init__).parameters) - {
        "self",
        "args",
        "kwargs",
        "why",
        "detail",
        "message",
    }

    assert set() == {field for field in fields if f"`{field}`" not in text}
    assert "- Left on the server:" in text
    assert "- Do:" in text


@pytest.mark.parametrize(
    ("heading", "value"),
    [("Coordinator", zkcoord.Coordinator), ("ZkLock", zkcoord.ZkLock)],
    ids=["Coordinator", "ZkLock"],
)
def test_configuration_lists_every_option(heading: str, value: type) -> None:
    parameters = set(inspect.signature(value).parameters) - {"path"}

    assert parameters == first_cells(section(CONFIGURATION, heading))


def test_configuration_lists_every_logger_and_event() -> None:
    text = section(CONFIGURATION, "Logging")
    package = REPOSITORY / "zkcoord"
    files = [path for part in ("_session", "_sync", "_aio") for path in (package / part).glob("*.py")]
    sources = "".join(path.read_text("utf-8") for path in files)
    loggers = set(re.findall(r'get_logger\("(\w+)"\)', sources))
    events = set(re.findall(r'log\.(?:debug|info|warning|error|exception)\(\s*"([\w.]+)"', sources))

    assert {f"zkcoord.{name}" for name in loggers | {"kazoo"}} == first_cells(text)
    assert set() == {event for event in events if f"`{event}`" not in text}


def test_usable_times_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(
        r"^\| ([\d.]+) s(?:, `tick_time=([\d.]+)`| \(the default\))? \| (.+) s \| (.+) s \| (.+) s \| (.+) s \|$",
        section(SESSION_LOSS, "False losses, and how long T should be"),
        re.MULTILINE,
    )

    assert 6 == len(rows)
    for timeout, tick, *shown in rows:
        timeout_s, tick_s = float(timeout), float(tick) if tick else None
        parts = lease.pair_gap_s(timeout_s, tick_s), lease.heartbeat_s(timeout_s), lease.margin_s(timeout_s)
        # The last column is rounded down to a tenth: rather less than more.
        usable_s = math.floor((timeout_s - sum(parts)) * 10 + 1e-6) / 10
        assert [*parts, usable_s] == pytest.approx([float(value) for value in shown]), f"T = {timeout}"


# --- the command line

COMMANDS = {name: command for name, command in cli.commands.items()}
SHARED = "Shared options"
JSON = DOCS / "reference" / "json.md"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_cli_reference_lists_the_options_that_help_lists(name: str) -> None:
    options = [option for option in COMMANDS[name].params if isinstance(option, click.Option)]
    names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    offered = {"--help", *(name for name in names if name.startswith("--"))}
    written = first_cells(section(CLI, f"zkcoord {name}"))
    shared = {option.split(" ")[0] for option in first_cells(section(CLI, SHARED))}
    own = {option.split(" ")[0] for option in written if option.startswith("--")}

    assert own <= offered
    assert set() == {option for option in offered - own if option not in shared}


def test_cli_reference_lists_every_command() -> None:
    table = CLI.read_text("utf-8").partition("\n## ")[0]

    assert set(COMMANDS) == {name.split(" ")[1] for name in first_cells(table)}


def test_cli_reference_lists_every_shared_option_and_its_variable() -> None:
    shared = section(CLI, SHARED)
    options = [option for option in cli.params if isinstance(option, click.Option) and option.envvar]

    assert 13 == len(options)
    for option in options:
        assert f"`{option.opts[-1]}" in shared
        assert f"`{option.envvar}`" in shared


def test_cli_reference_has_every_exit_code() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}

    assert codes == {
        int(code) for code in re.findall(r"^\| (\d+) \|", section(CLI, "Exit codes"), re.MULTILINE)
    }


MEMBER = Member(
    path="/a", name="n", kind="exclusive", sequence=0, token=1, holds=True, session=1, host=None, pid=None,
    thread=None, task=None, owner=None, label=None, since=None, held_since=None, raw=b"",
)  # fmt: skip
NOW = datetime.now(UTC)
OBJECTS = {
    "A member": views.queue_view([MEMBER], "/a", NOW).objects[0],
    "A lock": views.locks_view([LockView("/a", "curator", (MEMBER,), 0)], "/", NOW).objects[0],
    "A step of a wait": why_view([Link(1, MEMBER, (), None)], "/a", NOW).objects[0],
    "A wait in a deadlock": deadlocks_view([(Step(MEMBER, MEMBER, True),)], "/", NOW).objects[0],
    "A finding": finding_object(Finding("ok", "acl", "-", "fine")),
    "What was done to a holder": deeds_view([Deed(MEMBER, "broken")], "/a", NOW).objects[0],
}


@pytest.mark.parametrize("heading", OBJECTS)
def test_json_reference_has_every_key(heading: str) -> None:
    assert set(OBJECTS[heading]) == first_cells(section(JSON, heading))


def test_json_reference_has_every_key_of_a_hold() -> None:
    # The one object that is not a view; test_cli_run.py looks at what is printed.
    assert set(HOLD_KEYS) == first_cells(section(JSON, "A hold"))


def test_json_reference_describes_nothing_else() -> None:
    assert {*OBJECTS, "A hold"} == set(re.findall(r"^## (.+)$", prose(JSON), re.MULTILINE))


def test_cli_reference_has_every_key_of_the_demo() -> None:
    demo = section(CLI, "zkcoord demo").partition("Keys of the summary:")[2].partition("\n\n")[0]
    keys = {*Findings.__dataclass_fields__, *Kill.__dataclass_fields__, "took_s"}

    assert keys == set(CODE.findall(demo)) - {"null"}
