"""Rows of ``$SYS/snapshots``: what was exported, and what is being (S1, S12; M11).

A row for each snapshot (its id is the number of its cut), each increment (``changes/seq=a-b``) and
each job. POST to the collection begins an export, of ``{"tables": [...]}`` or of what the log has
since with ``{"changes": true}``, for a role that has a place of its own with ``{"audience":
"clerk"}``; DELETE removes a snapshot, or ends a job. Below a row's id are its files:
``1042/manifest.json``, ``newest/Dog/part-00000.parquet``. What is for a role has no rows.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import EXPORT_TABLES_MAX
from rowcast.core.queries import Query
from rowcast.core.suggestions import did_you_mean
from rowcast.features.snapshots.catalogue import Item
from rowcast.features.snapshots.jobs import Order
from rowcast.features.snapshots.snapshot_directory import NEWEST
from rowcast.routes.system_rows import SystemRows

if TYPE_CHECKING:
    from rowcast.features.snapshots.exports import Exports

PATH: Final = "$SYS/snapshots"
_MEMBERS: Final = ("tables", "changes", "audience")

_SERVER_S: Final = ("_", "mqtt_sys")
"""What the names of tables begin with that have the server's own topics or facts."""

Facts = dict[str, object]


def snapshot_rows(exports: "Exports") -> type[SystemRows]:
    """Return the resource class that shows, begins and removes exports."""

    class SnapshotRows(SystemRows):
        """One row for each snapshot, increment and job."""

        path = PATH

        def names(self) -> Sequence[str]:
            return [*exports.items, *exports.jobs]

        def row(self, name: str, *, whole: bool) -> Facts | None:
            if name in exports.jobs:
                return exports.jobs[name].row
            found = exports.find(name)
            if found is None or found[1]:
                return None
            item = found[0]
            return _row(item, exports, whole=whole)

        async def get(self, query: Query | None = None) -> object:
            """Return a row, rows, or a file."""
            self.kernel.authorise_read(self.topic, self.caller)
            found = exports.find(self.id)
            if found is None or self.id.startswith(NEWEST):  # another program may have made it now
                await exports.look()
                found = exports.find(self.id)
            if found is not None and found[1]:
                _check_file(self, found[1])
                return await exports.download(*found)
            return await super().get(query)

        async def post(self, value: object) -> object:
            """Begin an export."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            if self.id:
                raise Error(Code.NOT_ALLOWED, f"post to /{PATH}/ to begin an export")
            order = _order(value)
            _check_tables(order, exports.tables)
            _check_audience(order, exports.audiences)
            job = exports.begin(order)
            self.began = f"{PATH}/{job.name}"
            return job.row

        async def delete(self) -> None:
            """Remove a snapshot or increment, or end a job."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            if self.id in exports.jobs:
                await exports.end(exports.jobs[self.id])
                return
            found = exports.find(self.id)
            if found is None or found[1]:
                raise Error(Code.NOT_FOUND, f"there is no snapshot or job {self.id[:200]!r}")
            await asyncio.to_thread(exports.catalogue.remove, found[0])
            await exports.look()

    return SnapshotRows


def _check_file(rows: SystemRows, path: str) -> None:
    """Refuse a file that has more than its reader might see otherwise.

    A file is given whole: no rule or hook looks at its rows. Of the server's own there are some
    that only administrators read.
    """
    if rows.kernel.visibility.filtered or path.startswith(_SERVER_S):
        rows.kernel.rights.check_administer(rows.topic, rows.caller)


def _row(item: Item, exports: "Exports", *, whole: bool) -> Facts:
    """Return what is shown of a snapshot or increment; ``whole``: with its tables."""
    manifest = item.manifest
    tables = manifest.get("tables", {})
    facts: Facts = {
        "id": item.name,
        "kind": "changes" if item.is_page else "snapshot",
        "state": "damaged" if item.problem else "complete",
        "cut": manifest.get("cut"),
        "from_seq": item.from_seq if item.is_page else None,
        "seq": item.seq,
        "created": manifest.get("created"),
        "rows": item.rows,
        "bytes": item.size_bytes,
        "files": len(item.files),
        "newest": item.name == exports.newest,
        "pinned": exports.pinned(item.name),
        "error": item.problem or None,
    }
    if whole:
        facts["tables"] = {
            name: {"rows": table["rows"], "digest": table.get("digest")}
            for name, table in tables.items()
        }
    return facts


def _check_tables(order: Order, tables: Collection[str]) -> None:
    """Raise NOT_FOUND for a name that is no table's; the process knows the server's own tables."""
    for name in order.tables:
        if name not in tables and not name.startswith(_SERVER_S):
            near = did_you_mean(name, tables) or f"; there are {', '.join(sorted(tables))}"
            raise Error(Code.NOT_FOUND, f"there is no table {name[:200]!r} to export{near}")


def _check_audience(order: Order, audiences: Collection[str]) -> None:
    """Raise NOT_FOUND for a role that has no place of its own."""
    if order.audience and order.audience not in audiences:
        near = did_you_mean(order.audience, audiences)
        raise Error(
            Code.NOT_FOUND,
            f"there is no place for exports for {order.audience[:200]!r}{near}; the setting "
            "snapshots.audiences names roles and their directories",
        )


def _order(value: object) -> Order:
    """Return what a body asks for; raises INVALID with how to say it."""
    given = {} if value is None else value
    if not isinstance(given, dict):
        raise Error(Code.INVALID, 'an export is ordered with {}, {"tables": ["Dog"]} or such')
    for name in given:
        if name not in _MEMBERS:
            raise Error(
                Code.INVALID, f"an export has no {name[:60]!r}{did_you_mean(name, _MEMBERS)}"
            )
    tables, changes = given.get("tables") or [], given.get("changes", False)
    named = isinstance(tables, list) and all(isinstance(name, str) for name in tables)
    if not named or len(tables) > EXPORT_TABLES_MAX:
        raise Error(Code.INVALID, "tables is a list of names, such as ['Dog']")
    if not isinstance(changes, bool):
        raise Error(Code.INVALID, "changes is true or false")
    if changes and tables:
        raise Error(Code.INVALID, "changes are of all tables, so that none has a gap; name none")
    audience = given.get("audience") or ""
    if not isinstance(audience, str):
        raise Error(Code.INVALID, "audience is the name of a role, such as 'clerk'")
    return Order(tuple(tables), changes, audience)
