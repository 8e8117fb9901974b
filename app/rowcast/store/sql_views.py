"""SQL views of topic tables, for SQL tools.

A topic table is a part of the log, and its view shows that part with the seven columns; that of
METRICS shows the current records below ``$SYS/``. A view is created and dropped with its table. But
every change of the SQL schema makes each connection reparse it, so with many views, changes are
deferred to ``tidy``, which batches them.

A name already used by a current or former declared table is skipped: such a topic table has no
view.
"""

# ruff: noqa: S608 - names are quoted and ours, values are numbers

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from sqlite3 import Cursor
from typing import Final

from rowcast.core.topic_tables import METRICS
from rowcast.store.sql_tables import LOG, TOPICS, quoted
from rowcast.store.store_limits import USUAL, StoreLimits

_MARK: Final = "/* rowcast: topic table {} */"
_MARKED: Final = re.compile(r"/\* rowcast: topic table (\d+) \*/")
_TIME: Final = (
    "strftime('%Y-%m-%dT%H:%M:%S',version/1000000,'unixepoch')||printf('.%06dZ',version%1000000)"
)
_DIGIT: Final = "substr('0123456789abcdefghijklmnopqrstuvwxyz',seq/{}%36+1,1)"
_ID: Final = (  # as core/topic_tables.py:message_id formats it: at least nine digits
    f"printf('%013d-',version/1000)"
    f"||ltrim({'||'.join(_DIGIT.format(36**place) for place in range(12, 8, -1))},'0')"
    f"||{'||'.join(_DIGIT.format(36**place) for place in range(8, -1, -1))}"
)
_MESSAGES: Final = (
    f"SELECT {_ID} AS id,topic,payload,qos,retain,{_TIME} AS timestamp,"
    f"nullif(client,'') AS client_id FROM {LOG} WHERE table_id="
)
_METRICS: Final = (
    f"SELECT topic AS id,topic,CAST(payload AS TEXT) AS value,{_TIME} AS timestamp FROM {TOPICS}"
    " WHERE topic>='$SYS/' AND topic<'$SYS0'"
)


class Views:
    """The existing views, by name, with the numbers of their tables."""

    def __init__(self, made: Mapping[str, int] | None = None, limits: StoreLimits = USUAL) -> None:
        self._limits = limits
        self.made = dict(made or {})
        self._refused: set[tuple[str, int]] = set()
        """Views whose name is already used."""

    @property
    def few(self) -> bool:
        """Whether a change of the schema is cheap, so that it need not be deferred."""
        return len(self.made) < self._limits.views_at_once

    def changes(self, wanted: Mapping[str, int]) -> tuple[list[str], dict[str, int]]:
        """Return the next views to drop and to create, towards the wanted ones."""
        gone = [name for name, number in self.made.items() if wanted.get(name) != number]
        room = self._limits.views - len(self.made) + len(gone)
        new = (
            item
            for item in wanted.items()
            if self.made.get(item[0]) != item[1] and item not in self._refused
        )
        return gone, dict(islice(new, max(0, min(room, self._limits.view_changes))))

    def change(
        self, cursor: Cursor, gone: Iterable[str] = (), new: Mapping[str, int] | None = None
    ) -> "Views":
        """Drop and create views within a transaction; return the resulting views."""
        after = Views(self.made, self._limits)
        after._refused = set(self._refused)
        for name in gone:
            cursor.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
            after.made.pop(name, None)
        for name, number in (new or {}).items():
            taken = cursor.execute(
                "SELECT 1 FROM sqlite_master WHERE lower(name)=lower(?)", (name,)
            ).fetchone()
            if taken is not None:
                after._refused.add((name, number))
                continue
            select = _METRICS if name == METRICS else f"{_MESSAGES}{number}"
            cursor.execute(f"CREATE VIEW {quoted(name)} AS {_MARK.format(number)} {select}")
            after.made[name] = number
        return after


def load(cursor: Cursor, limits: StoreLimits = USUAL) -> Views:
    """Return the views of the database."""
    rows = cursor.execute("SELECT name,sql FROM sqlite_master WHERE type='view'").fetchall()
    found = {name: _MARKED.search(text) for name, text in rows}
    made = {name: int(match[1]) for name, match in found.items() if match is not None}
    return Views(made, limits)


def give_way(cursor: Cursor, name: str) -> None:
    """Drop a view whose name a declared table needs, within a transaction."""
    for taken in load(cursor).made:
        if taken.lower() == name.lower():
            cursor.execute(f"DROP VIEW {quoted(taken)}")
