"""Catalogs: snapshots as versions of open tables, over the same files (S20).

    delta/<table>/           a Delta table: its log, and a link to each snapshot's files
    iceberg/                 Iceberg's metadata, and catalog.db, in which tables are found by name
    .named/<snapshot>        somebody's metadata names this snapshot's files

Each snapshot is one version of each of its tables. The manifest says which (``catalog``), the
version's metadata has the cut (``rowcast.cut``) and the digest. Nothing is copied. The number of a
version is that of the last one plus one, so the manifest has it before it is true; the version is
written when the snapshot is there, or by the next export if this one is killed between. A snapshot
is removed when no version names its files: first the version is forgotten, and those before it
where a format only forgets the oldest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rowcast.core.errors import Code, Error
from rowcast.features.snapshots.snapshot_directory import NAMED, SnapshotDirectory
from rowcast.store.private import make_directory, make_file
from rowcast_lake.snapshots.manifest import FileFacts, Manifest, TableFacts, read_manifest

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
CUT: Final = "rowcast.cut"
DIGEST: Final = "rowcast.digest"
"""Names in a version's metadata."""
_NEEDED: Final = {DELTA: "deltalake", ICEBERG: "pyiceberg"}
_SERVER_S: Final = "_sys_"
"""The server's own facts are in no catalog."""


@dataclass(frozen=True, slots=True)
class Version:
    """One table of one snapshot, as a catalog gets it."""

    table: str
    snapshot: str
    """The snapshot's directory name."""
    cut: str
    digest: str
    files: Sequence[FileFacts]
    schema: pa.Schema


class Catalog(Protocol):
    """The tables of one format."""

    def last(self, table: str) -> int:
        """Return the number of a table's last version; one less than the first if there is none."""

    def add(self, version: Version) -> None:
        """Make a version of these files, which replace all others."""

    def forget(self, table: str, number: int) -> None:
        """Let no metadata name the files of a version; raises CONFLICT if it is the last."""

    def address(self, table: str, number: int) -> Mapping[str, object] | None:
        """Return where a version is read; None if it is forgotten."""


class Catalogs:
    """The catalogs of a directory of snapshots."""

    def __init__(self, directory: Path, kinds: Iterable[str]) -> None:
        """Open catalogs, by the names of their formats; raises UNSUPPORTED without a library."""
        self._directory = directory
        self._kinds = {kind: _MAKERS[kind](directory) for kind in sorted(set(kinds))}

    @classmethod
    def there(cls, directory: Path) -> "Catalogs":
        """Open the catalogs that a directory has."""
        return cls(directory, [kind for kind in _MAKERS if (directory / kind).is_dir()])

    def next_versions(self, tables: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return for each catalog the numbers that the tables' next versions will have."""
        names = [name for name in tables if not name.startswith(_SERVER_S)]
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
            facts = manifest.tables[table]
            catalog.add(
                Version(
                    table, name, manifest.cut, facts.digest, facts.files, self._schema(name, facts)
                )
            )

    def _schema(self, name: str, facts: TableFacts) -> pa.Schema:
        return pq.read_schema(self._directory / name / facts.files[0].path)

    def forget(self, name: str) -> None:
        """Let no metadata name the files of a snapshot, which is about to be removed."""
        mark = self._directory / NAMED / name
        if not mark.exists():
            return
        for kind, numbers in read_manifest(self._directory / name).catalog.items():
            if kind in self._kinds:
                for table, number in numbers.items():
                    self._kinds[kind].forget(table, number)
        mark.unlink()

    def addresses(self, table: str, manifest: Manifest) -> dict[str, object]:
        """Return where a table of a snapshot is read, by the names of the formats."""
        found: dict[str, object] = {}
        for kind, numbers in manifest.catalog.items():
            if kind in self._kinds and table in numbers:
                found |= self._kinds[kind].address(table, numbers[table]) or {}
        return found


def _mark(directory: Path, name: str) -> None:
    """Note that metadata names a snapshot: before it does, so that no crash comes between."""
    make_directory(directory / NAMED)
    if not (directory / NAMED / name).exists():
        make_file(directory / NAMED / name)


def forgetting(directory: Path) -> SnapshotDirectory:
    """Return a directory whose removals first let the catalogs forget a snapshot."""

    def forget(name: str) -> None:
        Catalogs.there(directory).forget(name)

    return SnapshotDirectory(directory, forget)


def _delta(directory: Path) -> Catalog:
    _need(DELTA)
    from rowcast_lake.snapshots.delta_catalog import DeltaCatalog  # noqa: PLC0415 - an extra

    return DeltaCatalog(directory / DELTA)


def _iceberg(directory: Path) -> Catalog:
    _need(ICEBERG)
    from rowcast_lake.snapshots.iceberg_catalog import IcebergCatalog  # noqa: PLC0415 - an extra

    return IcebergCatalog(directory / ICEBERG)


def _need(kind: str) -> None:
    if find_spec(_NEEDED[kind]) is None:
        raise Error(
            Code.UNSUPPORTED,
            f"snapshots.catalog: {kind} needs {_NEEDED[kind]}, which is not installed: "
            "pip install 'rowcast[lake]'",
        )


_MAKERS: Final[Mapping[str, Callable[[Path], Catalog]]] = {DELTA: _delta, ICEBERG: _iceberg}
KINDS: Final = tuple(_MAKERS)
