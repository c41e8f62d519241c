"""
Striped lock: a fixed number of locks for any number of keys.

**Problem.** With a lock for each of millions of keys the server makes and removes millions of directories; with one
lock for all everybody waits. Stripes are in between: each key belongs to one of n locks.

**Guarantee.** That of `ZkLock`, for each stripe. The same key belongs to the same stripe in every process and version,
by BLAKE2 of its UTF-8 text. All users of a path use the same number of stripes, or get `CountMismatchError`.

**Cost.** Those of a `ZkLock`, and one round trip (two for the very first) when an object is used for the first time.

**Not done.** Two keys of one stripe wait for each other. A thread that holds one may take another of the same stripe,
since locks are re-entrant; two threads that take two keys in different orders may dead-lock, as with any locks.
"""

import hashlib

from recipes._znodes import (
    DEFAULT_TIMEOUT_S,
    Client,
    Found,
    Record,
    Znodes,
    check_count,
    check_path,
    check_timeout,
    is_over,
)
from recipes._znodes_aio import AsyncZnodes
from recipes.errors import CountMismatchError
from zkcoord import AsyncZkLock, ConfigError, ConnectionLostError, ZkLock

#: Most stripes: each is a directory while it is used.
MOST_STRIPES = 65_536


class _Striped:
    """What both front ends have: the arguments, and which stripe a key belongs to."""

    def __init__(self, path: str, stripes: int, *, client: Client, timeout: float | None) -> None:
        self.path = check_path(path)
        self.stripes = check_count("stripes", stripes, MOST_STRIPES)
        self._client = client
        self._timeout = timeout
        check_timeout(timeout)
        self._record = Record(self.path, "striped-lock")
        self._is_agreed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} of {self.stripes}>"

    def stripe(self, key: str) -> int:
        """Return the number of a key's stripe, from 0. No I/O."""
        if not isinstance(key, str):
            raise ConfigError(f"key must be str, not {type(key).__name__}")
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.stripes

    def _place(self, key: str) -> str:
        return f"{self.path}/{self.stripe(key):05d}"

    def _agree(self, found: Found) -> bool:
        """Compare the count with the one on the server; False when there is none yet."""
        fields = self._record.found(found)
        if fields is None:
            return False
        if fields.get("stripes") != self.stripes:
            raise CountMismatchError(self.path, self.stripes, int(fields.get("stripes", 0)), "stripes")
        self._is_agreed = True
        return True


class StripedLock(_Striped):
    """
    `stripes` locks under `path`.

    Args:
        path: their directory, which remembers the count.
        stripes: how many; the same for all users.
        client: a `Coordinator` or a started `KazooClient`; None = the default coordinator.
        timeout: seconds that ``with`` waits for a lock; None = for ever.

    Raises:
        ConfigError: an argument is wrong.

    Safety: may be shared between threads.
    """

    def __init__(
        self, path: str, stripes: int, *, client: Client = None, timeout: float | None = None
    ) -> None:
        super().__init__(path, stripes, client=client, timeout=timeout)
        self._znodes = Znodes(client)

    def lock(self, key: str, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> ZkLock:
        """
        Return the lock of a key, to be used as any `ZkLock`.

        Args:
            key: any text.
            timeout: seconds for comparing the count with the server's, with the first key only.

        Raises:
            CountMismatchError: others use this path with another number of stripes.
            ConnectionLostError: no answer in time.
            QueueConflictError: the path is used for something else.
        """
        place, give_up = self._place(key), check_timeout(timeout)
        while not self._is_agreed:
            found = self._znodes.get(self.path, give_up)
            if self._agree(found):
                break
            data = self._record.encode(stripes=self.stripes)
            try:
                if found is None:
                    self._znodes.create(self.path, data, give_up)
                else:
                    self._znodes.set(self.path, data, found[1].version, give_up)
            except ConnectionLostError:  # whoever wrote it, it is read next
                if is_over(give_up):
                    raise
        return ZkLock(place, client=self._client, timeout=self._timeout)


class AsyncStripedLock(_Striped):
    """`StripedLock` for tasks: the same arguments and errors; ``async with await stripes.lock(key) as grant:``."""

    def __init__(
        self, path: str, stripes: int, *, client: Client = None, timeout: float | None = None
    ) -> None:
        super().__init__(path, stripes, client=client, timeout=timeout)
        self._znodes = AsyncZnodes(client)

    async def lock(self, key: str, *, timeout: float | None = DEFAULT_TIMEOUT_S) -> AsyncZkLock:
        """Return the lock of a key. Raises as `StripedLock.lock`."""
        place, give_up = self._place(key), check_timeout(timeout)
        while not self._is_agreed:
            found = await self._znodes.get(self.path, give_up)
            if self._agree(found):
                break
            data = self._record.encode(stripes=self.stripes)
            try:
                if found is None:
                    await self._znodes.create(self.path, data, give_up)
                else:
                    await self._znodes.set(self.path, data, found[1].version, give_up)
            except ConnectionLostError:  # whoever wrote it, it is read next
                if is_over(give_up):
                    raise
        return AsyncZkLock(place, client=self._client, timeout=self._timeout)


def example() -> None:
    """Lock customers, of whom there are many, on 64 stripes."""
    customers = StripedLock("/examples/customers", 64, timeout=5.0)
    with customers.lock("customer-4711") as grant:
        print("stripe", customers.stripe("customer-4711"), "token", grant.token)


if __name__ == "__main__":
    example()
