"""Rows of ``$SYS/topic_tables``: which topic tables there are, and what is in each (M11).

A row is made when it is asked for, from what is in memory.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.features.undeclared_topics.topic_tables import Entry, TopicTables
from rowcast.routes.system_rows import SystemRows, time_text

PATH: Final = "$SYS/topic_tables"


def topic_table_rows(tables: TopicTables) -> type[SystemRows]:
    """Return the resource class that reads the topic tables of a kernel."""

    class TopicTableRows(SystemRows):
        """One row for each topic table."""

        path = PATH

        async def refresh(self) -> None:
            await self.kernel.reader.caught_up()  # for the counts

        def names(self) -> Sequence[str]:
            return [entry.table.name for entry in tables]

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            entry = tables.named(name)
            return None if entry is None else _row(tables, entry)

    return TopicTableRows


def _row(tables: TopicTables, entry: Entry) -> dict[str, object]:
    figures, table = tables.figures(entry), entry.table
    return {
        "name": table.name,
        "level": table.branch.level,
        "subscription_count": tables.subscribers(table.branch),
        "has_retained": figures.records > 0,
        "retained": figures.records,
        "events": figures.events,
        "bytes": figures.bytes,
        "stored": entry.defined,
        "created": time_text(entry.created_at),
    }
