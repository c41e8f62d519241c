"""
``python -m tests.mutants [--all-suites] [--suite NAME]... [TEXT]``: which deliberate faults the tests find.

Without options each mutant is shown to the suites until one kills it. ``--all-suites`` asks all of them, and shows what
each is good for. Only mutants whose name has TEXT in it, if given. The exit code is 1 when one survives.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.faults import MUTANTS, Mutant
from tests.mutants.kill import SUITES, killers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("text", nargs="?", default="", help="only mutants with this in their name")
    parser.add_argument("--all-suites", action="store_true", help="show every suite that kills a mutant")
    parser.add_argument(
        "--suite", action="append", choices=sorted(SUITES), help="only this suite; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.text in mutant.name]

    def kill(mutant: Mutant) -> tuple[Mutant, list[str]]:
        found = killers(mutant, options.suite or list(SUITES), first_only=not options.all_suites)
        return mutant, [f"{suite} ({seconds:.0f} s)" for suite, seconds in found]

    survived = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, suites in pool.map(kill, chosen):
            survived += not suites
            print(f"{'killed  ' if suites else 'SURVIVED'}  {mutant.name}: {', '.join(suites)}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} killed, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    raise SystemExit(main())
