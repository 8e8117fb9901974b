"""Backup: a consistent copy of a database file that may be in use (O12).

The file is copied within one read transaction, so writers do not wait and the copy is consistent;
SQLite keeps that state until the copy is done.
"""

# ruff: noqa: S608 - names are ours

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.limits import STORE_BUSY_SECONDS
from rowcast.store import sql_log
from rowcast.store.private import make_file
from rowcast.store.read_transaction import open_read_transaction
from rowcast.store.sql_database import refuse
from rowcast.store.sql_tables import META, TABLES

_ALL_PAGES: Final = -1


@dataclass(frozen=True, slots=True)
class Copied:
    """The state that a copy contains."""

    epoch: str
    head: int
    last_version: int
    """The greatest version of an event, in microseconds since 1970."""
    reaches: int
    """The position after which the log of every table is complete."""


def copy_database(source: Path, target: Path) -> Copied:
    """Copy a database that may be in use to a new file, and check the copy."""
    with open_read_transaction(source):  # check that it is a Rowcast file of this format
        pass
    make_file(target)
    try:
        with (
            closing(
                sqlite3.connect(f"{source.as_uri()}?mode=ro", STORE_BUSY_SECONDS, uri=True)
            ) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new, pages=_ALL_PAGES)
            new.execute("PRAGMA journal_mode=DELETE")  # a single file, without a write-ahead log
    except sqlite3.Error as error:
        refuse(error, target)
        raise
    return inspect_copy(target)


def applied_in(path: Path) -> int:
    """Return the number of the log's last batch in the tables of a file."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            row = connection.execute(f"SELECT value FROM {META} WHERE name='applied'").fetchone()
        except sqlite3.Error:  # no database of ours: who opens it says so
            return 1 << 63
    return 0 if row is None else int(row[0])


def parts_of(path: Path) -> dict[int, tuple[str, int]]:
    """Return the parts of a copy's log: name and trimmed position, by number."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute(f"SELECT id,name,trimmed FROM {TABLES}").fetchall()
    return {number: (name, trimmed) for number, name, trimmed in rows}


def inspect_copy(path: Path) -> Copied:
    """Return a copy's state; raises INVALID for a damaged file."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise Error(Code.INVALID, f"{path} is damaged: {found}; take another backup")
            cursor = connection.cursor()
            facts = dict(cursor.execute(f"SELECT name,value FROM {META}"))
            (reaches,) = cursor.execute(f"SELECT max(trimmed) FROM {TABLES}").fetchone()
            version = int(facts["last_version"])
            return Copied(str(facts["epoch"]), sql_log.head(cursor), version, reaches)
    except (sqlite3.Error, KeyError) as error:
        raise Error(
            Code.INVALID, f"{path} is no database of Rowcast, or damaged: {error}"
        ) from error
