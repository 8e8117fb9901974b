"""Export: every table of a database at one cut, written as a snapshot.

    export(Order(database, directory, schema_text), progress)  ->  Snapshot

It runs in its own process, whether or not a server is running: it only reads the database, in one
transaction, and only writes below the directory of snapshots. Tables are written one after the
other, large ones read by two processes (``second_reader.py``); memory is bounded by a row group.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from rowcast.core.errors import Code, Error
from rowcast.core.snapshot_limits import SNAPSHOT_FREE_BYTES_MIN, SNAPSHOT_SHARED_ROWS_MIN
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.features.rights.access_list import AccessList
from rowcast.features.snapshots.snapshot_directory import name_of
from rowcast.features.snapshots.snapshot_store import SnapshotStore
from rowcast.journal.log_replay import replay_log
from rowcast.schema import parse_schema
from rowcast.store.read_transaction import ReadTransaction, open_read_transaction
from rowcast.store.sql_database import file_of
from rowcast_lake.snapshots.catalogs import Catalogs
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.files import TableFiles
from rowcast_lake.snapshots.history import SUFFIX, HistorySheet
from rowcast_lake.snapshots.manifest import (
    FILE_NAME,
    FORMAT,
    Manifest,
    TableFacts,
    columns_of,
    read_manifest,
    time_text,
)
from rowcast_lake.snapshots.partitions import BOUNDS, PartBounds, PartedFiles
from rowcast_lake.snapshots.role_view import RoleView
from rowcast_lake.snapshots.second_reader import SecondReader, worth_starting
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.snapshot_stores import store_of
from rowcast_lake.snapshots.system_writer import system_sheets
from rowcast_lake.snapshots.table_writer import TableSheet, TableWriter
from rowcast_lake.snapshots.topic_sheets import MessageSheet, RetainedSheet
from rowcast_lake.stores.object_paths import Directory

Progress = Callable[[str, int, int], None]
"""Progress callback: a table's name, the rows written, and about how many rows it has."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to export, and where."""

    database: str | Path
    directory: Directory
    schema: str
    """The text of the data's schema."""
    schema_name: str = "schema.graphql"
    tables: tuple[str, ...] = ()
    """Only these; none means all."""
    history: bool = False
    """Whether to export the history of each declared table as a table, too."""
    audience: str = ""
    """The role whose members may see the snapshot; empty for administrators."""
    roles: Collection[str] = ()
    """The roles of users and declared roles: an audience is one of them, or named in a rule."""
    reads: bool = True
    """Whether all members of the audience have the grant to read."""
    access: AccessList | None = None
    """The access list of the server."""
    free_bytes_min: int = SNAPSHOT_FREE_BYTES_MIN
    shared_rows_min: int = SNAPSHOT_SHARED_ROWS_MIN
    """Rows of a table that a second process reads."""
    parting: PartBounds = BOUNDS
    """How much of a partitioned table is buffered."""
    catalogs: Collection[str] = ()
    """The formats of open tables of which each snapshot becomes a version."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot."""

    place: Directory
    manifest: Manifest
    new: bool
    """Whether it was written by this call; False: nothing has changed since an existing one."""


def export(order: Order, progress: Progress | None = None) -> Snapshot:
    """Write a snapshot, or return the newest if nothing has changed since."""
    tables = parse_schema(order.schema, order.schema_name).tables
    snapshots = store_of(order.directory)
    check_audience(snapshots, order.audience)
    replay_log(file_of(order.database), tables)
    with ExitStack() as reading:
        cut = reading.enter_context(open_read_transaction(order.database))
        sheets = _sheets(order, tables, cut)
        with snapshots.making() as making:
            catalogs = _catalogs(order)
            catalogs.catch_up(snapshots.names())
            there = _same(snapshots, cut, order, sheets)
            if there is not None:
                return there
            read = _alone
            if worth_starting(sheets, order.shared_rows_min):
                reading.close()
                second = reading.enter_context(_second_reader(order))
                cut, read = reading.enter_context(second.cut()), second.batches
                sheets = _sheets(order, tables, cut)
            making.aim(name_of(cut.seq))
            files = partial(_files, making.place, order, catalogs)
            note = progress or _no_progress
            facts = {each.name: _write(files(each), read(cut, each), each, note) for each in sheets}
            manifest = _manifest(order, cut, sheets, facts, catalogs)
            making.write(FILE_NAME, manifest.text)
            whole = not order.tables or _has_all(snapshots, facts)
            place = making.publish(cut.seq, newest=whole and _is_newest(snapshots, cut))
            catalogs.catch_up([place.name])
            return Snapshot(place, manifest, new=True)


