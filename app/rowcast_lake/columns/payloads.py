"""Payloads as text: a column that SQL can search, next to the original bytes.

A payload has a text when its content type is text, JSON or missing, and its bytes are UTF-8; any
other has none.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, cast

import pyarrow as pa

_TEXTUAL: Final = frozenset({
    "application/json", "application/xml", "application/yaml", "application/x-ndjson",
    "application/javascript", "application/x-www-form-urlencoded",
})  # fmt: skip
_SUFFIXES: Final = ("+json", "+xml", "+yaml")
_TYPES_KEPT: Final = 1024  # names of media types: clients send few


@lru_cache(_TYPES_KEPT)
def textual(media_type: str | None) -> bool:
    """Whether content of this media type is text, provided that its bytes are UTF-8."""
    if not media_type:
        return True
    name = media_type.partition(";")[0].strip().lower()
    return name.startswith("text/") or name in _TEXTUAL or name.endswith(_SUFFIXES)


def texts_of(payloads: Sequence[object], media_types: Sequence[object]) -> pa.Array:
    """Return the text of each payload that has one; null for the others."""
    pairs = zip(payloads, media_types, strict=True)
    kept = [
        payload if payload is None or textual(cast("str | None", said)) else None
        for payload, said in pairs
    ]
    try:
        return pa.array(kept, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # some are not UTF-8
        return pa.array([_text(cast("bytes | str | None", item)) for item in kept], pa.string())


def _text(payload: bytes | str | None) -> str | None:
    if payload is None or isinstance(payload, str):
        return payload
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
