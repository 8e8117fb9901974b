"""The columns ``_op``, ``_origin`` and ``_client``, which describe the write of a row.

_op       put, patch (the complete record after it), delete, or message, which changes no record; a
          record of a snapshot is ``put``, because it is a complete value
_origin   the log of the first write: this log's epoch, or the stamp's
_client   the writer
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.events import PUT
from rowcast.core.write_marks import ORIGIN
from rowcast_lake.snapshots.shapes import loads


def required(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that has no nulls."""
    return pa.field(name, kind, nullable=False)


FIELDS: Final = [
    required("_op", pa.string()),
    required("_origin", pa.string()),
    pa.field("_client", pa.string()),
]


def written(
    epoch: str,
    clients: Sequence[object],
    properties: Sequence[object],
    kinds: Sequence[object] | None = None,
) -> dict[str, pa.Array]:
    """Return these columns; properties are JSON text of SQL; without kinds, rows are records."""
    count = len(clients)
    if properties.count(None) == count:
        origins = pa.repeat(pa.scalar(epoch), count)
    else:
        origins = pa.array([_origin(epoch, text) for text in properties], pa.string())
    return {
        "_op": pa.repeat(pa.scalar(PUT), count) if kinds is None else pa.array(kinds, pa.string()),
        "_origin": origins,
        "_client": client_column(clients),
    }


def client_column(clients: Sequence[object]) -> pa.Array:
    """Return the writers; null where none is recorded."""
    named = [client or None for client in clients] if "" in clients else clients
    return pa.array(named, pa.string())


def has_origins(properties: pa.Array) -> bool:
    """Whether some JSON text of SQL may name the log of a first write."""
    if properties.null_count == len(properties):
        return False
    return bool(pc.any(pc.match_substring(properties.cast(pa.string()), ORIGIN)).as_py())


def _origin(epoch: str, text: object) -> str:
    if not isinstance(text, str) or ORIGIN not in text:
        return epoch
    known = loads(text)
    return str((known.get(ORIGIN) if isinstance(known, dict) else None) or epoch)
