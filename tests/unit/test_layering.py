"""The arrows between packages (docs/concepts/architecture): the imports of every file are walked and checked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("zkcoord", "recipes")

# A pure core takes time as `now`, randomness as an argument, and talks to nobody.
IMPURE = frozenset(
    "asyncio concurrent kazoo logging multiprocessing os queue random secrets select selectors signal socket ssl "
    "structlog subprocess sched threading time".split()
)
# What a part of the package may not import of zkcoord; longest prefix first.
FORBIDDEN = {
    "zkcoord._core": ("zkcoord",),  # but see ALLOWED
    "zkcoord._session": (
        "zkcoord._spec",
        "zkcoord._refusals",
        "zkcoord.coordinator",
        "zkcoord._default",
        "zkcoord._sync",
        "zkcoord._aio",
        "zkcoord.cli",
        "zkcoord.testing",
        "recipes",
    ),
    "zkcoord._sync": ("zkcoord._aio", "zkcoord.cli", "zkcoord.testing", "zkcoord.server", "recipes"),
    "zkcoord._aio": ("zkcoord._sync", "zkcoord.cli", "zkcoord.testing", "zkcoord.server", "recipes"),
    "zkcoord.server": ("zkcoord._sync", "zkcoord._aio", "zkcoord._core", "zkcoord._session", "recipes"),
    "zkcoord": ("recipes", "tests"),
}
ALLOWED = {"zkcoord._core": ("zkcoord.errors", "zkcoord._core")}
# The embedded server's shell; all other modules of zkcoord.server are as pure as the core.
SERVER_SHELL = frozenset({"zkcoord.server.transport", "zkcoord.server.link", "zkcoord.server.embedded"})
CLI_ONLY = frozenset({"click", "rich"})
# Names that kazoo does not promise to keep: each stands in one file, with a test that fails when kazoo changes it.
PRIVATE_KAZOO = frozenset(
    "_call _queue _pending _data_watchers _child_watchers _session_id _session_passwd _connection _connect _write_sock "
    "_connection_routine _session_timeout _stopped _live _conn_retry".split()
)
PRIVATE_KAZOO_HOME = "zkcoord._session.kazoo_private"


@dataclass(frozen=True)
class Import:
    """``name`` is the module, or module and name for ``from module import name``."""

    module: str
    name: str
    line: int

    @property
    def top(self) -> str:
        return self.module.split(".")[0]


def module_name(path: Path, base: Path = REPOSITORY) -> str:
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST, module: str, is_package: bool) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parts = module.split(".")
                keep = len(parts) - node.level + (1 if is_package else 0)
                source = ".".join(parts[:keep] + ([node.module] if node.module else []))
            for alias in node.names:
                yield Import(source, f"{source}.{alias.name}", node.lineno)


def is_within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def public_names() -> set[str]:
    """``zkcoord.__all__``, read without importing."""
    path = REPOSITORY / "zkcoord" / "__init__.py"
    tree = ast.parse(path.read_text("utf-8")) if path.exists() else ast.Module([], [])
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return set(ast.literal_eval(node.value))
    return set()


def check_imports(module: str, tree: ast.AST, is_package: bool = False) -> list[str]:
    """Every breach of the arrows in one module, as text for people."""
    return [
        f"{module}:{found.line}: imports {found.name}: {reason}"
        for found in imports_of(tree, module, is_package)
        if (reason := _breach(module, found))
    ]


def _breach(module: str, found: Import) -> str | None:
    if is_within(module, "zkcoord._core") and found.top in IMPURE:
        return "the core is pure"
    if is_within(module, "zkcoord.server") and module not in SERVER_SHELL and found.top in IMPURE:
        return "the server's inner modules are pure"
    if found.top in CLI_ONLY and not is_within(module, "zkcoord.cli"):
        return "click and rich are only for zkcoord.cli"
    if is_within(module, "recipes"):
        return _recipe_breach(found)
    allowed = next((names for part, names in ALLOWED.items() if is_within(module, part)), ())
    if any(is_within(found.name, name) for name in allowed):
        return None
    for part, forbidden in FORBIDDEN.items():
        if is_within(module, part) and any(is_within(found.name, name) for name in forbidden):
            return f"{part} must not know it"
    return None


def _recipe_breach(found: Import) -> str | None:
    if found.top != "zkcoord" or found.name == "zkcoord":
        return None
    if found.module == "zkcoord" and found.name.removeprefix("zkcoord.") in public_names():
        return None
    return "recipes use only names of zkcoord.__all__"


def check_private_kazoo(module: str, tree: ast.AST) -> list[str]:
    """Every use of a private kazoo name on anything but ``self`` (a class's own attribute may share the name)."""
    if module == PRIVATE_KAZOO_HOME:
        return []
    return [
        f"{module}:{node.lineno}: {ast.unparse(node)}: private kazoo names stand in {PRIVATE_KAZOO_HOME} only"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in PRIVATE_KAZOO
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def source_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_module_keeps_to_the_arrows(path: Path) -> None:
    module, tree = module_name(path), ast.parse(path.read_text("utf-8"))

    assert [] == check_imports(module, tree, is_package=path.name == "__init__.py")
    assert [] == check_private_kazoo(module, tree)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("zkcoord._core.queue", "import time"),
        ("zkcoord._core.queue", "from os import path"),
        ("zkcoord._core.queue", "from zkcoord._session import guard"),
        ("zkcoord._core.queue", "from ..coordinator import Coordinator"),
        ("zkcoord._core.queue", "from .. import coordinator"),
        ("zkcoord._core.queue", "def f():\n    import threading"),
        ("zkcoord._sync.locks", "from zkcoord._aio.locks import AsyncZkLock"),
        ("zkcoord._aio.locks", "from zkcoord import _sync"),
        ("zkcoord._session.guard", "import zkcoord._sync.driver"),
        ("zkcoord.server.engine", "from zkcoord._core import names"),
        ("zkcoord.server.engine", "import time"),
        ("zkcoord.server.transport", "from zkcoord._session import guard"),
        ("zkcoord.queues", "import rich.table"),
        ("zkcoord.coordinator", "from recipes import barrier"),
        ("recipes.barrier", "from zkcoord._core import names"),
        ("recipes.barrier", "from zkcoord import not_public"),
        ("recipes.barrier", "import zkcoord.queues"),
    ],
)
def test_breach_is_found(module: str, source: str) -> None:
    assert len(check_imports(module, ast.parse(source))) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("zkcoord._core.queue", "from zkcoord._core.names import Dialect\nfrom ..errors import ZkCoordError"),
        ("zkcoord._core.queue", "from .names import Dialect\nimport dataclasses"),
        ("zkcoord._sync.locks", "from zkcoord._core import queue\nfrom zkcoord._session import guard"),
        ("zkcoord.cli.render", "import rich.table, click"),
        ("zkcoord.server.transport", "import selectors\nfrom zkcoord.server.engine import ServerEngine"),
        ("recipes.barrier", "import zkcoord\nimport time"),
    ],
)
def test_allowed_import_passes(module: str, source: str) -> None:
    assert [] == check_imports(module, ast.parse(source))


def test_private_kazoo_name_is_found_outside_its_file() -> None:
    tree = ast.parse("self._client._call(request, result)\nself._queue.append(1)")

    assert len(check_private_kazoo("zkcoord._session.requests", tree)) == 1
    assert [] == check_private_kazoo(PRIVATE_KAZOO_HOME, tree)
