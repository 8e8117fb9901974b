"""Topics and topic filters: the names of places, and the only code that knows how they match.

A topic is the same string as the URL path and the MQTT topic. The rules are those of MQTT 5,
section 4.7 (3.1.1's are the same): levels are separated by ``/``; ``+`` stands for one level and
``#``, only as the last level, for the parent and everything below; a filter that begins with a
wildcard matches no topic that begins with ``$`` (MQTT-4.7.2-1).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Self

from rowcast.core.errors import Code, Error
from rowcast.core.limits import DELAY_SECONDS_MAX, TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX

SHARE_PREFIX = "$share/"
DELAYED_PREFIX = "$delayed/"
GATEWAY_PREFIX = "$gateway/"
"""Below it and a broker's name is what is written for that broker alone (H27)."""
BROKERS = "$SYS/brokers"
"""Where the brokers are listed that there are bridges to."""
RESULTS = "$SYS/results"
"""Below it, whoever may write brings records, each of which is judged by itself."""
SERVERS_OWN: Final = ("$", "mqtt_sys_")
"""What the server's own topics begin with, and the tables of what it tells of itself."""
RULES = "$SYS/rules"
"""Where the topic rules are listed."""
ONE_LEVEL: Final = "+"
ALL_BELOW: Final = "#"
WILDCARDS: Final = frozenset({ONE_LEVEL, ALL_BELOW})
"""Levels of a filter that stand for others (MQTT-4.7.1-1)."""
AFTER_SLASH: Final = "0"
"""The character after ``/``: what is at or beyond ``a0`` is beyond all that begins with ``a/``."""
AFTER_DOLLAR: Final = "%"
"""The character after ``$``: no topic that begins with ``$`` is at or beyond it."""

Levels = tuple[str | None, ...]
"""The levels of a filter; None is one that no topic has (``patterns.py``)."""

_SIGNS: Final = frozenset("+#/")
"""Characters that mean something in filters."""
_SECONDS = re.compile("[0-9]{1,10}", re.ASCII)


def check_topic(topic: str) -> None:
    """Raise INVALID unless ``topic`` may name a place to write to (MQTT-3.3.2-2, MQTT-4.7.3-1)."""
    _check_text(topic, "topic")
    if "+" in topic or "#" in topic:
        raise Error(
            Code.INVALID,
            f"the topic {topic[:200]!r} holds a wildcard; only a filter may use '+' or '#'",
        )


def split_delayed(topic: str) -> tuple[str, str]:
    """Divide ``$delayed/<seconds>/<topic>`` before the topic that is meant; any other is whole.

    Raises INVALID when the seconds, or the topic, are not there.
    """
    if not topic.startswith(DELAYED_PREFIX):
        return "", topic
    seconds, _, meant = topic.removeprefix(DELAYED_PREFIX).partition("/")
    if not meant or not _SECONDS.fullmatch(seconds) or not 0 < int(seconds) <= DELAY_SECONDS_MAX:
        raise Error(
            Code.INVALID,
            f"{topic[:200]!r} should be $delayed/<seconds>/<topic>, with 1 to {DELAY_SECONDS_MAX} "
            "seconds, such as '$delayed/60/lamp/off'",
        )
    if meant.startswith(DELAYED_PREFIX):
        raise Error(Code.INVALID, f"{topic[:200]!r} is delayed twice; add the seconds up")
    return topic[: -len(meant)], meant


def check_filter(text: str) -> None:
    """Raise INVALID unless ``text`` is a legal topic filter (MQTT-4.7.1-1, MQTT-4.7.1-2)."""
    _check_text(text, "topic filter")
    check_wildcards(text)


def check_wildcards(text: str) -> None:
    """Raise INVALID where a wildcard stands that is none, whatever is allowed here besides."""
    levels = text.split("/")
    for position, level in enumerate(levels):
        if "#" in level and (level != "#" or position != len(levels) - 1):
            raise Error(
                Code.INVALID,
                f"in the topic filter {text[:200]!r}, '#' must be the whole last level",
            )
        if "+" in level and level != "+":
            raise Error(
                Code.INVALID,
                f"in the topic filter {text[:200]!r}, '+' must be a whole level,"
                f" not part of {level[:200]!r}",
            )


