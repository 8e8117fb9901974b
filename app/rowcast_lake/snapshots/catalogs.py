"""Catalogs: snapshots as versions of open tables, over the same files (S20).

    delta/<table>/           a Delta table: its log, and a link to each snapshot's files
    iceberg/                 Iceberg's metadata, and catalog.db, in which tables are found by name
    .named/<snapshot>        somebody's metadata names this snapshot's files

An object store has no links: there ``delta/<table>/<snapshot>/`` has the files themselves, and the
manifest says so, and Iceberg's metadata is found by its names (``stored_iceberg``).

Each snapshot is one version of each of its tables. The manifest says which (``catalog``), the
version's metadata has the cut (``rowcast.cut``) and the digest. Nothing is copied. The number of a
version is that of the last one plus one, so the manifest has it before it is true; the version is
written when the snapshot is there, or by the next export if this one is killed between. A snapshot
is removed when no version names its files: first the version is forgotten, and those before it
where a format only forgets the oldest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rowcast.core.errors import Code, Error
from rowcast.core.partitions import Partition
from rowcast.core.snapshot_paths import DELTA, folder_in_delta
from rowcast.features.snapshots.snapshot_directory import NAMED
from rowcast.schema import parse_schema
from rowcast.store.private import make_directory, make_file
from rowcast_lake.snapshots.manifest import FileFacts, Manifest, read_manifest
from rowcast_lake.stores.object_paths import ObjectPath

ICEBERG: Final = "iceberg"
CUT: Final = "rowcast.cut"
DIGEST: Final = "rowcast.digest"
"""Names in a version's metadata."""
_NEEDED: Final = {DELTA: "deltalake", ICEBERG: "pyiceberg"}
_SERVER_S: Final = "_sys_"
"""The server's own facts are in no catalog."""
Place = Path | ObjectPath
"""Where snapshots and their catalogs are."""
Rows = Any
"""A ``pyarrow.Table``."""


@dataclass(frozen=True, slots=True)
class Version:
    """One table of one snapshot, as a catalog gets it."""

    table: str
    snapshot: str
    """The snapshot's directory name."""
    number: int
    """The number that its manifest announces: the last one plus one."""
    cut: str
    digest: str
    created: str
    """When the snapshot was made, as in its manifest."""
    files: Sequence[FileFacts]
    schema: pa.Schema
    partition: Partition | None = None
    """By what the files are in directories."""


class Catalog(Protocol):
    """The tables of one format."""

    def last(self, table: str) -> int:
        """Return the number of a table's last version; one less than the first if there is none."""

    def add(self, version: Version) -> None:
        """Make a version of these files, which replace all others; raises CONFLICT, BUSY."""

    def forget(self, table: str, number: int, cut: str) -> None:
        """Let no metadata name the files of a version; raises CONFLICT if it is the last."""

    def address(self, table: str, number: int, cut: str) -> Mapping[str, object] | None:
        """Return where the version of a cut is read; None if it is forgotten."""

    def rows(self, address: Mapping[str, object]) -> Rows:
        """Return the rows of a version that ``address`` has found, in any order."""


