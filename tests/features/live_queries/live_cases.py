"""Compares live queries with REST, as many random cases as it is told to.

scripts/live --cases 1000 --writes 1000 --cuts 200
"""

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from hasty_readers import run_hasty
from message_readers import run_messages
from query_readers import DOORS, run_case
from related_readers import run_related, run_relationship
from row_readers import run_rows

from tracebacks import Tracebacks

KINDS = {
    "conditions": run_case,
    "windows": partial(run_case, window=True),
    "related": run_related,
    "related-windows": partial(run_related, window=True),
    "related-parts": partial(run_related, select=True),
    "selected-windows": partial(run_case, window=True, select=True),
    "related-selected-windows": partial(run_related, window=True, select=True),
    "relationship": run_relationship,
    "rows": run_rows,
    "topics": run_messages,
    "alone": partial(run_case, alone=True),
    "alone-windows": partial(run_case, window=True, alone=True),
    "hasty": run_hasty,
}
"""What is asked: a limit, conditions on related records, and selected parts of these; by readers
that are all away while there is one of another query; and any of it by readers that leave while
their records are read."""


async def _run(arguments):
    done, tracebacks = dict.fromkeys(KINDS, 0), Tracebacks()
    for seed in range(arguments.seed, arguments.seed + arguments.cases):
        kind = list(KINDS)[seed % len(KINDS)] if arguments.of == "all" else arguments.of
        try:
            await KINDS[kind](seed, arguments.writes, arguments.cuts)
            assert not tracebacks.seen, tracebacks.seen[0]
        except BaseException:
            again = f"--seed {seed} --cases 1 --of {kind}"
            sys.stderr.write(f"case {seed} fails; replay it with {again}\n")
            raise
        done[kind] += 1
    each = f"{arguments.writes} writes and {arguments.cuts} cuts"
    doors = ", ".join(door.__name__ for door in DOORS)
    what = ", ".join(f"{number} of {name}" for name, number in done.items())
    sys.stdout.write(f"{arguments.cases} cases ({what}) of {each} on {doors}: equal\n")


def main():
    """Run many cases."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100, help="random tables and conditions")
    parser.add_argument("--writes", type=int, default=100, help="writes in each case")
    parser.add_argument("--cuts", type=int, default=20, help="of the readers, in each case")
    parser.add_argument(
        "--of",
        choices=("all", *KINDS),
        default="all",
        help="one kind of live queries; else all of them in turn",
    )
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
