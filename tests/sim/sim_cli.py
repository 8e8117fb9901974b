"""Runs simulations from the command line; scripts/sim is its name."""

# ruff: noqa: T201 - it talks to people

import argparse
import sys
import time

from sim_world import Failed, run

SEEDS = 300
EVERYTHING = None
"""Lines of a trace to keep: all."""


def main():
    """Replay one seed with its whole trace, or try many."""
    parser = argparse.ArgumentParser(
        prog="scripts/sim", description="Simulate the server; one seed decides all that happens."
    )
    parser.add_argument("seed", nargs="?", type=int, help="replay this seed and print its trace")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="try so many (default 300)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    options = parser.parse_args()
    sys.exit(many(options.first, options.seeds) if options.seed is None else one(options.seed))


def one(seed):
    """Print what happens with a seed; return the exit code."""
    try:
        digest, world = run(seed, EVERYTHING)
    except Failed as failure:
        sentence, _, trace = str(failure).partition("\n")
        print(f"{trace}\n{sentence}")
        return 1
    print("\n".join(world.lines))
    print(f"seed {seed}: all promises kept; digest {digest[:16]}")
    return 0


def many(first, count):
    """Try seeds one after another; return the exit code."""
    start, failures = time.monotonic(), 0
    for seed in range(first, first + count):
        try:
            run(seed)
        except Failed as failure:
            failures += 1
            print(failure, file=sys.stderr)
            print(f"replay it with: scripts/sim {seed}", file=sys.stderr)
    print(f"{count} seeds in {time.monotonic() - start:.1f} s, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    main()
