"""The table: a row for each case and peer, for the terminal and for docs/internals/speed.md."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.case import Case, Figure
from bench.proc import BenchError
from bench.runner import Outcome
from bench.servers import OURS
from bench.stats import Target, medians, spread

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
GENERATOR_BOUND_SHARE = 0.9
NOISY_SPREAD = 0.5
LOST_SHARE_MAX = 0.001
HEADINGS = (
    "case", "ours", "peer", "its figure", "ratio", "target", "reached", "CPU us each", "p50/p99 us",
    "notes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    case: str
    ours: str
    peer: str
    theirs: str
    ratio: str
    target: str
    reached: str
    cpu: str
    latency: str
    notes: str
    group: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the cells in the order of the headings."""
        return tuple(asdict(self).values())[: len(HEADINGS)]


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """Return the rows of all outcomes, each with the name of its group."""
    out: list[Row] = []
    group = ""
    for outcome in outcomes:
        group = outcome.case.group or group
        out += [replace(row, group=group) for row in _case_rows(outcome)]
    return out


def _case_rows(outcome: Outcome) -> list[Row]:
    figures = {name: medians(rounds) for name, rounds in outcome.rounds.items() if rounds}
    others = [name for name in outcome.rounds if name != OURS]
    return [
        _row(outcome, each, figures.get(OURS, {}), peer, figures.get(peer, {}))
        for each in outcome.case.figures
        for peer in [name for name in others if name in each.peers or "@" in name] or [""]
    ]


def _row(
    outcome: Outcome, told: Figure, ours: dict[str, float], peer: str, theirs: dict[str, float]
) -> Row:
    target = told.peers.get(peer, Target())
    ratio, reached = "", ""
    if ours.get(told.metric) and theirs.get(told.metric):  # nothing has no ratio
        pair = (ours[told.metric], theirs[told.metric])
        backwards = told.lower_is_better and target.at_most_more is None
        compared = target.comparison(*(reversed(pair) if backwards else pair))
        ratio = f"{compared:+,.0f}" if target.at_most_more is not None else f"{compared:.2f}x"
        reached = verdict(target.reached(compared), ours, theirs)
    timed = told.metric == outcome.case.metric and "p50_us" in {**ours, **theirs}
    return Row(
        f"{titled(told, outcome.case, ours)} ({told.unit})",
        figure(ours, told.metric),
        peer,
        figure(theirs, told.metric),
        ratio,
        describe(target),
        reached,
        f"{short(ours, told.cpu)} / {short(theirs, told.cpu)}" if told.cpu else "",
        f"{latency(ours)} / {latency(theirs)}" if timed else "",
        "; ".join(
            notes(outcome, told.metric, OURS, ours) + notes(outcome, told.metric, peer, theirs)
        ),
    )


def titled(told: Figure, case: Case, figures: dict[str, float]) -> str:
    """Return a title with the sizes that were measured, else those that were to be."""
    return told.title.format_map({**case.load, **figures})


def verdict(reached: bool | None, ours: dict[str, float], theirs: dict[str, float]) -> str:
    """Return the judgement; a server that loses messages is not judged by its speed."""
    if reached is None:
        return ""
    if ours.get("lost_share", 0) > LOST_SHARE_MAX:
        return "NO (lost)"
    if theirs.get("lost_share", 0) > LOST_SHARE_MAX:
        return "not judged (peer lost)"
    return "yes" if reached else "NO"


def figure(figures: dict[str, float], metric: str) -> str:
    """Return a figure as it stands in the table."""
    return f"{figures[metric]:,.0f}" if metric in figures else "-"


def short(figures: dict[str, float], name: str) -> str:
    """Return a small figure with two digits."""
    return f"{figures[name]:.2f}" if name in figures else "-"


def latency(figures: dict[str, float]) -> str:
    """Return p50 and p99."""
    return f"{figures['p50_us']:,.0f}, {figures['p99_us']:,.0f}" if "p50_us" in figures else "-"


def describe(target: Target) -> str:
    """Return the target in words."""
    if target.at_most_more is not None:
        return f"at most +{target.at_most_more:,.0f}"
    return "" if target.at_least is None else f"{target.at_least:g}x"


def notes(outcome: Outcome, metric: str, name: str, figures: dict[str, float]) -> list[str]:
    """Return what a reader must know about a server's figure."""
    out = []
    if name in outcome.failures:
        out.append(f"{name} LEFT OUT: {first_line(outcome.failures[name])}")
    if figures.get("generator_share", 0) >= GENERATOR_BOUND_SHARE:
        out.append(f"{name}: generator-bound ({figures['generator_share']:.0%})")
    if figures.get("lost"):
        out.append(f"{name}: {figures['lost']:,.0f} lost ({figures.get('lost_share', 0):.2%})")
    if spread(outcome.rounds.get(name, []), metric) > NOISY_SPREAD:
        out.append(f"{name}: rounds differ by more than {NOISY_SPREAD:.0%}")
    return out


def first_line(text: str) -> str:
    """Return the first line of a message, cut to what a cell holds."""
    return text.partition("\n")[0][:80].replace("|", "/")


def plain(table: Sequence[Row]) -> str:
    """Return the table with aligned columns, each group under its name."""
    lines = [HEADINGS, *(row.cells() for row in table)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADINGS))]
    texts = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    out, group = [texts[0]], ""
    for row, text in zip(table, texts[1:], strict=True):
        if row.group != group:
            group = row.group
            out += ["", group]
        out.append(text)
    return "\n".join(out)


def markdown(table: Sequence[Row], facts: Sequence[str]) -> str:
    """Return the tables, one for each group, and the facts of the machine as Markdown."""
    out: list[str] = []
    for group, some in groupby(table, key=lambda row: row.group):
        out += [f"**{group}**", ""] if group else []
        out += [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]
        out += [*(f"| {' | '.join(row.cells())} |" for row in some), ""]
    return "\n".join([*out, *(f"- {fact}" for fact in facts)])


def update(page: Path, text: str) -> None:
    """Put the text between the markers of a file."""
    old = page.read_text()
    head, begin, rest = old.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise BenchError(
            f"{page.name} has no {BEGIN} ... {END}; put the two markers where the table goes"
        )
    page.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def as_json(outcomes: Iterable[Outcome], facts: Sequence[str]) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "facts": list(facts),
        "cases": [
            {"name": each.case.name, "rounds": each.rounds, "failures": each.failures}
            for each in outcomes
        ],
        "table": [asdict(row) for row in rows(outcomes)],
    }
