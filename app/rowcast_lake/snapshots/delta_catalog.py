"""Delta: each snapshot is a version of a Delta table, by add actions (delta-rs, without Java).

    delta/Dog/_delta_log/
    delta/Dog/000000000000001042 -> ../../000000000000001042/Dog

delta-rs reads files below the table's own directory only, so a symbolic link stands for the files
of each snapshot; in an object store they are there themselves (``StoredDeltaCatalog``). A Delta log
forgets only its oldest versions: a checkpoint of the first that stays replaces the entries before
it. Source: the Delta transaction log protocol, Checkpoints.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from rowcast.core.errors import Code, Error
from rowcast.core.partitions import NONE, PREFIX, Unit
from rowcast.core.snapshot_paths import DELTA, plain_path
from rowcast.store.private import make_directory
from rowcast_lake.snapshots.catalogs import CUT, DIGEST, Place, Rows, Version, remove_file
from rowcast_lake.snapshots.delta_stats import stats_of
from rowcast_lake.snapshots.manifest import FileFacts
from rowcast_lake.stores.object_paths import ObjectPath, refusing

_LOG: Final = "_delta_log"
_ENTRY: Final = re.compile(r"([0-9]{20})\.(json|checkpoint\.parquet)", re.ASCII)
_HIVE: Final = re.compile(r"([^/=]+)=([^/]*)/")
_TIMES: Final[Mapping[str, pa.DataType]] = {Unit.DAY: pa.date32(), Unit.HOUR: pa.int32()}
"""The columns of directories that have no text, and are of no attribute."""
_STORE: Final = {"allow_http": "true", "max_retries": "3"}
"""How delta-rs reaches a store: at what ``AWS_ENDPOINT_URL`` says, with TLS or without, in as many
attempts as pyarrow. It reads AWS's variables itself."""


class DeltaCatalog:
    """The Delta tables below one directory."""

    options: dict[str, str] | None = None
    """How delta-rs reaches the tables."""

    def __init__(self, directory: Place) -> None:
        self._directory = directory
        self._last: dict[str, int] = {}

    def _open(self, table: str, version: int | None = None) -> DeltaTable:
        place = str(self._directory / table)
        return DeltaTable(place, version=version, storage_options=self.options)

    def _entries(self, table: str) -> dict[str, int]:
        """Return the names of the files of a table's log, with the numbers of their versions."""
        log = self._directory / table / _LOG
        names = [path.name for path in log.iterdir()] if log.is_dir() else ()
        return {name: int(found[1]) for name in names if (found := _ENTRY.fullmatch(name))}

    def last(self, table: str) -> int:
        """Return the number of a table's last version; -1 if there is none."""
        if table not in self._last:
            self._last[table] = self._open(table).version() if self._entries(table) else -1
        return self._last[table]

    def add(self, version: Version) -> None:
        """Commit a version; raises CONFLICT when another program took its number."""
        try:
            self._commit(version)
        except CommitFailedError as error:
            raise Error(
                Code.CONFLICT,
                f"another program made version {version.number} of the {DELTA} table "
                f"{version.table}; let only exports write there, and remove {self._directory}: the "
                "next one begins it anew",
            ) from error

    def _commit(self, version: Version) -> None:
        """Commit a version whose files replace all others; under its number, or not at all."""
        self._prepare(version)
        schema = Schema.from_arrow(_columns(version))
        root = self._directory.parent / version.snapshot
        actions = [_action(version, file, root) for file in version.files]
        properties = CommitProperties(
            {CUT: version.cut, DIGEST: version.digest}, max_commit_retries=0
        )
        self._last.pop(version.table, None)
        divided = [*_columns_of_directories(version)]
        new = version.number == 0
        table = None if new else self._open(version.table, version.number - 1)
        if table is None or table.metadata().partition_columns != divided:
            # Only a replaced table has other partition columns; its versions stay.
            create_table_with_add_actions(
                str(self._directory / version.table), schema, actions,
                "error" if new else "overwrite", divided,
                name=version.table, commit_properties=properties, storage_options=self.options,
            )  # fmt: skip
            if self._open(version.table).version() != version.number:
                raise CommitFailedError(f"{version.table} has another version {version.number}")
            return
        table.create_write_transaction(
            [*actions], "overwrite", schema, divided, commit_properties=properties
        )

    def _prepare(self, version: Version) -> None:
        """Let the files be below the table."""
        place = self._directory / version.table
        if isinstance(place, Path):
            make_directory(place)
            link = place / version.snapshot
            if not link.is_symlink():
                link.symlink_to(Path("../..") / version.snapshot / version.table)

    def forget(self, table: str, number: int, _cut: str) -> None:
        """Replace the log's entries up to a version by a checkpoint of the one after it."""
        last = self.last(table)
        if number > last:
            return
        if number == last:
            raise Error(
                Code.CONFLICT,
                f"it is the last version of the {DELTA} table {table}; make a newer snapshot first",
            )
        entries = self._entries(table)
        old = sorted(name for name in entries if entries[name] <= number)
        if old:
            self._open(table, number + 1).create_checkpoint()
        for name in old:  # the oldest first: what is left is the end of a log at any moment
            remove_file(self._directory / table / _LOG / name)
        self._unlink(table)

    def _unlink(self, table: str) -> None:
        """Remove the links to snapshots that no version names."""
        place = self._directory / table
        if not isinstance(place, Path):
            return
        named = set[str]()
        for path in (place / _LOG).glob("*.json"):
            for line in path.read_text().splitlines():
                added = json.loads(line).get("add")
                if added:
                    named.add(added["path"].partition("/")[0])
        named |= {Path(uri).relative_to(place).parts[0] for uri in self._open(table).file_uris()}
        for link in place.iterdir():
            if link.is_symlink() and link.name not in named:
                link.unlink()

    def _entry(self, table: str, number: int) -> Place:
        return self._directory / table / _LOG / f"{number:020d}.json"

    def address(self, table: str, number: int, _cut: str) -> Mapping[str, object] | None:
        """Return the table's directory and the version; None if it is forgotten."""
        if not self._entry(table, number).is_file():
            return None
        return {DELTA: str(self._directory / table), f"{DELTA}_version": number}

    def rows(self, address: Mapping[str, object]) -> Rows:
        """Return the rows of a version, as delta-rs reads them."""
        place, version = str(address[DELTA]), cast("int", address[f"{DELTA}_version"])
        found = DeltaTable(place, version=version, storage_options=self.options)
        return found.to_pyarrow_table()


