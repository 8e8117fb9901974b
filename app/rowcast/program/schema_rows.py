"""Rows of ``$SYS/schema``: the types that the schema declares, as they are written."""

from typing import Final

from rowcast.routes.figure_rows import listed_rows
from rowcast.routes.system_rows import SystemRows
from rowcast.schema.schema import Schema

SCHEMA: Final = "$SYS/schema"


def schema_rows(schema: Schema) -> type[SystemRows]:
    """Return the resource class of one row for each declared type."""
    declared = {str(facts["name"]): facts for facts in schema.declared}
    return listed_rows(SCHEMA, lambda: declared)
