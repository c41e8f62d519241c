"""One client connection's socket and buffers, as the transport keeps them."""

import selectors
import socket

from zkcoord.server.codes import NOTIFICATION_XID, SYNC_CONNECTED
from zkcoord.server.faults import Rule
from zkcoord.server.outputs import Accepted, Notification, Reply
from zkcoord.server.records import WatcherEvent
from zkcoord.server.requests import encode_reply
from zkcoord.server.wire import encode, frame


class Link:
    """One client connection's socket and buffers."""

    __slots__ = (
        "held_until",
        "inbox",
        "is_closing",
        "is_connected",
        "is_modern",
        "is_paused",
        "is_silenced",
        "judged",
        "mask",
        "number",
        "opened_at",
        "outbox",
        "slice_bytes",
        "sock",
        "stalled_by",
    )

    def __init__(self, number: int, sock: socket.socket, opened_at: float) -> None:
        self.number = number
        self.sock = sock
        self.opened_at = opened_at
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.mask = selectors.EVENT_READ
        self.is_connected = False  # its connect request was read
        self.is_modern = True  # it wants readOnly in the answer
        self.is_closing = False  # close as soon as the outbox is empty
        self.is_paused = False  # requests wait in the inbox until it has taken its answers
        self.is_silenced = False  # by a rule for whole connections
        self.stalled_by: Rule | None = None
        self.held_until: float | None = None
        self.judged = False  # the frame in front was delayed: handle it now
        self.slice_bytes = 0

    @property
    def is_held(self) -> bool:
        """Whether its next request has to wait."""
        return self.stalled_by is not None or self.held_until is not None

    @property
    def is_mute(self) -> bool:
        """Whether nothing may be sent now."""
        return self.is_silenced or self.stalled_by is not None

    def encode(self, output: Accepted | Reply | Notification) -> bytes:
        """Return an output as a frame for this client."""
        if isinstance(output, Reply):
            return encode_reply(output.xid, output.zxid, output.error, output.record)
        if isinstance(output, Notification):
            event = WatcherEvent(output.type, SYNC_CONNECTED, output.path)
            return encode_reply(NOTIFICATION_XID, -1, 0, event)
        answer = encode(output.response)
        return frame(answer + b"\0" if self.is_modern else answer)  # readOnly: no

    def drain(self) -> None:
        """
        Send what is in the outbox, as far as the socket takes it.

        Raises:
            BlockingIOError: it takes no more now.
            OSError: the connection is lost.
        """
        outbox = self.outbox
        if self.slice_bytes:
            if outbox:  # one piece a turn: the next goes out when the selector says so
                sent = self.sock.send(outbox[: self.slice_bytes])
                del outbox[:sent]
            return
        while outbox:
            sent = self.sock.send(outbox)
            del outbox[:sent]

    def watch(self, selector: selectors.BaseSelector, mask: int) -> None:
        """Tell the selector what to wait for; 0 = nothing."""
        if mask == self.mask:
            return
        if not self.mask:
            selector.register(self.sock, mask, self)
        elif not mask:
            selector.unregister(self.sock)
        else:
            selector.modify(self.sock, mask, self)
        self.mask = mask
