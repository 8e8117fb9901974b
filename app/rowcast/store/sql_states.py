"""Facts as SQL: small durable values of an owner.

A change is written in the transaction of its events, so both are atomic. Of several changes of one
fact in a batch only the last is written; an owner's facts are removed by one statement. Those of a
large result are apart until they are moved, and count from its switch on (``sql_staged.py``). This
module does not interpret facts.
"""

# ruff: noqa: S608 - names are ours, values are bound

from collections.abc import Sequence
from itertools import takewhile
from sqlite3 import Cursor
from typing import cast

from rowcast.store.sql_rows import Cell
from rowcast.store.sql_statements import Statement, marks, values
from rowcast.store.sql_tables import META, OVERLAY, STAGED_FACTS, STATES
from rowcast.store.store import Change


class StateStatements:
    """The statements that change facts."""

    __slots__ = ("_delete", "_delete_owner", "_find", "_upsert")

    def __init__(self) -> None:
        self._upsert = Statement(
            lambda size: (
                f"INSERT INTO {STATES} (owner,name,value) VALUES {values(3, size)}"
                " ON CONFLICT (owner,name) DO UPDATE SET value=excluded.value"
            ),
            3,
            pads=True,
        )
        self._delete = Statement(
            # With a bare list of VALUES, SQLite would scan the table.
            lambda size: (
                f"DELETE FROM {STATES} WHERE (owner,name) IN"
                f" (SELECT * FROM (VALUES {values(2, size)}))"
            ),
            2,
            pads=True,
        )
        self._delete_owner = Statement(
            lambda size: f"DELETE FROM {STATES} WHERE owner IN ({marks(size)})", 1, pads=True
        )

        self._find = Statement(_find, 2, pads=True)

    def read(
        self, cursor: Cursor, places: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str, bytes]]:
        """Return owner, name and value of these facts; absent ones are left out.

        Of two values of one fact the last counts.
        """
        cells = [cell for place in places for cell in place]
        return cast("list[tuple[str, str, bytes]]", self._find.run(cursor, cells))

    def write(self, cursor: Cursor, changes: Sequence[Change]) -> None:
        """Apply these changes within a transaction, with the effect of one after the other."""
        last: dict[str, dict[str, bytes | None]] = {}
        removed: set[str] = set()
        for change in changes:
            if change.value is None and not change.name:
                removed.add(change.owner)
                last[change.owner] = {}
            else:
                last.setdefault(change.owner, {})[change.name] = change.value
        upserts: list[Cell] = []
        deletes: list[Cell] = []
        for owner in sorted(last):
            for name, value in sorted(last[owner].items()):
                if value is not None:
                    upserts += (owner, name, value)
                elif owner not in removed:
                    deletes += (owner, name)
        self._delete_owner.run(cursor, sorted(removed))
        self._delete.run(cursor, deletes)
        self._upsert.run(cursor, upserts)


def _find(size: int) -> str:
    """Return what finds so many facts: those of all, and those of a large result that all see."""
    return (
        f"WITH places (o,n) AS (VALUES {values(2, size)})"
        f" SELECT owner,name,value FROM {STATES} WHERE (owner,name) IN (SELECT o,n FROM places)"
        f" UNION ALL SELECT owner,name,value FROM {STAGED_FACTS}"
        f" WHERE EXISTS (SELECT 1 FROM {META} WHERE name='{OVERLAY}')"
        " AND (name,owner) IN (SELECT n,o FROM places)"
    )


def read_states(cursor: Cursor, prefix: str) -> list[tuple[str, str, bytes]]:
    """Return the facts of owners that begin with ``prefix``, by owner and name."""
    rows = cursor.execute(
        f"SELECT owner,name,value FROM {STATES} WHERE owner>=? ORDER BY owner,name", (prefix,)
    )
    return list(takewhile(lambda row: row[0].startswith(prefix), rows))
