"""Key templates: checked against a signature, and filled with quoted values."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkcoord._core.paths import unquote
from zkcoord._core.template import parse
from zkcoord.errors import ConfigError


class Shop:
    """A method's object."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.owner = self

    def ship(self, order_id: int, *, region: str = "eu") -> None:
        """Be decorated."""

    @classmethod
    def close(cls, day: str) -> None:
        """Be decorated."""


def ship(order_id: object, region: str = "eu", *rest: object, **more: object) -> None:
    """Be decorated."""


def filled(template: str, function: Callable[..., object], *arguments: object, **keywords: object) -> str:
    signature = inspect.signature(function)
    bound = signature.bind(*arguments, **keywords)
    bound.apply_defaults()
    return parse(template, signature, function.__name__).fill(bound.arguments)


@pytest.mark.parametrize(
    ("template", "function", "arguments", "expected"),
    [
        ("/locks/order/{order_id}", ship, (17,), "/locks/order/17"),
        ("/locks/{region}/{order_id}", ship, (17,), "/locks/eu/17"),
        ("/locks/{region}-{order_id}", ship, (17, "us"), "/locks/us-17"),
        ("/locks/{{x}}/{order_id}", ship, (17,), "/locks/{x}/17"),
        ("/locks/{self.name}/{order_id}", Shop.ship, (Shop("main"), 17), "/locks/main/17"),
        ("/locks/{self.owner.name}", Shop.ship, (Shop("main"), 17), "/locks/main"),
        ("/locks/{cls.__name__}/{day}", Shop.close.__func__, (Shop, "mon"), "/locks/Shop/mon"),  # type: ignore[attr-defined]
        ("/locks/{order_id}", ship, ("a/../b",), "/locks/a%2F..%2Fb"),
        ("/locks/{order_id}", ship, ("..",), "/locks/%2E%2E"),
        ("/locks/{order_id}", ship, ("",), "/locks/%"),
        ("/locks/all", ship, (17,), "/locks/all"),
        ("{region}{order_id}", ship, (17,), "eu17"),
    ],
)
def test_arguments_make_the_path(
    template: str, function: Callable[..., object], arguments: tuple[object, ...], expected: str
) -> None:
    assert expected == filled(template, function, *arguments)


@pytest.mark.parametrize(
    ("template", "function", "says"),
    [
        ("/locks/{order}", ship, "ship\\(\\) has order_id, region: name one of them"),
        ("/locks/{}", ship, "ship\\(\\) has order_id, region"),
        ("/locks/{0}", ship, "ship\\(\\) has order_id, region"),
        ("/locks/{rest}", ship, "ship\\(\\) has order_id, region"),
        ("/locks/{more}", ship, "ship\\(\\) has order_id, region"),
        ("/locks/{order_id.name}", ship, "only {self.…} may have attributes"),
        ("/locks/{order_id[0]}", ship, "name one of them"),
        ("/locks/{self.name[0]}", Shop.ship, "name one of them"),
        ("/locks/{self}", Shop.ship, "name an attribute of it, as {self.id}"),
        ("/locks/{self.name}", ship, "ship\\(\\) has order_id"),
        ("/locks/{order_id:05d}", ship, "formats {order_id} with ':' or '!'"),
        ("/locks/{order_id!r}", ship, "formats {order_id} with ':' or '!'"),
        ("/locks/{order_id", ship, "cannot be read .* write {{ for a brace"),
        ("/locks/../{order_id}", ship, "key .* has a '..' segment"),
        ("/locks/\x00{order_id}", ship, "key .* has the character"),
        ("//", ship, "key is empty"),
        ("/locks/{x}", lambda: None, "has no parameters"),
    ],
)
def test_wrong_template_says_what_to_do(template: str, function: Callable[..., object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(template, inspect.signature(function), "ship")


def test_template_without_fields_is_constant() -> None:
    assert parse("/locks/all", inspect.signature(ship), "ship").is_constant
    assert not parse("/locks/{region}", inspect.signature(ship), "ship").is_constant


@pytest.mark.parametrize("value", [object(), ship, [object()]])
def test_value_without_a_text_of_its_own_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="differs from process to process; give a function"):
        filled("/locks/{order_id}", ship, value)


def test_text_that_looks_like_an_address_is_a_text() -> None:
    assert "/locks/look at 0x1f" == filled("/locks/{order_id}", ship, "look at 0x1f")


def test_value_with_a_text_of_its_own_is_taken() -> None:
    order = uuid.UUID(int=1)

    assert f"/locks/{order}" == filled("/locks/{order_id}", ship, order)


def test_missing_attribute_is_named() -> None:
    shop = Shop("main")
    del shop.name

    with pytest.raises(ConfigError, match=r"{self.name} in the key: .*no attribute 'name'"):
        filled("/locks/{self.name}", Shop.ship, shop, 17)


@given(st.text())
def test_no_value_leaves_its_directory(text: str) -> None:
    path = filled("/locks/{order_id}", ship, text)

    directory, _, segment = path.rpartition("/")
    assert ("/locks", text) == (directory, unquote(segment))
    assert segment not in (".", "..")
