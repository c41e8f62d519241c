"""The coordinator that locks without ``client=`` share: one per process, made when it is first needed."""

import threading
from typing import Any

from zkcoord._session import process
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConfigError

_lock = threading.Lock()
_options: dict[str, Any] = {}
_coordinator: Coordinator | None = None


def configure(**options: Any) -> None:
    """
    Say how the default coordinator is made. Call it once, before the first lock without ``client=`` is used.

    Nothing is connected yet. A forked child inherits the options, and makes a coordinator of its own.

    Args:
        **options: those of `Coordinator`, above all ``hosts`` and ``session_timeout``; without ``hosts`` the
            environment variable ``ZKCOORD_HOSTS`` counts, else ``127.0.0.1:2181``.

    Raises:
        ConfigError: an unknown option or a wrong value, or the default coordinator is in use already.
    """
    global _options
    with _lock:
        if _coordinator is not None:
            raise ConfigError("configure() must come before the first use of a lock without client=")
        unknown = set(options) - set(Coordinator.__init__.__kwdefaults__ or {}) - {"hosts"}
        if unknown:
            raise ConfigError(f"configure() does not know {', '.join(sorted(unknown))}")
        Coordinator(**options).close()  # checks every value, and connects to nothing
        _options = dict(options)


def default_coordinator() -> Coordinator:
    """Return this process's default coordinator."""
    global _coordinator
    found = _coordinator
    if found is None or found.is_closed:
        with _lock:
            found = _coordinator
            if found is None or found.is_closed:
                found = _coordinator = Coordinator(**_options)
    return found


def _forget() -> None:
    """In a forked child: the parent's coordinator is not ours. The lock may have been held by a thread that is gone."""
    global _coordinator, _lock
    _coordinator = None
    _lock = threading.Lock()


process.in_child(_forget)
