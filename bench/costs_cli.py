"""The command line of scripts/costs."""

import argparse
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.costs import FEATURES, Feature
from bench.costs_links import raise_socket_timeouts
from bench.costs_run import BURST, PAYLOAD, Amount, Figures, measure
from bench.facts import processor, revision
from bench.proc import BenchError
from bench.servers import ROOT

SMALLEST = Amount(rounds=1, bursts=1, singles=1)
BEGIN, END = "<!-- costs -->", "<!-- /costs -->"
PAGE = ROOT / "docs/costs.md"
HEADINGS = (
    "feature", "beside", "CPU us", "more", "latency us", "more", "disk bytes", "more"
)  # fmt: skip
TITLES = {feature.name: feature.title for feature in FEATURES}


def main() -> int:
    """Measure, print the table, and write it into the page if that is asked for."""
    parser = argparse.ArgumentParser(prog="costs", description="Measure what each feature costs.")
    parser.add_argument("--rounds", type=int, default=Amount().rounds, help="interleaved rounds")
    parser.add_argument("--smallest", action="store_true", help="one message or so of each")
    parser.add_argument("--update-docs", action="store_true", help="write it into docs/costs.md")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("costs: ended by SIGTERM"))
    raise_socket_timeouts()
    amount = SMALLEST if options.smallest else Amount(options.rounds)
    try:
        with tempfile.TemporaryDirectory(prefix="rowcast-costs-") as folder:
            text = "\n".join([*table(measure(Path(folder), amount)), "", *facts(amount)])
    except BenchError as error:
        sys.exit(f"costs: {error}")
    print(text)
    if options.update_docs:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return 0


def table(found: Mapping[str, Figures]) -> list[str]:
    """Return the lines of the table, in Markdown."""
    rows = [_row(feature, found) for feature in FEATURES]
    return [f"| {' | '.join(cells)} |" for cells in (HEADINGS, ["---"] * len(HEADINGS), *rows)]


def _row(feature: Feature, found: Mapping[str, Figures]) -> list[str]:
    own, base = found[feature.name], found.get(feature.base)
    cells = [feature.title, TITLES.get(feature.base, "").partition(" (")[0]]
    for name in ("cpu", "latency", "disk"):
        digits = 1 if name == "cpu" else 0
        cells.append(f"{own[name]:,.{digits}f}")
        cells.append(f"{own[name] - base[name]:+,.{digits}f}" if base is not None else "")
    return cells


def facts(amount: Amount) -> list[str]:
    """Return what the figures are of."""
    machine = f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    load, bursts = os.getloadavg()[0], f"{amount.bursts} bursts of {BURST} messages"
    method = f"The least of {amount.rounds} rounds, in which all features take turns."
    of_bursts = f"CPU and disk: of {bursts} of {len(PAYLOAD)} bytes, one writer, one reader."
    of_singles = f"Latency: of the quickest tenth of {amount.singles}, one at a time."
    return [
        f"- Machine: {machine}; load average {load:.1f} after the run; revision {revision()}.",
        f"- {method} {of_bursts} {of_singles}",
    ]


if __name__ == "__main__":
    sys.exit(main())
