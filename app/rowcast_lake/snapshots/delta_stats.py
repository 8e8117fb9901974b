"""Statistics of a file for a Delta log: by them engines leave out files, as of other partitions.

They are those of the file's own footer, so they are exact: an engine may answer least and greatest
values from them. Floats are left out, whose footers pass over NaN, and long texts.
Source: the Delta transaction log protocol, Per-file Statistics.
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, cast

import pyarrow.parquet as pq

from rowcast_lake.stores.object_paths import ObjectPath

_TEXT_MAX: Final = 64
"""Characters of a text in statistics: those of keys, dates and names, so that a log stays small."""
_KINDS: Final = (int, str, date)


def stats_of(path: Path | ObjectPath, rows: int) -> str:
    """Return the statistics of a file as JSON."""
    with path.open("rb") as file:
        footer = pq.read_metadata(file)
    least, greatest, nulls = dict[str, object](), dict[str, object](), dict[str, int]()
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        known = [_chunk(footer, group, place) for group in range(footer.num_row_groups)]
        if "." in name or not all(known):
            continue
        chunks = [chunk for chunk in known if chunk is not None]
        nulls[name] = sum(chunk.null_count for chunk in chunks)
        bounds = [(chunk.min, chunk.max) for chunk in chunks if chunk.has_min_max]
        if bounds:
            low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
            if _is_short(low) and _is_short(high):
                least[name], greatest[name] = _said(low), _said(high)
    facts = {"numRecords": rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(facts if nulls else {"numRecords": rows}, ensure_ascii=False)


def _chunk(footer: Any, group: int, place: int) -> Any:
    """Return the statistics of a column in a row group; None if they are not those of all rows."""
    found = footer.row_group(group).column(place).statistics
    if found is None or not found.has_null_count:
        return None
    empty = found.null_count == footer.row_group(group).num_rows
    is_known = isinstance(found.min, _KINDS) and not isinstance(found.min, bool)
    return found if empty or (found.has_min_max and is_known) else None


def _is_short(value: object) -> bool:
    return not isinstance(value, str) or len(value) <= _TEXT_MAX


def _said(value: object) -> object:
    """Return a value as statistics have it: times in UTC, to the microsecond."""
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else cast("int | str", value)
