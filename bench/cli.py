"""The command line of scripts/bench."""

import argparse
import json
import resource
import signal
import sys
from pathlib import Path

from bench.case import Case
from bench.cases import CASES
from bench.facts import facts
from bench.proc import BenchError, Placement, apart
from bench.report import as_json, markdown, plain, rows, update
from bench.runner import Outcome, Settings, run_case
from bench.servers import ROOT
from bench.stats import medians

QUICK_SECONDS = 0.5
QUICK_SIZES = {"clients": 200, "sessions": 200, "messages": 100}
SIZES = ("connections", "clients", "sessions", "messages")
FULL_CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 500


def main() -> int:
    """Run the cases that were asked for and print the table."""
    options = parse()
    if options.list:
        print("\n".join(f"{case.name:16} {case.title}" for case in CASES))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by SIGTERM"))
    settings = settings_of(options, raise_descriptors())
    outcomes = []
    try:
        for case in choose(options.case):
            outcomes.append(run_case(case, settings))
            progress(outcomes[-1])
    except KeyboardInterrupt:
        print("bench: interrupted; the table holds what was measured", file=sys.stderr)
        return publish(options, settings, outcomes) or 130
    return publish(options, settings, outcomes)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Rowcast beside its peers.")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured time of a round (2)")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--case", nargs="+", metavar="NAME", help="only these; a prefix will do")
    parser.add_argument(
        "--peer", nargs="+", metavar="NAME", help="only these servers, ours: rowcast"
    )
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--connections", type=int, help="idle connections (2,000)")
    parser.add_argument("--clients", type=int, help="clients of a reconnect storm (2,000)")
    parser.add_argument("--sessions", type=int, help="sessions that are away (10,000)")
    parser.add_argument("--messages", type=int, help="messages that wait for each (1,000)")
    parser.add_argument("--against", metavar="REV", help="measure a revision of ours as a peer")
    parser.add_argument("--no-pin", action="store_true", help="let the scheduler choose the cores")
    parser.add_argument("--directory", help="where servers keep their data (the system's default)")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--update-docs", action="store_true", help="put it into docs/internals/speed.md"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures")
    return parser.parse_args()


def settings_of(options: argparse.Namespace, descriptors: int) -> Settings:
    """Return the settings, bounded by how many descriptors a process may have."""
    sizes = dict(QUICK_SIZES) if options.quick else {}
    sizes |= {name: size for name in SIZES if (size := getattr(options, name))}
    for name in ("connections", "clients", "sessions"):
        most = descriptors - SPARE_DESCRIPTORS
        if sizes.get(name, FULL_CONNECTIONS) > most:
            sizes[name] = most
            print(f"bench: at most {most} {name}: ulimit -n is {descriptors}", file=sys.stderr)
    return Settings(
        rounds=1 if options.quick else options.rounds,
        seconds=QUICK_SECONDS if options.quick else options.seconds,
        directory=options.directory,
        sizes=sizes,
        against=options.against,
        peers=frozenset(options.peer) if options.peer else None,
        placement=Placement() if options.no_pin else apart(),
    )


def raise_descriptors() -> int:
    """Take all the descriptors this user may have; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def choose(names: list[str] | None) -> list[Case]:
    """Return the cases whose names begin so, in the order of the table."""
    if not names:
        return list(CASES)
    unknown = [name for name in names if not any(case.name.startswith(name) for case in CASES)]
    if unknown:
        sys.exit(f"bench: no case begins with {', '.join(unknown)}; see bench --list")
    return [case for case in CASES if case.name.startswith(tuple(names))]


def progress(outcome: Outcome) -> None:
    """Say what a case gave while the others run."""
    parts = [
        f"{name} {medians(rounds)[outcome.case.metric]:,.0f}"
        for name, rounds in outcome.rounds.items()
        if rounds
    ]
    print(
        f"{outcome.case.name}: {', '.join(parts)} {outcome.case.unit}", file=sys.stderr, flush=True
    )


def publish(options: argparse.Namespace, settings: Settings, outcomes: list[Outcome]) -> int:
    """Print and write the results; 1 when something was left out."""
    table, about = rows(outcomes), facts(settings)
    print(markdown(table, about) if options.markdown else "\n".join([plain(table), "", *about]))
    if options.json:
        options.json.write_text(json.dumps(as_json(outcomes, about), indent=1) + "\n")
    if options.update_docs:
        try:
            update(ROOT / "docs/internals/speed.md", markdown(table, about))
        except BenchError as error:
            sys.exit(f"bench: {error}")
    return 1 if any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
