"""The command ``rowcast user``: who may sign in.

It changes the file of users itself, so that the first user can be made before there is anybody who
could sign in; a server that runs notices within a second. A password is asked for, or read from
standard input: an argument would be seen by everyone on the machine.
"""

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.auth.users import User, password_text, user_name
from app.auth.users_file import add_user, read_users, remove_user
from app.auth.verifier import make_verifier
from app.config import load_config
from app.core.callers import Grants
from app.core.entry_limits import PASSWORD_BYTES_MAX, PASSWORD_ITERATIONS, PASSWORD_SALT_BYTES
from app.core.errors import Code, Error

user = typer.Typer(
    name="user", help="Add, remove and list those who may sign in.", no_args_is_help=True
)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="YAML file of settings [default: rowcast.yaml].")
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="The server's data directory [default: data].")
]
FileOption = Annotated[
    Path | None, typer.Option("--file", help="File of users [default: users.json in the data].")
]
NameArgument = Annotated[str, typer.Argument(help="The user's name.")]


@user.command()
def add(
    name: NameArgument,
    read: Annotated[bool, typer.Option("--read/--no-read", help="May read and watch.")] = True,
    write: Annotated[bool, typer.Option("--write/--no-write", help="May write.")] = True,
    password: Annotated[
        bool,
        typer.Option(
            "--password/--no-password", help="Whether a password lets it in, or only a certificate."
        ),
    ] = True,
    config: ConfigOption = None,
    data: DataOption = None,
    file: FileOption = None,
) -> None:
    """Add a user, or give one a new password and new rights.

    Example: rowcast user add ann --no-write
    """
    path = _path(config, data, file)
    name = user_name(name)
    verifier = None
    if password:
        text = password_text(_password())
        salt = secrets.token_bytes(PASSWORD_SALT_BYTES)
        verifier = make_verifier(text, salt, PASSWORD_ITERATIONS)
    added = User(name, Grants(read, write), verifier)
    is_new = add_user(path, added, secrets.token_bytes)
    typer.echo(f"{'added' if is_new else 'changed'} {_line(added)}")


@user.command()
def remove(
    name: NameArgument,
    config: ConfigOption = None,
    data: DataOption = None,
    file: FileOption = None,
) -> None:
    """Remove a user; who is connected stays so until the connection ends.

    Example: rowcast user remove ann
    """
    path = _path(config, data, file)
    if not remove_user(path, user_name(name)):
        raise Error(Code.NOT_FOUND, f"{path} has no user {name}")
    typer.echo(f"removed {name}")


@user.command(name="list")
def list_users(
    config: ConfigOption = None, data: DataOption = None, file: FileOption = None
) -> None:
    """Print each user and what it may do.

    Example: rowcast user list
    """
    path = _path(config, data, file)
    known = read_users(path).users.values() if path.exists() else ()
    for one in sorted(known, key=lambda one: one.name):
        typer.echo(_line(one))


def _line(one: User) -> str:
    words = (("read", one.grants.read), ("write", one.grants.write), ("password", one.verifier))
    return f"{one.name}: {', '.join(word for word, has in words if has) or 'nothing'}"


def _path(config: Path | None, data: Path | None, file: Path | None) -> Path:
    given = {"data": data, "security.users": file}
    chosen = {key: str(value) for key, value in given.items() if value is not None}
    return load_config(config, None, chosen).users_file


def _password() -> bytes:
    """Ask a person for it twice; take it from a program once, less the end of its line."""
    if sys.stdin.isatty():
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return asked.encode(errors="surrogateescape")
    return sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 2).rstrip(b"\r\n")
