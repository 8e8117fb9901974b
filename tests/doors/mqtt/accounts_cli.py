"""Adds up what many messages became for bad readers; scripts/accounts is its name."""

# ruff: noqa: T201 - it talks to people

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from accounting import Yard

from rowcast.store.sqlite import SqlStore

MESSAGES = 1_000_000


def main():
    """Run one seed; the exit code says whether every account adds up."""
    parser = argparse.ArgumentParser(
        prog="scripts/accounts", description="sent = delivered + gaps, for bad readers (M4)"
    )
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(Path(folder) / "log.sqlite")
        sys.exit(asyncio.run(add_up(store, options.seed, options.messages)))


class Progress:
    """Tells every hundredth part of a long run on standard error."""

    def __init__(self, messages, start):
        self._step = max(messages // 100, 1)
        self._next = self._step
        self._messages, self._start = messages, start

    def __call__(self, number):
        if number >= self._next:
            self._next = number + self._step
            seconds = time.monotonic() - self._start
            print(
                f"{number:,} of {self._messages:,} messages, {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )


async def add_up(store, seed, messages):
    """Print each account; return the exit code."""
    start, yard = time.monotonic(), Yard(seed, store)
    await yard.run(messages, burst=400, progress=Progress(messages, start))
    checked = yard.checked()
    for ledger in yard.ledgers:
        fine = ledger.adds_up() if ledger in checked else "its session ended"
        print(f"{ledger}: {fine}")
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sent = sum(ledger.sent for ledger in checked)
    print(
        f"seed {seed}: {yard.number} messages, {sent} to {len(checked)} accounts, at most "
        f"{yard.deepest} in a queue, {memory_mb} MB, {time.monotonic() - start:.0f} s"
    )
    await yard.close()
    return 0 if all(ledger.adds_up() for ledger in checked) else 1


if __name__ == "__main__":
    main()