def _manifest(
    order: Order,
    cut: ReadTransaction,
    sheets: Sequence[TableWriter],
    facts: dict[str, TableFacts],
    catalogs: Catalogs,
) -> Manifest:
    return Manifest(
        cut.epoch,
        cut.seq,
        time_text(time.time()),
        "" if order.audience else order.schema,
        facts,
        audience=order.audience or None,
        catalog=catalogs.next_versions(facts),
        partitions={each.name: each.partition.text for each in sheets if each.partition},
    )


def _alone(cut: ReadTransaction, sheet: TableWriter) -> Iterator[Batch]:
    """Read a table in this process."""
    return sheet.batches(cut)


def _second_reader(order: Order) -> SecondReader:
    return SecondReader(file_of(order.database), order.schema, rows_min=order.shared_rows_min)


def check_audience(snapshots: SnapshotStore, audience: str) -> None:
    """Refuse to write beside files that are for others; raises CONFLICT.

    Who may read a directory may read all of it.
    """
    for name in (*snapshots.names()[-1:], *snapshots.pages()[-1:]):
        try:
            known = read_manifest(snapshots.directory / name).audience or ""
        except Error:
            continue
        if known != audience:
            theirs = f"for the role {known}" if known else "of everything"
            raise Error(
                Code.CONFLICT,
                f"{snapshots.directory} has exports {theirs} ({name}); name another directory with "
                f"--out for those {f'for the role {audience}' if audience else 'of everything'}, "
                "so that who may read some of the files may read all of them",
            )


def _sheets(order: Order, tables: Sequence[Table], cut: ReadTransaction) -> list[TableWriter]:
    """Return the writers of the tables of an order."""
    every: list[TableWriter] = [
        *(TableSheet.of(cut.declared(table), cut.epoch) for table in tables),
        *(MessageSheet(branch, cut.epoch) for branch in cut.topic_tables()),
        RetainedSheet(cut.epoch),
        *system_sheets(),
    ]
    sheets = _chosen(every, order.tables)
    if order.history:
        sheets += _histories(cut, tables, sheets)
    if order.audience:
        audience = role_view(order, tables, cut)
        sheets = [seen for sheet in sheets if (seen := audience.sheet(sheet)) is not None]
    return sheets


def role_view(order: Order, tables: Sequence[Table], cut: ReadTransaction) -> RoleView:
    """Return what the audience of an order may see."""
    role, roles = order.audience, order.roles
    return RoleView(role, tables, cut, roles, reads=order.reads, access=order.access)


def _no_progress(table: str, rows: int, total: int) -> None:
    """Ignore progress."""


def _chosen(sheets: Sequence[TableWriter], names: Sequence[str]) -> list[TableWriter]:
    known = {sheet.name: sheet for sheet in sheets}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            raise Error(Code.NOT_FOUND, f"there is no table {name} to export{hint}")
    return [sheet for sheet in sheets if not names or sheet.name in names]


