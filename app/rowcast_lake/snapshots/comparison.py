"""Comparison: whether two tables have equal values although a column's type has changed.

A digest depends on the types, so it changes when ``Decimal`` becomes ``@decimal``. Here both sides
are converted to text (``rowcast_lake/columns/joining.py``), and JSON text is compared as JSON:
``12.5`` equals ``12.50`` and ``"12.5"``, and the order of members does not matter. A value that
does not fit the new type is in ``_extra``, and is compared as if it were in its column.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from rowcast.codecs.model import SPELLINGS
from rowcast_lake.columns.joining import converted, text_of
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.shapes import REST, dumps, loads

Rows = Any
"""A ``pyarrow.Table``."""
_EXACT: Final = Context(prec=100)
_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", re.ASCII)


def retyped(columns: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the names that have more than one type; each mapping is of one file or manifest."""
    found: dict[str, str] = {}
    changed = set[str]()
    for kinds in columns:
        for name, kind in kinds.items():
            if found.setdefault(name, kind) != kind:
                changed.add(name)
    return frozenset(changed)


def same_values(one: Rows, other: Rows, content: Sequence[str], changed: Collection[str]) -> bool:
    """Whether two tables, both sorted by key, have the same values."""
    return _digest(one, content, changed) == _digest(other, content, changed)


def _digest(rows: Rows, content: Sequence[str], changed: Collection[str]) -> str:
    names = [name for name in content if name in changed and name in rows.column_names]
    texts = {name: converted(rows[name], pa.string()).to_pylist() for name in names}
    if REST in rows.column_names:
        rest = [_lifted(texts, row, text) for row, text in enumerate(rows[REST].to_pylist())]
        rows = _with(rows, REST, rest)
    for name, column in texts.items():
        rows = _with(rows, name, [None if text is None else _canonical(text) for text in column])
    digest = Digest(tuple(content))
    for batch in rows.combine_chunks().to_batches():
        digest.update(batch)
    return str(digest)


def _with(rows: Rows, name: str, values: list[str | None]) -> Rows:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, name, pa.array(values, pa.string()))


def _lifted(texts: Mapping[str, list[str | None]], row: int, text: str | None) -> str | None:
    """Move values that did not fit their column back into it, and return the rest of ``_extra``."""
    known = None if text is None else loads(text)
    if not isinstance(known, dict):
        return text
    for name in [name for name in texts if known.get(name) is not None]:
        texts[name][row] = text_of(known.pop(name))
    return dumps(known) if known else None


def _canonical(text: str) -> str:
    """Return the canonical spelling of JSON text; other text is returned unchanged."""
    value = _plain(text)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value in canonical form: numbers as text, and JSON inside text parsed."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if len(value) == 1 and not SPELLINGS.isdisjoint(value):
            return _plain(next(iter(value.values())))
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if not isinstance(value, str):
        return value
    if _NUMBER.fullmatch(value):
        return str(_EXACT.normalize(Decimal(value)))
    if value[:1] in {"{", "["}:
        with suppress(ValueError):
            return _plain(json.loads(value, parse_float=str, parse_int=str, parse_constant=str))
    return value
