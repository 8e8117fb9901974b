"""What a query string says besides the query: ``retain``, ``atomic``, ``meta``, ``count``.

A parameter is a whole term between ``&`` signs; everything else is left for the query language. A
table that declares an attribute of that name keeps the name for its conditions, but not the word
alone, such as ``?count``: that is no condition.
"""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.doors.http.messages.periods import Period, divide_period

READ: Final = ("meta", "count")
WRITE: Final = ("retain", "atomic")
_CURSOR: Final = re.compile(r"[0-9a-f]{8}(?::|%3[Aa])[0-9]+")
_SWITCH: Final = {"": True, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one request."""

    retain: bool = True
    """Whether a write becomes the record; else it is a message to who listens (B10)."""
    atomic: bool = False
    """Whether a batch is written all or not at all (B11)."""
    meta: bool = False
    """Whether records come with where they are from (A17)."""
    count: bool = False
    """Whether only the number of records is wanted (B19)."""
    period: Period | None = None
    """What is asked of the past (B13, B14)."""
    query: str = ""
    """What is left: the query, still percent-encoded."""


NO_PARAMETERS: Final = Parameters()


def text_of_query(query_string: bytes) -> str:
    """Return the query string as text; raises INVALID when it is not UTF-8."""
    try:
        return query_string.decode()
    except UnicodeDecodeError:
        raise Error(Code.INVALID, "the query is not UTF-8; percent-encode it") from None


def read_parameters(
    query_string: bytes, table: Table | None = None, *, past: bool = True
) -> Parameters:
    """Read the parameters of a GET or HEAD; ``past``: the past may be asked about there."""
    if not query_string:
        return NO_PARAMETERS
    taken = {item.name for item in table.attributes} if table is not None else set()
    switches, rest = _divide(text_of_query(query_string), READ, taken)
    period = None
    if past:
        _refuse_long_poll(rest, taken)
        period, rest = divide_period(rest, taken)
    return Parameters(query=rest, period=period, **switches)


def write_parameters(query_string: bytes) -> Parameters:
    """Read the parameters of a write; raises INVALID for any other: it may be misspelt."""
    if not query_string:
        return NO_PARAMETERS
    switches, rest = _divide(text_of_query(query_string), WRITE)
    if rest:
        name = rest.partition("&")[0].partition("=")[0][:60]
        raise Error(
            Code.INVALID,
            f"a write has no parameter {name!r} but retain and atomic{did_you_mean(name, WRITE)}",
        )
    return Parameters(**switches)


def _refuse_long_poll(text: str, taken: Container[str]) -> None:
    """Raise for the words of a long poll (B18), which there is not."""
    for term in text.split("&"):
        name, _, value = term.partition("=")
        if name not in taken and (
            (name == "live" and value in _SWITCH) or (name == "since" and _CURSOR.fullmatch(value))
        ):
            raise Error(
                Code.INVALID,
                f"{name!r} is no parameter of GET, for there is no long poll; for what happened "
                "after a cursor write ?from=<cursor>, and to wait for what comes, "
                "?since=<cursor> with Accept: text/event-stream",
            )


def _divide(
    text: str, names: Sequence[str], taken: Container[str] = ()
) -> tuple[dict[str, Any], str]:
    switches: dict[str, Any] = {}
    rest = []
    for term in text.split("&"):
        name, equals, value = term.partition("=")
        if name not in names or (equals and name in taken):
            rest.append(term)
        else:
            switches[name] = is_switched_on(name, value)
    return switches, "&".join(term for term in rest if term)


def is_switched_on(name: str, value: str) -> bool:
    """Return what a switch says; raises INVALID."""
    if value in _SWITCH:
        return _SWITCH[value]
    raise Error(Code.INVALID, f"{name}={value[:60]} is neither {name}=true nor {name}=false")
