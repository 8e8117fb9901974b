"""Options shared by several commands."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from rowcast.core.errors import Code, Error
from rowcast.program.config import Config, load_config

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="YAML file of settings [default: rowcast.yaml].")
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="Schema of the data [default: schema.graphql]."),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="The server's data directory [default: data].")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print each as a line of JSON.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting by its dotted name; repeatable."),
]


def join_settings(
    file: Path | None, flags: Mapping[str, object], settings: list[str] | None = None
) -> Config:
    """Join the file, the environment and the command line; a flag wins over ``--set``."""
    given: dict[str, object] = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise Error(Code.INVALID, f"--set {text}: write --set name=value")
        given[name.strip()] = value
    given |= {name: value for name, value in flags.items() if value is not None}
    return load_config(file, None, given)


def check_directory(place: Path | None, option: str) -> None:
    """Raise NOT_FOUND for a directory that an option names and that is not there.

    INVALID if it is a file. A misspelt directory of a command that reads would look like an empty
    one.
    """
    if place is None or place.is_dir():
        return
    if place.exists():
        raise Error(Code.INVALID, f"{option} {place} is a file; name a directory")
    raise Error(Code.NOT_FOUND, f"{option} {place}: there is no such directory; name another")


def print_row(fields: Mapping[str, object]) -> None:
    """Print one item of a list as a line of JSON (NDJSON), for programs."""
    print(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
