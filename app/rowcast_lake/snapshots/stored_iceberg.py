"""Iceberg tables in an object store: their metadata is found by its names, without a database.

    iceberg/Dog/metadata/00007-<uuid>.metadata.json    the table; the highest number is current
    iceberg/Dog/metadata/version-hint.text             its name, for readers

pyiceberg commits to a catalog in memory, in which the current metadata is registered, so writing
the next metadata file is the commit. Nothing locks the store: whoever has written one looks at the
names, and gives way if another has the same number or a higher one. Reads follow writes in S3
(strong consistency, 2020), so of two that write at once at least one sees the other. The hint
follows the commit; the next export mends one that does not.
Source: pyiceberg, ``StaticTable``; DuckDB, ``iceberg_scan``.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.typedef import EMPTY_DICT, Properties

from rowcast.core.errors import Code, Error
from rowcast_lake.snapshots.catalogs import ICEBERG, Version
from rowcast_lake.snapshots.iceberg_catalog import NAMESPACE, IcebergCatalog
from rowcast_lake.stores.object_paths import SCHEME, ObjectPath, refusing

HINT: Final = "version-hint.text"
_END: Final = ".metadata.json"
_METADATA: Final = re.compile(r"([0-9]{5,})-[0-9a-f-]+\.metadata\.json", re.ASCII)
_KINDS: Final = (OSError, pa.ArrowException)


class StoreFiles(PyArrowFileIO):
    """Reads and writes as ``ObjectPath`` does, with what AWS's variables name.

    pyiceberg's own needs the endpoint as a property, and asks Amazon for the region of a bucket.
    """

    def __init__(self, properties: Properties = EMPTY_DICT, files: Any = None) -> None:
        """Take ``files`` for a file system; or make one, which is let go of with this."""
        super().__init__(properties)
        made = cache(lambda bucket: ObjectPath.of(f"{SCHEME}://{bucket}").files)
        self.fs_by_scheme = lambda _, bucket: files or made(bucket)


_OWN: Final = {PY_IO_IMPL: f"{__name__}.{StoreFiles.__name__}"}


class _Catalog(InMemoryCatalog):
    """A catalog whose tables are all read and written over the connections of its place.

    pyiceberg's gives each table and each commit a file system, in a cycle: their connections would
    be open until the collector comes, forty for each snapshot.
    """

    def __init__(self, place: ObjectPath) -> None:
        super().__init__(NAMESPACE, warehouse=str(place), **_OWN)
        self._files = StoreFiles(files=place.files)

    def _load_file_io(self, *_: Any, **__: Any) -> FileIO:
        return self._files


class StoredIcebergCatalog(IcebergCatalog):
    """The Iceberg tables below one place of a store."""

    _files = _OWN

    def __init__(self, place: ObjectPath) -> None:
        """Open the catalog; nothing is read yet."""
        self._place = place
        self._last: dict[str, int] = {}
        super().__init__(_Catalog(place), place)

    def _metadata(self, table: str) -> ObjectPath:
        return self._place / table / "metadata"

    def _numbers(self, table: str) -> dict[str, int]:
        """Return the names of a table's metadata files, with their numbers."""
        names = [path.name for path in self._metadata(table).iterdir()]
        return {name: int(found[1]) for name in names if (found := _METADATA.fullmatch(name))}

    def _hint(self, table: str) -> str:
        try:
            return (self._metadata(table) / HINT).read_text().strip() + _END
        except FileNotFoundError:
            return ""

    def _current(self, table: str) -> str | None:
        """Return the name of the metadata with the highest number; None if there is no table.

        Two have one number when a program was killed before it gave way: then the hint decides.
        """
        numbers = self._numbers(table)
        highest = [name for name in sorted(numbers) if numbers[name] == max(numbers.values())]
        hint = self._hint(table) if len(highest) > 1 else ""
        return hint if hint in highest else next(iter(highest), None)

    def _table(self, name: str) -> Table | None:
        known = super()._table(name)
        current = self._current(name) if known is None else None
        if current is None:
            return known
        place = str(self._metadata(name) / current)
        return self._catalog.register_table((NAMESPACE, name), place)

    def _point(self, table: str) -> None:
        """Let the hint name the current metadata, also if it changes meanwhile."""
        while (current := self._current(table)) and self._hint(table) != current:
            hint = self._metadata(table) / HINT
            hint.write_bytes(current.removesuffix(_END).encode())

    def _settle(self, table: str) -> None:
        """Keep what was committed, or give way; raises CONFLICT."""
        found = super()._table(table)
        name = "" if found is None else found.metadata_location.rpartition("/")[2]
        numbers = self._numbers(table)
        if [other for other in numbers if other != name and numbers[other] >= numbers[name]]:
            (self._metadata(table) / name).remove()
            raise Error(
                Code.CONFLICT,
                f"another program wrote to the {ICEBERG} table {table} in {self._place} at the "
                "same time; let one server write there, and take the snapshot again",
            )
        self._point(table)

    def last(self, table: str) -> int:
        """Return the sequence number of a table's last snapshot; raises BUSY."""
        if table not in self._last:
            with refusing(self._place, _KINDS):
                self._last[table] = super().last(table)
                self._point(table)
        return self._last[table]

    def add(self, version: Version) -> None:
        """Commit a snapshot; raises CONFLICT when another program commits."""
        with refusing(self._place, _KINDS):
            super().add(version)
            self._last[version.table] = version.number
            self._settle(version.table)

    def forget(self, table: str, number: int, cut: str) -> None:
        """Expire the snapshot of a cut; raises CONFLICT if it is the last, BUSY."""
        with refusing(self._place, _KINDS):
            before = self._table(table)
            super().forget(table, number, cut)
            after = self._table(table)
            if before and after and before.metadata_location != after.metadata_location:
                self._settle(table)
            self._point(table)  # also if the one that expired it ended before the hint

    def address(self, table: str, number: int, cut: str) -> Mapping[str, object] | None:
        """Return the current metadata's URL and the snapshot's id; None without the cut."""
        with refusing(self._place, _KINDS):
            return super().address(table, number, cut)
