"""Undeclared names in a query: attributes of some record, or misspelt.

A table that is not sealed stores undeclared attributes, so its schema cannot distinguish a misspelt
name from one of those; that requires the records (``reads/unknown_names.py``).
"""

from collections.abc import Mapping
from typing import Final

from rowcast.core.conditions import ID_PATH, Path, compared
from rowcast.core.queries import Query
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table, Type

WRITTEN: Final[Mapping[str, str]] = {
    "limit": "limit(10)",
    "offset": "limit(20,30), which is ten from the twentieth on",
    "page": "limit(20,40), which is the second page of twenty",
    "per_page": "limit(20)",
    "sort": "sort(-name)",
    "order": "sort(-name)",
    "select": "select(name)",
    "fields": "select(name)",
    "after": "after(token)",
    "fn": "every=1h&fn=avg, because fn needs buckets to work on",
    "since": "from=<cursor> for what happened after it, or ask for text/event-stream",
}
"""The query function for each common parameter name of other servers."""


def undeclared(table: Table, query: Query) -> dict[Path, str]:
    """Return the paths of a query that its table does not declare: ``where``, ``sort``, ``select``.

    One that is used in several places is named by the first.
    """
    found: dict[Path, str] = {}
    uses = (
        ("where", compared(query.where)),
        ("sort", (key.path for key in query.sort)),
        ("select", query.select.paths if query.select is not None else ()),
    )
    for use, paths in uses:
        for path in paths:
            if path not in found and not is_declared(table, path):
                found[path] = use
    return found


def is_declared(table: Table, path: Path) -> bool:
    """Whether a table's schema declares a path."""
    if path == ID_PATH:
        return True
    fields = table.attributes
    for name in path:
        attribute = next((item for item in fields if item.name == name), None)
        if attribute is None:
            return False
        if attribute.type is not Type.OBJECT:
            return True  # the schema does not declare the content of values of any type
        fields = attribute.fields
    return True


def unknown_name(table: Table, path: Path) -> str:
    """Return the error message for a name that the table does not declare and no record has."""
    name = ".".join(path)
    seen = [item.name for item in table.attributes if not item.hidden]
    near = did_you_mean(path[0], seen) if path[0] not in seen else ""
    message = f"{table.name} declares no attribute {name[:80]!r}, and no record has one"
    return f"{message}{near or _as_written(name)}"


def _as_written(name: str) -> str:
    return f"; write {WRITTEN[name]}" if name in WRITTEN else ""
