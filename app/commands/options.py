"""Options that several commands have, in the same words."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="YAML file of settings [default: rowcast.yaml].")
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="Schema that the data is of [default: schema.graphql]."),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="The server's data directory [default: data].")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, by its dotted name."),
]
