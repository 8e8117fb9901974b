"""When: from which number on the log has a second, so that a time is found without a walk.

An entry says that no event before its number is of its second or later. It is made at most once in
a second, in the transaction of the first commit that reaches it; a late event, whose version is of
a time that has passed, makes none. So an entry is a lower bound, and any of them may be missing.

A time is therefore a place in the order of arrival: just before the first event that is of that
time or later. Late events that come after that place belong to it, however old they are.
"""

# ruff: noqa: S608 - names are ours, values are bound

from sqlite3 import Cursor

from rowcast.core.clock import PER_SECOND
from rowcast.store.sql_parts import Plan
from rowcast.store.sql_tables import LOG, TIMES


class Times:
    """The index of one opening: what it takes to know when an entry is due."""

    def __init__(self, last_version: int) -> None:
        self.last = last_version // PER_SECOND
        """The newest second that has an entry, or came before them; set after a commit."""

    def write(self, cursor: Cursor, second: int, seq: int) -> None:
        """Note a batch of a later second within a transaction, by its first number."""
        cursor.execute(f"INSERT INTO {TIMES} (second,seq) VALUES (?,?)", (second, seq))

    @staticmethod
    def forget(cursor: Cursor, version: int) -> "Times":
        """Forget, within a transaction, all entries after a version: its clock was ahead.

        Return what is to be used from then on. Events of that clock are before entries of earlier
        seconds then, and no time leads to them.
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
        text = f"SELECT seq FROM {LOG} WHERE seq>=? AND version>=?{plan.sieve} ORDER BY seq LIMIT 1"
        row = cursor.execute(text, (start, version)).fetchone()
        return None if row is None else int(row[0])
    text = (
        f"SELECT seq FROM {LOG} WHERE table_id=? AND seq>=? AND seq<=? AND version>=?"
        " ORDER BY seq LIMIT 1"
    )
    found = [
        cursor.execute(text, (number, start, upto, version)).fetchone()
        for number, upto in plan.pieces
    ]
    return min((int(row[0]) for row in found if row is not None), default=None)


def trim(cursor: Cursor) -> None:
    """Forget, within a transaction, the entries before the oldest event that is left.

    The last of them stays: it is the bound of that event. Numbers grow with seconds, so the search
    for the first entry that is needed passes only those that go.
    """
    oldest = f"SELECT min(seq) FROM {LOG}"
    needed = f"SELECT second FROM {TIMES} WHERE seq>({oldest}) ORDER BY second LIMIT 1"
    cursor.execute(
        f"DELETE FROM {TIMES} WHERE second<"
        f" (SELECT max(second) FROM {TIMES} WHERE second<coalesce(({needed}),9223372036854775807))"
    )
