"""Encodings: how the columns of a table are written, so that files are small and engines skip.

    whole numbers, times       DELTA_BINARY_PACKED: neighbours in key order differ little
    the key, ``_topic``        DELTA_BYTE_ARRAY: each value repeats the beginning of the one before
    a key of whole numbers     as any whole number
    everything else            a dictionary, or plain where it would be too large

A row group names the column that its rows are sorted by, and the page index has the least and the
greatest value of each page, so that an engine reads the pages it needs. Sources: the formats of
Apache Parquet, Encodings.md, PageIndex.md and ``SortingColumn`` in parquet.thrift.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rowcast.core.snapshot_limits import SNAPSHOT_COMPRESSION_LEVEL, SNAPSHOT_PAGE_ROWS

TOPIC: Final = "_topic"
NUMBERS: Final = "DELTA_BINARY_PACKED"
TEXTS: Final = "DELTA_BYTE_ARRAY"


def writer_options(schema: pa.Schema, key: str) -> Mapping[str, Any]:
    """Return the arguments of ``pq.ParquetWriter`` for a table whose rows are sorted by ``key``."""
    encodings: dict[str, str] = {}
    dictionaries: list[str] = []
    for path, kind in _leaves(schema):
        encoding = _encoding(path, kind, key)
        if encoding is None:
            dictionaries.append(path)
        else:
            encodings[path] = encoding
    return {
        "version": "2.6",
        "compression": "zstd",
        "compression_level": SNAPSHOT_COMPRESSION_LEVEL,
        "use_dictionary": dictionaries,
        "column_encoding": encodings or None,
        "write_statistics": True,
        "write_page_index": True,
        "max_rows_per_page": SNAPSHOT_PAGE_ROWS,
        "sorting_columns": pq.SortingColumn.from_ordering(schema, [(key, "ascending")]),
        "store_schema": False,
    }


def _encoding(path: str, kind: pa.DataType, key: str) -> str | None:
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return NUMBERS
    if path in {key, TOPIC} and pa.types.is_string(kind):
        return TEXTS
    return None


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Return the columns of the file: the leaves of nested types, by their paths there."""
    for field in schema:
        yield from _below(field.name, field.type)


def _below(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _below(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _below(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind
