"""Runs simulations from the command line; scripts/sim is its name."""

# ruff: noqa: T201 - it talks to people

import argparse
import logging
import sys
import time
from functools import partial
from itertools import islice

import sim_archive
import sim_cluster
from sim_journal_plants import HIDDEN_JOURNAL_PLANTS, JOURNAL_PLANTS, RARE_JOURNAL_PLANTS
from sim_plants import PLANTS
from sim_search import notices
from sim_session_plants import HIDDEN_PLANTS, RARE_PLANTS, SESSION_PLANTS
from sim_world import Failed, run

SEEDS = 300
WORLDS = {
    "archive": sim_archive.run,
    "aged": partial(sim_archive.run, keep_seconds=sim_archive.KEPT_SECONDS),
    "cluster": sim_cluster.run,
    "results": partial(sim_cluster.run, results=True),
}
"""Simulations beside that of a server: nodes that share an archive, also one that removes what is
old; nodes that share a log, also with large results."""
RARE = *RARE_PLANTS, *RARE_JOURNAL_PLANTS
NOTICED = *PLANTS, *SESSION_PLANTS, *JOURNAL_PLANTS
ALL = {
    plant.__name__: plant
    for plant in (
        *NOTICED,
        *HIDDEN_PLANTS,
        *HIDDEN_JOURNAL_PLANTS,
        *RARE_PLANTS,
        *RARE_JOURNAL_PLANTS,
    )
}
ENOUGH = 3
"""Seeds for one planted mistake."""
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
    parser.add_argument("--rough", action="store_true", help="with sessions, faults and kills")
    parser.add_argument("--leaps", action="store_true", help="with a clock that leaps")
    parser.add_argument("--of", choices=WORLDS, help="of nodes, not of one server")
    parser.add_argument("--plant", choices=ALL, help="name rough seeds that notice a mistake")
    options = parser.parse_args()
    if options.of:
        if options.rough or options.leaps or options.plant:
            parser.error("--rough, --leaps and --plant are for one server: leave out --of")
        first, count = (options.first, options.seeds) if options.seed is None else (options.seed, 1)
        sys.exit(many_of(options.of, first, count))
    if options.plant:
        sys.exit(search(ALL[options.plant], options.first, options.seeds))
    if options.seed is None:
        sys.exit(many(options.first, options.seeds, rough=options.rough, leaps=options.leaps))
    sys.exit(one(options.seed, rough=options.rough, leaps=options.leaps))


def one(seed, *, rough, leaps):
    """Print what happens with a seed; return the exit code."""
    try:
        digest, world = run(seed, EVERYTHING, rough=rough, leaps=leaps)
    except Failed as failure:
        sentence, _, trace = str(failure).partition("\n")
        print(f"{trace}\n{sentence}")
        return 1
    print("\n".join(world.lines))
    print(f"seed {seed}: all promises kept; digest {digest[:16]}")
    return 0


def many(first, count, *, rough, leaps):
    """Try seeds one after another; return the exit code."""
    start, failures = time.monotonic(), 0
    for seed in range(first, first + count):
        try:
            run(seed, rough=rough, leaps=leaps)
        except Failed as failure:
            failures += 1
            print(failure, file=sys.stderr)
            print(
                f"replay it with: scripts/sim {seed}{' --rough' * rough}{' --leaps' * leaps}",
                file=sys.stderr,
            )
    print(f"{count} seeds in {time.monotonic() - start:.1f} s, {failures} failed")
    return 1 if failures else 0


def many_of(world, first, count):
    """Try seeds of a simulation of nodes one after another; return the exit code."""
    logging.disable(logging.CRITICAL)  # of faults, which are meant
    start, failures = time.monotonic(), 0
    for seed in range(first, first + count):
        try:
            WORLDS[world](seed)
        except Exception as failure:  # noqa: BLE001 - a promise that is not kept is no one class
            failures += 1
            print(f"seed {seed}: {failure!r}", file=sys.stderr)
            print(f"replay it with: scripts/sim {seed} --of {world}", file=sys.stderr)
    print(f"{count} seeds in {time.monotonic() - start:.1f} s, {failures} failed")
    return 1 if failures else 0


def search(plant, first, count):
    """Print seeds whose rough runs notice a mistake; return the exit code."""
    found = (s for s in range(first, first + count) if notices(s, plant, rough=True))
    seeds = list(islice(found, ENOUGH))
    print(f"{plant.__name__}: {seeds}")
    return 0 if seeds else 1


if __name__ == "__main__":
    main()
