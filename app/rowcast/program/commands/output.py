"""Output of commands: formats, raw bodies, and text without control characters."""

import sys
from enum import StrEnum
from typing import Final

from rowcast.codecs.registry import CBOR, JSON, MSGPACK


class Format(StrEnum):
    """A way to write values as bytes."""

    JSON = "json"
    CBOR = "cbor"
    MSGPACK = "msgpack"


MEDIA_TYPES: Final = {Format.JSON: JSON, Format.CBOR: CBOR, Format.MSGPACK: MSGPACK}


def write_body(body: bytes) -> None:
    """Write a raw body; on a terminal, followed by a newline."""
    sys.stdout.buffer.write(body)
    if sys.stdout.isatty() and not body.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def printable(text: str) -> str:
    """Escape control characters, so that a topic cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)
