"""
The keeper: a process between ``zkcoord run`` and the command, which ends the command in time whatever happens.

It is forked before ``run`` has any thread, holds no connection, and does four things: start the command in a process
group of its own, pass signals on, report how it ended, and end it. It is told until when the lock is surely held, again
and again, and counts on that alone: with no word from ``run`` (paused, swapped out, stopped by Ctrl-Z) it sends TERM a
grace before that moment and KILL before it comes. When ``run`` is gone (its end of the link closes, also after
``kill -9``) it sends KILL at once. On Linux it adopts the command's orphans, so that grandchildren with a session of
their own are found too, and the command gets KILL when the keeper itself dies.

Messages are lines of JSON. To the keeper: ``spawn`` (argv, env, until, grace), ``until`` (at), ``signal`` (number),
``continue``. From it: ``started`` (pid), ``failed`` (errno), ``stopped``, ``ended`` (status, is_ended_by_us).
"""

import ctypes
import json
import os
import select
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from zkcoord._session import clock
from zkcoord.cli import exit_codes
from zkcoord.cli.processes import descendants, group_lives

#: KILL is sent this long before the lock's deadline, for processes that take a moment to die; or a tenth of the grace.
_KILL_AHEAD_S = 0.25

#: Longest sleep: clocks that wait stop while the machine is suspended, the lock's deadline does not.
_NAP_S = 0.25

#: Sleep between two looks at processes that are to be gone.
_POLL_S = 0.02

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

#: The keeper pays no heed to signals that are meant for the command or for `run`.
_IGNORED = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGUSR1",
    "SIGUSR2",
    "SIGPIPE",
)


def _prctl() -> Callable[[int, int], object] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = ctypes.CDLL(None).prctl
    return lambda option, value: function(option, value, 0, 0, 0)


