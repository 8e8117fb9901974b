"""The work on a large value that a child process does: pure functions of bytes and a table.

They use what the event loop uses for small values, so the same words refuse the same value.
"""

from functools import lru_cache

from rowcast.codecs import decode
from rowcast.core.errors import Error
from rowcast.core.events import PATCH, Event
from rowcast.core.tables import Table
from rowcast.core.write_marks import ORIGIN
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder

TABLES_COMPILED_MAX = 64
"""Compiled tables that a child process keeps: those of its latest calls."""

Checked = tuple[str | None, bytes | None]
"""The content type of a checked payload, and its bytes if they changed."""


@lru_cache(maxsize=TABLES_COMPILED_MAX)
def _compiled(table: Table) -> CompiledTable:
    return CompiledTable(table)


def check(
    table: Table | None,
    topic: str,
    kind: str,
    payload: bytes,
    content_type: str | None,
    origin: object = None,
) -> Checked:
    """Check the payload of a write, as ``CompiledTable.admit`` does; a patch is only decoded.

    ``origin`` is that of a write that brings its version.
    """
    if table is None or kind == PATCH:
        decode(payload, content_type)
        return content_type, None
    event = Event(topic, kind, payload, content_type)
    event.properties = {ORIGIN: origin} if origin is not None else None
    _compiled(table).admit(event)
    return event.content_type, None if event.payload is payload else event.payload


def encode(
    table: Table | None, topic: str, payload: bytes, content_type: str | None, wanted: str | None
) -> tuple[bool, bytes | None]:
    """Return whether the payload of a record is a value, and its bytes in a wanted media type."""
    shapes = {}
    if table is not None:  # formulas are no part of what makes tables equal
        shapes = {table.name: CompiledTable(table) if table.computes else _compiled(table)}
    event = Event(topic, "put", payload, content_type, table=table)
    transcoder = Transcoder(shapes)
    if not transcoder.structured(event) or wanted is None:
        return transcoder.structured(event), None
    try:
        return True, transcoder.payload(event, wanted)
    except Error:  # the caller meets it again, in its own words
        return True, None
