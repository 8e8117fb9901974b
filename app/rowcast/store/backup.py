"""A copy of a database file, made beside whoever writes to it: one committed moment of it (O12).

The whole file is copied within one read transaction, so nobody waits and nothing is torn; SQLite
keeps what the copy sees until it is done.
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
from rowcast.store.read_transaction import open_cut
from rowcast.store.sql_database import refuse
from rowcast.store.sql_tables import META, TABLES

_ALL_PAGES: Final = -1


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy is of."""

    epoch: str
    head: int
    last_version: int
    """The greatest version of an event, in microseconds since 1970."""
    reaches: int
    """The position after which the log of every table is whole."""


def copy_database(source: Path, target: Path) -> Copied:
    """Copy a database that may be in use to a file that is not there yet, and look at the copy."""
    with open_cut(source):  # it is one of ours, and of this form
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
            new.execute("PRAGMA journal_mode=DELETE")  # one file, without a log of its own beside
    except sqlite3.Error as error:
        refuse(error, target)
        raise
    return look_at(target)


def look_at(path: Path) -> Copied:
    """Return what a copy is of; raises INVALID for a file that is damaged."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise Error(Code.INVALID, f"{path} is damaged: {found}; take another back-up")
            cursor = connection.cursor()
            facts = dict(cursor.execute(f"SELECT name,value FROM {META}"))
            (reaches,) = cursor.execute(f"SELECT max(trimmed) FROM {TABLES}").fetchone()
            version = int(facts["last_version"])
            return Copied(str(facts["epoch"]), sql_log.head(cursor), version, reaches)
    except (sqlite3.Error, KeyError) as error:
        raise Error(
            Code.INVALID, f"{path} is no database of Rowcast, or damaged: {error}"
        ) from error
