import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, overload

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import ACL

_Watcher = Callable[[WatchedEvent], object]
# A listener that returns True is removed by kazoo.
_Listener = Callable[[str], object]
_Acl = Sequence[ACL] | None

class KazooClient:
    logger: logging.Logger
    handler: SequentialThreadingHandler
    auth_data: set[tuple[str, str]]
    default_acl: _Acl
    randomize_hosts: bool
    hosts: list[tuple[str, int]]
    chroot: str
    use_ssl: bool
    verify_certs: bool
    check_hostname: bool
    certfile: str | None
    keyfile: str | None
    keyfile_password: str | None
    ca: str | None
    state: str
    state_listeners: set[_Listener]
    read_only: bool | None
    last_zxid: int
    retry: Callable[..., Any]
    Lock: Callable[..., Any]
    ReadLock: Callable[..., Any]
    WriteLock: Callable[..., Any]
    Semaphore: Callable[..., Any]

    # Private: used only through zkcoord._session.kazoo_private.
    _state: str
    _live: threading.Event
    _stopped: threading.Event
    _queue: deque[tuple[Any, Any]]
    _pending: deque[tuple[Any, IAsyncResult[Any], int]]
    _data_watchers: defaultdict[str, set[_Watcher]]
    _child_watchers: defaultdict[str, set[_Watcher]]
    _session_id: int | None
    _session_passwd: bytes
    _session_timeout: int
    _connection: ConnectionHandler
    _conn_retry: KazooRetry

    def __init__(
        self,
        hosts: str | list[str] = ...,
        timeout: float = ...,
        client_id: tuple[int, bytes] | None = ...,
        handler: SequentialThreadingHandler | None = ...,
        default_acl: _Acl = ...,
        auth_data: Iterable[tuple[str, str]] | None = ...,
        sasl_options: dict[str, str] | None = ...,
        read_only: bool | None = ...,
        randomize_hosts: bool = ...,
        connection_retry: KazooRetry | dict[str, Any] | None = ...,
        command_retry: KazooRetry | dict[str, Any] | None = ...,
        logger: logging.Logger | None = ...,
        keyfile: str | None = ...,
        keyfile_password: str | None = ...,
        certfile: str | None = ...,
        ca: str | None = ...,
        use_ssl: bool = ...,
        verify_certs: bool = ...,
        check_hostname: bool = ...,
    ) -> None: ...
    @property
    def client_state(self) -> str: ...
    @property
    def client_id(self) -> tuple[int, bytes] | None: ...
    @property
    def connected(self) -> bool: ...
    def set_hosts(self, hosts: str | list[str], randomize_hosts: bool | None = ...) -> None: ...
    def add_listener(self, listener: _Listener) -> None: ...
    def remove_listener(self, listener: _Listener) -> None: ...
    def start(self, timeout: float = ...) -> None: ...
    def start_async(self) -> threading.Event: ...
    def stop(self) -> None: ...
    def restart(self) -> None: ...
    def close(self) -> None: ...
    def command(self, cmd: bytes = ...) -> str: ...
    def server_version(self, retries: int = ...) -> tuple[int, ...]: ...
    def add_auth(self, scheme: str, credential: str) -> bool: ...
    def add_auth_async(self, scheme: str, credential: str) -> IAsyncResult[bool]: ...
    def unchroot(self, path: str) -> str: ...
    def sync(self, path: str) -> str: ...
    def sync_async(self, path: str) -> IAsyncResult[str]: ...
    @overload
    def create(
        self,
        path: str,
        value: bytes = ...,
        acl: _Acl = ...,
        ephemeral: bool = ...,
        sequence: bool = ...,
        makepath: bool = ...,
        include_data: Literal[False] = ...,
    ) -> str: ...
    @overload
    def create(
        self,
        path: str,
        value: bytes = ...,
        acl: _Acl = ...,
        ephemeral: bool = ...,
        sequence: bool = ...,
        makepath: bool = ...,
        *,
        include_data: Literal[True],
    ) -> tuple[str, ZnodeStat]: ...
    @overload
    def create_async(
        self,
        path: str,
        value: bytes = ...,
        acl: _Acl = ...,
        ephemeral: bool = ...,
        sequence: bool = ...,
        makepath: bool = ...,
        include_data: Literal[False] = ...,
    ) -> IAsyncResult[str]: ...
    @overload
    def create_async(
        self,
        path: str,
        value: bytes = ...,
        acl: _Acl = ...,
        ephemeral: bool = ...,
        sequence: bool = ...,
        makepath: bool = ...,
        *,
        include_data: Literal[True],
    ) -> IAsyncResult[tuple[str, ZnodeStat]]: ...
    def ensure_path(self, path: str, acl: _Acl = ...) -> bool | str: ...
    def ensure_path_async(self, path: str, acl: _Acl = ...) -> IAsyncResult[bool | str]: ...
    def exists(self, path: str, watch: _Watcher | None = ...) -> ZnodeStat | None: ...
    def exists_async(self, path: str, watch: _Watcher | None = ...) -> IAsyncResult[ZnodeStat | None]: ...
    def get(self, path: str, watch: _Watcher | None = ...) -> tuple[bytes, ZnodeStat]: ...
    def get_async(self, path: str, watch: _Watcher | None = ...) -> IAsyncResult[tuple[bytes, ZnodeStat]]: ...
    @overload
    def get_children(
        self, path: str, watch: _Watcher | None = ..., include_data: Literal[False] = ...
    ) -> list[str]: ...
    @overload
    def get_children(
        self, path: str, watch: _Watcher | None = ..., *, include_data: Literal[True]
    ) -> tuple[list[str], ZnodeStat]: ...
    @overload
    def get_children_async(
        self, path: str, watch: _Watcher | None = ..., include_data: Literal[False] = ...
    ) -> IAsyncResult[list[str]]: ...
    @overload
    def get_children_async(
        self, path: str, watch: _Watcher | None = ..., *, include_data: Literal[True]
    ) -> IAsyncResult[tuple[list[str], ZnodeStat]]: ...
    def get_acls(self, path: str) -> tuple[list[ACL], ZnodeStat]: ...
    def get_acls_async(self, path: str) -> IAsyncResult[tuple[list[ACL], ZnodeStat]]: ...
    def set_acls(self, path: str, acls: Sequence[ACL], version: int = ...) -> ZnodeStat: ...
    def set(self, path: str, value: bytes, version: int = ...) -> ZnodeStat: ...
    def set_async(self, path: str, value: bytes, version: int = ...) -> IAsyncResult[ZnodeStat]: ...
    def delete(self, path: str, version: int = ..., recursive: bool = ...) -> bool: ...
    def delete_async(self, path: str, version: int = ...) -> IAsyncResult[bool]: ...
    def transaction(self) -> TransactionRequest: ...
    # False when the client's state makes the call end at once; None when the request was queued.
    def _call(self, request: Any, async_object: IAsyncResult[Any]) -> Literal[False] | None: ...
    def _session_callback(self, state: str) -> None: ...
    def _safe_close(self) -> None: ...

class TransactionRequest:
    client: KazooClient
    operations: list[Any]
    committed: bool
    def __init__(self, client: KazooClient) -> None: ...
    def create(
        self, path: str, value: bytes = ..., acl: _Acl = ..., ephemeral: bool = ..., sequence: bool = ...
    ) -> None: ...
    def delete(self, path: str, version: int = ...) -> None: ...
    def set_data(self, path: str, value: bytes, version: int = ...) -> None: ...
    def check(self, path: str, version: int) -> None: ...
    def commit(self) -> list[Any]: ...
    def commit_async(self) -> IAsyncResult[list[Any]]: ...
    def __enter__(self) -> TransactionRequest: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...
