"""Delta: each snapshot is a version of a Delta table, by add actions (delta-rs, without Java).

    delta/Dog/_delta_log/
    delta/Dog/000000000000001042 -> ../../000000000000001042/Dog

delta-rs reads files below the table's own directory only, so a symbolic link stands for the files
of each snapshot. A Delta log forgets only its oldest versions: a checkpoint of the first that stays
replaces the entries before it. Source: the Delta transaction log protocol, Checkpoints.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions

from rowcast.core.errors import Code, Error
from rowcast.store.private import make_directory
from rowcast_lake.snapshots.catalogs import CUT, DELTA, DIGEST, Version

_LOG: Final = "_delta_log"
_ENTRY: Final = re.compile(r"([0-9]{20})\.(json|checkpoint\.parquet)", re.ASCII)


class DeltaCatalog:
    """The Delta tables below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def last(self, table: str) -> int:
        """Return the number of a table's last version; -1 if there is none."""
        place = self._directory / table
        if not (place / _LOG).is_dir() or not DeltaTable.is_deltatable(str(place)):
            return -1
        return DeltaTable(place).version()

    def add(self, version: Version) -> None:
        """Commit a version whose files replace all others."""
        place = self._directory / version.table
        make_directory(place)
        link = place / version.snapshot
        if not link.is_symlink():
            link.symlink_to(Path("../..") / version.snapshot / version.table)
        schema = Schema.from_arrow(_nullable(version.schema))
        actions = [self._action(version, link, at) for at in range(len(version.files))]
        told = CommitProperties(custom_metadata={CUT: version.cut, DIGEST: version.digest})
        if self.last(version.table) < 0:
            create_table_with_add_actions(
                str(place), schema, actions, mode="error", name=version.table,
                commit_properties=told,
            )  # fmt: skip
            return
        DeltaTable(place).create_write_transaction(
            [*actions], "overwrite", schema, commit_properties=told
        )

    def _action(self, version: Version, link: Path, at: int) -> AddAction:
        file = version.files[at]
        path = file.path.removeprefix(f"{version.table}/")
        changed = round((link / path).stat().st_mtime * 1_000)
        stats = json.dumps({"numRecords": file.rows})
        return AddAction(f"{link.name}/{path}", file.bytes, {}, changed, True, stats)

    def forget(self, table: str, number: int) -> None:
        """Replace the log's entries up to a version by a checkpoint of the one after it."""
        last, log = self.last(table), self._directory / table / _LOG
        if number > last:
            return
        if number == last:
            raise Error(
                Code.CONFLICT,
                f"it is the last version of the {DELTA} table {table}; make a newer snapshot first",
            )
        entries = {path: int(found[1]) for path in log.iterdir()
                   if (found := _ENTRY.fullmatch(path.name))}  # fmt: skip
        old = sorted(path for path, entry in entries.items() if entry <= number)
        if old:
            DeltaTable(self._directory / table, version=number + 1).create_checkpoint()
        for path in old:  # the oldest first: what is left is the end of a log at any moment
            path.unlink()
        self._unlink(table)

    def _unlink(self, table: str) -> None:
        """Remove the links to snapshots that no version names."""
        place = self._directory / table
        named = set[str]()
        for path in (place / _LOG).glob("*.json"):
            for line in path.read_text().splitlines():
                added = json.loads(line).get("add")
                if added:
                    named.add(added["path"].partition("/")[0])
        named |= {Path(uri).relative_to(place).parts[0] for uri in DeltaTable(place).file_uris()}
        for link in place.iterdir():
            if link.is_symlink() and link.name not in named:
                link.unlink()

    def address(self, table: str, number: int) -> Mapping[str, object] | None:
        """Return the table's directory and the version; None if it is forgotten."""
        log = self._directory / table / _LOG
        if not any((log / f"{number:020d}{end}").exists() for end in (".json",)):
            return None
        return {DELTA: str(self._directory / table), f"{DELTA}_version": number}


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as a table has them: a later snapshot may lack any of them."""
    return pa.schema([field.with_nullable(True) for field in schema])
