"""Verification: whether a snapshot matches its manifest, in bytes and in content (S10).

The hashes of the files detect changed files; the digests, recomputed from the rows, detect a
manifest of other rows. The error names the first difference.
"""

import hashlib
from typing import Final

import pyarrow as pa

from rowcast.core.errors import Code, Error
from rowcast.core.snapshot_limits import SNAPSHOT_MERGE_ROWS
from rowcast.features.snapshots.snapshot_directory import MAKING
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.manifest import (
    FILE_NAME,
    FileFacts,
    Manifest,
    TableFacts,
    read_manifest,
)
from rowcast_lake.snapshots.reading import rows_of
from rowcast_lake.stores.object_paths import Directory, ObjectPath

_PIECE_BYTES: Final = 1024 * 1024


def verify(directory: Directory, merge_rows: int = SNAPSHOT_MERGE_ROWS) -> Manifest:
    """Return the manifest of a snapshot that matches it; raises INVALID if it does not.

    ``merge_rows`` are those of ``reading.rows_of``.
    """
    manifest = read_manifest(directory)
    _check_names(directory, manifest)
    for name, facts in manifest.tables.items():
        for item in facts.files:
            _check_file(directory, item)
        _check_content(directory, name, facts, merge_rows)
    return manifest


def _check_names(directory: Directory, manifest: Manifest) -> None:
    listed = {item.path for facts in manifest.tables.values() for item in facts.files}
    found = _files_in(directory, "")
    for facts in manifest.tables.values():
        if facts.folder.startswith(".."):
            found |= _files_in(directory / facts.folder, f"{facts.folder}/")
    for path in sorted(listed - found):
        raise _different(directory, f"{path} is missing")
    for path in sorted(found - listed):
        raise _different(directory, f"{path} is there, and the manifest does not tell of it")


def _files_in(folder: Directory, prefix: str) -> set[str]:
    """Return the paths of the files in a folder, as the manifest has them."""
    return {
        f"{prefix}{str(path)[len(f'{folder}/') :]}"
        for path in folder.rglob("*")
        if not path.is_dir() and path.name != FILE_NAME and not _is_mark(folder, path)
    }


def _is_mark(directory: Directory, path: Directory) -> bool:
    """Whether an export that has ended left its mark in an object store."""
    return isinstance(directory, ObjectPath) and path.name.startswith(MAKING)


def _check_file(directory: Directory, item: FileFacts) -> None:
    path = directory / item.path
    size = path.stat().st_size
    if size != item.bytes:
        raise _different(directory, f"{item.path} has {size} bytes, it should have {item.bytes}")
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    if found.hexdigest() != item.sha256:
        raise _different(
            directory, f"{item.path} has the SHA-256 {found.hexdigest()}, not {item.sha256}"
        )


def _check_content(directory: Directory, name: str, facts: TableFacts, merge_rows: int) -> None:
    digest = Digest(facts.content)
    try:
        for batch in rows_of(directory, facts, merge_rows):
            digest.update(batch)
    except (pa.ArrowException, OSError) as error:
        raise _different(directory, f"{name} cannot be read as Parquet: {error}") from error
    if digest.rows != facts.rows:
        raise _different(directory, f"{name} has {digest.rows} rows, it should have {facts.rows}")
    if str(digest) != facts.digest:
        raise _different(directory, f"{name} has the digest {digest}, not {facts.digest}")


def _different(directory: Directory, what: str) -> Error:
    return Error(
        Code.INVALID, f"{directory.name}: {what}; remove this snapshot and take another one"
    )