class StoredDeltaCatalog(DeltaCatalog):
    """The Delta tables of an object store, where no lock keeps a second exporter away.

    delta-rs writes each entry of a log on condition that there is none (``If-None-Match``), so of
    two that commit one number one is refused. Its snapshot has no version then, though its manifest
    announced the number: a version is a snapshot's if it has the cut. Source: Delta's protocol,
    Delta Log Entries.
    """

    options = _STORE

    def __init__(self, directory: ObjectPath) -> None:
        super().__init__(directory)
        self._place = directory

    def add(self, version: Version) -> None:
        """Commit a version; raises CONFLICT when another program took its number."""
        with refusing(self._place, (DeltaError, OSError, pa.ArrowException)):
            try:
                self._commit(version)
            except DeltaError as error:
                if self._has(version.table, version.number, version.cut):
                    return  # only the answer was lost
                if not self._entry(version.table, version.number).is_file():
                    raise
                raise Error(
                    Code.CONFLICT,
                    f"another export made version {version.number} of the {DELTA} table "
                    f"{version.table} in {self._place}; let one server write there, and take the "
                    "snapshot again",
                ) from error

    def _has(self, table: str, number: int, cut: str) -> bool:
        """Whether a version is there, and is that of a cut."""
        entry = self._entry(table, number)
        if not entry.is_file():
            return False
        facts = (json.loads(line).get("commitInfo") for line in entry.read_text().splitlines())
        return any(properties is not None and properties.get(CUT) == cut for properties in facts)

    def last(self, table: str) -> int:
        """Return the number of a table's last version; raises BUSY."""
        with refusing(self._place, (DeltaError, OSError, pa.ArrowException)):
            return super().last(table)

    def forget(self, table: str, number: int, cut: str) -> None:
        """Forget the version of a cut, if it is there, and those before it; raises BUSY."""
        with refusing(self._place, (DeltaError, OSError, pa.ArrowException)):
            if self._has(table, number, cut):
                super().forget(table, number, cut)

    def address(self, table: str, number: int, cut: str) -> Mapping[str, object] | None:
        """Return the table's URL and the version; None if it is forgotten, or of another cut."""
        with refusing(self._place):
            found = self._has(table, number, cut)
        return super().address(table, number, cut) if found else None


def _action(version: Version, file: FileFacts, root: Place) -> AddAction:
    """Return the entry of a file, with what an engine needs to leave it out of a query."""
    path = plain_path(file.path).removeprefix(f"{version.table}/")
    made = round(datetime.fromisoformat(version.created).timestamp() * 1_000)
    stats = stats_of(root / file.path, file.rows)
    known = {name: None if text == NONE else unquote(text) for name, text in _HIVE.findall(path)}
    values = {name: known.get(name) for name in _columns_of_directories(version)}
    return AddAction(f"{version.snapshot}/{path}", file.bytes, values, made, True, stats)


def _columns_of_directories(version: Version) -> tuple[str, ...]:
    return version.partition.columns if version.partition else ()


def _columns(version: Version) -> pa.Schema:
    """Return the columns of the table: those of the files, and of their directories.

    All may be null, because a later snapshot may lack any of them.
    """
    fields = [field.with_nullable(True) for field in version.schema]
    kinds = {field.name: field.type for field in fields}
    for name in _columns_of_directories(version):
        kind = _TIMES.get(name, pa.string())
        fields.append(pa.field(name, kinds.get(name.removeprefix(PREFIX), kind)))
    return pa.schema(fields)
