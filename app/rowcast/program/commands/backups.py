"""The commands ``rowcast backup`` and ``rowcast restore``.

They read and write files themselves, whether or not a server is running.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowcast.core.errors import Code, Error
from rowcast.core.overload_limits import BACKUP_NICENESS
from rowcast.core.places import check_local
from rowcast.program.commands.options import (
    ConfigOption,
    DataOption,
    SchemaOption,
    SetOption,
    join_settings,
)

if TYPE_CHECKING:
    from rowcast.program.backups import Restored
    from rowcast.program.config import Config

SameLogOption = Annotated[
    bool,
    typer.Option(
        "--same-log", help="For a node of a cluster: follow the cluster's log from there."
    ),
]
ArchivedOption = Annotated[
    bool,
    typer.Option(
        "--archive/--no-archive", help="Whether what was archived of the log comes back, too."
    ),
]


def backup(
    place: Annotated[Path, typer.Argument(help="The directory to make; it must not exist yet.")],
    config: ConfigOption = None,
    schema: SchemaOption = None,
    data: DataOption = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous", help="An earlier backup: files of the archive that it has are linked."
        ),
    ] = None,
    settings: SetOption = None,
) -> None:
    """Back up the data directory at one moment. The server may be running.

    Prints the cursor of the last event in the backup.

    Example: rowcast backup backups/monday
    """
    check_local(str(place), "the backup")
    chosen = join_settings(config, {"schema": schema, "data": data}, settings)
    from rowcast.program.backups import back_up  # noqa: PLC0415 - other commands need no store

    os.nice(BACKUP_NICENESS)
    manifest = back_up(chosen, place, previous)
    print(manifest["cursor"])
    print(f"{place}: written until {manifest['written_at']}", file=sys.stderr)
    if stored := manifest.get("archive_location"):
        epoch = str(manifest["cursor"]).partition(":")[0]
        print(f"archived events stay at {stored}/{epoch}; a restore needs them", file=sys.stderr)


def restore(
    place: Annotated[Path, typer.Argument(help="A backup: a directory made by rowcast backup.")],
    config: ConfigOption = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", help="Schema of the restored data [default: the backup's]."),
    ] = None,
    data: DataOption = None,
    to: Annotated[
        str,
        typer.Option("--to", help="A time, a duration ago (-2h), or a cursor [default: the end]."),
    ] = "",
    same_log: SameLogOption = False,
    archive: ArchivedOption = True,
    settings: SetOption = None,
) -> None:
    """Make a data directory from a backup, as of its end or of an earlier point.

    Every file is verified by its digest. The data directory must not contain data yet.

    Example: rowcast restore backups/monday --data restored --to 2026-01-31T12:00:00Z
    """
    chosen = join_settings(config, {"data": data}, settings)
    from rowcast.program.backups import restore as make  # noqa: PLC0415 - not for every command
    from rowcast.store.sql_database import file_of  # noqa: PLC0415 - likewise

    if to and same_log:
        raise Error(Code.INVALID, "--same-log goes on at the end of the backup; leave out --to")
    stored = chosen if chosen.log.archive_location else None
    database, options = file_of(chosen.database_url), {"same_log": same_log, "archive": archive}
    made = make(place, chosen.data, to, schema, stored=stored, database=database, **options)
    what = "" if not to else ", without the last {} events of its log"
    _print_restored(made, place, what, stored if archive and not same_log else None)


def _print_restored(made: "Restored", place: Path, what: str, stored: "Config | None") -> None:
    """Print where a restored log ends, what of its archive is there, and what clients notice."""
    print(f"{made.epoch}:{made.position}")
    lost = made.before.head - made.position
    print(f"{made.data}: restored from {place}{what.format(lost)}", file=sys.stderr)
    if stored and not made.archived:
        url, epoch = stored.log.archive_location, made.before.epoch
        print(f"{url} has no archived events of {epoch}", file=sys.stderr)
    if made.archived:
        print(
            f"{made.archived} archived files; they are read with log.archive: true", file=sys.stderr
        )
    if lost:
        print(
            "sessions, shared subscriptions and bridges start from the beginning; clients with "
            "older cursors get a reset",
            file=sys.stderr,
        )
