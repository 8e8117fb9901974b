"""Fuzzes the decoder from the command line; scripts/fuzz is its name."""

# ruff: noqa: T201 - it talks to people

import argparse
import resource
import sys
import time

from fuzz import Broken, Case, check, make

from rowcast.mqtt.violations import Violation

CASES = 100_000
REPORT_CASES = 1_000_000
MEMORY_GROWTH_MAX = 64 * 1024
"""KiB that the process may grow by once a tenth of the cases was tried (D61)."""


def main():
    """Replay one case and print it, or try many."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Fuzz the MQTT decoder; one number decides a case."
    )
    parser.add_argument("seed", nargs="?", type=int, help="replay this case and print it")
    parser.add_argument("--cases", type=int, default=CASES, help="try so many (default 100,000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    options = parser.parse_args()
    sys.exit(many(options.first, options.cases) if options.seed is None else one(options.seed))


def one(seed):
    """Print a case and what comes of it; return the exit code."""
    case = make(seed)
    print(f"{case.role} in {case.state.name}, version {case.version or 'not known'},")
    print(f"takes {case.packet_bytes_max} bytes, knows the topic 'a': {case.knows_topic}")
    for piece in case.pieces():
        print(f"  <- {piece.hex()}")
    try:
        for item in check(case):
            print(f"  -> {item!r}")
    except Broken as broken:
        print(f"case {seed}: {broken}")
        return 1
    return 0


def many(first, count):
    """Try cases one after another; return the exit code."""
    start, failures, violations, packets, warm = time.monotonic(), 0, 0, 0, 0
    for number in range(count):
        case = make(first + number)
        received = attempt(case)
        if received is None:
            failures += 1
        else:
            refused = bool(received) and isinstance(received[-1], Violation)
            violations += refused
            packets += len(received) - refused
        if number == count // 10:
            warm = memory()
        if number and not number % REPORT_CASES:
            print(f"{number} cases, {time.monotonic() - start:.0f} s", flush=True)
    grown = memory() - warm
    print(
        f"{count} cases in {time.monotonic() - start:.1f} s: {packets} packets, "
        f"{violations} violations, {failures} failed; memory grew by {grown} KiB"
    )
    return 1 if failures or grown > MEMORY_GROWTH_MAX else 0


def attempt(case: Case):
    """Try a case; return what came of it, None and say so when it fails."""
    try:
        return check(case)
    except Broken as broken:
        print(f"case {case.seed}: {broken}", file=sys.stderr)
        print(f"replay it with: scripts/fuzz {case.seed}", file=sys.stderr)
        return None


def memory():
    """Return the most memory that this process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