def _histories(
    cut: ReadTransaction, tables: Sequence[Table], sheets: Sequence[TableWriter]
) -> list[TableWriter]:
    """Return history writers of the declared tables among these writers."""
    names = {sheet.name for sheet in sheets}
    found: list[TableWriter] = [
        HistorySheet(table, cut.epoch) for table in tables if table.name in names
    ]
    for sheet in found:
        if sheet.name in names:
            raise Error(
                Code.CONFLICT,
                f"the past of {sheet.name.removesuffix(SUFFIX)} would be {sheet.name}, which is a"
                " table of its own; export these tables without --history",
            )
    return found


def _catalogs(order: Order) -> Catalogs:
    """Open the catalogs of an order; a role's snapshots are in none."""
    return Catalogs(order.directory, () if order.audience else order.catalogs)


def _has_all(snapshots: SnapshotStore, tables: Collection[str]) -> bool:
    """Whether ``tables`` include all of the newest snapshot, so that its readers miss none."""
    newest = snapshots.newest()
    if newest is None:
        return True
    try:
        return set(read_manifest(snapshots.directory / newest).tables) <= set(tables)
    except Error:
        return True


def _is_newest(snapshots: SnapshotStore, cut: ReadTransaction) -> bool:
    """Whether no later cut of this log is the newest; that of a log before a restore is older."""
    newest = snapshots.newest()
    if newest is None:
        return True
    try:
        known = read_manifest(snapshots.directory / newest)
    except Error:
        return True
    return known.epoch != cut.epoch or known.seq <= cut.seq


def _same(
    snapshots: SnapshotStore, cut: ReadTransaction, order: Order, sheets: Sequence[TableWriter]
) -> Snapshot | None:
    """Return the newest snapshot if it has this cut, schema and tables."""
    newest = snapshots.newest()
    if newest is None:
        return None
    with suppress(Error):
        manifest = read_manifest(snapshots.directory / newest)
        same_moment = (manifest.epoch, manifest.seq) == (cut.epoch, cut.seq)
        names = {sheet.name for sheet in sheets}
        same_sight = (manifest.audience or "") == order.audience
        same_schema = manifest.schema == order.schema and not order.audience
        same_schema = same_schema and manifest.format == FORMAT
        same_schema = same_schema and set(order.catalogs) <= set(manifest.catalog)
        if same_moment and same_sight and same_schema and names == set(manifest.tables):
            return Snapshot(snapshots.directory / newest, manifest, new=False)
    return None


def _write(
    files: TableFiles | PartedFiles, batches: Iterator[Batch], sheet: TableWriter, report: Progress
) -> TableFacts:
    """Write one table, and return its entry of the manifest."""
    digest = Digest(sheet.content)
    seqs: list[int] = []
    try:
        for batch in batches:
            digest.update(batch)
            seqs += seqs_of(batch)
            files.write(batch)
            report(sheet.name, digest.rows, sheet.rows)
        files.close()
    except BaseException:
        files.abandon()
        raise
    return TableFacts(
        digest.rows,
        min(seqs, default=None),
        max(seqs, default=None),
        str(digest),
        sheet.key,
        sheet.content,
        columns_of(sheet.schema),
        "/".join(sheet.partition.columns) if sheet.partition else None,
        tuple(files.files),
    )


def _files(
    place: Directory, order: Order, catalogs: Catalogs, sheet: TableWriter
) -> TableFiles | PartedFiles:
    """Return the files of one table of a snapshot, which is made at ``place``."""
    folder = catalogs.folder(sheet.name, place.name)
    free, schema = order.free_bytes_min, sheet.schema
    if sheet.partition is None:
        return TableFiles(place, folder, schema, sheet.key, free)
    return PartedFiles(place, folder, schema, sheet.key, sheet.partition, free, order.parting)


def seqs_of(batch: Batch) -> tuple[int, ...]:
    """Return the least and the greatest ``_seq`` of some rows; empty without that column."""
    if _SEQ not in batch.schema.names:
        return ()
    found = pc.min_max(batch.column(batch.schema.get_field_index(_SEQ))).as_py()
    return found["min"], found["max"]


_SEQ: Final = "_seq"
