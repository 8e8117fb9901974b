"""The commands ``rowcast export`` and ``rowcast snapshots``: Parquet of all tables at one cut.

They read the data directory themselves, whether or not a server is running.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowcast.core.errors import Code, Error
from rowcast.core.places import check_local, is_object_store
from rowcast.core.snapshot_limits import SNAPSHOT_NICENESS
from rowcast.program.commands.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    SchemaOption,
    SetOption,
    check_directory,
    join_settings,
    print_row,
)
from rowcast.program.config import Config
from rowcast.program.settings.snapshots import SnapshotSettings, seconds_of
from rowcast_lake.commands.audiences import members_of
from rowcast_lake.commands.digests import TablesOption, UrlsOption, digests
from rowcast_lake.commands.needs import need_pyarrow, schema_text
from rowcast_lake.commands.progress import row_progress

if TYPE_CHECKING:
    from rowcast_lake.snapshots.export import Order, Snapshot
    from rowcast_lake.snapshots.manifest import Manifest
    from rowcast_lake.stores.object_paths import Directory

snapshots = typer.Typer(
    name="snapshots",
    help="List, verify, compact and remove snapshots.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

NONE_YET: Final = "no snapshot yet; make one with `rowcast export`"

OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIRECTORY",
        help="Directory of snapshots, or s3://bucket/prefix [default: that of the settings].",
    ),
]


def export(
    config: ConfigOption = None,
    schema: SchemaOption = None,
    data: DataOption = None,
    out: OutOption = None,
    tables: Annotated[
        str, typer.Option("--tables", help="Names of tables, separated by commas [default: all].")
    ] = "",
    changes: Annotated[
        bool, typer.Option("--changes", help="Export an increment: events since the last export.")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Also export the history of each declared table.")
    ] = False,
    audience: Annotated[
        str,
        typer.Option(
            "--audience", metavar="ROLE", help="Export only what this role may read; needs --out."
        ),
    ] = "",
    keep: Annotated[
        int, typer.Option("--keep", min=0, help="Then delete all but the newest N; 0 keeps all.")
    ] = 0,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Print progress and result as lines of JSON.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """Export a snapshot of all tables at one moment to Parquet files.

    Prints the snapshot's directory. The server may be running. With --changes it exports an
    increment instead: the events since the last increment, or since the newest snapshot.

    Example: rowcast export --data data
    """
    chosen = join_settings(config, {"data": data, "schema": schema}, settings)
    need_pyarrow()
    from rowcast_lake.snapshots.export import Order  # noqa: PLC0415
    from rowcast_lake.snapshots.export import export as make  # noqa: PLC0415
    from rowcast_lake.snapshots.snapshot_stores import store_of  # noqa: PLC0415

    os.nice(SNAPSHOT_NICENESS)
    members = members_of(chosen, audience, out)
    order = Order(
        chosen.database_url,
        _directory(chosen, out),
        schema_text(chosen.schema_file),
        str(chosen.schema_file),
        tuple(name.strip() for name in tables.split(",") if name.strip()),
        history,
        audience,
        members.roles,
        members.reads,
        members.access,
        catalogs=chosen.snapshots.catalogs,
    )
    teller = row_progress() if json_lines else None
    if changes:
        _export_changes(order, chosen.snapshots, teller)
        return
    made = make(order, teller)
    keep_seconds = seconds_of(chosen.snapshots.keep_for)
    if keep or keep_seconds:
        store_of(order.directory).keep(keep, time.time() - keep_seconds if keep_seconds else 0)
    _print_made(made, as_json=json_lines)


def _facts(name: str, manifest: "Manifest") -> dict[str, object]:
    return {
        "snapshot": name,
        "cut": manifest.cut,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
    }


def _print_made(made: "Snapshot", *, as_json: bool) -> None:
    manifest = made.manifest
    if as_json:
        print(json.dumps(_facts(made.place.name, manifest) | {"new": made.new}), flush=True)
        return
    print(made.place)
    if made.new:
        count = f"{manifest.rows:,} rows of {len(manifest.tables)} tables"
        print(f"{count}, {manifest.bytes:,} bytes, cut {manifest.cut}", file=sys.stderr)
    else:
        print(f"nothing was written since this snapshot, cut {manifest.cut}", file=sys.stderr)


def _export_changes(
    order: "Order", settings: SnapshotSettings, teller: Callable[[str, int, int], None] | None
) -> None:
    """Write a page of changes, and print its name."""
    from rowcast_lake.snapshots.changes import export_changes  # noqa: PLC0415

    if order.tables:
        raise Error(Code.INVALID, "changes are of all tables, so that none has a gap; name none")
    try:
        page = export_changes(order, teller)
    except Error as error:
        if teller is not None:  # only the server can decide whether a new snapshot helps
            print(json.dumps({"code": error.code}), flush=True)
        raise
    _tidy(order.directory, settings)
    if teller is not None:
        facts: dict[str, object] = {"new": page is not None}
        if page is not None:
            facts |= {"page": page.place.name, "cut": page.manifest.cut}
            facts |= {"rows": page.manifest.rows, "bytes": page.manifest.bytes}
        print(json.dumps(facts), flush=True)
    elif page is None:
        print("nothing was written since the last changes", file=sys.stderr)
    else:
        print(page.place)
        count = f"{page.manifest.rows:,} events of {len(page.manifest.tables)} tables"
        print(f"{count}, {page.manifest.bytes:,} bytes, cut {page.manifest.cut}", file=sys.stderr)


def _tidy(directory: "Directory", settings: SnapshotSettings) -> None:
    """Merge the increments that are due, and remove those that are too old."""
    from rowcast_lake.snapshots.compaction import compact as put_together  # noqa: PLC0415
    from rowcast_lake.snapshots.compaction import forget  # noqa: PLC0415

    small = seconds_of(settings.keep_small)
    put_together(directory, keep_small_seconds=small, warn=_complain)
    if settings.keep_changes:
        forget(directory, seconds_of(settings.keep_changes))


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


def _directory(chosen: Config, out: str | None) -> "Directory":
    from rowcast_lake.snapshots.snapshot_stores import directory_of  # noqa: PLC0415

    if out is not None and not is_object_store(out):
        check_local(out, "--out")
        if Path(out).is_file():
            check_directory(Path(out), "--out")
    return directory_of(out or chosen.snapshots.place(chosen.data))


def _existing(config: Path | None, data: Path | None, out: str | None) -> "Directory":
    """Return the directory of snapshots, of a command that only reads what is there."""
    check_directory(data, "--data")
    directory = _directory(join_settings(config, {"data": data}), out)
    if out is not None and not is_object_store(out):
        check_directory(Path(out), "--out")
    return directory


@snapshots.command(name="list")
def list_snapshots(
    config: ConfigOption = None,
    data: DataOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print each snapshot: name, time, rows, bytes, tables.

    One whose manifest is damaged is named behind the others, with exit code 1.

    Example: rowcast snapshots list
    """
    need_pyarrow()
    from rowcast_lake.snapshots.manifest import read_manifest  # noqa: PLC0415
    from rowcast_lake.snapshots.snapshot_stores import store_of  # noqa: PLC0415

    snapshot_store = store_of(_existing(config, data, out))
    newest, damaged = snapshot_store.newest(), list[str]()
    for name in snapshot_store.names():
        try:
            found = read_manifest(snapshot_store.directory / name)
        except Error as error:
            damaged.append(f"{name}: {error.full}")
            continue
        _print_listed(
            snapshot_store.directory / name, found, newest=name == newest, as_json=as_json
        )
    if newest is None:
        _complain(NONE_YET)
    if damaged:
        raise Error(Code.INVALID, "\n".join(damaged))


