"""Exit codes of the command line; the numbers above 2 are those of BSD's ``sysexits.h`` and of shells."""

#: It worked. An empty list is an answer, too.
OK = 0

#: The command ran and found something wrong: a property of the demo did not hold.
FAILED = 1

#: Wrong arguments, or credentials that the server refuses.
USAGE = 64

#: No server answered in time, or a part of the installation is missing.
UNAVAILABLE = 69

#: Ended by Ctrl-C (128 + SIGINT).
INTERRUPTED = 130

#: Whoever read our output went away (128 + SIGPIPE), as in ``zkcoord locks | head``.
PIPE_CLOSED = 141

#: The demo was ended by SIGTERM (128 + SIGTERM).
TERMINATED = 143
