"""The command ``rowcast import``: Parquet files as records of a running server's table.

The rows are ordinary writes of the server, in batches of one transaction each: subscribers receive
them, and the table's checks apply. One set of files and rows always makes the same batches, so that
an import that goes on with another sends a batch of unknown outcome as it was. A table whose class
has a put of its own takes no batches: its rows are sent one by one, each with its own key.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowcast.codecs.messagepack import array_header
from rowcast.codecs.registry import MSGPACK, encode
from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import IMPORT_BATCH_BYTES, IMPORT_BATCH_ROWS
from rowcast.core.places import check_local, is_object_store
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.program.client_settings import client_settings
from rowcast.program.commands.server import UrlOption, connected
from rowcast.schema import parse_schema
from rowcast_client.calls import topic_path
from rowcast_lake.commands.import_requests import ImportRequests, Place
from rowcast_lake.commands.needs import need_pyarrow, schema_text

if TYPE_CHECKING:
    from rowcast_lake.snapshots.importing import Record, Run


SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="The server's schema [default: schema.graphql].")
]
ResumeOption = Annotated[
    str | None,
    typer.Option("--resume", help="Go on with an import of these files that ended early."),
]


def import_table(
    table: Annotated[str, typer.Argument(help="The table's name in the schema.")],
    place: Annotated[
        str,
        typer.Argument(
            help="A Parquet file, a directory of them, or a snapshot; or s3://bucket/key."
        ),
    ],
    schema: SchemaOption = None,
    url: UrlOption = None,
    resume: ResumeOption = None,
) -> None:
    """Import the rows of Parquet files as records; each replaces the record with its id.

    All rows are checked before the first is written. They are written in batches, each of which
    is atomic, and sent again while the server is busy. A table whose class has a put of its own
    gets them one by one, through that put, which is slower.

    Example: rowcast import Dog data/snapshots/newest
    """
    need_pyarrow()
    start = Place.of(resume) if resume else Place.start()
    if not is_object_store(place):
        check_local(place, "the files")
    from rowcast_lake.snapshots.importing import Importer, files_of  # noqa: PLC0415
    from rowcast_lake.stores.object_paths import ObjectPath  # noqa: PLC0415

    settings = client_settings(url, schema)
    shape = _table(table, schema_text(settings.schema_file), str(settings.schema_file))
    where = ObjectPath.of(place) if is_object_store(place) else Path(place)
    importer, files = Importer(shape), files_of(where, shape)
    count = importer.check(files)
    with connected(settings) as client:
        sender = Sender(ImportRequests(client), shape, start)
        for file in files:
            sender.send(importer.parts(file))
            print(f"{sender.rows:,} of {count:,} rows written", file=sys.stderr)
    print(sender.rows)


def _table(name: str, text: str, file: str) -> Table:
    tables = {table.name: table for table in parse_schema(text, file).tables}
    found = tables.get(name)
    if found is None:
        raise Error(Code.NOT_FOUND, f"{file} has no table {name}{did_you_mean(name, tables)}")
    if found.path is None:
        raise Error(
            Code.NOT_ALLOWED, f"{name} is not exported, so nobody can write it; add @export"
        )
    return found


_HEADERS: Final = {"Content-Type": MSGPACK, "Prefer": "return=minimal"}
"""A batch is written or refused as a whole: nothing has to be said of each row."""


class Sender:
    """Sends rows in batches of bounded size, except for those before a start."""

    def __init__(self, requests: ImportRequests, table: Table, start: Place) -> None:
        self._requests = requests
        self._start = start
        self._table = table
        self._id = table.primary_key.name if table.primary_key else "id"
        self._waiting: list[Record] = []
        self._bodies: list[bytes] = []
        self._bytes = 0
        self._alone = False
        """Whether the server takes the rows one by one: a class has a put of its own."""
        self._sent = False
        """Whether a request was accepted."""
        self.rows = 0
        """Rows that are written."""

    def send(self, parts: "Iterable[Run | Iterable[Record]]") -> None:
        """Write all of these, in their order."""
        from rowcast_lake.snapshots.importing import Run  # noqa: PLC0415

        for part in parts:
            if isinstance(part, Run):
                self._flush()
                self._send_run(part)
            else:
                self._send_records(part)
        self._flush()

    def _send_run(self, run: "Run") -> None:
        body = b"" if self._alone else array_header(len(run.rows)) + b"".join(run.rows)
        if len(body) > IMPORT_BATCH_BYTES and len(run.rows) > 1:
            for half in run.divided():
                self._send_run(half)
            return
        self._write_batch(run.where, len(run.rows), body, lambda: run.records(self._id))

    def _send_records(self, records: "Iterable[Record]") -> None:
        for record in records:
            if record.payload is not None:
                self._flush()
                self._put(record, record.payload)
                continue
            value = record.value if isinstance(record.value, dict) else {}
            self._waiting.append(record)
            self._bodies.append(encode(value | {self._id: self._key(record)}, MSGPACK))
            self._bytes += len(self._bodies[-1])
            if self._bytes >= IMPORT_BATCH_BYTES or len(self._bodies) >= IMPORT_BATCH_ROWS:
                self._flush()

    def _key(self, record: "Record") -> object:
        value = record.value
        known = value.get(self._id) if isinstance(value, dict) else None
        return record.id if known is None else known

    def _put(self, record: "Record", payload: bytes) -> None:
        """Write one record whose content is stored as bytes."""
        path = topic_path(self._table.topic(record.id))
        headers = {"Content-Type": record.content_type or MSGPACK}
        self._write(record.where, 1, path, payload, headers)

    def _flush(self) -> None:
        if not self._bodies:
            return
        body = array_header(len(self._bodies)) + b"".join(self._bodies)
        where = f"{self._waiting[0].where} to row {self._waiting[-1].row}"
        waiting = self._waiting
        self._write_batch(where, len(waiting), body, lambda: waiting)
        self._waiting, self._bodies, self._bytes = [], [], 0

    def _write_batch(
        self, where: str, count: int, body: bytes, records: "Callable[[], Sequence[Record]]"
    ) -> None:
        """Write some rows in one transaction; one by one where a class has a put of its own."""
        if not self._alone and not self.rows < self._start.rows < self.rows + count:
            path = topic_path(self._table.topic("")) + "?atomic=true"
            try:
                self._write(where, count, path, body, _HEADERS)
            except Error as error:
                if error.code is not Code.NOT_ALLOWED:
                    raise
                message = f"{self._table.name} takes no batches, so its rows are written one by one"
                print(message, file=sys.stderr)
            else:
                return
        self._alone = True  # also where the start is inside: only rows on their own end there
        for record in records():
            self._put(record, encode(record.value, MSGPACK))

    def _write(
        self, where: str, count: int, path: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        """Send one request, unless its rows are before the start."""
        if self.rows + count > self._start.rows:
            place = Place(self._start.name, self.rows)
            try:
                self._requests.put(path, body, headers, f"{place}{'/row' * self._alone}")
            except Error as error:
                if error.code is Code.NOT_ALLOWED and not self._sent:  # the same for each row
                    message = f"this table cannot be imported: {error.message}"
                    raise Error(error.code, message) from error
                words = f"{where}: {error.message}; the {self.rows:,} rows before are written"
                hint = f"to go on after them, repeat the command with --resume {place}"
                raise Error(error.code, f"{words}; {hint}") from error
            self._sent = True
        self.rows += count
