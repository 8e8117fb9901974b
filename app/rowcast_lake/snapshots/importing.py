"""Importing: Parquet files as records of a declared table (S19).

Files of a snapshot are restored exactly: of the columns that begin with an underscore ``_extra``
has undeclared attributes, ``_id`` the id of a table without a key, ``_payload`` content as bytes;
the others describe the original write and are ignored. Any other file is read by the names of its
columns. A null means that the attribute is absent.

All rows are checked against the table before the first is written; the caller writes them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from re import compile as pattern
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowcast.codecs import JSON, MSGPACK, decode, encode
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT
from rowcast.core.export_limits import IMPORT_BATCH_ROWS
from rowcast.core.snapshot_paths import folder_in_delta
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import check_topic
from rowcast.core.values import Checker, id_text, parse_id
from rowcast.features.snapshots.snapshot_directory import NEWEST
from rowcast_lake.columns.joining import joined, shaped
from rowcast_lake.snapshots.column_checks import ColumnChecks
from rowcast_lake.snapshots.manifest import FILE_NAME
from rowcast_lake.snapshots.packed_rows import packed_rows
from rowcast_lake.snapshots.shapes import ID, MOMENT, REST, loads
from rowcast_lake.stores.object_paths import ObjectPath, refusing

_OP: Final = "_op"
_PAST: Final = "valid_from"
_CUT: Final = pattern(r"[0-9]{18}(-[0-9]{1,3})?")
_TEXTS: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
_CONVERT: Final = "; convert it to Parquet, or POST its rows as application/x-ndjson"
Place = Path | ObjectPath
"""A file, or a directory of files."""
Convert = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Record:
    """One row: its file and number (from 1), its id, and its value or its bytes."""

    file: Place
    row: int
    id: str
    value: object
    payload: bytes | None = None
    content_type: str | None = None

    @property
    def where(self) -> str:
        """The row's file and number, for messages."""
        return f"{self.file}, row {self.row}"


def files_of(place: Place, table: Table) -> list[Place]:
    """Return the Parquet files of a place: a file, a table's directory, or a snapshot's."""
    if isinstance(place, ObjectPath):
        with refusing(place):
            return _files_of(_snapshot(place), table)
    return _files_of(place, table)


def _files_of(place: Place, table: Table) -> list[Place]:
    for folder in (table.name, folder_in_delta(table.name, place.name)):
        if place.is_dir() and (place / folder).is_dir():
            place = place / folder
            break
    if place.is_file():
        return [place]
    every: list[Place] = [*place.rglob("*")]
    found = [path for path in every if path.name.endswith(".parquet") and _is_file(path)]
    if not found:
        raise Error(Code.NOT_FOUND, f"there is no Parquet file at {place}")
    return sorted(found, key=str)


def _is_file(path: Place) -> bool:
    return isinstance(path, ObjectPath) or path.is_file()  # an object is one


