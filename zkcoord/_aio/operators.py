"""What an operator does to holders: ask them to give up, and break them. For asyncio."""

from typing import Any

from kazoo.exceptions import BadVersionError, KazooException, NoNodeError
from kazoo.protocol.serialization import Delete, GetData, SetData

from zkcoord._aio.driver import Signal, call, session_of
from zkcoord._members import Member
from zkcoord._refusals import refused
from zkcoord._session import clock
from zkcoord._session.guard import REVOKE
from zkcoord._session.identity import describe
from zkcoord._session.log import get_logger
from zkcoord._session.requests import LinkLostError
from zkcoord._session.wire import full_path
from zkcoord._spec import unreachable
from zkcoord.coordinator import Coordinator
from zkcoord.errors import ConnectionLostError

log = get_logger("operator")

#: Longest sleep between two looks at a member that is watched: a broken connection takes the watch along, silently.
_LOOK_AGAIN_S = 1.0


async def ask_back(coordinator: Coordinator, holder: Member, give_up: float) -> bool:
    """
    Write the revocation request into a holder's member, as Curator's ``Revoker`` does.

    Returns:
        False when the member was gone.
    """
    path = f"{holder.path}/{holder.name}"
    try:
        await _call(coordinator, SetData(_full(coordinator, path), REVOKE, -1), path, give_up)
    except NoNodeError:
        return False
    log.warning("revoke.requested", path=path, token=holder.token, holder=describe(holder.name, holder.raw))
    return True


async def wait_gone(coordinator: Coordinator, holder: Member, give_up: float) -> bool:
    """Wait until a member is gone; False when the time is up."""
    session = await session_of(coordinator)
    path = f"{holder.path}/{holder.name}"
    while True:
        changed = Signal()
        gone: list[bool] = []

        def looked(
            reply: object,
            error: Exception | None,
            changed: Signal = changed,
            gone: list[bool] = gone,
        ) -> None:
            if reply is None and error is None:
                gone.append(True)
                changed.set()

        def fired(is_deleted: bool, changed: Signal = changed, gone: list[bool] = gone) -> None:
            if is_deleted:
                gone.append(True)
            changed.set()

        subscription = session.watches.get(path, looked, fired)
        try:
            await changed.wait(min(give_up, clock.now() + _LOOK_AGAIN_S))
        finally:
            session.watches.release(subscription)
        if gone:
            return True
        if clock.now() >= give_up:
            return False


async def break_member(coordinator: Coordinator, holder: Member, give_up: float) -> bool:
    """
    Delete a holder's member, if it is still the one with this token.

    The version that was read is deleted, so that the audit says what was there; who writes in between is read again.

    Returns:
        False when it was gone, or is another one.
    """
    path = f"{holder.path}/{holder.name}"
    full = _full(coordinator, path)
    try:
        while True:
            data, stat = await _call(coordinator, GetData(full, None), path, give_up)
            if stat.czxid != holder.token:
                return False
            try:
                await _call(coordinator, Delete(full, stat.version), path, give_up)
            except BadVersionError:
                continue
            described = describe(holder.name, data if data != REVOKE else holder.raw)
            log.warning("holder.broken", path=path, token=holder.token, holder=described)
            return True
    except NoNodeError:
        return False


async def _call(coordinator: Coordinator, request: Any, path: str, give_up: float) -> Any:
    try:
        return await call(await session_of(coordinator), request, give_up)
    except LinkLostError as error:
        raise ConnectionLostError(unreachable(coordinator), error.maybe_applied) from error
    except (NoNodeError, BadVersionError):
        raise
    except KazooException as error:
        raise refused(path, error, coordinator) from error


def _full(coordinator: Coordinator, path: str) -> str:
    return full_path(coordinator.client, path)