def _print_listed(place: "Directory", found: "Manifest", *, newest: bool, as_json: bool) -> None:
    if as_json:
        more = {"created": found.created, "tables": _tables_of(place, found)}
        print_row(_facts(place.name, found) | more | {"newest": newest})
        return
    size = f"{found.rows:>12,} rows {found.bytes:>15,} bytes"
    mark = "*" if newest else " "
    print(f"{mark} {place.name}  {found.created}  {size}  {', '.join(found.tables)}")


def _tables_of(place: "Directory", manifest: "Manifest") -> dict[str, dict[str, object]]:
    """Return what is told of each table of a snapshot: where it is read, and what it holds."""
    from rowcast_lake.snapshots.catalogs import Catalogs  # noqa: PLC0415

    catalogs = Catalogs.there(place.parent)
    return {
        name: {
            "path": str(place / facts.folder),
            "rows": facts.rows,
            "cut": manifest.cut,
            "digest": facts.digest,
            **catalogs.addresses(name, manifest),
        }
        for name, facts in manifest.tables.items()
    }


@snapshots.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Snapshots, or `newest` [default: all].")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    out: OutOption = None,
) -> None:
    """Verify snapshots against their manifests.

    Compares names, checksums, rows and digests; prints the first difference, with exit code 1.

    Example: rowcast snapshots verify newest
    """
    need_pyarrow()
    from rowcast_lake.snapshots.snapshot_stores import store_of  # noqa: PLC0415
    from rowcast_lake.snapshots.verify import verify as check  # noqa: PLC0415

    snapshot_store = store_of(_existing(config, data, out))
    found_names = names or snapshot_store.names()
    if not found_names:
        _complain(NONE_YET)
    for name in found_names:
        with snapshot_store.pin(name) as place:
            found = check(place)
        count = f"{found.rows:,} rows of {len(found.tables)} tables"
        print(f"{place.name} is whole: {count}, cut {found.cut}")


