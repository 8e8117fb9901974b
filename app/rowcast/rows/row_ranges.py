"""Ranges: which part of the log a query of rows can be about at all.

A row's id and time say where in the log it is, so conditions on them narrow what is read. The range
may be too wide, never too narrow: the conditions themselves are asked of every row that is read. A
time is only a lower bound: what was brought late, with the time at which it was made
(E27), stands where it arrived, after younger rows.

Rows come in the order of the log, or backwards, which is what sorting by id or time asks for; any
other order must be made.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rowcast.core.conditions import Condition, Group, Operator, Where, compared
from rowcast.core.errors import Code, Error
from rowcast.core.queries import Sort
from rowcast.core.topic_tables import seq_of_message
from rowcast.rows.topic_rows import version_of_time

_IDS: Final = {("id",), ("$id",)}
_TIMES: Final = _IDS | {("timestamp",)}
_LOWER: Final = frozenset({Operator.EQ, Operator.GT, Operator.GE})
_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers after ``after`` and up to ``upto``, of versions from ``start`` on."""

    after: int = 0
    upto: int = _MAX
    start: int = 0

    def within(self, other: "Range") -> "Range":
        """Return the intersection."""
        return Range(
            max(self.after, other.after),
            min(self.upto, other.upto),
            max(self.start, other.start),
        )


def range_of(where: Where | None) -> Range:
    """Return the range of the rows that conditions can select."""
    if isinstance(where, Condition):
        return _of_condition(where)
    found = Range()
    if isinstance(where, Group) and where.all_of:
        for item in where.items:
            found = found.within(range_of(item))
    return found


def _of_condition(condition: Condition) -> Range:
    if condition.path in _IDS:
        return _of_ids(condition.operator, condition.value)
    if condition.path == ("timestamp",) and isinstance(condition.value, datetime):
        moment = condition.value
        version = version_of_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        return Range(start=version) if condition.operator in _LOWER else Range()
    return Range()


def _of_ids(operator: Operator, value: object) -> Range:
    values = value if isinstance(value, tuple) else (value,)
    known = [(text, seq_of_message(text)) for text in values if isinstance(text, str)]
    seqs = [seq for _, seq in known if seq is not None]
    if operator in {Operator.EQ, Operator.IN}:  # what is no id of a message is no row's
        return Range(min(seqs) - 1, max(seqs)) if seqs else Range(upto=0)
    if not seqs or operator not in _LOWER:
        return Range()
    return Range(start=int(known[0][0].partition("-")[0]) * 1_000)


def asks_for(where: Where | None, column: str) -> bool:
    """Whether conditions are about a column, or a part of it."""
    return any(path[0] == column for path in compared(where))


def topic_of(where: Where | None) -> str | None:
    """Return the one topic that the rows are about, if conditions say so."""
    if isinstance(where, Group):
        found = (topic_of(item) for item in where.items if where.all_of)
        return next((topic for topic in found if topic is not None), None)
    if not isinstance(where, Condition) or where.path != ("topic",):
        return None
    return where.value if where.operator is Operator.EQ and isinstance(where.value, str) else None


def direction_of(sort: tuple[Sort, ...]) -> int:
    """Return 1 for the order of the log, -1 for newest first, 0 for any other."""
    if not sort:
        return 1
    if sort[0].path not in _TIMES:  # an id or a time is never there twice: nothing comes second
        return 0
    return -1 if sort[0].descending else 1


def token_of(direction: int, seq: int, upto: int) -> str:
    """Return the page token after a row, of a listing that ends at a position."""
    text = f"{'<' if direction < 0 else '>'}{seq}-{upto}"
    return urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")


def place_of(direction: int, token: str) -> tuple[int, int]:
    """Return the number of the last row, and the listing's end; raises INVALID."""
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
    except ValueError:
        text = ""
    seq, _, upto = text[1:].partition("-")
    ordered = text[:1] == ("<" if direction < 0 else ">")
    if not ordered or not (seq.isdigit() and upto.isdigit()) or len(text) > _TOKEN_CHARS_MAX:
        raise Error(
            Code.INVALID,
            "the page token is not one that this server gave for this order;"
            " leave after(...) out to begin with the first page",
        )
    return int(seq), int(upto)


_TOKEN_CHARS_MAX: Final = 40
"""Two numbers of 64 bits."""
