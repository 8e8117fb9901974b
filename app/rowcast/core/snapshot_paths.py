"""Paths of a snapshot's files, as its manifest names them: relative to the snapshot.

``Dog/part-00000.parquet`` is below it. delta-rs reads files below a table's own directory only, and
an object store has no links: there a Delta table's directory has the files of its snapshots, as
``../delta/Dog/000000000000001042/part-00000.parquet``.
"""

import re
from typing import Final

DELTA: Final = "delta"
"""Where the Delta tables are, below the place of snapshots."""
_IN_DELTA: Final = re.compile(rf"\.\./{DELTA}/([^/]+)/[^/]+(/.*)?", re.DOTALL)


def folder_in_delta(table: str, name: str) -> str:
    """Return where a Delta table has the files of a snapshot, as seen from the snapshot."""
    return f"../{DELTA}/{table}/{name}"


def plain_path(path: str) -> str:
    """Return a file's path as if it were below its snapshot: ``Dog/part-00000.parquet``."""
    found = _IN_DELTA.fullmatch(path)
    return path if found is None else f"{found[1]}{found[2] or ''}"


def leads_out(path: str) -> bool:
    """Whether a file's path may lead elsewhere than to a snapshot's own files, or to Delta's."""
    parts = path.removeprefix(f"../{DELTA}/").split("/")
    return not {"", ".", ".."}.isdisjoint(parts)
