"""The manifest: a snapshot's own description, sufficient to check it without the server.

``manifest.json`` is written last, so a directory that has one is complete. A reader needs only
``tables.<name>.files``; to verify the content, compute ``digest``
(``rowcast_lake/snapshots/digest.py``).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa

from rowcast import __version__
from rowcast.core.cursors import Cursor
from rowcast.core.errors import Code, Error
from rowcast.core.snapshot_paths import leads_out
from rowcast_lake.stores.object_paths import ObjectPath

FORMAT: Final = 3
"""The format written. Format 1 wrote an explicit null as absence; format 2 had a column
``_version``, the number of ``_ts``, and no encodings (``encodings``). The digest is the same."""
READ: Final = frozenset({1, 2, FORMAT})
"""The formats that can be read."""
FILE_NAME: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One Parquet file: its path as seen from the snapshot, its rows, bytes and hash."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column as declared."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table: its size, its range of the log, and the digest of its content."""

    rows: int
    seq_min: int | None
    seq_max: int | None
    digest: str
    key: str
    content: tuple[str, ...]
    """The columns that the digest covers."""
    columns: tuple[ColumnFacts, ...]
    partition: str | None
    files: tuple[FileFacts, ...]

    @property
    def folder(self) -> str:
        """Where its files are, as seen from the snapshot: ``Dog``, or ``../delta/Dog/1042``."""
        parts = self.files[0].path.split("/")
        return "/".join(parts[: 4 if parts[0] == ".." else 1])


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot, or a page of changes, whose first number is ``from_seq``."""

    epoch: str
    seq: int
    created: str
    schema: str
    tables: Mapping[str, TableFacts]
    from_seq: int | None = None
    audience: str | None = None
    """The role that may see it; None: administrators, who see all but hidden attributes."""
    catalog: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The version of each table in each catalog of open tables: ``{"delta": {"Dog": 3}}``."""
    partitions: Mapping[str, str] = field(default_factory=dict)
    """By what a table is divided, as its schema says it, which a role is not shown."""
    server: str = field(default=f"rowcast {__version__}")
    format: int = FORMAT

    @property
    def cut(self) -> str:
        """The cursor from which the log continues."""
        return str(Cursor(self.epoch, self.seq))

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def bytes(self) -> int:
        """The size of all files, in bytes."""
        return sum(item.bytes for table in self.tables.values() for item in table.files)

    @property
    def text(self) -> str:
        """The manifest as JSON."""
        facts = {
            "format": self.format,
            "cut": self.cut,
            "epoch": self.epoch,
            "seq": self.seq,
            "from_seq": self.from_seq,
            "created": self.created,
            "server": self.server,
            "audience": self.audience,
            "schema": self.schema,
            "catalog": self.catalog,
            "partitions": self.partitions,
            "tables": {name: asdict(table) for name, table in self.tables.items()},
        }
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def columns_of(schema: pa.Schema) -> tuple[ColumnFacts, ...]:
    """Return the columns of a file."""
    return tuple(ColumnFacts(item.name, str(item.type), item.nullable) for item in schema)


def time_text(now_seconds: float) -> str:
    """Return a time in the format of manifests: UTC, to the millisecond."""
    moment = datetime.fromtimestamp(now_seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_manifest(directory: Path | ObjectPath) -> Manifest:
    """Return the manifest of a snapshot; raises Error when it is missing or unreadable."""
    path = directory / FILE_NAME
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["format"] not in READ:
            raise Error(
                Code.INVALID,
                f"{path} is of format {known['format']}; this version reads formats "
                f"{' and '.join(map(str, sorted(READ)))}",
            )
        tables = {name: _table(facts) for name, facts in known["tables"].items()}
        return Manifest(
            known["epoch"],
            known["seq"],
            known["created"],
            known["schema"],
            tables,
            known["from_seq"],
            known.get("audience"),
            known.get("catalog") or {},
            known.get("partitions") or {},
            known["server"],
            known["format"],
        )
    except FileNotFoundError:
        raise Error(Code.NOT_FOUND, f"{directory} is no snapshot: it has no {FILE_NAME}") from None
    except OSError as error:
        raise Error(Code.BUSY, f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(
            Code.INVALID, f"{path} is damaged ({error}); take the snapshot again"
        ) from error


def _table(facts: dict[str, Any]) -> TableFacts:
    known = dict(facts)
    known["content"] = tuple(cast("list[str]", known["content"]))
    known["columns"] = tuple(ColumnFacts(**item) for item in known["columns"])
    known["files"] = tuple(FileFacts(**item) for item in known["files"])
    if any(leads_out(item.path) for item in known["files"]):
        raise ValueError("it names a file that is not of the snapshot")
    return TableFacts(**known)