def _check_text(text: str, what: str) -> None:
    if not text:
        raise Error(Code.INVALID, f"a {what} must be at least one character long")  # MQTT-4.7.3-1
    if "\0" in text:
        raise Error(Code.INVALID, f"a {what} must not hold the character NUL")  # MQTT-4.7.3-2
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:  # MQTT-1.5.4-1
        raise Error(Code.INVALID, f"a {what} must not hold half of a surrogate pair") from None
    if size > TOPIC_BYTES_MAX:  # MQTT-4.7.3-3
        raise Error(Code.INVALID, f"a {what} must be at most {TOPIC_BYTES_MAX} bytes, not {size}")
    if text.count("/") >= TOPIC_LEVELS_MAX:
        raise Error(Code.INVALID, f"a {what} must have at most {TOPIC_LEVELS_MAX} levels")


def levels_below(path: str) -> tuple[str, ...]:
    """Return the levels of the filter of a path and all below it; of all for the empty path."""
    return (*path.split("/"), "#") if path else ("#",)


def is_pattern(text: str) -> bool:
    """Tell whether a filter has a wildcard, and so may select several topics."""
    return not WILDCARDS.isdisjoint(text.split("/"))


def fits_level(name: str) -> bool:
    """Tell whether a name can be one level of a topic, and selects no more than itself there."""
    return bool(name) and _SIGNS.isdisjoint(name)


def is_within(topic: str, path: str) -> bool:
    """Tell whether a topic is at a path or below it; all topics are below the empty path."""
    return not path or topic == path or topic.startswith(path + "/")


def covers(pattern: Levels, wanted: Sequence[str]) -> bool:
    """Tell whether a pattern selects all that a topic or filter does (MQTT 5, 4.7).

    ``+/#`` is not said to cover ``#``, though every topic has a first level.
    """
    if wanted[0].startswith("$") and pattern[0] in WILDCARDS:  # MQTT-4.7.2-1
        return False
    for position, level in enumerate(pattern):
        if level == "#":
            return True
        if position == len(wanted) or level is None or wanted[position] == "#":
            return False
        if level != "+" and level != wanted[position]:
            return False
    return len(pattern) == len(wanted)


