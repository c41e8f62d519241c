"""One value that many change: each change once, whatever happens to the answers. No server."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes._cell import REMEMBERED, Applying, Form
from recipes._znodes import Record
from zkcoord import ConnectionLostError, QueueConflictError

RECORD = Record("/cell", "counter")


def found(data, version, children=0):
    return None if data is None else (data, SimpleNamespace(version=version, numChildren=children))


def add_one(value):
    return (value or 0) + 1


class Node:
    """A znode, and requests that may come late."""

    def __init__(self):
        self.data, self.version = None, -1
        self.late = []

    def look(self):
        return found(self.data, self.version)

    def write(self, data, seen):
        """As the server does: by version."""
        if self.version != (-1 if seen is None else seen[1].version):
            return False
        self.data, self.version = data, self.version + 1
        return True

    @property
    def value(self):
        return json.loads(self.data)["value"] if self.data else 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["ok", "lost before", "lost after", "late", "deliver"])),
        max_size=60,
    )
)
def test_each_change_is_applied_once_whatever_is_lost(steps):
    node = Node()
    changes = [Applying(RECORD, add_one) for _ in range(4)]
    for which, fate in steps:
        applying = changes[which]
        if fate == "deliver":
            while node.late:
                node.write(*node.late.pop())
            continue
        if applying.is_done:
            continue
        seen = node.look()
        data = applying.look(seen)
        if data is None:
            continue
        if fate == "ok":
            if node.write(data, seen):
                applying.written()
        else:
            if fate == "lost after":
                node.write(data, seen)
            elif fate == "late":
                node.late.append((data, seen))
            applying.lost(seen)
    while node.late:
        node.write(*node.late.pop())
    for applying in changes:
        while not applying.is_done:
            seen = node.look()
            data = applying.look(seen)
            if data is not None and node.write(data, seen):
                applying.written()

    assert 4 == node.value
    assert [1, 2, 3, 4] == sorted(applying.value for applying in changes)


def test_who_is_cut_off_for_too_many_changes_cannot_know():
    node = Node()
    unsure = Applying(RECORD, add_one)
    seen = node.look()
    assert unsure.look(seen)
    unsure.lost(seen)
    for _ in range(REMEMBERED + 1):
        other = Applying(RECORD, add_one)
        seen = node.look()
        node.write(other.look(seen), seen)

    with pytest.raises(ConnectionLostError) as lost:
        unsure.look(node.look())
    assert lost.value.maybe_applied
    assert unsure.is_hopeless


def test_a_change_of_nothing_writes_nothing():
    applying = Applying(RECORD, lambda value: None)

    assert applying.look(None) is None
    assert (True, None) == (applying.is_done, applying.value)


def test_a_bare_value_that_was_lost_is_not_tried_again():
    applying = Applying(Form("/c", int, lambda value: str(value).encode()), add_one)
    seen = found(b"7", 3)
    assert b"8" == applying.look(seen)
    applying.lost(seen)

    with pytest.raises(ConnectionLostError, match="may have been applied"):
        applying.look(seen)


@pytest.mark.parametrize(
    "there",
    [found(b"x", 0), found(b"{}", 0), found(b'{"v":1,"recipe":"other"}', 0), found(b"", 0, children=2)],
)
def test_what_is_somebody_elses_is_refused(there):
    with pytest.raises(QueueConflictError):
        Applying(RECORD, add_one).look(there)
