"""Iceberg: each snapshot is a snapshot of an Iceberg table, whose files stay where they are.

The tables are ``rowcast.<table>`` in an SQLite catalog (``iceberg/catalog.db``); their metadata is
below ``iceberg/``. For an object store see ``stored_iceberg``.

A snapshot replaces all files of the one before (operation ``overwrite``).
Files have no field ids, so their columns are found by name (``schema.name-mapping.default``).
Source: the Iceberg table specification, version 2.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, ValidationError
from pyiceberg.table import StaticTable, Table, TableProperties
from pyiceberg.typedef import EMPTY_DICT, Properties

from rowcast.core.errors import Code, Error
from rowcast.store.private import make_directory
from rowcast_lake.columns.joining import joined_schema, shaped
from rowcast_lake.snapshots.catalogs import CUT, DIGEST, ICEBERG, Place, Rows, Version
from rowcast_lake.snapshots.iceberg_partitions import Replacement, files_of, reshape
from rowcast_lake.stores.object_paths import ObjectPath

NAMESPACE: Final = "rowcast"
FILE: Final = "catalog.db"


def open_catalog(directory: Path) -> "IcebergCatalog":
    """Return the catalog of a directory."""
    make_directory(directory)
    warehouse = f"file://{directory}"
    opened = SqlCatalog(NAMESPACE, uri=f"sqlite:///{directory / FILE}", warehouse=warehouse)
    return IcebergCatalog(opened, directory)


class IcebergCatalog:
    """The Iceberg tables below one directory."""

    _files: Properties = EMPTY_DICT
    """How pyiceberg reads the files."""

    def __init__(self, catalog: SqlCatalog, directory: Place) -> None:
        self._directory = directory
        self._catalog = catalog
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(NAMESPACE)

    @property
    def _is_stored(self) -> bool:
        return isinstance(self._directory, ObjectPath)

    def _table(self, name: str) -> Table | None:
        with suppress(NoSuchTableError):
            return self._catalog.load_table((NAMESPACE, name))
        return None

    def last(self, table: str) -> int:
        """Return the sequence number of a table's last snapshot; 0 if there is none."""
        found = self._table(table)
        return 0 if found is None else found.last_sequence_number

    def add(self, version: Version) -> None:
        """Commit a snapshot whose files replace all others."""
        schema = pa.schema([field.with_nullable(True) for field in version.schema])
        table = self._table(version.table)
        if table is None:
            location = str(self._directory / version.table) if self._is_stored else None
            table = self._catalog.create_table((NAMESPACE, version.table), schema, location)
        properties = {CUT: version.cut, DIGEST: version.digest}
        root = self._directory.parent / version.snapshot
        scheme = "" if self._is_stored else "file://"
        paths = [f"{scheme}{root / file.path}" for file in version.files]
        with table.transaction() as change:
            try:
                reshape(change, schema, version.partition)
            except ValidationError as error:
                raise Error(
                    Code.CONFLICT,
                    f"the {ICEBERG} table {version.table} cannot take a new type of a column "
                    f"({error}); remove {self._directory}, and it begins anew",
                ) from error
            mapping = change.table_metadata.schema().name_mapping.model_dump_json()
            change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            files = files_of(table.io, change.table_metadata, paths)
            update = Replacement(change, table.io, properties)
            update.replace((task.file for task in table.scan().plan_files()), files)
            update.commit()

    def _snapshot_id(self, table: Table, number: int, cut: str) -> int | None:
        """Return the id of the snapshot with a sequence number, if it is that of a cut."""
        for item in table.snapshots():
            properties = item.summary.additional_properties if item.summary else {}
            if item.sequence_number == number and properties.get(CUT) == cut:
                return item.snapshot_id
        return None

    def forget(self, table: str, number: int, cut: str) -> None:
        """Expire the snapshot of a cut."""
        found = self._table(table)
        known = None if found is None else self._snapshot_id(found, number, cut)
        if found is None or known is None:
            return
        if number == found.last_sequence_number:
            raise Error(
                Code.CONFLICT,
                f"it is the last snapshot of the {ICEBERG} table {table}; make a newer one first",
            )
        found.maintenance.expire_snapshots().by_id(known).commit()

    def address(self, table: str, number: int, cut: str) -> Mapping[str, object] | None:
        """Return the table's metadata and the snapshot's id; None if it is forgotten."""
        found = self._table(table)
        known = None if found is None else self._snapshot_id(found, number, cut)
        if found is None or known is None:
            return None
        return {ICEBERG: found.metadata_location, f"{ICEBERG}_snapshot": known}

    def rows(self, address: Mapping[str, object]) -> Rows:
        """Return the rows of the files that pyiceberg finds for a snapshot.

        It is not asked for the rows: it reads a null list of structs as an empty one (0.12, its
        issue 3833).
        """
        table = StaticTable.from_metadata(str(address[ICEBERG]), self._files)
        known = cast("int", address[f"{ICEBERG}_snapshot"])
        parts = list[Rows]()
        for task in table.scan(snapshot_id=known).plan_files():
            with table.io.new_input(task.file.file_path).open() as file:
                parts.append(pq.ParquetFile(file).read())
        schema = joined_schema(part.schema for part in parts)
        return pa.concat_tables([schema.empty_table(), *(shaped(part, schema) for part in parts)])
