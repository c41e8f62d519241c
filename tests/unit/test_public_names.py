"""The public list: complete, without private names, and documented."""

import inspect
import types

import pytest

import zkcoord
from zkcoord import errors

PUBLIC = sorted(zkcoord.__all__)


def public_members(cls):
    """What a class adds to the public surface: its own and inherited, but not those of builtins."""
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if not name.startswith("_") and owner is not None and owner.__module__.startswith("zkcoord"):
            yield name, inspect.getattr_static(cls, name)


def documented():
    for name in PUBLIC:
        value = getattr(zkcoord, name)
        if isinstance(value, type):
            yield name, value
            for attribute, member in public_members(value):
                if isinstance(member, types.FunctionType | property | classmethod | staticmethod):
                    yield f"{name}.{attribute}", member
        elif callable(value):
            yield name, value


def test_all_is_what_is_public():
    public = {
        name
        for name, value in vars(zkcoord).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert public == set(PUBLIC)
    assert len(PUBLIC) == len(zkcoord.__all__)


def test_every_error_of_the_tree_is_public():
    tree = {name for name, value in vars(errors).items() if isinstance(value, type)}

    assert set() == {name for name in tree if name.endswith("Error")} - set(PUBLIC)


@pytest.mark.parametrize(
    "value", [value for _, value in documented()], ids=[name for name, _ in documented()]
)
def test_every_public_thing_has_a_docstring_that_begins_with_a_sentence(value):
    text = inspect.cleandoc(value.__doc__ or "")

    assert "" != text
    assert text.split("\n\n")[0].rstrip().endswith((".", ":"))