def overlaps(pattern: Levels, wanted: Sequence[str]) -> bool:
    """Tell whether a pattern selects anything that a topic or filter does."""
    first, other = pattern[0], wanted[0]
    if {str(first)[:1], other[:1]} & {"$"} and {first, other} & WILDCARDS:
        return False
    for position, level in enumerate(pattern):
        if level == "#":
            return True
        if position == len(wanted):
            return False
        if wanted[position] == "#":
            return None not in pattern[position:]
        if level is None or (level != wanted[position] and not {level, wanted[position]} & {"+"}):
            return False
    return len(pattern) == len(wanted) or list(wanted[len(pattern) :]) == ["#"]


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A pattern that selects topics; ``TopicFilter(text)`` raises INVALID for an illegal one."""

    text: str
    levels: tuple[str, ...] = field(init=False, compare=False, repr=False)
    exact: bool = field(init=False, compare=False, repr=False)
    """Whether it has no wildcard and so selects the one topic of the same text."""

    def __post_init__(self) -> None:
        check_filter(self.text)
        object.__setattr__(self, "levels", tuple(self.text.split("/")))
        object.__setattr__(self, "exact", WILDCARDS.isdisjoint(self.levels))

    @classmethod
    def below(cls, path: str) -> Self:
        """Return the filter of a path and all topics below it; of all topics for the empty path."""
        return cls(f"{path}/#" if path else "#")

    @property
    def unbounded(self) -> bool:
        """Whether it ends with ``#``, and so selects topics of any depth."""
        return self.levels[-1] == ALL_BELOW

    @property
    def free_levels(self) -> int:
        """How many levels of it are ``+``."""
        return self.levels.count(ONE_LEVEL)

    @property
    def path(self) -> str | None:
        """The path that it selects with all below it, as ``a/b`` of ``a/b/#``; None: no such."""
        path = self.text.removesuffix("/#")
        return path if self.unbounded and path != self.text and not is_pattern(path) else None

    @property
    def suffix(self) -> str:
        """The literal levels behind the only ``+``, without a ``#``; empty when there is none."""
        if self.free_levels != 1:
            return ""
        behind = self.levels[self.levels.index(ONE_LEVEL) + 1 :]
        return "/".join(behind[:-1] if self.unbounded else behind)

    def literal(self, position: int) -> str | None:
        """Return a level of it; None where it is a wildcard or there is no such level."""
        level = self.levels[position] if position < len(self.levels) else ALL_BELOW
        return None if level in WILDCARDS else level

    def has_depth(self, levels: int) -> bool:
        """Tell whether it may select topics of so many levels."""
        if self.unbounded:
            return len(self.levels) - 1 <= levels
        return len(self.levels) == levels

    @property
    def prefix(self) -> str:
        """The literal text that every selected topic begins with; empty when there is none.

        For ``a/+/c`` it is ``a/``; for ``a/#``, which selects ``a`` too, it is ``a``.
        """
        if self.exact:
            return self.text
        literal = list(takewhile(lambda level: level not in WILDCARDS, self.levels))
        if not literal:
            return ""
        return "/".join(literal) + ("" if self.levels[len(literal)] == "#" else "/")

    def matches(self, topic: str) -> bool:
        """Tell whether the filter selects ``topic``."""
        if self.exact:
            return topic == self.text
        levels = self.levels
        if topic[0] == "$" and levels[0] in WILDCARDS:  # MQTT-4.7.2-1
            return False
        parts = topic.split("/")
        for position, level in enumerate(levels):
            if level == "#":
                return True
            if position == len(parts):
                return False
            if level not in {"+", parts[position]}:
                return False
        return len(parts) == len(levels)

    def covers(self, other: "TopicFilter") -> bool:
        """Tell whether it selects all that another filter does."""
        return covers(self.levels, other.levels)

    def overlaps(self, other: "TopicFilter") -> bool:
        """Tell whether there may be a topic that both select."""
        return overlaps(self.levels, other.levels)

    def seek(self, topic: str) -> str | None:
        """Return the least text that is greater than ``topic`` and could begin a selected topic.

        None means that no greater topic is selected. It is what makes a wildcard match over a
        sorted index a skip-scan: jump to the returned text, read the next topic there, and go on.
        Order is that of code points, which is also that of UTF-8 bytes.
        """
        if self.exact:
            return self.text if topic < self.text else None
        prefix = self.prefix
        if topic < prefix:
            return prefix
        if prefix and not topic.startswith(prefix):
            return None
        if topic[:1] == "$" and self.levels[0] in WILDCARDS:  # MQTT-4.7.2-1
            return AFTER_DOLLAR
        return self._seek_within(topic)

    def _seek_within(self, topic: str) -> str | None:
        """``seek`` for a topic that has the literal prefix: find the first level that differs."""
        parts = topic.split("/")
        for position, level in enumerate(self.levels):
            if level == "#" or position == len(parts):
                # All agrees so far: what could match lies below this topic, or beside it.
                return topic + "\0"
            if level not in {"+", parts[position]}:
                return self._seek_level(topic, parts, position)
        return self._seek_beside(topic, parts, len(self.levels))

    def _seek_level(self, topic: str, parts: list[str], position: int) -> str | None:
        """Go to the literal level wanted at ``position``: as a leaf, or to what is below it."""
        wanted = "/".join((*parts[:position], self.levels[position]))
        rest = self.levels[position + 1 :]
        if topic < wanted and rest in {(), ("#",)}:
            return wanted
        if topic < wanted + "/" and rest:
            return wanted + "/"
        return self._seek_beside(topic, parts, position)

    def _seek_beside(self, topic: str, parts: list[str], position: int) -> str | None:
        """Nothing more below ``parts[:position]``: go past the last level a ``+`` stood for."""
        plus = [index for index in range(position) if self.levels[index] == "+"]
        if not plus:
            return None
        end = plus[-1] + 1
        return topic + "\0" if len(parts) == end else "/".join(parts[:end]) + AFTER_SLASH
