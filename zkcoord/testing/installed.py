"""
A real ZooKeeper as a child process, from an installed package.

It listens on a free port of the loopback interface only, keeps its data in a temporary directory (on a RAM disk where
there is one, since ZooKeeper syncs every transaction to disk) and is ended by its own process id.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from zkcoord.testing.probe import (
    FourLetterWords,
    NoZooKeeperError,
    PortTakenError,
    ServerStartError,
    four_letter,
    wait_until_ready,
)

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# Sessions may be as short as 2 ticks and time out within one tick of their due time: 500 ms makes expiry tests quick
# and still leaves a loaded two-core machine time to answer.
TICK_TIME_MS = 500

# A port found free can be taken by somebody else before the JVM binds it: try others.
START_ATTEMPTS = 5

STOP_TIMEOUT_S = 10.0

JVM_FLAGS = (
    "-Xms32m",
    "-Xmx256m",
    "-Xshare:auto",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.extendedTypesEnabled=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.nio.numWorkerThreads=2",
    "-Dzookeeper.commitProcessor.numWorkerThreads=1",
    "-Dzookeeper.preAllocSize=1024",
    "-Dfile.encoding=UTF-8",
)

# Where distributions put ZooKeeper's jar; its manifest names the jars it needs by absolute path (Debian, Ubuntu).
SYSTEM_JARS = (Path("/usr/share/java/zookeeper.jar"), Path("/usr/local/share/java/zookeeper.jar"))
# Optional logging back ends: without one slf4j drops ZooKeeper's log, which is what explains a failed start.
LOG_JARS = ("slf4j-simple.jar", "slf4j-reload4j.jar", "slf4j-log4j12.jar")


def find_classpath(
    environ: Mapping[str, str] = os.environ, system_jars: tuple[Path, ...] = SYSTEM_JARS
) -> str | None:
    """Return an installed ZooKeeper's class path: ``$ZOOKEEPER_HOME/lib/*.jar``, else the system's jars, else None."""
    home = environ.get("ZOOKEEPER_HOME")
    if home:
        jars = sorted(Path(home, "lib").glob("*.jar")) + sorted(Path(home).glob("zookeeper*.jar"))
        if any(jar.name.startswith("zookeeper") for jar in jars):
            return os.pathsep.join(str(jar) for jar in jars)
    for jar in system_jars:
        if jar.exists():
            logging = next((jar.with_name(name) for name in LOG_JARS if jar.with_name(name).exists()), None)
            return os.pathsep.join(str(path) for path in (jar, logging) if path)
    return None


def find_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the Java to use: ``$JAVA_HOME/bin/java``, else the one on the path, else None."""
    home = environ.get("JAVA_HOME")
    if home and Path(home, "bin", "java").exists():
        return str(Path(home, "bin", "java"))
    return shutil.which("java", path=environ.get("PATH"))


def _version_of(classpath: str) -> str:
    """The version in the name of the jar or of a link beside it (``zookeeper-3.8.0.jar``), for people only."""
    for jar in map(Path, classpath.split(os.pathsep)):
        for name in sorted(path.name for path in jar.parent.glob("zookeeper-[0-9]*.jar")):
            return name.removeprefix("zookeeper-").removesuffix(".jar")
    return "version unknown"


