"""Every Python block and every ``$ zkcoord`` command of README.md and docs/ runs against a real ZooKeeper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doc_pages import python_blocks, read_blocks, zkcoord_commands

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
TIMEOUT_S = 90

# The documented `zkcoord`, run with the interpreter under test whatever is installed on the path.
ZKCOORD = 'set -o pipefail; zkcoord() { "$ZKCOORD_PYTHON" -m zkcoord.cli "$@"; }\n'


def page_name(page: object) -> str:
    return str(page.relative_to(REPOSITORY)) if isinstance(page, Path) else ""


def environment(hosts: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "ZKCOORD_HOSTS": hosts, "PYTHONPATH": path, "ZKCOORD_PYTHON": sys.executable}


def run_page(page: Path, hosts: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.support.doc_pages", str(page)],
        env=environment(hosts),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )


def run_command(command: str, hosts: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", ZKCOORD + command],
        env=environment(hosts),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=page_name)
def test_python_of_page_runs(page: Path, hosts: str, tmp_path: Path) -> None:
    done = run_page(page, hosts, tmp_path)

    assert done.returncode == 0, f"{page_name(page)} failed:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("page", "line", "command"),
    [(page, line, command) for page in PAGES for line, command in zkcoord_commands(page)],
    ids=lambda value: page_name(value) or str(value),
)
def test_command_of_page_runs(page: Path, line: int, command: str, hosts: str, tmp_path: Path) -> None:
    done = run_command(command, hosts, tmp_path)

    assert done.returncode == 0, f"{page_name(page)}:{line}: {command}\n{done.stdout}{done.stderr}"


# --- the test of the test --------------------------------------------------------------------------------------------

PAGE = """\
# A page

```python
import os
value = 1
```

Text, then a list:

- ```python
  assert os.environ["ZKCOORD_HOSTS"]
  value += 1
  ```

<!-- not run: shows a failure -->
```python
raise SystemExit("this block must not run")
```

```python
assert 2 == value
print("done", value)
```

```console
$ zkcoord locks \\
    --json
some output
$ ls
```

<!-- not run: needs a person -->
```console
$ zkcoord demo
```
"""


def write(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    return page


def test_blocks_of_a_page_share_a_namespace_in_order(tmp_path: Path) -> None:
    done = run_page(write(tmp_path, PAGE), "127.0.0.1:1", tmp_path)

    assert ("done 2\n", 0) == (done.stdout, done.returncode), done.stderr


def test_failing_block_is_reported_with_its_line(tmp_path: Path) -> None:
    page = write(tmp_path, "# Title\n\n```python\nx = 1\nassert x == 2\n```\n")

    done = run_page(page, "127.0.0.1:1", tmp_path)

    assert done.returncode == 1
    assert f'File "{page}", line 5' in done.stderr


def test_only_zkcoord_commands_are_taken_and_continued_lines_are_joined(tmp_path: Path) -> None:
    assert [(26, "zkcoord locks --json")] == zkcoord_commands(write(tmp_path, PAGE))


def test_exclusion_needs_a_reason_directly_above(tmp_path: Path) -> None:
    text = "<!-- not run: -->\n```python\n1\n```\n<!-- not run: why -->\n\n```python\n2\n```\n"

    assert [None, None] == [block.not_run for block in read_blocks(write(tmp_path, text))]


def test_block_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="never closed"):
        list(read_blocks(write(tmp_path, "```python\n1\n")))
