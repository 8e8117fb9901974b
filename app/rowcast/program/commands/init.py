"""The command ``rowcast init``: writes the files of a new project."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from rowcast.core.errors import Code, Error
from rowcast.core.places import check_local

STARTERS: Final = {
    "schema.graphql": "schema.graphql",
    "resources/example.py": "resources/example.py-tpl",
    "rowcast.yaml": "rowcast.yaml",
}
"""Each file of a new project and its template in ``rowcast.program``.

Python is a template under another ending, so that nothing imports, compiles or lints it here."""

PURPOSES: Final = {
    "schema.graphql": "tables: each record is a REST resource and an MQTT topic",
    "resources/example.py": "your own code, in Python",
    "rowcast.yaml": "settings",
}

STEPS: Final = {
    "rowcast serve": "start the server; it prints its addresses",
    """rowcast put Dog/1 '{"name": "Rex"}'""": "in another terminal: write a record",
    "rowcast tail 'Dog/#'": "watch every change",
}


def init(
    directory: Annotated[
        Path, typer.Argument(help="The project's directory; created if it is missing.")
    ] = Path(),
) -> None:
    """Write a schema, an example resource and a settings file; overwrite nothing.

    Example: rowcast init myproject
    """
    check_local(str(directory), "the directory")
    print(f"{directory.resolve()}:")
    for name, written in write_starters(directory):
        state = "written" if written else "kept, exists"
        print(f"  {name:<22} {state:<16} {PURPOSES[name]}")
    print("\n".join(_next_steps(directory)))


def write_starters(directory: Path) -> Iterator[tuple[str, bool]]:
    """Write each missing file; yield its name and whether it was written.

    Raises INVALID when a file or directory cannot be written.
    """
    for name, template in STARTERS.items():
        path = directory / name
        text = (files("rowcast.program") / "template" / template).read_bytes()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield name, _write_new(path, text)
        except FileExistsError as error:
            message = f"{path.parent} is a file, and a directory is needed there; choose another"
            raise Error(Code.INVALID, message) from error
        except OSError as error:
            why = error.strerror or str(error)
            raise Error(Code.INVALID, f"{path} cannot be written: {why}") from error


def _write_new(path: Path, text: bytes) -> bool:
    """Write a file unless the name exists; leaves no partial file."""
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()
        raise
    return True


def _next_steps(directory: Path) -> Iterator[str]:
    yield "Next:"
    if directory.resolve() != Path.cwd():
        yield f"  cd {directory}"
    for command, purpose in STEPS.items():
        yield f"  {command:<36} {purpose}"
