"""Measures retained messages: the index beside what was declined, a whole server, its pacing."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import retained_flow, retained_index, retained_server
from bench.proc import Placement


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/retained", description=__doc__)
    parser.add_argument(
        "what", nargs="?", choices=("all", "index", "server", "flow"), default="all"
    )
    parser.add_argument("--count", type=int, default=1_000_000, help="retained messages")
    parser.add_argument("--set", action="append", default=[], help="a server's setting (flow)")
    options = parser.parse_args()
    place = Placement()
    measures: dict[str, Callable[[Path], None]] = {
        "index": lambda folder: retained_index.measure(folder, options.count),
        "server": lambda folder: retained_server.measure(folder, options.count, place),
        "flow": lambda folder: retained_flow.measure(folder, options.set, place),
    }
    for name, measure in measures.items():
        if options.what in {"all", name}:
            with tempfile.TemporaryDirectory(prefix=f"rowcast-{name}-") as folder:
                measure(Path(folder))


if __name__ == "__main__":
    main()
