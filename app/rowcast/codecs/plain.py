"""Plain JSON: the spelling for readers that know the type from the schema.

Bytes become base64 text, a datetime ISO 8601 text, a Decimal text, NaN and the infinities null. It
is lossy by itself, and pretty: a declared attribute's type says how to read it back, so the tagged
spelling of ``json_text`` would only be in the way. This module must not know tables or types.
"""

import math
from base64 import b64encode
from datetime import datetime
from decimal import Decimal

import orjson

from rowcast.codecs import model
from rowcast.codecs.json_text import EXACT
from rowcast.core import limits
from rowcast.core.errors import Code, Error

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def plain(value: object) -> object:
    """Return a value in the types of plain JSON, lists and maps included."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes | datetime | Decimal):
        return _text(value)
    return value


def encode_plain(value: object) -> bytes:
    """A value as plain JSON text."""
    model.validate(value, limits.ANSWER_DEPTH_MAX)
    try:
        # orjson writes NaN and the infinities as null
        return EXACT % orjson.dumps(value, _text, _OPTIONS)
    except TypeError:
        raise Error(Code.INVALID, model.SURROGATE) from None


def _text(value: object) -> str:
    """The text of a scalar that JSON lacks; ``validate`` has let nothing else through."""
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return model.text_of(value)
    return str(value)
