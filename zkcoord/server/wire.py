"""
Jute, ZooKeeper's serialisation, in both directions.

A record is a NamedTuple whose layout names one `Field` for each of its items, in order. Numbers are big-endian;
buffers, texts and vectors carry their length first, -1 for null. Whatever follows a complete record is ignored, as
the real server ignores it.

A frame on the wire is its length (4 bytes) and that many bytes.

Source: ZooKeeper 3.8, ``zookeeper.jute``, ``BinaryInputArchive``.
"""

import re
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, TypeVar

_INT = Struct(">i")
_LONG = Struct(">q")
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf](?:[\x80-\xbf]|\Z)")
_REPLACEMENT = "\ufffd".encode()
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")

#: ``jute.maxbuffer``: the longest frame a server takes unless told otherwise.
DEFAULT_MAX_FRAME_BYTES = 0xFFFFF


class MalformedError(ValueError):
    """Bytes that are not the record they should be."""


class Reader:
    """
    A place in some bytes.

    Lengths are checked against what is there before anything is copied, so a lie about a length costs no memory.
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)

    def take(self, count: int) -> int:
        """Step over ``count`` bytes and return where they begin."""
        at = self.at
        if count < 0 or count > self.end - at:
            raise MalformedError(f"{count} bytes wanted, {self.end - at} left")
        self.at = at + count
        return at


class Field(NamedTuple):
    """How one item of a record is read and written."""

    read: Callable[[Reader], Any]
    write: Callable[[bytearray, Any], object]
    number: str = ""  # the format character of a number of fixed size


R = TypeVar("R", bound=tuple[Any, ...])

_LAYOUTS: dict[type[Any], tuple[Field, ...]] = {}
# Records of numbers only (headers, Stat) are read and written in one go: they are in every reply.
_STRUCTS: dict[type[Any], Struct] = {}


def layout(*fields: Field) -> Callable[[type[R]], type[R]]:
    """Say how the items of a record are written, in order."""

    def register(kind: type[R]) -> type[R]:
        _LAYOUTS[kind] = fields
        if all(field.number for field in fields):
            _STRUCTS[kind] = Struct(">" + "".join(field.number for field in fields))
        return kind

    return register


def decode(kind: type[R], reader: Reader) -> R:
    """
    Read one record.

    Raises:
        MalformedError: the bytes are not one.
    """
    numbers = _STRUCTS.get(kind)
    if numbers is not None:
        return kind(*numbers.unpack_from(reader.data, reader.take(numbers.size)))
    return kind(*[field.read(reader) for field in _LAYOUTS[kind]])


def encode(record: tuple[Any, ...], out: bytearray | None = None) -> bytearray:
    """Append one record to ``out`` (default: a new one) and return it."""
    out = bytearray() if out is None else out
    kind = type(record)
    numbers = _STRUCTS.get(kind)
    if numbers is not None:
        out += numbers.pack(*record)
        return out
    for field, value in zip(_LAYOUTS[kind], record, strict=True):
        field.write(out, value)
    return out


def frame(payload: bytes | bytearray) -> bytes:
    """Put the length in front."""
    return _INT.pack(len(payload)) + payload


def wrap_int(value: int) -> int:
    """Wrap as Java's int does."""
    return (value + 0x80000000) % 0x100000000 - 0x80000000


def _read_int(reader: Reader) -> int:
    value: int = _INT.unpack_from(reader.data, reader.take(4))[0]
    return value


def _write_int(out: bytearray, value: int) -> None:
    out += _INT.pack(value)


def _read_long(reader: Reader) -> int:
    value: int = _LONG.unpack_from(reader.data, reader.take(8))[0]
    return value


def _write_long(out: bytearray, value: int) -> None:
    out += _LONG.pack(value)


def _read_bool(reader: Reader) -> bool:
    return reader.data[reader.take(1)] != 0


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _read_buffer(reader: Reader) -> bytes | None:
    length = _read_int(reader)
    if length == -1:
        return None
    at = reader.take(length)
    return bytes(reader.data[at : at + length])


def _write_buffer(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += _INT.pack(-1)
    else:
        out += _INT.pack(len(value))
        out += value


def _read_nullable_text(reader: Reader) -> str | None:
    data = _read_buffer(reader)
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # Like Java, which never refuses bad UTF-8, and puts one mark for a whole encoded surrogate.
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


def _write_text(out: bytearray, value: str | None) -> None:
    if value is None:
        _write_buffer(out, None)
        return
    if not value.isascii():
        # Java's archive writes UTF-16 units, three bytes each: what is beyond U+FFFF comes out as six bytes.
        value = _ASTRAL.sub(_surrogates, value)
    _write_buffer(out, value.encode("utf-8", "surrogatepass"))


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def _read_text(reader: Reader) -> str:
    text = _read_nullable_text(reader)
    if text is None:
        raise MalformedError("a text is null")
    return text


INT = Field(_read_int, _write_int, "i")
LONG = Field(_read_long, _write_long, "q")
BOOL = Field(_read_bool, _write_bool, "?")
BUFFER = Field(_read_buffer, _write_buffer)
TEXT = Field(_read_text, _write_text)
NULLABLE_TEXT = Field(_read_nullable_text, _write_text)


def nested(kind: type[tuple[Any, ...]]) -> Field:
    """A record within a record."""
    return Field(lambda reader: decode(kind, reader), lambda out, value: encode(value, out))


def vector(item: Field) -> Field:
    """Any number of one kind of item, as a tuple; a null or negative count reads as none."""

    def read(reader: Reader) -> tuple[Any, ...]:
        count = _read_int(reader)
        if count <= 0:
            return ()
        # Every item takes at least a byte: a count of two thousand million ends here, not in the memory.
        if count > reader.end - reader.at:
            raise MalformedError(f"{count} items in {reader.end - reader.at} bytes")
        return tuple([item.read(reader) for _ in range(count)])

    def write(out: bytearray, values: tuple[Any, ...]) -> None:
        _write_int(out, len(values))
        for value in values:
            item.write(out, value)

    return Field(read, write)
