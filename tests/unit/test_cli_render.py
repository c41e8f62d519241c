"""Views and their three renderings, without a server."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from zkcoord.cli import progress, render, views
from zkcoord.queues import LockView, Member

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)

HOLDER = Member(
    path="/locks/orders",
    name="_c_01234567-89ab-4cde-8f01-23456789abcd-lock-0000000001",
    kind="exclusive",
    sequence=1,
    token=4020,
    holds=True,
    session=-1,
    host="node-1",
    pid=123,
    thread="MainThread",
    task=None,
    owner=None,
    label="nightly",
    since=NOW - timedelta(seconds=75),
    held_since=None,
    raw=b"{}",
)
WAITER = replace(
    HOLDER, holds=False, token=4021, host=None, pid=None, thread=None, label="[red]x[/red]", since=None
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(view, *, output=None, out=None):
    out, err = out or io.StringIO(), io.StringIO()
    render.show(view, output=output, out=out, err=err)
    return out.getvalue(), err.getvalue()


def test_queue_is_tab_separated_where_there_is_no_terminal():
    out, _err = shown(views.queue_view([HOLDER, WAITER], "/locks/orders", NOW))

    heading, first, second = (line.split("\t") for line in out.splitlines())
    assert {len(heading)} == {len(first), len(second)}
    assert ["1", "holds", "exclusive", "4020", "0xffffffffffffffff", "node-1", "123", "MainThread"] == first[
        :8
    ]
    assert ["nightly", "2026-11-30 11:58:45Z", "1m15s"] == first[8:]
    assert ["-", "-", "-", "[red]x[/red]", "-", "-"] == second[5:]


def test_locks_show_holder_and_waiters():
    locks = [
        LockView("/a", "curator", (HOLDER,), 3),
        LockView("/b", "semaphore", (replace(HOLDER, kind="permit"), HOLDER), 0),
        LockView("/c", "kazoo", (), 2),
    ]

    out, _err = shown(views.locks_view(locks, "/", NOW))

    _heading, first, second, third = (line.split("\t") for line in out.splitlines())
    assert ["/a", "curator exclusive", "nightly", "3", "node-1", "123", "MainThread", "1m15s"] == first[:8]
    assert ["4020", "2026-11-30 11:58:45Z"] == first[8:]
    assert ["/b", "permit", "nightly +1"] == second[:3]
    assert ["/c", "kazoo", "-", "2", *6 * ["-"]] == third


def test_terminal_gets_a_table_in_which_markup_is_only_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")

    out, _err = shown(views.queue_view([HOLDER, WAITER], "/locks/[b]orders", NOW), out=Terminal())

    assert "[red]x[/red]" in out
    assert "queue of /locks/[b]orders" in out
    assert "SESSION" in out


def test_narrow_terminal_gets_fewer_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    out, _err = shown(views.queue_view([HOLDER], "/locks/orders", NOW), out=Terminal())

    assert "SESSION" not in out
    assert "MainThread" in out


def test_json_has_stable_keys_and_is_ascii():
    member = replace(HOLDER, label="büro\x1b", held_since=NOW)

    out, _err = shown(views.queue_view([member], "/locks/orders", NOW), output="json")

    (found,) = json.loads(out)
    assert out.isascii()
    assert list(found) == [
        *(
            "position",
            "path",
            "name",
            "kind",
            "sequence",
            "token",
            "holds",
            "session",
            "host",
            "pid",
            "thread",
        ),
        *("task", "owner", "label", "since", "held_since", "age_s"),
    ]
    assert (1, True, "0xffffffffffffffff") == (found["position"], found["holds"], found["session"])
    assert ("2026-11-30T11:58:45Z", "2026-11-30T12:00:00Z", 0.0) == (
        found["since"],
        found["held_since"],
        found["age_s"],
    )


def test_json_of_locks_nests_the_holders():
    out, _err = shown(views.locks_view([LockView("/a", "curator", (HOLDER,), 3)], "/", NOW), output="json")

    (found,) = json.loads(out)
    assert ["path", "dialect", "waiters", "holders"] == list(found)
    assert 4020 == found["holders"][0]["token"]


def test_nothing_to_show_is_an_empty_list_or_a_remark():
    view = views.queue_view([], "/none", NOW)

    assert ("[]\n", "") == shown(view, output="json")
    assert ("", "nobody holds or waits for /none\n") == shown(view)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59.9, "59s"), (60, "1m00s"), (3725, "1h02m"), (90_000, "1d01h")],
)
def test_ages_have_two_units(seconds, text):
    assert text == views.age_text(seconds)


def test_age_is_never_negative():
    assert 0.0 == views.age_s(replace(HOLDER, since=NOW + timedelta(hours=1)), NOW)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"label": None, "owner": "job-17"}, "job-17"),
        ({"label": None}, "node-1:123"),
        ({"label": None, "pid": None}, "node-1"),
        ({"label": None, "host": None}, "session 0xffffffffffffffff"),
    ],
)
def test_a_holder_is_named_by_the_best_that_is_known(changes, text):
    assert text == views.holder_text(replace(HOLDER, **changes))


def test_progress_bar_appears_only_on_a_terminal_and_when_it_takes_long(monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_S", 0.0)
    terminal, pipe = Terminal(), io.StringIO()

    for stream in (terminal, pipe):
        with progress.TreeProgress(stream) as bar:
            bar(1, 2)
            bar(2, 2)

    assert "reading the tree" in terminal.getvalue()
    assert "" == pipe.getvalue()


def test_missing_extra_is_explained():
    code = "import sys; sys.modules['click'] = None; from zkcoord.cli import main; sys.exit(main())"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert 69 == ended.returncode
    assert "zkcoord: the command line needs: pip install 'zkcoord[cli]'\n" == ended.stderr
