"""
Recording a semaphore's limit in a directory that is there already, without data.

It may be a container that some lock has made, which the server removes when nobody has used it for a while, and the
limit with it. No request tells. So it is replaced by a persistent one, in one transaction with our own member; that
fails where anybody else is in it, or we may not, and then the limit is written into the directory as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kazoo.exceptions import BadVersionError, NoNodeError
from kazoo.protocol.serialization import Create, Delete, GetACL, GetData, SetData, Transaction
from kazoo.security import ACL

from zkcoord._core.limits import decode_limit, encode_limit
from zkcoord._session.requests import Requests


def record_limit(
    requests: Requests,
    path: str,
    mine: Sequence[str],
    limit: int,
    on_done: Callable[[bool, Exception | None], None],
) -> None:
    """
    Record the limit where no data are; whoever is first wins, so read afterwards what is recorded. Never blocks.

    Args:
        path: the directory, with the chroot.
        mine: our members in it, which go along when it is replaced.
        on_done: called once. Whether it was replaced, and what the server refused; None also when others were faster.
    """

    def written(stat: Any, error: Exception | None) -> None:
        is_late = isinstance(error, BadVersionError | NoNodeError)
        on_done(False, None if is_late else error)

    def read(reply: tuple[bytes, Any] | None, error: Exception | None) -> None:
        if reply is None or decode_limit(reply[0]) is not None:
            written(None, error)
            return
        version = reply[1].version

        def replaced(results: list[Any] | None, error: Exception | None) -> None:
            if results is None:
                on_done(False, error)
            elif any(isinstance(result, Exception) for result in results):
                requests.submit(SetData(path, encode_limit(limit), version), written, is_confirmed=True)
            else:
                on_done(True, None)

        def seen(answer: tuple[list[ACL], Any] | None, error: Exception | None) -> None:
            if answer is None:  # without READ we could not keep its acl
                requests.submit(SetData(path, encode_limit(limit), version), written, is_confirmed=True)
                return
            create = Create(path, encode_limit(limit), answer[0], 0)
            deletes = [Delete(member, -1) for member in mine]
            request = Transaction([*deletes, Delete(path, version), create])
            requests.submit(request, replaced, is_confirmed=True)

        requests.submit(GetACL(path), seen)

    requests.submit(GetData(path, None), read)
