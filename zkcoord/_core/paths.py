"""
Paths of locks: normalised once at the edge, and a reversible encoding for arbitrary text.

The forbidden characters are ZooKeeper's (``PathUtils.validatePath``). That check runs on UTF-16 code units,
so every character outside the basic plane (an emoji, say) is refused by the server too.
"""

import re

from zkcoord.errors import ConfigError

#: Longest path accepted, in UTF-8 bytes. The server's packet limit is 1 MiB; a path is sent several times in one
#: packet of a transaction, and no real name comes near this.
MAX_PATH_BYTES = 65_536

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_MUST_QUOTE = re.compile("[%/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_PERCENT = re.compile("(?:%[0-9A-F]{2})+")


def normalize(path: object, argument: str = "path") -> str:
    """
    Return the one spelling of a lock's path: absolute, no trailing and no doubled slashes.

    Args:
        path: a ``str``; a missing leading, a trailing and doubled slashes are accepted.
        argument: name used in the error.

    Raises:
        ConfigError: not a ``str``, empty or only slashes, a ``.`` or ``..`` segment, a character that ZooKeeper
            refuses, or longer than 64 KiB.
    """
    if not isinstance(path, str):
        raise ConfigError(f"{argument} must be str, not {type(path).__name__}: {path!r:.80}")
    segments = [segment for segment in path.split("/") if segment]
    if not segments:
        raise ConfigError(f"{argument} is empty: name the lock, for example '/locks/orders'")
    for segment in segments:
        if segment in (".", ".."):
            raise ConfigError(
                f"{argument} {path!r:.80} has a {segment!r} segment, which ZooKeeper refuses;"
                " encode names that come from data with zkcoord.quote()"
            )
    bad = _FORBIDDEN.search(path)
    if bad:
        raise ConfigError(
            f"{argument} {path!r:.80} has the character {bad.group()!r} at {bad.start()}, which ZooKeeper"
            " refuses; encode names that come from data with zkcoord.quote()"
        )
    normal = "/" + "/".join(segments)
    if len(normal.encode()) > MAX_PATH_BYTES:
        raise ConfigError(
            f"{argument} is {len(normal.encode())} bytes long; at most {MAX_PATH_BYTES} are accepted"
        )
    return normal


def parent(path: str) -> str:
    """Return the parent of a normalised path; the parent of ``/a`` is ``/``."""
    return path.rpartition("/")[0] or "/"


def quote(text: str) -> str:
    """
    Encode any text as one path segment, reversibly and without collisions.

    Characters that a segment cannot hold (``/``, control characters, those outside the basic plane, ``%`` itself)
    become ``%XX`` per UTF-8 byte; ``.`` and ``..`` become ``%2E`` and ``%2E%2E``; the empty text becomes ``%``.
    Everything else stays readable. Different texts never give the same segment.

    Args:
        text: any ``str``, lone surrogates included.

    Returns:
        A non-empty segment without ``/``; :func:`unquote` gives the text back.

    Raises:
        ConfigError: not a ``str``.
    """
    if not isinstance(text, str):
        raise ConfigError(f"quote() takes str, not {type(text).__name__}: {text!r:.80}")
    if not text:
        return "%"
    if text in (".", ".."):
        return text.replace(".", "%2E")
    return _MUST_QUOTE.sub(lambda match: _percent(match.group()), text)


def unquote(segment: str) -> str:
    """
    Undo :func:`quote`.

    Raises:
        ConfigError: ``segment`` is not something that :func:`quote` returns.
    """
    if not isinstance(segment, str):
        raise ConfigError(f"unquote() takes str, not {type(segment).__name__}: {segment!r:.80}")
    if segment == "%":
        return ""
    try:
        text = _PERCENT.sub(lambda match: _unpercent(match.group()), segment)
    except UnicodeDecodeError:
        text = ""
    if not text or quote(text) != segment:
        raise ConfigError(f"not made by zkcoord.quote(): {segment!r:.80}")
    return text


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _unpercent(escapes: str) -> str:
    return bytes.fromhex(escapes.replace("%", "")).decode("utf-8", "surrogatepass")
