"""
Key templates of `locked`: ``"/locks/order/{order_id}"`` and the arguments of a call make a path.

A template is checked when the function is decorated, so that a misspelt name fails at import and not in the first call
at night. A value becomes one quoted piece of a segment (`quote`), so none can lead out of its directory.
"""

import inspect
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkcoord._core.paths import normalize, quote
from zkcoord.errors import ConfigError

#: First parameters whose attributes a template may name.
_OWN = ("self", "cls")

#: What Python writes for an object without a text of its own. It differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

_REMEDY = "give a function of the arguments as the key instead: key=lambda …: f'/locks/…'"


@dataclass(frozen=True, slots=True)
class Field:
    """
    One ``{…}`` of a template.

    Attributes:
        name: the parameter's name.
        attributes: to go on from its value, in order; empty for the value itself.
    """

    name: str
    attributes: tuple[str, ...]

    def value(self, arguments: Mapping[str, object]) -> str:
        """
        Return its quoted text.

        Raises:
            ConfigError: an attribute is missing, or the value has no text that is the same everywhere.
        """
        value = arguments[self.name]
        for attribute in self.attributes:
            try:
                value = getattr(value, attribute)
            except AttributeError as error:
                raise ConfigError(f"{{{self}}} in the key: {error}") from error
        text = str(value)
        if not isinstance(value, str) and _ADDRESS.search(text):
            raise ConfigError(
                f"{{{self}}} in the key is {text:.80}, which differs from process to process; {_REMEDY}"
            )
        return quote(text)

    def __str__(self) -> str:
        return ".".join((self.name, *self.attributes))


@dataclass(frozen=True, slots=True)
class Template:
    """
    A checked template.

    Attributes:
        parts: literal text and fields, in order.
    """

    parts: tuple[str | Field, ...]

    @property
    def is_constant(self) -> bool:
        """Whether every call has the same key."""
        return not any(isinstance(part, Field) for part in self.parts)

    def fill(self, arguments: Mapping[str, object]) -> str:
        """
        Return the path for a call's arguments, defaults included.

        Raises:
            ConfigError: as `Field.value`.
        """
        return "".join(part if isinstance(part, str) else part.value(arguments) for part in self.parts)


def parse(template: str, signature: inspect.Signature, function: str) -> Template:
    """
    Check a template against the function that it is for.

    Args:
        template: in the syntax of `str.format`, names only.
        signature: of the function.
        function: its name, for messages.

    Raises:
        ConfigError: saying what to write instead.
    """
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"key {template!r} cannot be read ({error}); write {{{{ for a brace") from error
    parts: list[str | Field] = []
    for literal, name, spec, conversion in pieces:
        if literal:
            parts.append(literal)
        if name is None:
            continue
        if spec or conversion:
            raise ConfigError(f"key {template!r} formats {{{name}}} with ':' or '!'; {_REMEDY}")
        parts.append(_field(template, name, signature, function))
    # A value is never empty and holds no slash: any will do to check the rest of the path.
    normalize("".join(part if isinstance(part, str) else "x" for part in parts), "key")
    return Template(tuple(parts))


def _field(template: str, text: str, signature: inspect.Signature, function: str) -> Field:
    name, *attributes = text.split(".")
    usable = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if name not in usable or not all(part.isidentifier() for part in attributes):
        raise ConfigError(
            f"key {template!r} has {{{text}}}, but {function}() has"
            f" {', '.join(usable) or 'no parameters'}: name one of them, or {_REMEDY}"
        )
    is_own = name in _OWN and usable[0] == name
    if attributes and not is_own:
        raise ConfigError(f"key {template!r} has {{{text}}}; only {{self.…}} may have attributes: {_REMEDY}")
    if is_own and not attributes:
        raise ConfigError(f"key {template!r} has {{{name}}}: name an attribute of it, as {{{name}.id}}")
    return Field(name, tuple(attributes))


#: A key as the user may give it: a template, or a function of the call's arguments.
Key = str | Callable[..., str]
