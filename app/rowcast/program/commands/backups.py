"""The commands ``rowcast backup`` and ``rowcast restore``.

They read and write files themselves, whether or not a server is running.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from rowcast.core.overload_limits import BACKUP_NICENESS
from rowcast.core.places import check_local
from rowcast.program.commands.options import (
    ConfigOption,
    DataOption,
    SchemaOption,
    SetOption,
    join_settings,
)


def backup(
    place: Annotated[Path, typer.Argument(help="A directory that is not there yet.")],
    config: ConfigOption = None,
    schema: SchemaOption = None,
    data: DataOption = None,
    settings: SetOption = None,
) -> None:
    """Copy all that must survive, as it is at this moment. The server may run meanwhile.

    Prints the cursor that it ends with.

    Example: rowcast backup backups/monday
    """
    check_local(str(place), "the back-up")
    chosen = join_settings(config, {"schema": schema, "data": data}, settings)
    from rowcast.program.backups import back_up  # noqa: PLC0415 - other commands need no store

    os.nice(BACKUP_NICENESS)
    manifest = back_up(chosen, place)
    print(manifest["cursor"])
    print(f"{place}: written until {manifest['written_at']}", file=sys.stderr)


def restore(
    place: Annotated[Path, typer.Argument(help="A back-up: a directory that backup made.")],
    config: ConfigOption = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="Schema of that time [default: the back-up's].")
    ] = None,
    data: DataOption = None,
    to: Annotated[
        str, typer.Option("--to", help="A time, how long ago, or a cursor [default: its end].")
    ] = "",
    settings: SetOption = None,
) -> None:
    """Make a data directory of a back-up, as it was at its end or at an earlier point.

    Every file is compared with its digest. There must be no data yet. Start the server on it then.

    Example: rowcast restore backups/monday --data restored --to 2026-01-31T12:00:00Z
    """
    chosen = join_settings(config, {"data": data}, settings)
    from rowcast.program.backups import restore as make  # noqa: PLC0415 - not for every command

    made = make(place, chosen.data, to, schema)
    print(f"{made.epoch}:{made.position}")
    lost = made.before.head - made.position
    what = f", without the last {lost} of its log" if to else ""
    print(f"{made.data}: restored from {place}{what}", file=sys.stderr)
    if lost:
        print(
            "sessions, shared subscriptions and bridges begin anew; cursors of before are answered "
            "with a reset",
            file=sys.stderr,
        )
