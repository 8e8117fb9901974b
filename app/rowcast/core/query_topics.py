"""Names of live queries: the filters that select records by conditions (M3).

``$query/<table>/<conditions>`` selects the records of a table that satisfy conditions, which are
written as in a URL's query string; ``$query/<name>`` is a query that the schema declares. MQTT also
writes ``<table>/+?<conditions>``, as EMQX does. A filter has one spelling here, its name, so that a
client can end what it began.
"""

import re
from typing import Final
from urllib.parse import unquote

from rowcast.core.topics import ALL_BELOW, ONE_LEVEL

QUERY_PREFIX: Final = "$query/"

_SPELT: Final = re.compile(r"(.+)/[+#]\?(.*)", re.DOTALL)
_SIGNS: Final = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "/+#\0"})
"""Characters that mean something in a filter, as a URL writes them."""
_OPERATORS: Final = frozenset("=<>(")


def query_filter(path: str, conditions: str) -> str:
    """Return the filter of a live query on the table at ``path``."""
    return f"{QUERY_PREFIX}{path}/{conditions.translate(_SIGNS)}"


def named_filter(text: str) -> str:
    """Return a filter in its one spelling, if it is a live query; else unchanged."""
    if text.startswith(QUERY_PREFIX):
        return text.removesuffix(f"/{ALL_BELOW}")
    spelt = _SPELT.fullmatch(text) if "?" in text else None
    return text if spelt is None else query_filter(spelt[1], spelt[2])


def query_of(topic: str, conditions: str) -> str | None:
    """Return the filter of a live query on a table's records; None if ``topic`` is not all of them.

    ``topic`` names them as ``Sensor/``, ``Sensor/+`` or ``Sensor/#``.
    """
    path, slash, rest = topic.rpartition("/")
    whole = bool(slash) and rest in {"", ONE_LEVEL, ALL_BELOW}
    return query_filter(path, conditions) if whole else None


def conditions_of(text: str) -> str:
    """Return conditions as a URL has them; text that is percent-encoded as a whole is decoded."""
    return text if not _OPERATORS.isdisjoint(text) else unquote(text)
