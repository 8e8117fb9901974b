"""The command ``rowcast snapshots digest``: each place that has a table at a cut, one value."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from rowcast.codecs import json_text
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.program.commands.options import ConfigOption, DataOption, SchemaOption, join_settings
from rowcast.program.commands.output import printable
from rowcast.schema import parse_schema
from rowcast_lake.commands.needs import schema_text

if TYPE_CHECKING:
    from rowcast_lake.snapshots.copies import Copies
    from rowcast_lake.stores.object_paths import Directory

_WIDTH: Final = 10
"""Of the names of places that are no URL."""
UrlsOption = Annotated[
    list[str] | None,
    typer.Option("--url", help="URL of a server or node that has the table, too; repeatable."),
]
TablesOption = Annotated[
    list[str] | None, typer.Option("--table", help="Only this table; repeatable.")
]


def digests(
    place: "Directory",
    config: ConfigOption,
    data: DataOption,
    schema: SchemaOption,
    urls: list[str],
    tables: list[str],
) -> None:
    """Print the digests of a snapshot's tables by place; raises CONFLICT where they differ."""
    from rowcast_lake.snapshots.copies import Copies  # noqa: PLC0415 - needs pyarrow

    copies = Copies(place)
    for name in tables:
        if name not in copies.tables:
            hint = did_you_mean(name, copies.tables)
            raise Error(Code.NOT_FOUND, f"{place.name} has no declared table {name}{hint}")
    chosen = join_settings(config, {"data": data, "schema": schema})
    present = parse_schema(schema_text(chosen.schema_file), str(chosen.schema_file)).tables
    different = list[str]()
    for name in tables or copies.tables:
        places = copies.files(name)
        places["database"] = partial(copies.of_database, name, chosen.database_url, present)
        places |= {url: partial(of_server, copies, name, url) for url in urls}
        different += _print(name, copies.facts(name).digest, places)
    if different:
        raise Error(Code.CONFLICT, f"not the digest of {place.name}: {', '.join(different)}")


def _print(name: str, digest: str, places: Mapping[str, Callable[[], str]]) -> Iterator[str]:
    """Print a line for each place; yield those that do not have what the manifest tells."""
    for where, compute in {"manifest": lambda: digest, **places}.items():
        try:
            value = compute()
        except Error as error:
            value = f"none: {error.message}"
        shown = printable(where.rpartition("@")[2])
        print(f"{name}  {shown:{_WIDTH}}  {printable(value)}", flush=True)
        if value != digest:
            yield f"{name}: {shown}"


def of_server(copies: "Copies", name: str, url: str) -> str:
    """Return the digest of what a server or node has of a table at the cut."""
    # Also imported by ``rowcast export``, which asks no server.
    from rowcast.program.commands.server import client_of  # noqa: PLC0415
    from rowcast_client import Problem  # noqa: PLC0415
    from rowcast_lake.spark.log_rows import LogRows  # noqa: PLC0415 - needs pyarrow

    table = copies.tables[name]
    if table.path is None or table.primary_key is None:
        raise Error(Code.NOT_ALLOWED, f"{name} is not exported: no server answers for it")
    key = table.primary_key.name
    path = f"/{quote(table.path)}/?asof={quote(copies.manifest.cut)}"
    makes = LogRows(table, copies.content(name))
    with client_of(url) as client:
        records = map(_record, client.lines(path, {"Accept": "application/x-ndjson"}))
        events = (
            {"topic": table.topic(str(item[key])), "_seq": 0, "_op": "put", "value": item}
            for item in records
        )
        try:
            return copies.digest(name, makes.batches(events))
        except Problem as error:
            raise Error(Code.BUSY, error.message) from error


def _record(line: str) -> dict[str, object]:
    value = json_text.decode(line.encode())
    if not isinstance(value, dict):
        raise Error(Code.INVALID, f"the server answers with {line[:40]!r} instead of a record")
    return value
