"""
Logging: structlog events bound onto the stdlib loggers ``zkcoord.*``.

An application that configured nothing sees warnings on stderr as from any library, and nothing on stdout. Node data and
credentials are never logged. kazoo's own DEBUG records print whole requests, credentials included, so the client that
zkcoord makes logs through a logger that drops them.
"""

import logging
from typing import Any, cast

import structlog


def _render(logger: Any, method: str, event: structlog.typing.EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """Give the stdlib record a readable text, and the event's fields as attributes for structured handlers."""
    exc_info = event.pop("exception", None)
    name = str(event.get("event"))
    fields = {key: value for key, value in event.items() if key != "event"}
    pairs = " ".join(f"{key}={value!r}" for key, value in fields.items())
    text = f"{name} {pairs}".rstrip()
    if exc_info:
        text = f"{text}\n{exc_info}"
    return (text,), {"extra": {"zkcoord_event": name, "zkcoord_fields": fields}}


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the structlog logger for ``zkcoord.<name>``, independent of the application's structlog set-up."""
    logger = structlog.wrap_logger(
        logging.getLogger(f"zkcoord.{name}"),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _render,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return cast(structlog.stdlib.BoundLogger, logger)


class KazooLog:
    """
    The logger handed to our own KazooClient: drops what may hold credentials, remembers the last warning.

    Attributes:
        last_warning: text of kazoo's newest warning, such as "Cannot resolve zk1: …"; empty if none. It tells a user
            whose acquire timed out why there is no connection.
    """

    def __init__(self) -> None:
        self.last_warning = ""
        # A Logger of its own, not a shared named one: the filter and the memory belong to this client.
        self.logger = logging.Logger("zkcoord.kazoo", level=logging.INFO)
        self.logger.parent = logging.getLogger("zkcoord")
        self.logger.addFilter(self._keep)

    def _keep(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return False
        if record.levelno >= logging.WARNING:
            self.last_warning = record.getMessage()
            record.levelno, record.levelname = (
                logging.INFO,
                "INFO",
            )  # a reconnect is routine; losses are our events
        return logging.getLogger("zkcoord.kazoo").isEnabledFor(record.levelno)
