"""
Sessions: ids, passwords, negotiated timeouts, and expiry by time.

A session is due at the end of the tick in which its timeout ends, as in the real server, so it lives up to a tick
longer than its timeout. The engine ends due sessions; here nothing happens by itself.

Source: ZooKeeper 3.8, ``SessionTrackerImpl``, ``ExpiryQueue``.
"""

import hashlib
import hmac
from dataclasses import dataclass

from zkcoord.server.codes import Code, OperationError

PASSWORD_BYTES = 16
NO_PASSWORD = bytes(PASSWORD_BYTES)


@dataclass(slots=True)
class Session:
    """
    A live session.

    Attributes:
        id: its number.
        timeout_ms: as negotiated at the latest connect.
        owner: the server it is connected to; requests from another are refused.
        due_ms: end of the tick in which it expires.
    """

    id: int
    timeout_ms: int
    owner: str | None
    due_ms: int


class SessionTracker:
    """
    All live sessions.

    Args:
        tick_ms: length of a tick.
        first_id: the first session's id.
        secret: what passwords are made of, together with the id.
    """

    def __init__(self, tick_ms: int, first_id: int, secret: bytes) -> None:
        self.sessions: dict[int, Session] = {}
        self._tick_ms = tick_ms
        self._next_id = first_id
        self._secret = secret
        self._due: dict[int, dict[int, None]] = {}

    def password(self, session_id: int) -> bytes:
        """Return a session's password."""
        text = session_id.to_bytes(8, "big", signed=True)
        return hashlib.blake2b(text, key=self._secret, digest_size=PASSWORD_BYTES).digest()

    def is_password(self, session_id: int, password: bytes | None) -> bool:
        """Whether this is the session's password. Says nothing about whether the session lives."""
        return password is not None and hmac.compare_digest(password, self.password(session_id))

    def take_id(self) -> int:
        """Return an id for a new session."""
        session_id = self._next_id
        self._next_id += 1
        return session_id

    def open(self, session_id: int, timeout_ms: int, owner: str, now_ms: int) -> None:
        """Start to track a session."""
        self.sessions[session_id] = Session(session_id, timeout_ms, owner, 0)
        self.touch(session_id, timeout_ms, now_ms)

    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> bool:
        """Note a sign of life; False when the session is gone."""
        session = self.sessions.get(session_id)
        if session is None:
            return False
        session.timeout_ms = timeout_ms
        due_ms = ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms
        if due_ms != session.due_ms:
            self._forget_due(session)
            session.due_ms = due_ms
            self._due.setdefault(due_ms, {})[session_id] = None
        return True

    def move(self, session_id: int, owner: str) -> None:
        """Note that a session is now connected to another server."""
        self.sessions[session_id].owner = owner

    def check(self, session_id: int, owner: str) -> None:
        """
        Check that a request may be handled.

        Raises:
            OperationError: session expired, or moved to another server.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise OperationError(Code.SESSION_EXPIRED)
        if session.owner != owner:
            raise OperationError(Code.SESSION_MOVED)

    def end(self, session_id: int) -> None:
        """Stop to track a session. Its ephemeral nodes are a transaction's business."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._forget_due(session)

    def due(self, now_ms: int) -> list[int]:
        """Return the ids of sessions that have expired, the longest overdue first."""
        ticks = sorted(due_ms for due_ms in self._due if due_ms <= now_ms)
        return [session_id for due_ms in ticks for session_id in self._due[due_ms]]

    def next_due_ms(self) -> int | None:
        """When the next session may expire; None without sessions."""
        return min(self._due, default=None)

    def by_due(self) -> list[tuple[int, list[int]]]:
        """Return the ids by the time they are due, earliest first, for people."""
        return [(due_ms, list(self._due[due_ms])) for due_ms in sorted(self._due)]

    def _forget_due(self, session: Session) -> None:
        ids = self._due.get(session.due_ms)
        if ids is not None and session.id in ids:
            del ids[session.id]
            if not ids:
                del self._due[session.due_ms]
