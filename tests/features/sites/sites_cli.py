"""Plays many seeds of three sites; a seed whose sites differ at the end is said, with why."""

import argparse
import asyncio
import sys

from test_sites_converge import check

# ruff: noqa: T201 - a program that talks to people

EVERY = 100


async def play(first: int, seeds: int) -> None:
    """Play so many seeds; raise at the first that does not converge."""
    for seed in range(first, first + seeds):
        try:
            await check(seed)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}") from failure
        if (seed + 1 - first) % EVERY == 0:
            print(f"{seed + 1 - first} seeds: all sites have the same", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/sites", description=__doc__.partition("\n")[0])
    parser.add_argument("seeds", nargs="?", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(play(options.first, options.seeds))


if __name__ == "__main__":
    sys.exit(main())
