"""Past of a log: what a server's log has no more, from the snapshots and increments of a place.

    records of a snapshot  |  increments, each event  |  the log, each event
                         begin                  trimmed or later

Increments follow each other without gap, and one of them reaches as far as the log is trimmed, so
what is read is each event once. What is older than the first of them is told by the records of the
snapshot from which they go on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import pyarrow as pa

from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.errors import Code, Error
from rowcast_lake.columns.joining import joined_schema
from rowcast_lake.spark.log_positions import EARLIEST, LATEST, LogPositions
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.parts import CUT, PAGE, runs
from rowcast_lake.spark.source import Snapshot


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of a snapshot or increment after one position, up to another."""

    snapshot: Snapshot
    after: int
    until: int

    @property
    def is_whole(self) -> bool:
        """Whether it is a snapshot, which may be large, and no increment."""
        return not self.snapshot.is_page


@dataclass(frozen=True, slots=True)
class Page:
    """An increment: its directory, its first and its last position."""

    name: str
    first: int
    last: int


def begin_of(
    options: Options, snapshot: Snapshot, log: LogPositions, last: Cursor
) -> tuple[int, Sequence[Span]]:
    """Return the position after which the log is read, and what is read instead before it.

    Raises GONE where neither the log nor increments have the events.
    """
    begin, trimmed = options.text("startingcursor"), log.trimmed()
    if begin == LATEST:
        return last.seq, ()
    if begin == EARLIEST:
        return _earliest(snapshot, last.epoch, trimmed) if trimmed else (0, ())
    after = parse_cursor(begin)
    if after.epoch != last.epoch:
        raise Error(Code.CONFLICT, f"{begin} is of another log than {last}; read from earliest")
    if after.seq >= trimmed:
        return after.seq, ()
    pages = _pages(snapshot.place.known(last.epoch), trimmed)
    if not pages or pages[0].first > after.seq + 1:
        first = f", the increments after {pages[0].first - 1}" if pages else ""
        raise _gap(snapshot, f"it begins after {trimmed}{first}, and {begin} was asked for")
    return pages[-1].last, list(spans_of(snapshot, pages, after.seq))


def base_of(newest: Snapshot, at: int | datetime, trimmed: int) -> Snapshot | None:
    """Return the newest snapshot from which the records at a position or time follow.

    None where they follow from the whole log and its increments. Raises GONE where from neither.
    """
    names = newest.place.known(newest.cut[0])
    for name in sorted(filter(CUT.fullmatch, names), reverse=True):
        found = table_of(newest, name) if not _is_after(name, at) else None
        if found is not None and (isinstance(at, int) or found.created <= at):
            return found
    pages = _pages(names, trimmed)
    if not trimmed or (pages and pages[0].first <= 1):
        return None
    raise Error(
        Code.GONE,
        f"--at {at}: no snapshot of {newest.name} is so old, and the log begins after {trimmed}; "
        "what was before it is not known here",
    )


def _is_after(name: str, at: int | datetime) -> bool:
    return isinstance(at, int) and int(name[:18]) > at


def log_schema(options: Options, snapshot: Snapshot) -> pa.Schema:
    """Return the columns of what is read of a log: those of the snapshot, and of its past."""
    log = LogPositions(options.remote, snapshot.log_path)
    _, past = begin_of(options, snapshot, log, log.end())
    known, schemas = {snapshot.folder}, [snapshot.schema]
    for span in past:
        facts = cast("dict[str, object]", span.snapshot.manifest["tables"])[snapshot.name]
        columns = str(cast("dict[str, object]", facts).get("columns") or span.snapshot.folder)
        if span.snapshot.files and span.snapshot.folder not in known and columns not in known:
            known.add(columns)  # increments of the same columns need no other look
            schemas.append(span.snapshot.schema)
    return joined_schema(schemas)


def _earliest(snapshot: Snapshot, epoch: str, trimmed: int) -> tuple[int, Sequence[Span]]:
    """Return the same from the beginning, for a log that is trimmed."""
    names = snapshot.place.known(epoch)
    pages = _pages(names, trimmed)
    begin = pages[0].first - 1 if pages else trimmed
    spans: list[Span] = []
    if begin:
        cuts = [name for name in names if CUT.fullmatch(name) and int(name[:18]) >= begin]
        found = (table_of(snapshot, name) for name in sorted(cuts))
        records = next((one for one in found if one is not None), None)
        if records is None:
            cut = f"{snapshot.cut[0]}:{snapshot.cut[1]}"
            raise _gap(snapshot, f"it begins after {begin}, and the newest snapshot is of {cut}")
        spans.append(Span(records, 0, begin))
    return pages[-1].last if pages else trimmed, [*spans, *spans_of(snapshot, pages, begin)]


def _pages(names: Sequence[str], trimmed: int) -> Sequence[Page]:
    """Return the increments that follow each other up to a position, or beyond it."""
    known = runs_of(names)
    return next((run for run in known if run[0].first - 1 <= trimmed <= run[-1].last), ())


def runs_of(names: Sequence[str]) -> list[list[Page]]:
    """Return the increments among names, in runs without gap or overlap; the oldest run first."""
    pages = []
    for name in names:
        match = PAGE.fullmatch(name.rpartition("/")[2])
        if match is not None:
            pages.append(Page(name, int(match[1]), int(match[2])))
    return runs(pages)


def spans_of(snapshot: Snapshot, pages: Sequence[Page], after: int) -> Iterator[Span]:
    """Yield the increments with events of the table, each position in one of them."""
    for page in pages:
        found = table_of(snapshot, page.name) if page.last > after else None
        if found is not None:
            yield Span(found, after, page.last)
        after = max(after, page.last)


def table_of(snapshot: Snapshot, name: str) -> Snapshot | None:
    """Return the same table of another snapshot or increment; None where it has none."""
    if name == snapshot.folder:
        return snapshot
    manifest = snapshot.place.manifest(name)
    if snapshot.name not in cast("dict[str, object]", manifest["tables"]):
        return None
    return Snapshot(snapshot.place, name, manifest, snapshot.name)


def _gap(snapshot: Snapshot, words: str) -> Error:
    return Error(
        Code.GONE,
        f"the log of {snapshot.name} lacks what came before: {words}; make a new snapshot with "
        "rowcast export, or by the option export=true, and read from earliest",
    )
