"""The command ``rowcast``: starts and checks a server, and reads, writes and watches one.

All commands except ``serve``, ``check`` and those on files use the server's public REST and SSE.
Errors are printed as one sentence on standard error, with exit code 1.

The module of a command is imported when the command runs, because importing all of them takes a
second of CPU. ``COMMANDS`` therefore has the line of each for ``rowcast --help``.
"""

import gc
import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from rowcast import __version__
from rowcast.core.errors import Code, Error
from rowcast.core.log_version import OPERATIONS

_UMASK: Final = 0o077
"""Files of the server and its commands are private to their owner."""


class Place(NamedTuple):
    """The location of a command: a function, or a ``typer.Typer`` with subcommands."""

    module: str
    name: str
    summary: str
    """Its line in ``rowcast --help``."""


HERE: Final = "rowcast.program.commands."
LAKE: Final = "rowcast_lake.commands."

COMMANDS: Final = {
    "init": Place(HERE + "init", "init", "Write the files of a new project."),
    "serve": Place(HERE + "serving", "serve", "Start the server; Ctrl-C stops it."),
    "check": Place(
        HERE + "serving", "check", "Check settings, schema, resources and certificates."
    ),
    "schema": Place(HERE + "schema", "schema", "Report what a changed schema does to the data."),
    "generate": Place(
        HERE + "generate", "generate", "Print types of the schema for TypeScript or Python."
    ),
    "get": Place(HERE + "records", "get", "Print a record, a table or the result of a query."),
    "put": Place(HERE + "records", "put", "Write a record."),
    "delete": Place(HERE + "records", "delete", "Delete a record."),
    "pub": Place(HERE + "records", "pub", "Publish a message to a topic."),
    "sub": Place(HERE + "watching", "sub", "Subscribe, and print events for programs to read."),
    "tail": Place(HERE + "watching", "tail", "Subscribe, and print new events for people to read."),
    "history": Place(HERE + "looks", "history", "Print the past events of a topic."),
    "sessions": Place(HERE + "looks", "sessions", "List the sessions of MQTT clients, or end one."),
    "cluster": Place(HERE + "cluster", "cluster", "Look at the nodes of a cluster."),
    "dead-letters": Place(
        HERE + "looks", "letters", "List, replay and remove dead letters of bridges."
    ),
    "user": Place(HERE + "users", "user", "Add, change, list and remove users."),
    "policy": Place(HERE + "policy", "policy", "Explain whether a user may do something."),
    "import": Place(
        LAKE + "importing", "import_table", "Import the rows of Parquet files as records."
    ),
    "export": Place(LAKE + "snapshots", "export", "Export a snapshot of all tables to Parquet."),
    "snapshots": Place(
        LAKE + "snapshots", "snapshots", "List, verify, compact and remove snapshots."
    ),
    "backup": Place(
        HERE + "backups", "backup", "Back up the data directory, also while the server runs."
    ),
    "restore": Place(HERE + "backups", "restore", "Make a data directory from a backup."),
    "pipeline": Place(
        LAKE + "pipeline", "pipeline", "Run Spark jobs on snapshots and on the live log."
    ),
}
"""Each command, in the order of ``rowcast --help``; its module is one of
``rowcast.program.commands``."""


class LazyGroup(TyperGroup):
    """A group of commands that are imported on use."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, place in COMMANDS.items():
            self.add_command(TyperCommand(name, short_help=place.summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run, with its name and arguments."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and found else found, rest


def load_command(name: str) -> Any:
    """Import a command of ``COMMANDS``."""
    place = COMMANDS[name]
    gc.disable()  # what an import makes stays: looking for garbage in it finds none
    try:
        found = getattr(import_module(place.module), place.name)
    finally:
        gc.freeze()
        gc.enable()
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
        found.command(name)(function)
    return typer.main.get_command(found)


command = typer.Typer(
    name="rowcast",
    cls=LazyGroup,
    help="The real-time data server: every row is a topic, every topic is a row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""Help is plain text: without the boxes it can be searched, and flags do not show a type."""


_SIGN_IN: Final = (
    "; set ROWCAST_USER and ROWCAST_PASSWORD, or write them in the URL: ann:my%20secret@127.0.0.1"
)
_OTHER_USER: Final = "; run the command as the user to whom it belongs, such as the server's"


def main() -> None:
    """Run the command; the entry point of the script ``rowcast``."""
    os.umask(_UMASK)
    try:
        command()
    except Error as error:
        hint = _SIGN_IN if error.code is Code.UNAUTHENTICATED else ""
        print(f"rowcast: {error.full}{hint}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if error.filename is None:  # of no file: a fault of ours, whose traceback tells where
            raise
        print(f"rowcast: {_file_sentence(error)}", file=sys.stderr)
        sys.exit(1)
    finally:
        gc.freeze()  # else the end of the process looks through all modules, several times


def _file_sentence(error: OSError) -> str:
    """Return a sentence on a file or directory that the operating system refused."""
    hint = _OTHER_USER if isinstance(error, PermissionError) else ""
    return f"{error.filename}: {error.strerror}{hint}"


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"{__version__}, version {OPERATIONS} of the log")
        raise typer.Exit


@command.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version, and that of the log, which the nodes of a cluster must share.",
        ),
    ] = False,
) -> None:
    """Take options before a command's name."""


if __name__ == "__main__":
    main()
