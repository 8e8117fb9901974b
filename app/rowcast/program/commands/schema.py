"""The command ``rowcast schema``: reports what a changed schema does to the data."""

import typer

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
    found = schema_changes(file_of(chosen.database_url), tables)
    for change in found:
        if json:
            print_row({"what": change.what, "told": change.told, "safe": change.safe})
        else:
            print(f"{'  ' if change.safe else '! '}{change.what}: {change.told}")
    if not found and not json:
        print("nothing changes")
    if not all(change.safe for change in found):
        raise typer.Exit(1)
