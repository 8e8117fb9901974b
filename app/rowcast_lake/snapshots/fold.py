"""Folding: the changes after a snapshot's cut applied to it.

    fold(directory, snapshot, "Dog", "id", pages, upto)  =  Dog as of ``upto``

The last change of each key counts; a deletion removes the row, a message changes nothing. A topic
table only grows. The digest of the result equals that of a snapshot made at ``upto``, which proves
both (M2, S6). Columns that one side lacks are null, so that exports from before an attribute was
declared can be read together with later ones (S11).

A table is folded in memory; Spark does the same with larger ones.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE
from rowcast.features.snapshots.catalogue import Item
from rowcast_lake.columns.joining import joined_schema, shaped
from rowcast_lake.snapshots.comparison import retyped, same_values
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.history import is_history
from rowcast_lake.snapshots.manifest import TableFacts, read_manifest
from rowcast_lake.snapshots.reading import opened, rows_of
from rowcast_lake.stores.object_paths import Directory

_FACTS: Final = "_sys_"
_AGED: Final = " (some are of format 1, which has explicit nulls as absent: begin with a newer one)"
Rows = Any
"""A ``pyarrow.Table``."""


def chain(items: Sequence[Item], after: int, upto: int) -> list[Item]:
    """Return the pages that cover the range from one number to another, without gap or overlap.

    Of pages that begin at the same number, the widest counts (see ``compaction``). Raises GONE
    where one is missing.
    """
    pages = sorted((item for item in items if item.is_page), key=lambda item: item.seq)
    found: list[Item] = []
    at = after
    while at < upto:
        fitting = [page for page in pages if page.from_seq <= at + 1 <= page.seq]
        if not fitting:
            raise Error(
                Code.GONE,
                f"there are no changes from {at + 1} on, of those up to {upto}: increments, which "
                "rowcast export --changes makes after a snapshot, have them; begin with a snapshot "
                "that has increments up to there",
            )
        found.append(fitting[-1])
        at = fitting[-1].seq
    return found


def fold(
    directory: Directory, snapshot: str, table: str, key: str, pages: Sequence[Item], upto: int
) -> Rows:
    """Return a snapshot's table as of ``upto``, the end of a chain of pages.

    ``key`` is its key's column. A table that is not in the snapshot begins empty.
    """
    manifest = read_manifest(directory / snapshot)
    known = manifest.tables.get(table)
    parts = [] if known is None else _files(directory / snapshot, [f.path for f in known.files])
    changes: list[Rows] = []
    for page in pages:
        facts = page.manifest["tables"].get(table)
        if facts is not None:
            changes += _files(directory / page.name, [file["path"] for file in facts["files"]])
    if not parts and not changes:
        raise Error(Code.NOT_FOUND, f"neither {snapshot} nor what follows it has a table {table}")
    columns = [] if known is None else [column.name for column in known.columns]
    schema = joined_schema(part.schema for part in (*parts, *changes))
    changes = [
        part.filter(
            pc.and_(pc.less_equal(part["_seq"], upto), pc.greater(part["_seq"], manifest.seq))
        )
        for part in changes
    ]
    rows = pa.concat_tables([shaped(part, schema) for part in (*parts, *changes)])
    if key == "_seq":
        return rows.sort_by("_seq").select(_atomic_batch(rows, columns))
    return _last(rows, key).select(_atomic_batch(rows, columns))


def digest_of(rows: Rows, content: Sequence[str]) -> str:
    """Return the digest of a table's rows, which are sorted by key."""
    digest = Digest(tuple(content))
    for batch in rows.to_batches():
        digest.update(batch)
    return str(digest)


def _atomic_batch(rows: Rows, columns: Sequence[str]) -> list[str]:
    """Return the columns of the snapshot, and the further record columns of changes."""
    more = [name for name in rows.column_names if name not in columns]
    return [*columns, *(name for name in more if name not in {"_op", "_origin", "_client"})]


def _last(rows: Rows, key: str) -> Rows:
    """Return the last row of each key, if it is a record and not a deletion."""
    if "_op" not in rows.column_names:
        return rows.sort_by(key)
    rows = rows.filter(pc.fill_null(pc.not_equal(rows["_op"], MESSAGE), True))
    rows = rows.sort_by([(key, "ascending"), ("_seq", "ascending")])
    keys = rows[key].combine_chunks()
    if len(keys) > 1:
        ends = pc.not_equal(keys[:-1], keys[1:])
        last = pa.concat_arrays([_array(ends), pa.array([True])])
        rows = rows.filter(last)
    return rows.filter(pc.fill_null(pc.not_equal(rows["_op"], DELETE), True))


def _array(found: Any) -> pa.Array:
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _files(place: Directory, paths: Sequence[str]) -> list[Rows]:
    return [opened(place / path).read() for path in paths]


def differences(
    directory: Directory, items: Sequence[Item], first: str, last: str
) -> dict[str, str]:
    """Fold each table of one snapshot forward to another; return the differences by table."""
    there = read_manifest(directory / last)
    own = [item for item in items if item.manifest.get("epoch") == there.epoch]
    pages = chain(own, read_manifest(directory / first).seq, there.seq)
    formats = {read_manifest(directory / first).format, there.format}
    formats |= {page.manifest["format"] for page in pages}
    aged = _AGED if 1 in formats and len(formats) > 1 else ""
    found = {}
    for name, facts in there.tables.items():
        if name.startswith(_FACTS):  # the server's own facts are not in the log
            continue
        if is_history(name, facts):
            continue
        try:
            rows = fold(directory, first, name, facts.key, pages, there.seq)
        except Error as error:
            found[name] = error.message
            continue
        if digest_of(rows, facts.content) != facts.digest and not _alike(
            rows, directory / last, facts, _retyped(directory / first, name, pages, facts)
        ):
            found[name] = f"{rows.num_rows} rows, not the same as the {facts.rows} of {last}{aged}"
    return found


def _retyped(
    first: Directory, name: str, pages: Sequence[Item], facts: TableFacts
) -> frozenset[str]:
    """Return the columns of a table whose types are not the same in all files."""
    known = read_manifest(first).tables.get(name)
    columns = [
        {column.name: column.type for column in side.columns} for side in (known, facts) if side
    ]
    tables = [page.manifest["tables"].get(name) for page in pages]
    columns += [{item["name"]: item["type"] for item in each["columns"]} for each in tables if each]
    return retyped(columns)


def _alike(rows: Rows, last: Directory, facts: TableFacts, changed: Collection[str]) -> bool:
    """Whether rows equal a table of a snapshot, although types have changed."""
    if not changed:
        return False
    there = pa.Table.from_batches(rows_of(last, facts))
    return same_values(rows, there, facts.content, changed)