def _snapshot(place: ObjectPath) -> ObjectPath:
    """Return the snapshot that ``newest`` names; raises NOT_FOUND for one without manifest."""
    if place.name == NEWEST and place.is_file():
        place = place.beside(place.read_text().strip())
    if _CUT.fullmatch(place.name) and not (place / FILE_NAME).is_file():
        raise Error(
            Code.NOT_FOUND,
            f"{place} is no snapshot: it has no {FILE_NAME}, so its export has not ended",
        )
    return place


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of a file that are values, known to be valid by the types of their columns."""

    file: Place
    first: int
    """The number of the first row, from 1."""
    rows: list[bytes]
    """Each as a map in MessagePack."""

    def divided(self) -> "tuple[Run, Run]":
        """Return its two halves."""
        half = len(self.rows) // 2
        return (
            Run(self.file, self.first, self.rows[:half]),
            Run(self.file, self.first + half, self.rows[half:]),
        )

    def records(self, key: str) -> list[Record]:
        """Return its rows one by one; ``key`` is the attribute that is their id."""
        found: list[Record] = []
        for number, row in enumerate(self.rows, self.first):
            value = cast("dict[str, object]", decode(row, MSGPACK))
            found.append(Record(self.file, number, id_text(value[key]), value))
        return found

    @property
    def where(self) -> str:
        """The file and the numbers of its rows, for messages."""
        return f"{self.file}, row {self.first} to row {self.first + len(self.rows) - 1}"


class Importer:
    """Reads files as records of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._checker = Checker(table)
        self._columns = ColumnChecks(table)
        key = table.primary_key
        self._key = key.name if key is not None else None
        stored = [item for item in table.attributes if item.stored]
        self._texts = {item.name: _WIDER[item.type] for item in stored if item.type in _WIDER}
        self._converts = {item.name: found for item in stored if (found := _convert(item))}

    def check(self, files: list[Place]) -> int:
        """Check every row; return their number, raise for the first invalid one."""
        count = 0
        for file in files:
            number = 0
            for batch in _batches(file):
                with _reading(file):
                    batch.validate(full=True)  # text may be no UTF-8
                if not self._columns.certain(batch):
                    self._check_rows(file, number, batch)
                number += batch.num_rows
            count += number
        return count

    def _check_rows(self, file: Place, before: int, batch: Any) -> None:
        """Check the rows of a batch one by one; ``before`` is how many precede it in the file."""
        for record in self._records(file, before, batch):
            with _at(record.where):
                check_topic(self._table.topic(record.id))
                if record.payload is None:
                    self._checker.check(record.value)
                    encode(record.value, MSGPACK)  # values that are of no attribute

    def parts(self, file: Place) -> Iterator[Run | Iterator[Record]]:
        """Return the rows of a file, of the form that each batch of them allows."""
        number = 0
        for batch in _batches(file):
            names = [name for name in batch.schema.names if not name.startswith("_")]
            if self._key in names and _PAST not in names and self._columns.certain(batch):
                yield Run(file, number + 1, packed_rows(batch, names))
            else:
                yield self._records(file, number, batch)
            number += batch.num_rows

    def records(self, file: Place) -> Iterator[Record]:
        """Return the rows of a file."""
        number = 0
        for batch in _batches(file):
            yield from self._records(file, number, batch)
            number += batch.num_rows

    def _records(self, file: Place, before: int, batch: Any) -> Iterator[Record]:
        with _reading(file):
            rows = _plain(self._widened(batch))
        for number, row in enumerate(_values(rows, file, before), before + 1):
            yield self._record(file, number, row)

    def _widened(self, batch: Any) -> Any:
        """Cast columns of an older declaration to the current type, where that is wider."""
        fields = [
            pa.field(item.name, joined(item.type, pa.string()))
            if self._texts.get(item.name, _never)(item.type)
            else item
            for item in batch.schema
        ]
        return shaped(batch, pa.schema(fields))

    def _record(self, file: Place, number: int, row: dict[str, Any]) -> Record:
        found = row.get(self._key or ID, row.get("id"))
        where = f"{file}, row {number}"
        if row.get(_OP) not in {None, PUT} or _PAST in row:
            raise Error(
                Code.INVALID,
                f"{where}: it holds changes, not records; import the files of a snapshot",
            )
        if found is None:
            wanted = self._key or f"{ID} or id"
            columns = ", ".join(row) or "none"
            raise Error(
                Code.UNPROCESSABLE,
                f"{where}: it has no {wanted}, which is its id; its columns are {columns}",
            )
        record_id = id_text(found)
        if not record_id:
            wanted = self._key or f"{ID} or id"
            raise Error(Code.UNPROCESSABLE, f"{where}: its id, {wanted}, is empty")
        with _at(where):
            parse_id(self._table, record_id)
            content = self._content(row)
            if content is None:
                return Record(file, number, record_id, self._value(row))
        return Record(file, number, record_id, None, content, row.get("_content_type") or JSON)

    def _content(self, row: dict[str, Any]) -> bytes | None:
        """Return content stored as bytes, because it is no value of the table."""
        payload = row.get("_payload")
        if payload is not None:
            return cast("bytes", payload)
        rest = row.get(REST)
        return rest.encode() if self._table.open and isinstance(rest, str) else None

    def _value(self, row: dict[str, Any]) -> dict[str, object]:
        value: dict[str, object] = {}
        for name, item in row.items():
            if item is None or name.startswith("_") or (name == "id" and self._key is None):
                continue
            convert = self._converts.get(name)
            value[name] = item if convert is None else convert(item)
        return value | _rest(row)


