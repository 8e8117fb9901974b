"""Names of live queries: the filters that select records by conditions (M3).

``$query/<table>/<conditions>`` selects the records of a table that satisfy conditions, which are
written as in a URL's query string; ``$query/<name>`` is a query that the schema declares. MQTT also
writes ``<table>/+?<conditions>``, as EMQX does. A filter has one spelling here, its name, so that a
client can end what it began.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

from rowcast.core.errors import Code, Error
from rowcast.core.topics import ALL_BELOW, ONE_LEVEL

QUERY_PREFIX: Final = "$query/"

_SPELT: Final = re.compile(r"(.+)/[+#]\?(.*)", re.DOTALL)
_SIGNS: Final = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "/+#\0"})
"""Characters that mean something in a filter, as a URL writes them."""
_OPERATORS: Final = frozenset("=<>(")
_OPERATOR: Final = re.compile(r"[=<>(&|!\[]")
"""What comes after the first attribute of conditions, or before it."""
_PATH_SIGNS: Final = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "%=<>(&|![+#\0"})
"""Characters that mean something in conditions, as they are written in the path before them."""
_OF_ANSWERS: Final = re.compile(r"(?:^|&)(_?(?:asof|every|fn))=(?![A-Za-z_-]*=)")
"""Parameters of an answer about the past, of which a live query would make conditions."""


def check_no_past(conditions: str) -> None:
    """Raise INVALID for a parameter that only an answer about the past has, such as ``asof=-1h``.

    An attribute of that name is compared with ``==``.
    """
    found = _OF_ANSWERS.search(conditions)
    if found is not None:
        name = found[1]
        raise Error(
            Code.INVALID,
            f"a stream has no {name}, which is for a GET that is answered at once; to see the past "
            f"again replay it, as in ?from=-1h&speed=10, and for an attribute {name!r} write "
            f"{name}==",
        )


def query_filter(path: str, conditions: str) -> str:
    """Return the filter of a live query on the table at ``path``."""
    return f"{QUERY_PREFIX}{path}/{conditions.translate(_SIGNS)}"


def named_filter(text: str) -> str:
    """Return a filter in its one spelling, if it is a live query; else unchanged."""
    if text.startswith(QUERY_PREFIX):
        return text.removesuffix(f"/{ALL_BELOW}")
    spelt = _SPELT.fullmatch(text) if "?" in text else None
    return text if spelt is None else query_filter(spelt[1], spelt[2])


def query_of(topic: str, conditions: str, leads: Callable[[str], bool]) -> str | None:
    """Return the filter of a live query on the records at a topic; None if there are none such.

    ``topic`` names them as ``Sensor/``, ``Sensor/+`` or ``Sensor/#``, or is a record's relationship
    (``Owner/ann/dogs``), which ``leads`` tells.
    """
    path, slash, rest = topic.rpartition("/")
    if not slash or rest not in {"", ONE_LEVEL, ALL_BELOW}:
        path = topic if leads(topic) else ""
    return query_filter(path.translate(_PATH_SIGNS), conditions) if path else None


class Way(NamedTuple):
    """What follows a table's path in the name of a live query: ``ann/dogs/age=gt=2``."""

    levels: tuple[str, ...]
    """What is before the conditions, a record's relationship or the begin of ids: ``("ann",
    "dogs")``."""
    conditions: str


def way_of(text: str) -> Way:
    """Divide what follows a table's path; a ``/`` within conditions comes after an operator."""
    found = _OPERATOR.search(text)
    head = text if found is None else text[: found.start()]
    *levels, first = head.split("/")
    return Way(tuple(map(unquote, levels)), first + text[len(head) :])


def conditions_of(text: str) -> str:
    """Return conditions as a URL has them; text that is percent-encoded as a whole is decoded."""
    return text if not _OPERATORS.isdisjoint(text) else unquote(text)
