"""What the engine wants sent or closed. A driver carries it out, in order; connections are numbers that it gave."""

from dataclasses import dataclass

from zkcoord.server.codes import EventType
from zkcoord.server.records import ConnectResponse
from zkcoord.server.requests import Record


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a connect request. A session id of 0 says that the session is gone."""

    connection: int
    response: ConnectResponse


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request; ``record`` is None when the header says everything."""

    connection: int
    xid: int
    zxid: int
    error: int
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """A watch event."""

    connection: int
    type: EventType
    path: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection, after what was put out for it before. The engine has forgotten it already."""

    connection: int


Output = Accepted | Reply | Notification | Close
