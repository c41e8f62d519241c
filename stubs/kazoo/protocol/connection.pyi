import logging
import socket
import threading
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry

class ConnectionHandler:
    client: KazooClient
    handler: SequentialThreadingHandler
    retry_sleeper: KazooRetry
    logger: logging.Logger
    connection_closed: threading.Event
    connection_stopped: threading.Event
    ping_outstanding: threading.Event
    sasl_options: dict[str, str] | None
    _read_sock: socket.socket | None
    _write_sock: socket.socket | None
    _socket: socket.socket | None
    _xid: int | None
    _rw_server: tuple[str, int] | None
    _ro_mode: object
    _connection_routine: threading.Thread | None
    def start(self) -> None: ...
    def stop(self, timeout: float | None = ...) -> bool: ...
    def close(self) -> None: ...
    def zk_loop(self) -> None: ...
    def _connect_attempt(self, host: str, hostip: str, port: int, retry: KazooRetry) -> object: ...
    # Returns (read timeout, connect timeout), both in seconds and derived from the negotiated session timeout.
    _connect: Callable[[str, str, int], tuple[float, float]]
