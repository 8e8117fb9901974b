"""The command of `scripts/rights`: random policies at every door, until enough was asked."""

# ruff: noqa: T201 - it talks to people

import argparse
import asyncio
import tempfile
from functools import partial
from pathlib import Path

from rights_doors import compare

from serving import application

ACTS = 25
"""Writes under each policy; each is followed by three reads, and heard by nine listeners."""


async def ask(wanted: int, seed: int) -> int:
    """Ask so many questions; return the exit code."""
    asked = policies = 0
    while asked < wanted:
        with tempfile.TemporaryDirectory() as folder:
            try:
                running, listed = partial(application, Path(folder)), policies % 2 == 1
                asked += await compare(seed, running, ACTS, listed=listed)
            except AssertionError as difference:
                print(f"seed {seed}{' beside an access list' if listed else ''}: {difference}")
                return 1
        policies += 1
        seed += 1
    print(f"{asked} questions under {policies} policies, no difference")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=int, nargs="?", default=10_000)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    given = parser.parse_args()
    raise SystemExit(asyncio.run(ask(given.questions, given.first)))