class Keeper:
    """
    The keeper's side. Made in the forked process.

    Args:
        link: to `run`.
        owner_group: process group of `run`, which has the terminal when it runs in the foreground.
        ignored: signals that were ignored when `run` was started, and stay so for the command (``nohup``).
    """

    def __init__(self, link: socket.socket, owner_group: int, ignored: frozenset[int]) -> None:
        self._link = link
        self._owner_group = owner_group
        self._ignored = ignored
        self._prctl = _prctl()
        self._received = b""
        self._is_over = False
        self._pid = 0  # of the command; also of its group
        self._status: int | None = None
        self._until = self._grace_s = 0.0
        self._kill_at: float | None = None  # once it is being ended
        self._is_ended_by_us = False
        self._is_everything = False  # also those who left the group are to end

    def run(self) -> NoReturn:
        """Work until `run` has gone."""
        code = exit_codes.INTERNAL
        try:
            os.setpgid(0, 0)
            if self._prctl is not None:
                self._prctl(_PR_SET_CHILD_SUBREAPER, 1)
            for name in _IGNORED:
                signal.signal(getattr(signal, name), signal.SIG_IGN)
            waker, woken = os.pipe()
            os.set_blocking(waker, False)
            os.set_blocking(woken, False)
            signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            while not (self._is_over and not self._pid):
                self._turn(waker)
            code = exit_codes.OK
        finally:
            if self._pid:
                os.killpg(self._pid, signal.SIGKILL)
            os._exit(code)

    def _turn(self, waker: int) -> None:
        watched: list[int | socket.socket] = [waker] if self._is_over else [waker, self._link]
        ready, _, _ = select.select(watched, [], [], self._nap_s())
        if waker in ready:
            os.read(waker, 4096)
        if self._link in ready:
            for message in self._read():
                self._obey(message)
        self._reap()
        if self._pid:
            self._enforce(clock.now())

    def _nap_s(self) -> float:
        if not self._pid:
            return _NAP_S
        if self._kill_at is not None or self._status is not None:
            return _POLL_S
        return min(_NAP_S, max(0.0, self._until - self._grace_s - clock.now()))

    # --- messages

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            data = self._link.recv(65_536)
        except ConnectionError:
            data = b""
        if not data:
            self._is_over = True
            self._until = 0.0
            return
        *lines, self._received = (self._received + data).split(b"\n")
        yield from map(json.loads, lines)

    def _obey(self, message: dict[str, Any]) -> None:
        what = message["do"]
        if what == "spawn":
            self._until, self._grace_s = message["until"], message["grace"]
            self._spawn(message["argv"], message["env"])
        elif what == "until":
            self._until = message["at"]
        elif self._pid and self._status is None:
            if what == "continue":
                self._take_terminal(self._owner_group, self._pid)
                self._signal(signal.SIGCONT)
            else:
                self._signal(message["number"])

    def _tell(self, **message: object) -> None:
        try:
            self._link.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._is_over = True

    # --- the command

    def _spawn(self, argv: list[str], env: dict[str, str]) -> None:
        self._status = self._kill_at = None
        self._is_ended_by_us = self._is_everything = False
        failed, fails = os.pipe()
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                if not _is_pipe(1):
                    self._take_terminal(self._owner_group, os.getpid())
                if self._prctl is not None:
                    self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                    if os.getppid() != keeper:
                        os._exit(exit_codes.INTERNAL)
                self._restore_signals()
                os.execvpe(argv[0], argv, env)
            except OSError as error:
                os.write(fails, str(error.errno or 0).encode())
            finally:
                os._exit(exit_codes.INTERNAL)
        os.close(fails)
        try:
            os.setpgid(pid, pid)
        except OSError:  # it has done so itself, and is on its way
            pass
        error_number = os.read(failed, 16)
        os.close(failed)
        if error_number:
            os.waitpid(pid, 0)
            self._take_terminal(pid, self._owner_group)
            self._tell(event="failed", errno=int(error_number))
            return
        self._pid = pid
        self._tell(event="started", pid=pid)

    def _restore_signals(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_IGN if number in self._ignored else signal.SIG_DFL)
                except (OSError, ValueError):  # one that the C library keeps for itself
                    continue

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid != self._pid:
                continue
            if os.WIFSTOPPED(status):
                self._stopped(os.WSTOPSIG(status))
            else:
                self._status = status
                self._take_terminal(pid, self._owner_group)

    def _stopped(self, number: int) -> None:
        by_terminal = (signal.SIGTTIN, signal.SIGTTOU)
        if number in by_terminal and self._take_terminal(self._owner_group, self._pid):
            self._signal(signal.SIGCONT)  # it wants the terminal, which was not given to it for a pipe's sake
        elif number in (signal.SIGTSTP, *by_terminal) and os.isatty(0):
            self._take_terminal(self._pid, self._owner_group)
            self._tell(event="stopped")

    # --- the end

    def _enforce(self, now: float) -> None:
        """End the command if it is time, and report when it and its group are gone."""
        ahead_s = min(_KILL_AHEAD_S, self._grace_s / 10)
        if self._kill_at is None:
            is_late = now >= self._until - self._grace_s
            if is_late or (self._status is not None and group_lives(self._pid)):
                self._is_ended_by_us = is_late and self._status is None
                self._kill_at = now + self._grace_s
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)
        if self._kill_at is not None and now >= min(self._kill_at, self._until - ahead_s):
            self._is_everything = self._is_everything or self._is_over or self._is_ended_by_us
            self._signal(signal.SIGKILL)
        if self._status is None or group_lives(self._pid):
            return
        if self._is_ended_by_us or self._is_over:
            strays = descendants(os.getpid())
            for pid in strays:
                _kill(pid)
            if strays:
                return
        status, self._pid = self._status, 0
        self._tell(event="ended", status=status, is_ended_by_us=self._is_ended_by_us)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):
            pass
        if number == signal.SIGKILL and self._is_everything:
            for pid in descendants(os.getpid()):
                _kill(pid)

    def _take_terminal(self, from_group: int, to_group: int) -> bool:
        """Move the terminal's foreground from one group to another; False if it was not there."""
        try:
            if os.tcgetpgrp(0) != from_group:
                return False
            before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, to_group)
            signal.signal(signal.SIGTTOU, before)
        except OSError:  # stdin is no terminal, or not ours
            return False
        return True


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
