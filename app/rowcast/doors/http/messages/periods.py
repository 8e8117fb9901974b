"""History parameters of a query string: ``from``, ``to``, ``last``, ``every``, ``asof`` and more.

Any of those five makes a GET a history request; ``limit``, ``fn`` and ``select`` are then its
parameters, too. A term with an operator, as in ``from==Rome`` or ``from=gt=a``, is always a
condition, and so is any term with the name of a declared attribute: ``_from`` always means the
parameter ``from``, because no attribute begins with an underscore.

This only parses text; the kernel resolves times.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from rowcast.core.durations import parse_duration
from rowcast.core.errors import Code, Error
from rowcast.core.limits import (
    HISTORY_BUCKET_MS_MAX,
    HISTORY_WHOLE_EVENTS_MAX,
    QUERY_LIMIT_RECORDS_MAX,
)
from rowcast.core.suggestions import did_you_mean
from rowcast.features.history.series import FUNCTIONS

OPENING: Final = ("from", "to", "last", "every", "asof")
"""Parameters that make a request one of history."""
BESIDE: Final = ("limit", "fn", "select")
"""Its further parameters."""
NO_BUCKETS: Final = "fn needs buckets to work on; add every=, such as every=1m"
_CONDITION: Final = re.compile(r"[A-Za-z_-]*(?:=|%3[Dd])")
"""The text after the first equals sign if that begins an operator."""
_OPEN: Final = re.compile(r"[(\[]|%28|%5[Bb]")
_CLOSE: Final = re.compile(r"[)\]]|%29|%5[Dd]")
_USUAL: Final = ("avg", "min", "max", "count")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Period:
    """The parameters as text."""

    start: str | None = None
    end: str | None = None
    last: int = 0
    limit: int | None = None
    every_ms: int = 0
    functions: tuple[str, ...] = ()
    select: str | None = None
    asof: str | None = None
    live: bool = False
    """Whether to wait for events, after ``start``, if there are none (B18)."""


@dataclass(slots=True)
class _Terms:
    """Terms of a query string: history parameters by name, and the others."""

    found: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def divide_period(text: str, taken: Container[str] = ()) -> tuple[Period | None, str]:
    """Split a query into history parameters and the rest; raises INVALID.

    ``taken`` are names of attributes.
    """
    if not any(word in text for word in OPENING):
        return None, text
    terms = _Terms()
    opened = False
    for name, term in _named(text, taken):
        if name is None:
            terms.rest.append(term)
            continue
        opened = opened or name in OPENING
        if name in terms.found:
            raise Error(Code.INVALID, f"the parameter {name!r} comes twice; give it once")
        terms.found[name] = unquote(term.partition("=")[2])
    if not opened:
        return None, text
    period = _period(terms.found)
    if period.asof is not None:  # for records, ``select`` belongs to the query
        terms.rest += [f"{name}({terms.found[name]})" for name in BESIDE if name in terms.found]
    return period, "&".join(term for term in terms.rest if term)


def continued(text: str, start: str, end: str | None, taken: Container[str] = ()) -> str:
    """Return a query with another ``from``, and another ``to`` unless that is None.

    ``taken`` are names of attributes.
    """
    replaced = {"from"} if end is None else {"from", "to"}
    kept = [term for name, term in _named(text, taken) if name not in replaced]
    return "&".join([f"_from={start}", *([] if end is None else [f"_to={end}"]), *kept])


def _named(text: str, taken: Container[str]) -> Iterator[tuple[str | None, str]]:
    """Yield the terms of a query with the parameters that they are; None for the query's own."""
    depth = 0
    for term in text.split("&"):
        name = None if depth else _name(term, taken)
        if name is None:
            depth += len(_OPEN.findall(term)) - len(_CLOSE.findall(term))
        yield name, term


def _name(term: str, taken: Container[str]) -> str | None:
    """Return the parameter of a term; None for a term of the query."""
    name, equals, value = term.partition("=")
    bare = name.removeprefix("_")
    if not equals or bare not in {*OPENING, *BESIDE} or _CONDITION.match(value):
        return None
    return None if name == bare and name in taken else bare


def _period(found: dict[str, str]) -> Period:
    asof, every = found.get("asof"), found.get("every")
    others = [name for name in found if name not in {"asof", "limit", "select"}]
    if asof is not None and others:
        raise Error(Code.INVALID, f"asof is one moment; it does not go with {others[0]!r}")
    if every is None and "fn" in found:
        raise Error(Code.INVALID, NO_BUCKETS)
    if "last" in found and "limit" in found:
        raise Error(Code.INVALID, "last and limit exclude each other; give one of them")
    most = QUERY_LIMIT_RECORDS_MAX if asof is not None else HISTORY_WHOLE_EVENTS_MAX
    return Period(
        found.get("from"),
        found.get("to"),
        _count(found["last"], "last", HISTORY_WHOLE_EVENTS_MAX) if "last" in found else 0,
        _count(found["limit"], "limit", most) if "limit" in found else None,
        _every(every) if every is not None else 0,
        _functions(found.get("fn")) if every is not None else (),
        found.get("select"),
        asof,
    )


def _count(text: str, name: str, most: int) -> int:
    if _NUMBER.fullmatch(text) is None or not 1 <= int(text) <= most:
        raise Error(Code.INVALID, f"{name} is a number from 1 to {most}, not {text[:40]!r}")
    return int(text)


def _every(text: str) -> int:
    seconds = parse_duration(text)
    if seconds is None or not 1 <= int(seconds * 1_000) <= HISTORY_BUCKET_MS_MAX:
        raise Error(
            Code.INVALID,
            "every is a duration such as 1m, 15s or 1h, of at least 1ms and at most 36500d, not "
            f"{text[:40]!r}",
        )
    return int(seconds * 1_000)


def _functions(text: str | None) -> tuple[str, ...]:
    if text is None:
        return _USUAL
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in FUNCTIONS:
            raise Error(
                Code.INVALID,
                f"there is no fn {name[:40]!r}{did_you_mean(name, FUNCTIONS)}; "
                f"known are {', '.join(FUNCTIONS)}",
            )
    return names