def _batches(file: Place) -> Iterator[Any]:
    key, files = (file.key, file.files) if isinstance(file, ObjectPath) else (file, None)
    with _reading(file), pq.ParquetFile(key, filesystem=files) as opened:
        yield from opened.iter_batches(IMPORT_BATCH_ROWS, use_threads=False)


def _values(rows: Any, file: Place, before: int) -> list[dict[str, Any]]:
    """Return rows as Python's; raises UNPROCESSABLE for a time that Python does not have."""
    try:
        return cast("list[dict[str, Any]]", rows.to_pylist())
    except OverflowError:
        for at in range(rows.num_rows):
            try:
                rows.slice(at, 1).to_pylist()
            except OverflowError:
                where = f"{file}, row {before + at + 1}"
                raise Error(
                    Code.UNPROCESSABLE, f"{where}: a time is not in the years 1 to 9999"
                ) from None
        raise


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Let errors say of which row they are."""
    try:
        yield
    except Error as error:
        raise Error(error.code, f"{where}: {error.message}") from None


@contextmanager
def _reading(file: Place) -> Iterator[None]:
    """Turn what Parquet's reader raises into an Error."""
    try:
        if isinstance(file, ObjectPath):
            with refusing(file, (OSError,)):
                yield
        else:
            yield
    except (OSError, pa.ArrowException) as error:
        hint = _CONVERT if file.name.lower().endswith(_TEXTS) else ""
        why = str(error).removesuffix(".")
        raise Error(Code.INVALID, f"{file} cannot be read as Parquet: {why}{hint}") from error


def _never(_kind: pa.DataType) -> bool:
    return False


def _becomes_text(kind: pa.DataType) -> bool:
    """Whether values become text for a String; bytes do not, for they may be text already."""
    return not (
        pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )


_WIDER: Final = {Type.STRING: _becomes_text, Type.ANY: pa.types.is_nested}
"""Types that columns of an older declaration are converted to
(``rowcast_lake/columns/joining.py``)."""


def _rest(row: dict[str, Any]) -> dict[str, object]:
    """Return undeclared attributes; raises UNPROCESSABLE for what has none."""
    text = row.get(REST)
    if text is None:
        return {}
    found = loads(text) if isinstance(text, str) else None
    if not isinstance(found, dict):
        raise Error(
            Code.UNPROCESSABLE, f"{REST}: it should be a JSON object of undeclared attributes"
        )
    return found


def _convert(attribute: Attribute) -> Convert | None:
    """Return the conversion from a column's values to an attribute's; None if none is needed."""
    match attribute.type:
        case Type.ANY:
            return _anything
        case Type.OBJECT:
            return _of_object(attribute)
        case Type.LIST:
            each = _convert(attribute.items) if attribute.items else _anything
            return None if each is None else _of_list(each)
        case _:
            return None


def _anything(item: object) -> object:
    """Parse JSON text; other text is returned unchanged."""
    if not isinstance(item, str):
        return item
    try:
        return loads(item)
    except Error:
        return item


def _of_list(each: Convert) -> Convert:
    def convert(items: Any) -> object:
        if not isinstance(items, list):
            return items  # the checks tell that it is none
        return [None if item is None else each(item) for item in items]

    return convert


def _of_object(attribute: Attribute) -> Convert:
    converts = {item.name: found for item in attribute.fields if (found := _convert(item))}

    def convert(item: Any) -> object:
        if not isinstance(item, dict):
            return item  # the checks tell that it is none
        value = {
            name: converts[name](inner) if name in converts else inner
            for name, inner in item.items()
            if inner is not None and name != REST
        }
        return value | _rest(item)

    return convert


def _plain(batch: Any) -> Any:
    """Return rows with all times in microseconds, UTC, at any depth of lists and structs.

    Nanoseconds are cut off; raises ``pa.ArrowInvalid`` for a time beyond all microseconds.
    """
    wanted = pa.schema([pa.field(item.name, _plain_type(item.type)) for item in batch.schema])
    if wanted == batch.schema:
        return batch
    columns = [
        pc.cast(column, options=pc.CastOptions(field.type, allow_time_truncate=True))
        for column, field in zip(batch.columns, wanted, strict=True)
    ]
    return pa.record_batch(columns, wanted)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return MOMENT
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(item.name, _plain_type(item.type)) for item in fields])
    return kind
