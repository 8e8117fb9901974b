"""Copies: the digest of a table at a snapshot's cut, computed from each place that has its rows.

    parquet          the snapshot's own files
    delta, iceberg   its version of an open table, as deltalake and pyiceberg read it
    database         the tables and the log of a data directory (``rows_at``)
    a server         what it answers for that position

Each is computed from rows; no digest that is written somewhere is believed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.journal.log_replay import replay_log
from rowcast.schema import parse_schema
from rowcast.store.read_transaction import open_read_transaction
from rowcast.store.sql_database import file_of
from rowcast_lake.columns.joining import shaped
from rowcast_lake.snapshots.catalogs import Catalogs, Rows
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.manifest import Manifest, TableFacts, read_manifest
from rowcast_lake.snapshots.reading import rows_of
from rowcast_lake.snapshots.rows_at import rows_at
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.stores.object_paths import Directory


class Copies:
    """A snapshot whose tables are compared with other places."""

    def __init__(self, place: Directory) -> None:
        """Read its manifest; raises UNSUPPORTED for one that shows less than other places have."""
        self.place = place
        self.manifest: Manifest = read_manifest(place)
        if self.manifest.audience or not self.manifest.schema:
            raise Error(
                Code.UNSUPPORTED,
                f"{place.name} is for the role {self.manifest.audience}: other places have what "
                "that role may not see; name a snapshot of everything",
            )
        declared = {table.name: table for table in parse_schema(self.manifest.schema).tables}
        self.tables: Mapping[str, Table] = {
            name: declared[name] for name in self.manifest.tables if _compared(declared.get(name))
        }
        """The declared tables with attributes and a key: the others have no second place."""

    def facts(self, table: str) -> TableFacts:
        """Return what the manifest says of a table."""
        return self.manifest.tables[table]

    def content(self, table: str) -> pa.Schema:
        """Return the columns that the digest of a table covers, with their types."""
        facts = self.facts(table)
        with (self.place / facts.files[0].path).open("rb") as file:
            schema = pq.read_schema(file)
        return pa.schema([schema.field(name) for name in facts.content])

    def files(self, table: str) -> dict[str, Callable[[], str]]:
        """Return what computes the digest of a table, by the names of its formats."""
        found: dict[str, Callable[[], str]] = {"parquet": partial(self._of_parquet, table)}
        for kind, read in Catalogs.there(self.place.parent).readers(table, self.manifest):
            found[kind] = partial(self._of_open_table, table, read)
        return found

    def _of_parquet(self, table: str) -> str:
        try:
            return self.digest(table, rows_of(self.place, self.facts(table)))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(error) from error

    def _of_open_table(self, table: str, read: Callable[[], Rows]) -> str:
        try:
            rows = shaped(pa.table(read()), self.content(table))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(error) from error
        ordered = rows.sort_by(self.facts(table).key)
        return self.digest(table, ordered.combine_chunks().to_batches())

    def of_database(self, table: str, database: str | Path, present: Sequence[Table]) -> str:
        """Return the digest of a table at the cut in a database; raises GONE, CONFLICT.

        ``present`` are all tables that its server declares now.
        """
        replay_log(file_of(database), present)
        with open_read_transaction(database) as cut:
            if cut.epoch != self.manifest.epoch:
                raise Error(Code.CONFLICT, f"{cut.path} has another log than {self.place.name}")
            rows = rows_at(cut, self.tables[table], self.manifest.seq)
        return self.digest(table, rows.combine_chunks().to_batches())

    def digest(self, table: str, batches: Iterable[Batch]) -> str:
        """Return the digest of rows in the order of their keys."""
        digest = Digest(self.facts(table).content)
        for batch in batches:
            digest.update(batch)
        return str(digest)


def _unreadable(error: Exception) -> Error:
    return Error(Code.INVALID, f"it cannot be read: {error}")


def _compared(table: Table | None) -> bool:
    return table is not None and not table.open and table.primary_key is not None
