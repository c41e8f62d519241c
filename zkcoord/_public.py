"""Everything that `zkcoord` makes public, loaded as one."""

from zkcoord._aio.grants import AsyncGrant
from zkcoord._aio.locks import AsyncZkLock
from zkcoord._aio.multi import AsyncZkMultiLock
from zkcoord._aio.read_write import AsyncZkReadWriteLock
from zkcoord._aio.semaphore import AsyncZkSemaphore
from zkcoord._core.grant import Status
from zkcoord._core.paths import quote, unquote
from zkcoord._default import configure
from zkcoord._locked import locked
from zkcoord._spec import DEFAULT
from zkcoord._sync.commit import hold_until_commit, release_after_commit
from zkcoord._sync.grants import Grant
from zkcoord._sync.locks import ZkLock
from zkcoord._sync.multi import ZkMultiLock
from zkcoord._sync.read_write import ZkReadWriteLock
from zkcoord._sync.semaphore import ZkSemaphore
from zkcoord.coordinator import Coordinator
from zkcoord.errors import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AlreadyHeldError,
    ConfigError,
    ConnectionLostError,
    ForeignProcessError,
    GrantLostError,
    LimitMismatchError,
    NotHeldError,
    QueueConflictError,
    SequenceExhaustedError,
    TransactionError,
    UpgradeError,
    ZkCoordError,
)
from zkcoord.queues import Member

__all__ = [
    "DEFAULT",
    "AcquireCancelledError",
    "AcquireTimeoutError",
    "AlreadyHeldError",
    "AsyncGrant",
    "AsyncZkLock",
    "AsyncZkMultiLock",
    "AsyncZkReadWriteLock",
    "AsyncZkSemaphore",
    "ConfigError",
    "ConnectionLostError",
    "Coordinator",
    "ForeignProcessError",
    "Grant",
    "GrantLostError",
    "LimitMismatchError",
    "Member",
    "NotHeldError",
    "QueueConflictError",
    "SequenceExhaustedError",
    "Status",
    "TransactionError",
    "UpgradeError",
    "ZkCoordError",
    "ZkLock",
    "ZkMultiLock",
    "ZkReadWriteLock",
    "ZkSemaphore",
    "configure",
    "hold_until_commit",
    "locked",
    "quote",
    "release_after_commit",
    "unquote",
]