class Catalogs:
    """The catalogs of a directory of snapshots."""

    def __init__(self, directory: Place, kinds: Iterable[str]) -> None:
        """Open catalogs, by the names of their formats; raises UNSUPPORTED without a library."""
        self._directory = directory
        self._kinds = {kind: _MAKERS[kind](directory) for kind in sorted(set(kinds))}

    @classmethod
    def there(cls, directory: Place) -> "Catalogs":
        """Open the catalogs that a directory has."""
        return cls(directory, [kind for kind in _MAKERS if (directory / kind).is_dir()])

    def folder(self, table: str, name: str) -> str:
        """Return where a snapshot has the files of a table, as seen from the snapshot."""
        stored = isinstance(self._directory, ObjectPath) and DELTA in self._kinds
        return folder_in_delta(table, name) if stored and _is_open(table) else table

    def next_versions(self, tables: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return for each catalog the numbers that the tables' next versions will have."""
        names = [name for name in tables if _is_open(name)]
        return {
            kind: {name: catalog.last(name) + 1 for name in names}
            for kind, catalog in self._kinds.items()
        }

    def catch_up(self, names: Iterable[str]) -> None:
        """Write the versions that the manifests of these snapshots announce and that lack."""
        for name in names if self._kinds else ():
            manifest = read_manifest(self._directory / name)
            for kind, numbers in manifest.catalog.items():
                if kind in self._kinds:
                    self._catch_up(self._kinds[kind], kind, name, manifest, numbers)

    def _catch_up(
        self,
        catalog: Catalog,
        kind: str,
        name: str,
        manifest: Manifest,
        numbers: Mapping[str, int],
    ) -> None:
        for table, number in numbers.items():
            if number <= catalog.last(table):
                continue
            if number != catalog.last(table) + 1:
                raise Error(
                    Code.CONFLICT,
                    f"the {kind} table {table} in {self._directory} has no version before {number},"
                    f" which is {name}; remove {self._directory / kind}, and it begins anew",
                )
            _mark(self._directory, name)
            catalog.add(self._version(table, name, number, manifest))

    def _version(self, table: str, name: str, number: int, manifest: Manifest) -> Version:
        facts = manifest.tables[table]
        with (self._directory / name / facts.files[0].path).open("rb") as file:
            schema = pq.read_schema(file)
        properties = manifest.cut, facts.digest, manifest.created
        tables = parse_schema(manifest.schema).tables if facts.partition else ()
        divided = next((item.partition for item in tables if item.name == table), None)
        return Version(table, name, number, *properties, facts.files, schema, divided)

    def forget(self, name: str) -> None:
        """Let no metadata name the files of a snapshot, which is about to be removed."""
        mark = self._directory / NAMED / name
        if not mark.is_file():
            return
        manifest = read_manifest(self._directory / name)
        for kind, numbers in manifest.catalog.items():
            if kind in self._kinds:
                for table, number in numbers.items():
                    self._kinds[kind].forget(table, number, manifest.cut)
        remove_file(mark)

    def addresses(self, table: str, manifest: Manifest) -> dict[str, object]:
        """Return where a table of a snapshot is read, by the names of the formats."""
        found: dict[str, object] = {}
        for kind, numbers in manifest.catalog.items():
            if kind in self._kinds and table in numbers:
                address = self._kinds[kind].address(table, numbers[table], manifest.cut)
                found |= address or {}
        return found

    def readers(self, table: str, manifest: Manifest) -> Iterator[tuple[str, Callable[[], Rows]]]:
        """Yield the name of each format, and what reads its rows of a table of a snapshot."""
        for kind, numbers in manifest.catalog.items():
            catalog = self._kinds.get(kind)
            if catalog is not None and table in numbers:
                address = catalog.address(table, numbers[table], manifest.cut)
                if address:
                    yield kind, partial(catalog.rows, address)


def _is_open(table: str) -> bool:
    return not table.startswith(_SERVER_S)


def _mark(directory: Place, name: str) -> None:
    """Note that metadata names a snapshot: before it does, so that no crash comes between."""
    mark = directory / NAMED / name
    if isinstance(mark, ObjectPath):
        mark.write_bytes(b"")
    elif not mark.exists():
        make_directory(mark.parent)
        make_file(mark)


def remove_file(path: Place) -> None:
    """Remove a file or object."""
    if isinstance(path, ObjectPath):
        path.remove()
    else:
        path.unlink()


def _delta(directory: Place) -> Catalog:
    _need(DELTA)
    from rowcast_lake.snapshots import delta_catalog  # noqa: PLC0415 - an extra

    if isinstance(directory, ObjectPath):
        return delta_catalog.StoredDeltaCatalog(directory / DELTA)
    return delta_catalog.DeltaCatalog(directory / DELTA)


def _iceberg(directory: Place) -> Catalog:
    _need(ICEBERG)
    if isinstance(directory, ObjectPath):
        from rowcast_lake.snapshots import stored_iceberg  # noqa: PLC0415 - an extra

        return stored_iceberg.StoredIcebergCatalog(directory / ICEBERG)
    from rowcast_lake.snapshots import iceberg_catalog  # noqa: PLC0415 - an extra

    return iceberg_catalog.open_catalog(directory / ICEBERG)


def _need(kind: str) -> None:
    if find_spec(_NEEDED[kind]) is None:
        raise Error(
            Code.UNSUPPORTED,
            f"snapshots.catalog: {kind} needs {_NEEDED[kind]}, which is not installed: "
            "pip install 'rowcast[lake]'",
        )


_MAKERS: Final[Mapping[str, Callable[[Place], Catalog]]] = {DELTA: _delta, ICEBERG: _iceberg}
KINDS: Final = tuple(_MAKERS)
