"""CSV (RFC 4180), written and not read: rows for spreadsheets and other tools.

A list of maps is a header and a row for each; the columns are all keys in the order they first
occur. A cell that holds a list or a map is plain JSON text, null is empty, bytes are base64. Cells
are never altered to please a spreadsheet: what is stored is what is written, a leading ``=``
included. This module must not know media types.
"""

import csv
import math
from collections.abc import Sequence
from io import StringIO

from rowcast.codecs import model
from rowcast.codecs.plain import encode_plain, plain
from rowcast.core import limits
from rowcast.core.errors import Code, Error

VALUE_COLUMN = "value"
"""The column of a row that is not a map."""
EXTRA_COLUMN = "_extra"
"""A column of rows that are not all known yet: what a row has in no other column, as JSON."""


def encode(value: object, _depth_max: int = limits.ANSWER_DEPTH_MAX) -> bytes:
    """A list as rows below a header; anything else as one row.

    CSV is only sent, so its cells may be as deep as an answer.
    """
    rows = [_row(item) for item in (value if isinstance(value, list) else [value])]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [encode_line(columns), *(encode_row(row, columns) for row in rows)]
    return b"".join(lines) if columns else b""


def decode(_payload: bytes, _parts_max: int = 0, _depth_max: int = 0) -> object:
    """Refuse: CSV has no types, so decoding would not return the value that was encoded."""
    raise Error(
        Code.UNSUPPORTED, "text/csv is written and not read; send application/x-ndjson instead."
    )


def encode_row(value: object, columns: Sequence[str]) -> bytes:
    """One row: the cells of the given columns, empty where the value has none."""
    row = _row(value)
    if EXTRA_COLUMN in columns:
        known = {*columns}
        rest = {name: it for name, it in row.items() if name not in known and it is not None}
        row = {**row, EXTRA_COLUMN: rest or None}
    return encode_line([cell(row.get(column)) for column in columns])


def encode_line(cells: Sequence[str]) -> bytes:
    """Cells as one line, quoted where they must be."""
    text = StringIO(newline="")
    csv.writer(text).writerow(
        cells
    )  # its defaults are those of RFC 4180: comma, CRLF, "" in quotes
    try:
        return text.getvalue().encode("utf-8")
    except UnicodeEncodeError:
        raise Error(Code.INVALID, model.SURROGATE) from None


def columns_of(value: object) -> list[str]:
    """The columns of one row."""
    return list(_row(value))


def cell(value: object) -> str:
    """The text of one cell."""
    model.validate(value, limits.ANSWER_DEPTH_MAX)
    if isinstance(value, bool | dict | list):
        return encode_plain(value).decode("utf-8")
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else model.name_of(value)
    return str(plain(value))


def _row(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {VALUE_COLUMN: value}
