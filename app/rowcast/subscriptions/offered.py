"""What begins with ``$`` and can be watched; all else is refused, for nothing would ever come.

A topic that begins with ``$`` is the server's (MQTT-4.7.2-1), so the list of them is closed and a
filter outside it is a mistake that can be told at once.
"""

from collections.abc import Iterable
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import WILDCARDS

_SYSTEM: Final = "$SYS"
WATCHED: Final = (
    _SYSTEM, "$AUDIT", "$CONTROL", "$gateway", "$stale", "$gap", "$snapshot", "$reset",
)  # fmt: skip
"""First levels at which something is published."""
PREFIXES: Final = ("$share", "$queue", "$exclusive", "$stream")
"""What an MQTT filter may begin with, which says how it is subscribed to."""
_OWN: Final = ("broker", "events", "gateway")
"""Second levels below ``$SYS`` at which there are messages, beside those that have rows."""


def check_offered(text: str, declared: Iterable[str]) -> None:
    """Raise unless something can come of a filter; ``declared`` are the paths of resources."""
    if text[0] != "$":
        return
    first, _, rest = text.partition("/")
    if first == "$share":
        raise Error(
            Code.UNSUPPORTED,
            "shared subscriptions are not offered here; SUBSCRIBE to $share/NAME/FILTER over MQTT, "
            "with $share once and at the beginning",
        )
    if first in PREFIXES:
        raise Error(
            Code.UNSUPPORTED,
            f"{first}/FILTER is a way to subscribe over MQTT; SUBSCRIBE to it there, with {first} "
            "once and at the beginning",
            filter=text,
        )
    if first == "$delayed":
        raise Error(
            Code.UNSUPPORTED,
            "what is written to $delayed/SECONDS/TOPIC is published at TOPIC when it is due; "
            "subscribe to that, or to $SYS/delayed/# for what waits",
            filter=text,
        )
    if first == _SYSTEM:
        _check_system(text, rest.partition("/")[0], declared)
    elif first not in WATCHED and not any(path.partition("/")[0] == first for path in declared):
        known = ", ".join(WATCHED)
        raise Error(
            Code.NOT_FOUND,
            f"nothing is published below {first!r}{did_you_mean(first, (*WATCHED, *PREFIXES))}; "
            f"topics that begin with '$' are the server's: {known}; over MQTT a filter may begin "
            f"with {', '.join(PREFIXES)}",
            filter=text,
        )


def _check_system(text: str, level: str, declared: Iterable[str]) -> None:
    """Raise for a second level below ``$SYS`` at which there is nothing."""
    paths = [path.split("/")[1] for path in declared if path.startswith(f"{_SYSTEM}/")]
    known = sorted({*_OWN, *paths})
    if level not in {"", *WILDCARDS, *known}:
        raise Error(
            Code.NOT_FOUND,
            f"nothing is published at {text[:200]!r}{did_you_mean(level, known)}; below $SYS there "
            f"are {', '.join(known)}",
            filter=text,
        )
