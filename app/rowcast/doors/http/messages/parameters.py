"""Parameters of a query string besides the query: ``retain``, ``atomic``, ``meta``, ``count``.

A parameter is a complete term between ``&`` signs; other terms belong to the query language. If a
table declares an attribute of that name, ``name=value`` is a condition, but the bare word, such as
``?count``, is still the parameter.
"""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.doors.http.messages.periods import Period, divide_period

READ: Final = ("meta", "count")
WRITE: Final = ("retain", "atomic", "upsert")
QUERY_WRITE: Final = ("dry_run",)
CONFIRM_DIGITS_MAX: Final = 12  # beyond any number of records
_CONFIRM: Final = re.compile(r"confirm=([^=]*)")
_CURSOR: Final = re.compile(r"[0-9a-f]{8}(?::|%3[Aa])[0-9]+(?:\.[a-z]{1,8})?")
_SWITCH: Final = {"": True, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one request."""

    retain: bool = True
    """Whether a write sets the record; else it is a message to subscribers (B10)."""
    atomic: bool = False
    """Whether a batch is atomic (B11)."""
    upsert: bool = False
    """Whether a POST of records replaces those that exist (B11)."""
    meta: bool = False
    """Whether records have metadata (A17)."""
    count: bool = False
    """Whether only the number of records is returned (B19)."""
    dry_run: bool = False
    """Whether a write by query is only counted (B12)."""
    confirm: int | None = None
    """The number of records that a write by query must write."""
    period: Period | None = None
    """Parameters of history (B13, B14)."""
    query: str = ""
    """The rest: the query, still percent-encoded."""


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
    """Parse the parameters of a GET or HEAD; ``past``: history is available there."""
    if not query_string:
        return NO_PARAMETERS
    taken = {item.name for item in table.attributes} if table is not None else set()
    switches, rest = _divide(text_of_query(query_string), READ, taken)
    period = None
    if past:
        live, rest = _divide_poll(rest, taken)
        period, rest = divide_period(rest, taken)
        if live and period is not None:
            period = _period_of_poll(period)
    return Parameters(query=rest, period=period, **switches)


def write_parameters(query_string: bytes) -> Parameters:
    """Parse the parameters of a write; raises INVALID for unknown ones."""
    if not query_string:
        return NO_PARAMETERS
    switches, rest = _divide(text_of_query(query_string), WRITE)
    if rest:
        name = rest.partition("&")[0].partition("=")[0][:60]
        raise Error(
            Code.INVALID,
            f"a write has no parameter {name!r} but retain, atomic and upsert"
            f"{did_you_mean(name, WRITE)}",
        )
    return Parameters(**switches)


def query_write_parameters(query_string: bytes, table: Table) -> Parameters:
    """Parse the parameters of a PATCH or DELETE of what a query selects."""
    taken = {item.name for item in table.attributes}
    switches, text = _divide(text_of_query(query_string), QUERY_WRITE, taken)
    confirm: int | None = None
    rest = []
    for term in text.split("&"):
        found = None if "confirm" in taken else _CONFIRM.fullmatch(term)
        if found is None:
            rest.append(term)
        else:
            confirm = _confirmed(found[1])
    return Parameters(query="&".join(rest), confirm=confirm, **switches)


def _confirmed(text: str) -> int:
    """Parse the number of records that a write by query must write; raises INVALID."""
    if not (text.isascii() and text.isdigit() and len(text) <= CONFIRM_DIGITS_MAX):
        raise Error(
            Code.INVALID,
            f"confirm={text[:60]} is no number of records, such as confirm=3; dry_run tells how "
            "many the query selects, and an attribute of that name is compared with confirm==",
        )
    return int(text)


def _divide_poll(text: str, taken: Container[str]) -> tuple[bool, str]:
    """Return whether a GET is a long poll, and its query with ``from`` in place of ``since`` (B18).

    Raises INVALID for half of one.
    """
    live: bool | None = None
    since, rest = "", list[str]()
    for term in text.split("&"):
        name, _, value = term.partition("=")
        if name == "live" and name not in taken and value in _SWITCH:
            live = _SWITCH[value]
        elif name == "since" and name not in taken and _CURSOR.fullmatch(value):
            since = value
        else:
            rest.append(term)
    if (live is None) is not (since == ""):
        raise Error(
            Code.INVALID,
            "a long poll is ?since=<cursor>&live=true, with the Rowcast-Position of an earlier "
            "answer; for what happened after a cursor, without waiting, write ?from=<cursor>",
        )
    return bool(live), "&".join([f"_from={since}", *rest] if since else rest)


def _period_of_poll(period: Period) -> Period:
    """Return the period of a long poll; raises INVALID for other parameters of history."""
    if period.end is not None or period.last or period.every_ms:
        raise Error(
            Code.INVALID, "a long poll takes conditions, select and limit; leave the others out"
        )
    return replace(period, live=True)


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
    """Parse a boolean parameter; raises INVALID."""
    if value in _SWITCH:
        return _SWITCH[value]
    raise Error(Code.INVALID, f"{name}={value[:60]} is neither {name}=true nor {name}=false")
