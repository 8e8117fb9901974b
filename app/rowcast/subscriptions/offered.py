"""The ``$`` topics that can be subscribed to; other ``$`` filters are refused.

Topics that begin with ``$`` belong to the server (MQTT-4.7.2-1), so their list is closed, and a
filter outside it, which would never match, is reported at once.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rowcast.core.alarms import ALARM_ROWS, ALARMS_PREFIX
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import WILDCARDS, is_within

_SYSTEM: Final = "$SYS"
_ALARMS: Final = ALARMS_PREFIX.rstrip("/")
WATCHED: Final = (
    _SYSTEM, "$AUDIT", "$CONTROL", "$gateway", "$stale", _ALARMS, "$gap", "$snapshot", "$reset",
    "$commit",
)  # fmt: skip
"""First levels with events."""
PREFIXES: Final = ("$share", "$queue", "$exclusive", "$stream")
"""Prefixes of MQTT filters that select a kind of subscription."""
_FURTHER: Final = {
    "$query": "a live query is $query/TABLE/CONDITIONS, such as '$query/Sensor/temp=gt=80', or "
    "$query/NAME/# of one that the schema names",
    "$replay": "a replay is $replay/FROM/FILTER, such as '$replay/-1h/Sensor/+', or "
    "$replay/ID/FILTER of a shared one",
    "$asof": "the records of a moment are $asof/TIME/FILTER, such as '$asof/-1h/Sensor/+'",
}
"""Those of features, which answer themselves to filters that begin so; and how they are spelled."""
_OWN: Final = ("broker", "events", "gateway")
"""Second levels below ``$SYS`` with messages, besides those with rows."""


def check_offered(text: str, declared: Iterable[str], alarms: Collection[str]) -> None:
    """Raise for a filter that can never match.

    ``declared`` are the paths of resources, ``alarms`` the names of the schema's alarms.
    """
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
        if text.startswith(f"{ALARM_ROWS}/"):
            _check_alarm(text, rest.split("/")[1], alarms)
    elif first == _ALARMS:
        _check_alarm(text, rest.partition("/")[0], alarms)
    elif first in _FURTHER:
        raise Error(Code.NOT_FOUND, _FURTHER[first], filter=text)
    elif first not in WATCHED and not any(path.partition("/")[0] == first for path in declared):
        known, ways = ", ".join(WATCHED), (*PREFIXES, *_FURTHER)
        raise Error(
            Code.NOT_FOUND,
            f"nothing is published below {first!r}{did_you_mean(first, (*WATCHED, *ways))}; "
            f"topics that begin with '$' are the server's: {known}; over MQTT a filter may begin "
            f"with {', '.join(ways)}",
            filter=text,
        )


def check_published(text: str, silent: Mapping[str, str], declared: Iterable[str]) -> None:
    """Raise for a filter of topics of one resource alone, whose class publishes nothing.

    ``silent`` has the paths of such classes, with the reason that a subscriber is told.
    """
    for path, why in silent.items():
        if is_within(text, path) and not any(
            item != path and is_within(item, path) for item in declared
        ):
            words = f"nothing is published at {text[:200]!r}: {why}"
            raise Error(Code.NOT_FOUND, words, filter=text)


def _check_system(text: str, level: str, declared: Iterable[str]) -> None:
    """Raise for an unknown second level below ``$SYS``."""
    paths = [path.split("/")[1] for path in declared if path.startswith(f"{_SYSTEM}/")]
    known = sorted({*_OWN, *paths})
    if level not in {"", *WILDCARDS, *known}:
        raise Error(
            Code.NOT_FOUND,
            f"nothing is published at {text[:200]!r}{did_you_mean(level, known)}; below $SYS there "
            f"are {', '.join(known)}",
            filter=text,
        )


def _check_alarm(text: str, name: str, alarms: Collection[str]) -> None:
    """Raise for the name of an alarm that no table declares."""
    if name in {"", *WILDCARDS, *alarms}:
        return
    there = f"there are {', '.join(sorted(alarms))}" if alarms else "the schema declares none"
    raise Error(
        Code.NOT_FOUND,
        f"nothing is published at {text[:200]!r}: no alarm is called {name[:200]!r}"
        f"{did_you_mean(name, alarms)}; {there}",
        filter=text,
    )
