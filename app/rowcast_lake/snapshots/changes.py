"""Changes: the log after the newest snapshot as pages of Parquet, each complete and immutable.

    changes/seq=000000000000001043-000000000000002000/     all events from 1043 to 2000

A page begins where the last one ended, so there is no gap and no duplicate: its first number is
derived from the names of existing pages, under the lock of the directory. When the log no longer
has the next events, the export raises GONE; after a new snapshot the pages continue from its cut,
and the gap is visible in their names. A page is written once, so a stream over the files of
``changes`` has each event once. ``compaction`` merges small ones later, apart, in ``merged``: of
overlapping pages the widest counts. ``fold`` applies pages to a snapshot.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.features.snapshots.catalogue import Item
from rowcast.features.snapshots.snapshot_directory import CHANGES
from rowcast.features.snapshots.snapshot_store import Making
from rowcast.journal.log_replay import replay_log
from rowcast.schema import parse_schema
from rowcast.store.private import make_directory
from rowcast.store.read_transaction import ReadTransaction, open_read_transaction
from rowcast.store.read_transaction_log import LogInTransaction
from rowcast.store.sql_database import file_of
from rowcast_lake.snapshots.change_writer import (
    ChangeSheet,
    MessageChanges,
    RetainedChanges,
    TableChanges,
)
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.export import Order, Progress, check_audience, role_view, seqs_of
from rowcast_lake.snapshots.files import TableFiles
from rowcast_lake.snapshots.manifest import FILE_NAME, Manifest, TableFacts, columns_of, time_text
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.snapshot_stores import catalogue_of, store_of
from rowcast_lake.stores.object_paths import Directory

_SEQ: Final = "_seq"
"""The column by which events are sorted."""


@dataclass(frozen=True, slots=True)
class Page:
    """A complete page of changes."""

    place: Directory
    manifest: Manifest


def page_name(first: int, last: int) -> str:
    """Return a page's directory name."""
    return f"seq={first:018d}-{last:018d}"


def export_changes(order: Order, progress: Progress | None = None) -> Page | None:
    """Write the events since the last page, or since the newest snapshot; None if there are none.

    Raises NOT_FOUND without any snapshot, GONE when the log no longer has the next events.
    """
    tables = parse_schema(order.schema, order.schema_name).tables
    snapshot_store = store_of(order.directory)
    check_audience(snapshot_store, order.audience)
    replay_log(file_of(order.database), tables)
    with open_read_transaction(order.database) as cut, snapshot_store.making() as making:
        for table in tables:
            cut.declared(table)  # check that the data matches the schema
        log = cut.log(tables)
        after = _begin(catalogue_of(order.directory).items(), cut, log)
        if after >= cut.seq:
            return None
        making.aim(f"{CHANGES}/{page_name(after + 1, cut.seq)}")
        facts = {}
        for sheet in _sheets(order, tables, cut):
            batches = _reported(sheet.batches(log, after, cut.seq), sheet.name, progress)
            free = order.free_bytes_min
            found = write_table(making, sheet.name, sheet.schema, batches, free)
            if found is not None:
                facts[sheet.name] = found
        created = time_text(time.time())
        schema, audience = ("", order.audience) if order.audience else (order.schema, None)
        manifest = Manifest(cut.epoch, cut.seq, created, schema, facts, after + 1, audience)
        return publish(making, order.directory, manifest)


def _sheets(order: Order, tables: Sequence[Table], cut: ReadTransaction) -> list[ChangeSheet]:
    """Return the writers of the changes of all tables, as an order's role is told of them."""
    branches = cut.topic_tables()
    sheets: list[ChangeSheet] = [
        *(TableChanges(table, cut.epoch) for table in tables),
        *(MessageChanges(branch, cut.epoch) for branch in branches),
        RetainedChanges([branch.table.branch for branch in branches], cut.epoch),
    ]
    if not order.audience:
        return sheets
    audience = role_view(order, tables, cut)
    return [audience.changes(sheet) for sheet in sheets]


def publish(
    making: Making, directory: Directory, manifest: Manifest, folder: str = CHANGES
) -> Page:
    """Make a complete page visible."""
    making.write(FILE_NAME, manifest.text)
    name = page_name(manifest.from_seq or 0, manifest.seq)
    place = directory / folder / name
    if isinstance(directory, Path):
        make_directory(directory / folder)
    making.settle(place)
    return Page(place, manifest)


def _begin(items: list[Item], cut: ReadTransaction, log: LogInTransaction) -> int:
    """Return the number after which the next page begins."""
    own = [item for item in items if item.manifest.get("epoch") == cut.epoch]
    pages = [item.seq for item in own if item.is_page]
    snapshots = [item.seq for item in own if not item.is_page]
    known = [max(some) for some in (pages, snapshots) if some]
    if not known:
        raise Error(
            Code.NOT_FOUND, "there is no snapshot yet that changes could go on from; make one first"
        )
    for after in known:
        if log.gone(after) is None:
            return after
    name, upto = log.gone(max(known)) or ("", 0)
    raise Error(
        Code.GONE,
        f"the log no longer has all that came after {max(known)}: {name} is gone up to {upto}; "
        "make a fresh snapshot, from which changes go on, and keep the log longer than the time "
        "between two exports",
    )


def write_table(
    making: Making, name: str, schema: pa.Schema, batches: Iterable[Batch], free_bytes_min: int
) -> TableFacts | None:
    """Write the events of one table; None when there are none."""
    files = TableFiles(making.place, name, schema, _SEQ, free_bytes_min)
    content = tuple(schema.names)
    digest = Digest(content)
    seqs: list[int] = []
    try:
        for batch in batches:
            digest.update(batch)
            seqs += seqs_of(batch)
            files.write(batch)
        if not digest.rows:
            return None
        files.close()
    except BaseException:
        files.abandon()
        raise
    return TableFacts(
        digest.rows,
        min(seqs),
        max(seqs),
        str(digest),
        _SEQ,
        content,
        columns_of(schema),
        None,
        tuple(files.files),
    )


def _reported(batches: Iterable[Batch], name: str, progress: Progress | None) -> Iterator[Batch]:
    """Report progress with each batch."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if progress is not None:
            progress(name, rows, rows)
        yield batch
