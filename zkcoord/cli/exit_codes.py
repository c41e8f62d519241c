"""Exit codes of the command line; the numbers above 2 are those of BSD's ``sysexits.h``, ``timeout(1)`` and shells."""

#: It worked. An empty list is an answer, too.
OK = 0

#: The command ran and found something wrong: a deadlock, a fault of the ensemble, another holder than the one named.
FAILED = 1

#: `run --wait 0` found somebody ahead; ``--conflict-exit-code`` says another.
BUSY = 1

#: Wrong arguments, credentials that the server refuses, or a path that is used in another way.
USAGE = 64

#: No server answered in time, the session ended under the command, or a part of the installation is missing.
UNAVAILABLE = 69

#: The lock was lost, and what ran under it was ended.
LOST = 75

#: The time to wait for the lock was over.
WAIT_ENDED = 124

#: `run` itself failed.
INTERNAL = 125

#: The command was found and could not be executed.
NOT_EXECUTABLE = 126

#: There is no such command.
NOT_FOUND = 127

#: Added to the number of the signal that ended the command, or that ended the wait for the lock.
SIGNAL = 128

#: Ended by Ctrl-C (128 + SIGINT).
INTERRUPTED = 130

#: Whoever read our output went away (128 + SIGPIPE), as in ``zkcoord locks | head``.
PIPE_CLOSED = 141

#: Ended by SIGTERM (128 + SIGTERM).
TERMINATED = 143
