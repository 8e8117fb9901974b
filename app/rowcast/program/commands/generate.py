"""The command ``rowcast generate``: types of the schema for programs."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rowcast.core.callers import ADMIN
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.program.commands.options import ConfigOption, SchemaOption, join_settings


class Language(StrEnum):
    """The languages that there are types for."""

    TYPESCRIPT = "typescript"
    PYTHON = "python"


def generate(
    language: Annotated[Language, typer.Argument(help="Language of the types.")],
    config: ConfigOption = None,
    schema: SchemaOption = None,
    role: Annotated[
        list[str] | None,
        typer.Option("--as", help="Only what @auth allows this role; repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if --out is not up to date.")
    ] = False,
) -> None:
    """Print types of the tables, or write them to a file.

    Example: rowcast generate typescript --as operator --out tables.ts
    """
    from rowcast.program.client_types import python, typescript  # noqa: PLC0415 - not for each
    from rowcast.schema import load_schema  # noqa: PLC0415

    if check and out is None:
        raise Error(Code.INVALID, "--check compares a file: name it with --out")
    settings = join_settings(config, {"schema": schema})
    read = load_schema(settings.schema_file)
    _warn_unknown(role, read.tables, settings.users_file)
    write = typescript if language is Language.TYPESCRIPT else python
    text = write(read, frozenset(role) if role else None)
    if out is None:
        print(text, end="")
    else:
        _save(out, text, check=check)


def _save(out: Path, text: str, *, check: bool) -> None:
    """Write a file, or ``check`` that it has this text; raises INVALID."""
    try:
        if not check:
            out.write_text(text, encoding="utf-8")
            return
        is_current = out.exists() and out.read_text(encoding="utf-8") == text
    except OSError as error:
        what, why = "read" if check else "written", error.strerror or str(error)
        raise Error(Code.INVALID, f"{out} cannot be {what}: {why}; name a file by --out") from error
    if not is_current:
        raise Error(Code.INVALID, f"{out} is not up to date: run the command without --check")


def _warn_unknown(roles: list[str] | None, tables: Sequence[Table], users_file: Path) -> None:
    """Warn of a role that neither ``@auth`` nor the users name, with those that there are.

    It is no error: roles may come from tokens, and the users may be on another machine.
    """
    from rowcast.auth.users_file import read_users  # noqa: PLC0415 - not for each
    from rowcast.features.rights.policy import Policy  # noqa: PLC0415 - not for each

    known = {ADMIN, *Policy(tables).roles}
    if users_file.exists():
        with suppress(Error):  # not readable here: then the schema's are those that are known
            users = read_users(users_file)
            known.update(users.roles, *(user.roles for user in users.users.values()))
    for role in roles or ():
        if role not in known:
            there = ", ".join(sorted(known))
            message = f"no @auth and no user names the role {role!r}; there are: {there}"
            print(f"warning: {message}", file=sys.stderr)
