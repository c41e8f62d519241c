"""``python -m zkcoord.cli``."""

import sys

from zkcoord.cli import main

sys.exit(main())