def free_port() -> int:
    """Return a loopback port that was free a moment ago; whoever binds it must be ready to lose the race."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _scratch_parent() -> str | None:
    shm = Path("/dev/shm")
    return str(shm) if shm.is_dir() and os.access(shm, os.W_OK) else None


class ZooKeeperServer(FourLetterWords):
    """
    One standalone ZooKeeper server as a child process.

    Args:
        tick_time_ms: ZooKeeper's ``tickTime``. Sessions are negotiated to between 2 and 20 ticks unless
            ``min_session_timeout_ms`` or ``max_session_timeout_ms`` say otherwise.
        container_check_ms: how often empty containers are looked for; None is the server's default (60 s).
        config: further lines of the configuration file, by name.
        java_options: further options of the JVM.

    ``start()`` and ``stop()`` may be called again; ``restart()`` keeps port and data. A context manager.
    """

    def __init__(
        self,
        *,
        tick_time_ms: int = TICK_TIME_MS,
        min_session_timeout_ms: int | None = None,
        max_session_timeout_ms: int | None = None,
        container_check_ms: int | None = None,
        config: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = (),
    ) -> None:
        self.tick_time_ms = tick_time_ms
        self.port: int | None = None
        self._config = {
            "tickTime": str(tick_time_ms),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": "0",
        }
        if min_session_timeout_ms is not None:
            self._config["minSessionTimeout"] = str(min_session_timeout_ms)
        if max_session_timeout_ms is not None:
            self._config["maxSessionTimeout"] = str(max_session_timeout_ms)
        self._config.update(config or {})
        self._java_options = java_options
        if container_check_ms is not None:
            self._java_options += (f"-Dznode.container.checkIntervalMs={container_check_ms}",)
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._paused = False

    @property
    def hosts(self) -> str:
        """The connection string, ``127.0.0.1:PORT``."""
        if self.port is None:
            raise RuntimeError("the ZooKeeper server was never started: call start() first")
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise RuntimeError("the ZooKeeper server is not running: call start() first")
        return self._process.pid

    @property
    def description(self) -> str:
        where = f"at {self.hosts}" if self.port else "on free loopback ports"
        return f"an installed ZooKeeper ({_version_of(find_classpath() or '')}) {where}"

    def is_running(self) -> bool:
        """Whether the process exists (paused counts as running)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """
        Start the server and wait until it serves clients. Does nothing when it runs.

        Raises:
            NoZooKeeperError: no Java or no ZooKeeper is installed.
            ServerStartError: it did not start; the text ends with its log.
        """
        if self.is_running():
            return self
        if self.port is not None:  # a restart: the port is what clients know
            self._launch(self.port)
            return self
        for attempt in range(START_ATTEMPTS):
            try:
                self._launch(free_port())
                return self
            except PortTakenError:
                self._remove_directory()
                if attempt == START_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """End the server (terminate, then kill) and delete its data. Does nothing when it was never started."""
        self._end_process()
        self._remove_directory()
        self.port = None

    def kill(self) -> None:
        """End the process at once, as a crash would; ``start()`` brings it back with port and data."""
        self._end_process(graceful=False)

    def restart(self) -> None:
        """End the server and start it again with the same port and data."""
        if self.port is None:
            raise RuntimeError("the ZooKeeper server was never started: call start() first")
        self._end_process()
        self.start()

    def pause(self) -> None:
        """Stop the process (SIGSTOP): connections stay open, nothing is answered, its clocks run on."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause for the length of a ``with`` block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def log(self, last_bytes: int = 8192) -> str:
        """The end of what the server wrote to its log."""
        path = self._directory / "server.log" if self._directory else None
        if path is None or not path.exists():
            return ""
        return path.read_bytes()[-last_bytes:].decode("utf-8", "replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, port: int) -> None:
        java, classpath = find_java(), find_classpath()
        if java is None or classpath is None:
            missing = "Java" if java is None else "ZooKeeper"
            raise NoZooKeeperError(
                f"no {missing} is installed: apt-get install zookeeper default-jre-headless"
            )
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="zkcoord-zk-", dir=_scratch_parent()))
        directory = self._directory
        settings = {**self._config, "dataDir": str(directory / "data"), "clientPort": str(port)}
        config_file = directory / "zoo.cfg"
        config_file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with (directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [java, *JVM_FLAGS, *self._java_options, "-cp", classpath, MAIN_CLASS, str(config_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                # Its own group: a Ctrl-C in the terminal is for the tests, which then stop the server themselves.
                start_new_session=True,
            )
        self._watchdog = _start_watchdog(self._process.pid, directory)
        self.port = port
        try:
            wait_until_ready(f"127.0.0.1:{port}", check=self._check_alive)
            self._check_alive()
            if str(directory) not in four_letter("127.0.0.1", port, "conf"):
                raise PortTakenError(f"another ZooKeeper answers on port {port}")
        except BaseException as error:
            log_text = self.log()
            self._end_process(graceful=False)
            self.port = None
            if isinstance(error, ServerStartError):
                taken = isinstance(error, PortTakenError) or "Address already in use" in log_text
                kind = PortTakenError if taken else ServerStartError
                raise kind(f"{error}\n--- end of the server's log ---\n{log_text}") from error
            self._remove_directory()
            raise

    def _check_alive(self) -> None:
        code = self._process.poll() if self._process else None
        if code is not None:
            raise ServerStartError(f"the ZooKeeper process ended with code {code} before it was ready")

    def _end_process(self, *, graceful: bool = True) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            if self._paused:
                os.kill(process.pid, signal.SIGCONT)
            if graceful:
                process.terminate()
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    pass
            process.kill()
        self._paused = False
        process.wait()
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.communicate(b"ended\n")

    def _remove_directory(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)


def _start_watchdog(pid: int, directory: Path) -> subprocess.Popen[bytes]:
    """
    Start a tiny process that kills the server and removes its data when we die without a word.

    pytest-timeout ends a stuck test run with ``os._exit``, and a killed demo runs no clean-up either: the end
    of the pipe is what remains. A line on the pipe says that the server was ended properly (its pid may be
    somebody else's by now).
    """
    script = 'read -r line || { kill -KILL "$1"; rm -rf "$2"; }'
    return subprocess.Popen(
        ["sh", "-c", script, "zkcoord-watchdog", str(pid), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
