"""What a job of a derived table reads: the tables of one snapshot (W4).

``tables["Sensor"].rows()`` gives records as dictionaries, ``.arrow()`` an Arrow table, ``.path``
the directory of the Parquet files, for DuckDB, Polars or Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from rowcast.codecs import json_text
from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULT_BYTES_MAX
from rowcast.core.suggestions import did_you_mean
from rowcast_lake.columns.records import Row, plain
from rowcast_lake.snapshots.manifest import Manifest, TableFacts, read_manifest
from rowcast_lake.snapshots.reading import rows_of


class JobTable:
    """One table at the cut."""

    def __init__(self, directory: Path, name: str, facts: TableFacts) -> None:
        self._directory = directory
        self._facts = facts
        self.name = name

    def __len__(self) -> int:
        """Return the number of its records."""
        return self._facts.rows

    @property
    def path(self) -> str:
        """The directory of its Parquet files."""
        return str(self._directory / self.name)

    def rows(self) -> Iterator[Row]:
        """Yield its records in the order of their keys."""
        for batch in rows_of(self._directory, self._facts):
            yield from map(plain, batch.to_pylist(maps_as_pydicts="strict"))

    def arrow(self) -> pa.Table:
        """Return its records, with the columns of the snapshot."""
        batches = list(rows_of(self._directory, self._facts))
        return pa.Table.from_batches(batches) if batches else self._empty()

    def _empty(self) -> pa.Table:
        names = [item.name for item in self._facts.columns]
        return pa.table({name: pa.nulls(0) for name in names})


class JobTables(Mapping[str, JobTable]):
    """The tables of one cut, by name; ``progress`` tells how far the job is, from 0 to 1."""

    def __init__(self, directory: Path, on_progress: Callable[[float], None]) -> None:
        manifest: Manifest = read_manifest(directory)
        self.cut = manifest.cut
        """The position of the log that the tables are of."""
        self.created = datetime.fromisoformat(manifest.created)
        """When the snapshot was made: for a job, the time now."""
        self._tables = {
            name: JobTable(directory, name, facts) for name, facts in manifest.tables.items()
        }
        self._on_progress = on_progress

    def __getitem__(self, name: str) -> JobTable:
        """Return a table; raises NOT_FOUND with what there is."""
        if name not in self._tables:
            near = did_you_mean(name, self._tables)
            raise Error(Code.NOT_FOUND, f"the job reads no table {name!r}{near}; add it to from")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._tables)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._tables)

    @property
    def records(self) -> int:
        """The number of records of all tables."""
        return sum(map(len, self._tables.values()))

    def progress(self, part: float) -> None:
        """Tell how far the job is, from 0 to 1."""
        self._on_progress(min(max(float(part), 0.0), 1.0))


def records_of(result: object) -> Iterable[Row]:
    """Yield the rows that a job returned; raises INVALID for anything else."""
    batches = result.to_batches() if isinstance(result, pa.Table) else None
    if batches is not None:
        for batch in batches:
            yield from map(plain, batch.to_pylist(maps_as_pydicts="strict"))
        return
    if not isinstance(result, Iterable) or isinstance(result, str | bytes | Mapping):
        kind = type(result).__name__
        message = f"derive returns rows (dictionaries), or a pyarrow table, and not {kind}"
        raise Error(Code.INVALID, message)
    for at, row in enumerate(result):
        if not isinstance(row, dict):
            raise Error(Code.INVALID, f"row {at} of the result is no dictionary: {row!r:.80}")
        yield row


def write_rows(rows: Iterable[Row], file: Path, bytes_max: int = RESULT_BYTES_MAX) -> int:
    """Write a result, a line of JSON for each row; return how many. Raises TOO_LARGE."""
    count = size = 0
    with file.open("wb") as out:
        for row in rows:
            line = json_text.encode(row) + b"\n"
            count, size = count + 1, size + len(line)
            if size > bytes_max:
                raise Error(
                    Code.TOO_LARGE,
                    f"the result has more than {bytes_max} bytes, in row {count}: so much is not "
                    "committed at once. Aggregate further, or set results.bytes_max",
                )
            out.write(line)
    return count
