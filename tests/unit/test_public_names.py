"""The public list: complete, without private names, and documented."""

import inspect
import subprocess
import sys
import types

import pytest

import zkcoord
from zkcoord import _public, errors

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
        for name, value in vars(_public).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert public == set(PUBLIC)
    assert len(PUBLIC) == len(zkcoord.__all__)
    assert zkcoord.__all__ == _public.__all__
    assert public <= set(dir(zkcoord))


def test_what_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zkcoord.nonsense


def test_server_and_test_kit_load_no_lock():
    code = "import sys, zkcoord.server, zkcoord.testing; print('zkcoord._session.session' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert "False" == done.stdout.strip()


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
