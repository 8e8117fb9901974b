"""The grammar that ``Accept`` and ``Content-Type`` share (RFC 9110, 8.3.1 and 12.5.1).

One reader for both, because a media type is a media range without wildcards. It is a table of
three patterns, none of which can backtrack into another, so a hostile header costs what its length
costs. This module must not know codecs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rowcast.core import limits
from rowcast.core.errors import Code, Error

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, 5.6.2, not a secret
_QUOTED = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*"'  # RFC 9110, 5.6.4
_EMPTY = re.compile(r"[ \t,]*")  # a list may have empty members (RFC 9110, 5.6.1.2)
_TYPE = re.compile(rf"({_TOKEN})/({_TOKEN})|\*")
_PARAMETER = re.compile(rf"[ \t]*;[ \t]*(?:({_TOKEN})=({_TOKEN}|{_QUOTED}))?")
_END = re.compile(r"[ \t]*(?:,|\Z)")
_WEIGHT = re.compile(
    r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?|\.[0-9]{1,3}"
)  # RFC 9110, 12.4.2; ``.2``: Java
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class MediaRange:
    """One member of an Accept header, or a Content-Type: lower case, without its weight."""

    type: str
    """``type/subtype``, ``type/*`` or ``*/*``."""
    parameters: frozenset[tuple[str, str]] = frozenset()
    quality: float = 1.0


@lru_cache(maxsize=limits.MEDIA_HEADER_CACHE_ENTRIES_MAX)
def parse(header: str, name: str) -> tuple[MediaRange, ...]:
    """The members of a header's value; ``name`` is the header's, for the sentence of a refusal."""
    if len(header) > limits.MEDIA_HEADER_CHARS_MAX:
        raise Error(
            Code.INVALID,
            f"{name} has {len(header)} characters; send at most {limits.MEDIA_HEADER_CHARS_MAX}.",
        )
    return tuple(_members(header, name))


def _members(header: str, name: str) -> Iterator[MediaRange]:
    at = _skip_empty(header, 0)
    while at < len(header):
        found = _TYPE.match(header, at)
        if found is None or (found[1] == "*" and found[2] != "*"):
            raise _malformed(name, header, at, "a media type such as application/json")
        parameters, quality, at = _parameters(header, found.end(), name)
        end = _END.match(header, at)
        if end is None:
            raise _malformed(name, header, at, "a comma, or ; and a parameter such as q=0.5")
        # A bare * is what java.net.URLConnection sends by default.
        yield MediaRange(found[0].lower() if found[1] else "*/*", parameters, quality)
        at = _skip_empty(header, end.end())


def _skip_empty(header: str, at: int) -> int:
    found = _EMPTY.match(header, at)
    return found.end() if found else at


def _parameters(header: str, at: int, name: str) -> tuple[frozenset[tuple[str, str]], float, int]:
    parameters = set()
    quality = 1.0
    while found := _PARAMETER.match(header, at):
        key, text = (found[1] or "").lower(), found[2] or ""
        if key == "q":
            quality = _quality(text, header, found.start(2), name)
        elif key:
            value = _ESCAPE.sub(r"\1", text[1:-1]) if text.startswith('"') else text
            parameters.add((key, value.lower()))
        at = found.end()
    return frozenset(parameters), quality, at


def _quality(text: str, header: str, at: int, name: str) -> float:
    if not _WEIGHT.fullmatch(text):
        raise _malformed(name, header, at, "a weight from 0 to 1 with up to three decimals")
    return float(text)


def _malformed(name: str, header: str, at: int, expected: str) -> Error:
    found = repr(header[at : at + 20]) if at < len(header) else "the end"
    return Error(
        Code.INVALID, f"{name} is malformed at character {at + 1}, at {found}: expected {expected}."
    )
