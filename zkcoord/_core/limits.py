"""The recorded limit of a semaphore: ``{"v":1,"permits":n}`` as the data of its directory."""

import json

#: Most permits a semaphore can have.
MAX_PERMITS = 2**31 - 1

#: Data longer than this are not ours, and are not parsed.
_MAX_BYTES = 4_096


def encode_limit(permits: int) -> bytes:
    """Return the directory's data for a limit."""
    return json.dumps({"v": 1, "permits": permits}, separators=(",", ":")).encode()


def decode_limit(data: bytes) -> int | None:
    """Read the limit from the directory's data; None if there are no data, 0 if they are somebody else's."""
    if not data:
        return None
    if len(data) > _MAX_BYTES:
        return 0
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return 0
    limit = value.get("permits") if isinstance(value, dict) else None
    is_limit = isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit <= MAX_PERMITS
    return limit if is_limit else 0
