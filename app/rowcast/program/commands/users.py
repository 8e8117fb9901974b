"""The command ``rowcast user``: manages the users file.

It changes the users file directly, so that the first user can be created without signing in; a
running server notices within a second. A password is prompted for, or read from standard input: an
argument would be visible to all users of the machine.
"""

import json
import secrets
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from rowcast.auth.hashes import Hash
from rowcast.auth.passwords import keep_password
from rowcast.auth.user_list import UserList, attributes_of, roles_of
from rowcast.auth.users import User, kept_name, password_text
from rowcast.auth.users_file import change_users, read_users, remove_user
from rowcast.auth.verifier import Verifier
from rowcast.core.authentication_limits import PASSWORD_BYTES_MAX
from rowcast.core.callers import NONE, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.topics import WILDCARDS
from rowcast.program.commands.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    check_directory,
    print_row,
)
from rowcast.program.config import load_config

user = typer.Typer(
    name="user",
    help="Add, change, list and remove users.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

FileOption = Annotated[
    Path | None,
    typer.Option("--file", help="File of users [default: users.json in the data directory]."),
]
NameArgument = Annotated[str, typer.Argument(help="The user's name.")]


@user.command()
def add(
    name: NameArgument,
    read: Annotated[bool, typer.Option("--read/--no-read", help="May read and subscribe.")] = True,
    write: Annotated[bool, typer.Option("--write/--no-write", help="May write.")] = True,
    role: Annotated[
        list[str] | None,
        typer.Option(help="A role, such as admin; repeatable [default: unchanged]."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An attribute for rules; VALUE is JSON or text."),
    ] = None,
    password: Annotated[
        bool,
        typer.Option(
            "--password/--no-password", help="Whether the user may sign in with a password."
        ),
    ] = True,
    scram: Annotated[
        bool, typer.Option("--scram/--no-scram", help="Whether the password also works with SCRAM.")
    ] = True,
    config: ConfigOption = None,
    data: DataOption = None,
    file: FileOption = None,
) -> None:
    """Add a user, or set the password and rights of an existing one.

    Example: rowcast user add ann --role admin
    """
    path = _path(config, data, file)
    name = kept_name(name)
    if data is not None or file is not None:
        _print_new(path)
    roles = None if role is None else roles_of(role)
    attributes = dict(map(_attribute, attribute or []))
    kept: tuple[Verifier | None, Hash | None] = None, None
    if password:
        given = _password()
        if not given:
            raise Error(
                Code.INVALID,
                "a password is not empty: type one, pipe one in, or say --no-password, with which "
                "only a certificate or a token lets the user in",
            )
        kept = keep_password(password_text(given), secrets.token_bytes, scram=scram)
    now = time.time()

    def edit(known: UserList) -> UserList:
        old = known.users.get(name) or _new_user(name, now)
        return known.with_user(
            replace(
                old,
                grants=Grants(read, write),
                verifier=kept[0],
                hashed=kept[1],
                roles=old.roles if roles is None else roles,
                attributes=attributes_of({**old.attributes, **attributes}),
                disabled=False,
            )
        )

    before, after = change_users(path, edit, secrets.token_bytes)
    typer.echo(f"{'changed' if name in before.users else 'added'} {_line(after.users[name])}")


@user.command()
def disable(
    name: NameArgument,
    config: ConfigOption = None,
    data: DataOption = None,
    file: FileOption = None,
) -> None:
    """Block sign-in of a user, and end its connections.

    Add the user again to end the block.

    Example: rowcast user disable ann
    """
    path, name = _path(config, data, file), kept_name(name)

    def edit(known: UserList) -> UserList:
        if name not in known.users:
            raise Error(Code.NOT_FOUND, f"{path} has no user {name}")
        return known.with_user(replace(known.users[name], disabled=True))

    change_users(path, edit, secrets.token_bytes)
    typer.echo(f"disabled {name}")


@user.command()
def remove(
    name: NameArgument,
    config: ConfigOption = None,
    data: DataOption = None,
    file: FileOption = None,
) -> None:
    """Remove a user.

    A running server ends its connections within a second.

    Example: rowcast user remove ann
    """
    path = _path(config, data, file)
    if not remove_user(path, kept_name(name)):
        raise Error(Code.NOT_FOUND, f"{path} has no user {name}")
    typer.echo(f"removed {name}")


@user.command(name="list")
def list_users(
    config: ConfigOption = None,
    data: DataOption = None,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print each user with its rights.

    Example: rowcast user list
    """
    check_directory(data, "--data")
    path = _path(config, data, file)
    known = read_users(path).users.values() if path.exists() else ()
    if not known:
        print(f"{path} has no users", file=sys.stderr)
    for one in sorted(known, key=lambda one: one.name):
        if as_json:
            print_row(_facts(one))
        else:
            typer.echo(_line(one))


def _facts(one: User) -> dict[str, object]:
    return {
        "name": one.name,
        "read": one.grants.read,
        "write": one.grants.write,
        "administer": one.grants.administer,
        "roles": sorted(one.roles),
        "attributes": dict(one.attributes),
        "password": bool(one.check),
        "disabled": one.disabled,
    }


def _line(one: User) -> str:
    words = (
        ("read", one.grants.read),
        ("write", one.grants.write),
        ("administer", one.grants.administer),
        *((f"role {name}", True) for name in sorted(one.roles)),
        ("password", one.check),
        ("disabled", one.disabled),
    )
    return f"{one.name}: {', '.join(word for word, has in words if has) or 'nothing'}"


def _attribute(text: str) -> tuple[str, object]:
    """Parse ``sites=["north"]`` or ``team=blue``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Error(Code.INVALID, f"--attribute {text}: write --attribute name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _time_text(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def _path(config: Path | None, data: Path | None, file: Path | None) -> Path:
    given = {"data": data, "security.users": file}
    chosen = {key: str(value) for key, value in given.items() if value is not None}
    return load_config(config, None, chosen).users_file


def _print_new(path: Path) -> None:
    """Print that a directory will be created, because its name may be misspelt."""
    if not path.parent.exists():
        typer.echo(
            f"{path.parent} was not there, and is made; a server that keeps its data elsewhere "
            "does not look there",
            err=True,
        )


def _new_user(name: str, now: float) -> User:
    """Return a user without rights; one with a wildcard could be neither watched nor changed."""
    if not set(WILDCARDS).isdisjoint(name):
        raise Error(
            Code.INVALID,
            f"the name of a new user holds no '+' or '#', because its row is at $SYS/users/{name}",
        )
    return User(name, NONE, created=_time_text(now), issue=int(now))


def _password() -> bytes:
    """Prompt for a password twice; from a pipe, read one line."""
    if sys.stdin.isatty():
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return asked.encode(errors="surrogateescape")
    return sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 2).rstrip(b"\r\n")
