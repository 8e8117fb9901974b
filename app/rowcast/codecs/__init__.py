"""The media types: one value model over JSON, CBOR and MessagePack, and rows in and out.

``model`` says what a value is; each format is one module of two functions; ``registry`` is the
table of them, ``accept`` chooses among them and ``rows`` streams them. Everything is bytes to
value and back: no I/O, no state but what is remembered of headers. Bad input of any kind ends in
``core.errors.Error``. This room must not know topics, tables or protocols.
"""

from rowcast.codecs.accept import negotiate
from rowcast.codecs.json_text import may_be_json
from rowcast.codecs.plain import encode_plain, plain
from rowcast.codecs.registry import (
    CBOR,
    CBOR_SEQ,
    CODECS,
    CSV,
    JSON,
    MSGPACK,
    NDJSON,
    RAW,
    Codec,
    by_suffix,
    codec_for,
    content_type_header,
    decode,
    decode_again,
    decode_answer,
    encode,
    encode_answer,
    is_structured,
)
from rowcast.codecs.rows import (
    RowsEncoder,
    decode_items,
    decode_rows,
    rows_encoder,
    rows_with_texts,
)

__all__ = [
    "CBOR",
    "CBOR_SEQ",
    "CODECS",
    "CSV",
    "JSON",
    "MSGPACK",
    "NDJSON",
    "RAW",
    "Codec",
    "RowsEncoder",
    "by_suffix",
    "codec_for",
    "content_type_header",
    "decode",
    "decode_again",
    "decode_answer",
    "decode_items",
    "decode_rows",
    "encode",
    "encode_answer",
    "encode_plain",
    "is_structured",
    "may_be_json",
    "negotiate",
    "plain",
    "rows_encoder",
    "rows_with_texts",
]
