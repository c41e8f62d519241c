"""The command line: ``zkcoord``, or ``python -m zkcoord.cli``. Needs click and rich, the extra ``cli``."""

import sys

from zkcoord.cli import exit_codes

_EXTRA = ("click", "rich")


def main() -> int:
    """Run the command line on ``sys.argv``; return the exit code (see ``exit_codes``)."""
    try:
        from zkcoord.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        print("zkcoord: the command line needs: pip install 'zkcoord[cli]'", file=sys.stderr)
        return exit_codes.UNAVAILABLE
    return run(sys.argv[1:])
