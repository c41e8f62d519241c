import socket
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from kazoo.interfaces import IAsyncResult

_T = TypeVar("_T")

class AsyncResult(IAsyncResult[_T]):
    def __init__(
        self,
        handler: object,
        condition_factory: Callable[[], object],
        timeout_factory: Callable[[], BaseException],
    ) -> None: ...

def create_tcp_connection(
    module: ModuleType,
    address: tuple[str, int],
    hostname: str | None = ...,
    timeout: float | None = ...,
    use_ssl: bool = ...,
    ca: str | None = ...,
    certfile: str | None = ...,
    keyfile: str | None = ...,
    keyfile_password: str | None = ...,
    verify_certs: bool = ...,
    check_hostname: bool = ...,
    options: int | None = ...,
    ciphers: str | None = ...,
) -> socket.socket: ...
def create_tcp_socket(module: ModuleType) -> socket.socket: ...
def create_socket_pair(module: ModuleType, port: int = ...) -> tuple[socket.socket, socket.socket]: ...
def selector_select(
    rlist: list[object],
    wlist: list[object],
    xlist: list[object],
    timeout: float | None = ...,
    selectors_module: ModuleType = ...,
) -> tuple[list[object], list[object], list[object]]: ...
