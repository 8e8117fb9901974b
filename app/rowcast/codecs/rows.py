"""Collections a row at a time, so that a million records cost the memory of one.

A writer gives the bytes before, for and after each row; joined, they are what the codec of that
media type decodes to the list of rows. MessagePack is the exception in kind: its arrays begin with
their length, so without a count known beforehand its rows are held back to the end, up to a bound.
This module must not know where rows come from or go to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

from rowcast.codecs import cbor, csv_text, json_text, messagepack, ndjson
from rowcast.codecs.registry import (
    CBOR,
    CBOR_SEQ,
    CSV,
    JSON,
    MSGPACK,
    NDJSON,
    check_size,
    codec_for,
)
from rowcast.core import limits
from rowcast.core.errors import Code, Error


class RowsEncoder(Protocol):
    """The bytes of a collection, piece by piece; a piece may be empty."""

    def begin(self) -> bytes:
        """The bytes before the rows."""

    def row(self, value: object) -> bytes:
        """One row."""

    def end(self) -> bytes:
        """The bytes after the rows."""


class _Items:
    """Rows that stand for themselves, one after the other."""

    def __init__(
        self, encode: Callable[[object, int], bytes], before: bytes = b"", after: bytes = b""
    ) -> None:
        self._encode = encode
        self._before = before
        self._after = after

    def begin(self) -> bytes:
        return self._before

    def row(self, value: object) -> bytes:
        return self._encode(value, limits.ANSWER_DEPTH_MAX)

    def end(self) -> bytes:
        return self._after


class _Json(_Items):
    """A JSON array: a comma before every row but the first."""

    def __init__(self) -> None:
        super().__init__(json_text.encode, b"[", b"]")
        self._comma = b""

    def row(self, value: object) -> bytes:
        piece = self._comma + json_text.encode(value, limits.ANSWER_DEPTH_MAX)
        self._comma = b","
        return piece


class _MessagePack(_Items):
    """A MessagePack array of a count known beforehand."""

    def __init__(self, count: int) -> None:
        super().__init__(messagepack.encode, messagepack.array_header(count))
        self._missing = count

    def row(self, value: object) -> bytes:
        self._missing -= 1
        return super().row(value)

    def end(self) -> bytes:
        if self._missing:
            raise Error(
                Code.CONFLICT,
                f"The collection changed by {-self._missing:+d} rows while it was written as"
                f" {MSGPACK}; ask again, or for {CBOR_SEQ}.",
            )
        return b""


class _HeldMessagePack(_Items):
    """A MessagePack array whose count is known at the end only."""

    def __init__(self, held_bytes_max: int) -> None:
        super().__init__(messagepack.encode)
        self._held_bytes_max = held_bytes_max
        self._rows = bytearray()
        self._count = 0

    def row(self, value: object) -> bytes:
        self._rows += messagepack.encode(value, limits.ANSWER_DEPTH_MAX)
        self._count += 1
        if len(self._rows) > self._held_bytes_max:
            raise Error(
                Code.TOO_LARGE,
                f"The collection is over {self._held_bytes_max} bytes, and {MSGPACK} is not"
                f" streamed without a count; ask for {CBOR_SEQ}, {CBOR} or {NDJSON}.",
            )
        return b""

    def end(self) -> bytes:
        return messagepack.array_header(self._count) + self._rows


class _Csv:
    """CSV: a header of the given columns, or of the first row's.

    Other keys are left out, unless ``csv_text.EXTRA_COLUMN`` is a column, which has them.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def begin(self) -> bytes:
        return csv_text.encode_line(self._columns) if self._columns else b""

    def row(self, value: object) -> bytes:
        if self._columns:
            return csv_text.encode_row(value, self._columns)
        self._columns = csv_text.columns_of(value)
        return self.begin() + csv_text.encode_row(value, self._columns)

    def end(self) -> bytes:
        return b""


def rows_encoder(
    media_type: str,
    columns: Sequence[str] = (),
    count: int | None = None,
    held_bytes_max: int = limits.ROWS_BUFFER_BYTES_MAX,
) -> RowsEncoder:
    """A new writer of one collection; ``columns`` are CSV's and ``count`` is MessagePack's.

    ``held_bytes_max`` is for MessagePack whose count is not known: it is held back as a whole.
    """
    codec = codec_for(media_type)
    if codec.media_type == MSGPACK:
        return _HeldMessagePack(held_bytes_max) if count is None else _MessagePack(count)
    if codec.media_type == CSV:
        return _Csv(columns)
    writer = _WRITERS.get(codec.media_type)
    if writer is None:
        raise Error(
            Code.UNSUPPORTED,
            f"A collection has no form in {codec.media_type}; use {JSON} or {CBOR}.",
        )
    return writer()


_WRITERS: Mapping[str, Callable[[], RowsEncoder]] = MappingProxyType(
    {
        JSON: _Json,
        CBOR: partial(_Items, cbor.encode, cbor.ARRAY_OPEN, cbor.ARRAY_CLOSE),
        NDJSON: partial(_Items, ndjson.encode_line),
        CBOR_SEQ: partial(_Items, cbor.encode),
    }
)


_WHOLE: Mapping[str, Callable[[bytes, int], object]] = MappingProxyType(
    {JSON: json_text.decode, CBOR: cbor.decode, MSGPACK: messagepack.decode}
)
"""Decoders of a whole batch, by media type; the second argument bounds its parts."""
_ARRAYS = frozenset(bytes([first]) for first in (*range(0x90, 0xA0), 0xDC, 0xDD))
"""The first byte of an array in MessagePack (its specification, "array format family")."""


def decode_rows(payload: bytes, content_type: str | None) -> Iterator[object]:
    """The rows of a batch; a list is its items, and any other single value is one row.

    Lines and sequences are decoded one at a time, so a fault is met when its row is reached.
    """
    check_size(payload)
    codec, most = codec_for(content_type), limits.ROWS_PARTS_MAX
    if codec.media_type == NDJSON:
        return ndjson.decode_lines(payload, most)
    if codec.media_type == CBOR_SEQ:
        return cbor.decode_sequence(payload, most)
    whole = _WHOLE.get(codec.media_type)
    value = (
        codec.decode(payload, limits.VALUE_PARTS_MAX, limits.VALUE_DEPTH_MAX)
        if whole is None
        else whole(payload, most)
    )
    return iter(value if isinstance(value, list) else [value])


def rows_with_texts(payload: bytes, content_type: str | None) -> list[object] | None:
    """The rows of a batch in JSON that was decoded, as of ``json_text.with_texts``; else None."""
    media_type = codec_for(content_type).media_type
    if media_type == NDJSON:
        lines = [line for line in payload.splitlines() if not line.isspace() and line]
        texts = [json_text.with_texts(line) for line in lines]
        return texts if any(item is not None for item in texts) else None
    said = json_text.with_texts(payload) if media_type == JSON else None
    return said if isinstance(said, list) or said is None else [said]


def decode_items(
    payload: bytes, content_type: str | None
) -> tuple[Iterator[object], Sequence[bytes]]:
    """The rows of a batch, and the bytes of each where they are in it.

    Only MessagePack has its rows as they would be written alone; there are none in other formats.
    """
    if codec_for(content_type).media_type != MSGPACK or payload[:1] not in _ARRAYS:
        return decode_rows(payload, content_type), ()
    check_size(payload)
    values, parts = messagepack.decode_items(payload, limits.ROWS_PARTS_MAX)
    return iter(values), parts
