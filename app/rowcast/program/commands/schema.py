"""The command ``rowcast schema``: reports what a changed schema does to the data."""

import sys
from pathlib import Path

import typer

from rowcast.core.errors import Code, Error
from rowcast.program.commands.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    SchemaOption,
    join_settings,
    print_row,
)

schema = typer.Typer(
    name="schema",
    help="Report what a changed schema does to the data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@schema.callback()
def _common() -> None:
    """Keep ``check`` a subcommand, although it is the only one."""


@schema.command()
def check(
    config: ConfigOption = None,
    schema: SchemaOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print each difference between the schema and the database; change nothing.

    The exit code is 1 if something would be lost, hidden or refused. A server may be running.

    Example: rowcast schema check --schema next.graphql
    """
    from rowcast.schema import load_schema  # noqa: PLC0415 - not for every command
    from rowcast.store.sql_database import file_of  # noqa: PLC0415
    from rowcast.store.sql_report import schema_changes  # noqa: PLC0415

    chosen = join_settings(config, {"schema": schema, "data": data})
    tables = load_schema(chosen.schema_file).tables
    database = file_of(chosen.database_url)
    if not database.is_file():
        _print_missing(database, named=data is not None)
    found = schema_changes(database, tables)
    for change in found:
        if json:
            print_row({"what": change.what, "told": change.description, "safe": change.safe})
        else:
            print(f"{'  ' if change.safe else '! '}{change.what}: {change.description}")
    if not found and not json:
        print("nothing changes")
    if not all(change.safe for change in found):
        raise typer.Exit(1)


def _print_missing(database: Path, *, named: bool) -> None:
    """Say that there are no data; raises NOT_FOUND where ``--data`` has named the directory."""
    if named:
        raise Error(
            Code.NOT_FOUND,
            f"there is no data at {database}; name the data directory of a server with --data"
            f" (its file is {database.name})",
        )
    print(f"there is no data at {database} yet, so every table is new", file=sys.stderr)
