"""Conditional requests (RFC 9110, section 13): ETags are cursors, so conditions are positions.

The kernel checks a write's condition in the order of commits: of two writers with the same ETag
only one succeeds (A16, B9). An ETag has a suffix in another format than the record's usual one, so
that a cache never takes one for the other; a condition that a record be unchanged is about the
record, so there the suffix does not count.
"""

import re
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from rowcast.core.clock import seconds_of
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.limits import CURSORS_IN_CONDITION_MAX
from rowcast.doors.http.messages.asgi import Headers
from rowcast.kernel.kernel import Kernel
from rowcast.writes.write import Condition

_TAGS: Final = re.compile(
    r'[ \t,]*(?:(W/)?"([\x21\x23-\x7e\x80-\xff]*)"|([0-9a-f]{8}:[0-9]{1,19}(?:\.[a-z]{1,8})?))'
    r"[ \t]*(?=,|\Z)"
)
"""One entity tag (RFC 9110, 8.8.3), or a cursor without its quotation marks."""

CONDITIONS: Final = frozenset({b"if-match", b"if-none-match", b"if-unmodified-since"})
"""The headers that make a write conditional."""

Tag = tuple[bool, str]
"""Whether it is weak, and its text."""


def http_date(version: int) -> bytes:
    """Return the time of a version as an HTTP date."""
    return formatdate(int(seconds_of(version)), usegmt=True).encode()


def tags_of(header: bytes, name: str) -> list[Tag] | None:
    """Return the entity tags of a list, None for ``*``; raises INVALID."""
    text = header.decode("latin-1").strip()
    if text == "*":
        return None
    tags: list[Tag] = []
    at = 0
    while match := _TAGS.match(text, at):
        tags.append((match[1] is not None, match[2] if match[3] is None else match[3]))
        at = match.end()
        if len(tags) > CURSORS_IN_CONDITION_MAX:
            raise Error(Code.INVALID, f"{name} names more than {CURSORS_IN_CONDITION_MAX} ETags")
    if not tags or text[at:].strip(" \t,"):
        raise Error(
            Code.INVALID,
            f"{name} is neither * nor a list of ETags in quotation marks: {text[:80]!r}",
        )
    return tags


def not_modified(headers: Headers, etag: bytes, version: int) -> bool:
    """Whether the client's copy is current: If-None-Match, else If-Modified-Since."""
    header = headers.get(b"if-none-match")
    if header is not None:
        if header == etag:
            return True
        tags = tags_of(header, "If-None-Match")
        # Weak comparison (RFC 9110, 13.1.2).
        return tags is None or any(f'"{text}"'.encode("latin-1") == etag for _weak, text in tags)
    since = headers.get(b"if-modified-since")
    return since is not None and _not_after(version, since) is True


def _not_after(version: int, date: bytes) -> bool | None:
    """Whether a version is not after a date; None for a malformed one, which is ignored.

    So both headers want it (13.1.3, 13.1.4). HTTP's dates are in UTC, also asctime's, which does
    not say so (5.6.7).
    """
    try:
        moment = parsedate_to_datetime(date.decode("latin-1"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(seconds_of(version)) <= moment.timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def check_read_condition(headers: Headers, etag: bytes, version: int | None = None) -> None:
    """Raise PRECONDITION unless If-Match of a read has this ETag, whatever its suffix.

    Without If-Match, If-Unmodified-Since counts (RFC 9110, 13.2.2), if there is a ``version``.
    """
    header = headers.get(b"if-match")
    if header is None:
        since = headers.get(b"if-unmodified-since")
        if since is not None and version is not None and _not_after(version, since) is False:
            changed = http_date(version).decode()
            raise Error(
                Code.PRECONDITION,
                f"the record changed at {changed}, after the date in If-Unmodified-Since",
            )
        return
    tags = tags_of(header, "If-Match")
    wanted = _without_suffix(etag.decode().strip('"'))
    if tags is not None and not any(
        not weak and _without_suffix(text) == wanted for weak, text in tags
    ):
        raise Error(
            Code.PRECONDITION, f"the record's ETag is {etag.decode()}, which If-Match does not name"
        )


def _without_suffix(text: str) -> str:
    return text.partition(".")[0]


def write_condition(kernel: Kernel, headers: Headers, read: Record | None) -> Condition | None:
    """Return the condition of a write; ``read`` is the current record, for If-Unmodified-Since."""
    exists: bool | None = None
    seqs: frozenset[int] | None = None
    not_seqs: frozenset[int] = frozenset()
    if (header := headers.get(b"if-match")) is not None:
        exists = True
        tags = tags_of(header, "If-Match")
        if tags is not None:  # strong comparison: a weak tag never matches (RFC 9110, 13.1.1)
            seqs = _seqs(kernel, [(weak, text) for weak, text in tags if not weak])
    elif (
        (date := headers.get(b"if-unmodified-since")) is not None
        and read is not None
        and (unmodified := _not_after(read.version, date)) is not None
    ):
        seqs = frozenset([read.seq]) if unmodified else frozenset()
    if (header := headers.get(b"if-none-match")) is not None:
        tags = tags_of(header, "If-None-Match")
        if tags is None:
            exists = _not_both(exists)
        else:
            not_seqs = _seqs(kernel, tags)
    if exists is None and seqs is None and not not_seqs:
        return None
    return Condition(exists, seqs, not_seqs)


def _not_both(exists: bool | None) -> bool:
    if exists:
        raise Error(Code.INVALID, "If-Match and If-None-Match: * exclude each other; send one")
    return False


def _seqs(kernel: Kernel, tags: list[Tag]) -> frozenset[int]:
    """Return the positions of tags; tags of another log are left out."""
    epoch = kernel.reader.epoch
    found = set()
    for _weak, text in tags:
        try:
            cursor = parse_cursor(text)
        except Error:
            continue
        if cursor.epoch == epoch:
            found.add(cursor.seq)
    return frozenset(found)
