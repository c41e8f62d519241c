"""What a grant is worth, for threads and for tasks alike: all that needs no answer from the server."""

import os
import warnings
from collections.abc import Callable
from typing import Any, Self

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import CheckVersion, GetChildren, Transaction

from zkcoord._arguments import seconds
from zkcoord._core.grant import LossReason, Status
from zkcoord._core.queue import conflicts_of
from zkcoord._session import process
from zkcoord._session.fenced import fence_error, first_refusal
from zkcoord._session.hold import Hold
from zkcoord._session.registry import Registry
from zkcoord._session.requests import LinkLostError
from zkcoord._session.session import Session
from zkcoord._session.wire import USUAL_REQUEST_BYTES
from zkcoord._spec import AcquireCall
from zkcoord.errors import (
    ConfigError,
    ConnectionLostError,
    GrantLostError,
    NotHeldError,
    QueueConflictError,
    ZkCoordError,
)

#: Runs a callback of the user's, wherever that is done.
Run = Callable[[Callable[[], object]], object]


class BaseGrant:
    """One acquire's claim on a lock: the part that is the same for threads and for asyncio."""

    def __init__(self, ask: AcquireCall, session: Session, hold: Hold) -> None:
        # While the list is empty the grant is released; until it is complete, there is nothing to warn of.
        self._claim: list[Hold] = []
        self.path = ask.spec.title
        self.name = next(node.name for node in hold.nodes if node.directory == ask.spec.path)
        self.token = hold.token
        self._coordinator = ask.coordinator
        self._session = session
        self._spec = ask.spec
        self._hold = hold
        self._pid = os.getpid()
        self._was_lost = False
        self._was_deleted = False  # by somebody else, and found so only by our own delete
        self._claim = ask.counted

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} token={self.token} {self.status.value}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied, since its hold belongs to this process: hand over"
            f" its token ({self.token}) as a fence, or acquire {self.path} where it is needed"
        )

    def __del__(self) -> None:
        is_begun = "_claim" in self.__dict__  # not when Ctrl-C struck at the entry of the constructor
        if is_begun and not self.is_released and self._pid == os.getpid() and self._hold.loss() is None:
            warnings.warn(
                f"{self!r} was dropped without release() and stays held", ResourceWarning, stacklevel=2
            )

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing token of each path; one entry except for a multi-lock, whose tokens are all the same."""
        return {path: self.token for path, _ in self._spec.places}

    @property
    def status(self) -> Status:
        """What the grant is worth now: ``HELD``, ``UNCERTAIN``, ``LOST`` or ``RELEASED``. Local, no I/O."""
        self._check_process()
        return Status.RELEASED if self.is_released else self._hold.status()

    @property
    def is_released(self) -> bool:
        """Whether this grant was given back."""
        return not self._claim

    @property
    def loss_reason(self) -> str | None:
        """Why the grant is lost, one of the reasons listed at `GrantLostError`; None while it is not. Local, no I/O."""
        self._check_process()
        reason = self._hold.loss()
        return None if self.is_released or reason is None else reason.value

    def remaining(self) -> float:
        """Seconds for which it is surely held, if nothing is heard any more; 0 when it is not. Local, no I/O."""
        self._check_process()
        return 0.0 if self.is_released else self._hold.remaining()

    def check(self, min_remaining: float = 0.0) -> None:
        """
        Return if it is surely held, for at least `min_remaining` more seconds. Local, no I/O.

        Raises:
            GrantLostError: lost, or less is left.
            NotHeldError: this grant was released.
        """
        wanted_s = seconds("min_remaining", min_remaining)
        self._check_process()
        if self.is_released:
            raise NotHeldError(self.path, "this grant was released")
        reason = self._hold.loss()
        if reason is not None:
            raise self._lost_error(reason)
        left_s = self._hold.remaining()
        if left_s < wanted_s:
            raise GrantLostError(
                self.path,
                self.token,
                LossReason.DEADLINE.value,
                f"surely for {left_s:.2f} s only, and {wanted_s:.2f} s were asked for; a longer session timeout gives"
                " more",
                is_still_held=True,
            )

    def _drop(self) -> None:
        """Give it back, if that is still to be done, without waiting. For zkcoord itself; may be called again."""
        if self._pid != os.getpid():
            return
        give_back(self._coordinator.registry, self._session, self._claim, self._hold)

    def _run_when_lost(self, callback: Callable[[Self, str], object], run: Run) -> Callable[[], None]:
        check_callback(callback)
        self._check_process()

        def lost(reason: LossReason) -> None:
            if not self.is_released or self._was_lost:
                run(lambda: callback(self, reason.value))

        return self._hold.on_lost(lost)

    def _run_when_revoked(self, callback: Callable[[Self], object], run: Run) -> Callable[[], None]:
        check_callback(callback)
        self._check_process()

        def asked() -> None:
            if not self.is_released:
                run(lambda: callback(self))

        return self._hold.on_revoke(asked)

    def _look_at_members(self) -> Transaction:
        """Return the request whose answers `_check_members` takes."""
        return Transaction([CheckVersion(self._full(node.path), -1) for node in self._hold.nodes])

    def _check_members(self, answers: list[Any]) -> None:
        refused = first_refusal(answers)
        if refused is not None:
            raise fence_error(self._hold, refused) from refused

    def _look_at_queues(self) -> list[tuple[str, str, GetChildren]]:
        """Return directory and our name in it, and the request whose answer `_check_queue` takes."""
        # A multi-lock's hold may have more directories than this grant, which is of one path then.
        own = {path for path, _ in self._spec.places}
        return [
            (node.directory, node.name, GetChildren(self._full(node.directory), None))
            for node in self._hold.nodes
            if node.directory in own
        ]

    def _check_queue(self, directory: str, name: str, children: list[str]) -> None:
        conflicts = conflicts_of(children, name, dict(self._spec.places)[directory])
        if conflicts:
            raise QueueConflictError(directory, conflicts)

    def _unanswered(self, error: LinkLostError | KazooException, request: Any) -> ZkCoordError:
        """
        Return the error for a question that got no answer, or none to be used.

        Raises:
            GrantLostError, NotHeldError: the grant itself is gone.
        """
        if not isinstance(error, LinkLostError):
            return ConnectionLostError(f"the server refused to answer about {self.path}: {error!r}")
        self.check()
        size = len(request.serialize()) if error.maybe_applied else 0
        if size >= USUAL_REQUEST_BYTES:
            return ConfigError(
                f"the connection broke under one request of {size} bytes; servers take {USUAL_REQUEST_BYTES}"
                " unless jute.maxbuffer says otherwise, and hang up without a word: write less at a time"
            )
        return ConnectionLostError(
            f"no answer about {self.path} in time; the grant itself is {self.status.value} for"
            f" {self.remaining():.2f} s more",
            maybe_applied=error.maybe_applied,
        )

    def _loss(self, before: LossReason | None) -> LossReason | None:
        """Return why it was lost: as was known before the release, or as only the release has found."""
        return LossReason.DELETED if before is None and self._was_deleted else before

    def _raise_loss(self, before: LossReason | None, cause: BaseException | None = None) -> None:
        reason = self._loss(before)
        if reason is not None:
            raise self._lost_error(reason) from cause

    def _note_loss(self, error: BaseException, before: LossReason | None) -> None:
        reason = self._loss(before)
        if reason is not None:
            error.add_note(
                f"the grant of {self.path} (token {self.token}) was lost meanwhile: {reason.value}"
            )

    def _check_process(self) -> None:
        process.check(self._pid, f"this Grant of {self.path}")

    def _lost_error(self, reason: LossReason) -> GrantLostError:
        return GrantLostError(self.path, self.token, reason.value)

    def _full(self, path: str) -> str:
        return (self._session.client.chroot or "") + path


def give_back(registry: Registry, session: Session, claim: list[Hold], hold: Hold) -> None:
    """Give back the count that a grant has, if it has it still, and end the hold with its last; does not wait."""
    registry.leave(claim)
    if not hold.grants:
        registry.forget(hold)
        session.release(hold)


def check_callback(callback: object) -> None:
    """
    Check a callback.

    Raises:
        ConfigError: it cannot be called.
    """
    if not callable(callback):
        raise ConfigError(f"callback must be callable, not {type(callback).__name__}")