@snapshots.command()
def remove(
    name: Annotated[str, typer.Argument(help="A snapshot, as `list` prints it.")],
    config: ConfigOption = None,
    data: DataOption = None,
    out: OutOption = None,
) -> None:
    """Remove a snapshot and its files.

    Example: rowcast snapshots remove 000000000000001042
    """
    need_pyarrow()
    from rowcast_lake.snapshots.snapshot_stores import store_of  # noqa: PLC0415

    store_of(_existing(config, data, out)).remove(name)


@snapshots.command()
def prove(
    first: Annotated[str, typer.Argument(help="A snapshot, as `list` prints it.")],
    last: Annotated[str, typer.Argument(help="A later one.")] = "newest",
    config: ConfigOption = None,
    data: DataOption = None,
    out: OutOption = None,
) -> None:
    """Verify increments: that with them a snapshot becomes a later one.

    Example: rowcast snapshots prove 000000000000001042
    """
    need_pyarrow()
    from rowcast_lake.snapshots.fold import differences  # noqa: PLC0415
    from rowcast_lake.snapshots.snapshot_stores import catalogue_of, store_of  # noqa: PLC0415

    directory = _existing(config, data, out)
    places = [store_of(directory).place(name).name for name in (first, last)]
    if places[0] == places[1]:
        print(
            f"there is nothing to prove: {places[0]} is compared with itself; make a later "
            "snapshot with rowcast export, or name an earlier one",
            file=sys.stderr,
        )
        return
    found = differences(directory, catalogue_of(directory).items(), *places)
    if found:
        said = "\n".join(f"{table}: {why}" for table, why in found.items())
        raise Error(Code.CONFLICT, f"{places[0]} and its changes are not {places[1]}\n{said}")
    print(f"{places[0]} and its changes are {places[1]}")


@snapshots.command()
def digest(
    name: Annotated[str, typer.Argument(help="A snapshot, as `list` prints it.")] = "newest",
    config: ConfigOption = None,
    schema: SchemaOption = None,
    data: DataOption = None,
    out: OutOption = None,
    url: UrlsOption = None,
    table: TablesOption = None,
) -> None:
    """Compute the digest of each table from every place that has it at a snapshot's cut.

    These are the Parquet files, Delta and Iceberg tables, the database, and each server or node of
    a cluster that --url names. The exit code is 1 where one differs or has no longer what was then.

    Example: rowcast snapshots digest newest --url http://127.0.0.1:9936
    """
    need_pyarrow()
    from rowcast_lake.snapshots.snapshot_stores import store_of  # noqa: PLC0415

    snapshot_store = store_of(_existing(config, data, out))
    with snapshot_store.pin(name) as place:
        digests(place, config, data, schema, url or [], table or [])


@snapshots.command()
def compact(config: ConfigOption = None, data: DataOption = None, out: OutOption = None) -> None:
    """Merge increments into files of about 128 MB.

    `export --changes` merges some by itself. The small files are deleted ten minutes later, and
    no sooner than `snapshots.keep_small`, by the next `export --changes` or `compact`.

    Example: rowcast snapshots compact
    """
    need_pyarrow()
    from rowcast_lake.snapshots.compaction import compact as put_together  # noqa: PLC0415

    directory, apart = _existing(config, data, out), list[str]()
    kept = seconds_of(join_settings(config, {"data": data}).snapshots.keep_small)
    merge = partial(put_together, everything=True, keep_small_seconds=kept, warn=apart.append)
    for page in merge(directory):
        print(f"{page.place}  {page.manifest.rows:,} events, {page.manifest.bytes:,} bytes")
    if apart:
        raise Error(Code.CONFLICT, "\n".join(apart))
