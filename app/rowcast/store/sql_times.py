"""The time index: the first number of each second in the log, to find a time without a scan.

An entry states that no event before its number is of its second or later. It is written at most
once a second, in the transaction of the first commit in it; a late event, with an older version,
writes none. So an entry is a lower bound, and entries may be missing.

A time is therefore a position in the order of arrival: just before the first event of that time or
later. Late events after that position count as later, however old they are.
"""

# ruff: noqa: S608 - names are ours, values are bound

from sqlite3 import Cursor

from rowcast.core.clock import PER_SECOND
from rowcast.store.sql_parts import Plan
from rowcast.store.sql_tables import LOG, SEEN, TIMES


class Times:
    """The index of one opening: decides when an entry is due."""

    def __init__(self, last_version: int) -> None:
        self.last = last_version // PER_SECOND
        """The newest second with an entry, or before the first; set after a commit."""

    def write(self, cursor: Cursor, second: int, seq: int) -> None:
        """Add an entry of a later second within a transaction, by a batch's first number."""
        cursor.execute(f"INSERT INTO {TIMES} (second,seq) VALUES (?,?)", (second, seq))

    @staticmethod
    def forget(cursor: Cursor, version: int) -> "Times":
        """Remove, within a transaction, all entries after a version from a clock that was ahead.

        Returns the index to use from then on. Events of that clock are then before entries of
        earlier seconds, and cannot be found by time.
        """
        cursor.execute(f"DELETE FROM {TIMES} WHERE second>?", (version // PER_SECOND,))
        return Times(version)


def since(cursor: Cursor, plan: Plan, version: int) -> int | None:
    """Return the number of the first event of at least this version, or None."""
    known = cursor.execute(
        f"SELECT seq FROM {TIMES} WHERE second<=? ORDER BY second DESC LIMIT 1",
        (version // PER_SECOND,),
    ).fetchone()
    start = 0 if known is None else known[0]
    if plan.many:
        text = (
            f"SELECT seq FROM {LOG} WHERE seq>=? AND seq<={SEEN} AND version>=?{plan.sieve}"
            " ORDER BY seq LIMIT 1"
        )
        row = cursor.execute(text, (start, version)).fetchone()
        return None if row is None else int(row[0])
    text = (
        f"SELECT seq FROM {LOG} WHERE table_id=? AND seq>=? AND seq<=min(?,{SEEN}) AND version>=?"
        " ORDER BY seq LIMIT 1"
    )
    found = [
        cursor.execute(text, (number, start, upto, version)).fetchone()
        for number, upto in plan.pieces
    ]
    return min((int(row[0]) for row in found if row is not None), default=None)


def trim(cursor: Cursor) -> None:
    """Remove, within a transaction, the entries before the oldest remaining event.

    The last of them stays as the bound of that event. Numbers increase with seconds, so the search
    for the first needed entry only visits removed ones.
    """
    oldest = f"SELECT min(seq) FROM {LOG}"
    needed = f"SELECT second FROM {TIMES} WHERE seq>({oldest}) ORDER BY second LIMIT 1"
    cursor.execute(
        f"DELETE FROM {TIMES} WHERE second<"
        f" (SELECT max(second) FROM {TIMES} WHERE second<coalesce(({needed}),9223372036854775807))"
    )
