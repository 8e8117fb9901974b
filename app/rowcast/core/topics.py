"""Topics and topic filters, and the rules by which they match.

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

SHARE_PREFIX: Final = "$share/"
QUEUE_PREFIX: Final = "$queue/"
"""The prefix of filters of the shared subscription without a name (D55)."""
DELAYED_PREFIX: Final = "$delayed/"
GATEWAY_PREFIX: Final = "$gateway/"
"""The prefix, with a broker's name, of topics that are forwarded to that broker only (H27)."""
BROKERS: Final = "$SYS/brokers"
"""The list of brokers with bridges."""
RESULTS: Final = "$SYS/results"
REPLAYS: Final = "$SYS/replays"
"""Below it, whoever may write brings records, each of which is judged by itself."""
TRANSACTIONS: Final = "$tx"
"""Where transactions are sent, each write of which is judged by itself."""
SERVERS_OWN: Final = ("$", "mqtt_sys_")
"""What the server's own topics begin with, and the tables of what it tells of itself."""
RULES: Final = "$SYS/rules"
"""Where the topic rules are listed."""
ONE_LEVEL: Final = "+"
ALL_BELOW: Final = "#"
WILDCARDS: Final = frozenset({ONE_LEVEL, ALL_BELOW})
"""Wildcard levels of a filter (MQTT-4.7.1-1)."""
AFTER_SLASH: Final = "0"
"""The character after ``/``: what is at or beyond ``a0`` is beyond all that begins with ``a/``."""
AFTER_DOLLAR: Final = "%"
"""The character after ``$``: no topic that begins with ``$`` is at or beyond it."""

Levels = tuple[str | None, ...]
"""The levels of a filter; None matches no topic (``patterns.py``)."""

_SIGNS: Final = frozenset("+#/")
"""Characters that mean something in filters."""
_SECONDS: Final = re.compile("[0-9]{1,10}", re.ASCII)


def check_topic(topic: str) -> None:
    """Raise INVALID unless ``topic`` is a legal topic name (MQTT-3.3.2-2, MQTT-4.7.3-1)."""
    _check_text(topic, "topic")
    if "+" in topic or "#" in topic:
        raise Error(
            Code.INVALID,
            f"the topic {topic[:200]!r} holds a wildcard; only a filter may use '+' or '#'",
        )


def split_delayed(topic: str) -> tuple[str, str]:
    """Split ``$delayed/<seconds>/<topic>`` before the target topic; others have an empty prefix.

    Raises INVALID when the seconds, or the topic, are missing.
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
    """Raise INVALID for a misplaced wildcard."""
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
    """Return the levels of the filter for a path and all below it; of all topics if empty."""
    return (*path.split("/"), "#") if path else ("#",)


def is_pattern(text: str) -> bool:
    """Whether a filter has a wildcard, and so may match several topics."""
    return not WILDCARDS.isdisjoint(text.split("/"))


def fits_level(name: str) -> bool:
    """Whether a name can be one level of a topic, and selects no more than itself there."""
    return bool(name) and _SIGNS.isdisjoint(name)


def is_within(topic: str, path: str) -> bool:
    """Whether a topic is at a path or below it; all topics are below the empty path."""
    return not path or topic == path or topic.startswith(path + "/")


def covers(pattern: Levels, wanted: Sequence[str]) -> bool:
    """Whether a pattern matches all topics that a topic or filter does (MQTT 5, 4.7).

    ``+/#`` does not count as covering ``#``, although every topic has a first level.
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
    """Whether a pattern matches any topic that a topic or filter does."""
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
        """Return the filter of a path and all topics below it; of all topics if it is empty."""
        return cls(f"{path}/#" if path else "#")

    @property
    def unbounded(self) -> bool:
        """Whether it ends with ``#``, and so selects topics of any depth."""
        return self.levels[-1] == ALL_BELOW

    @property
    def free_levels(self) -> int:
        """The number of ``+`` levels."""
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
        """Whether it may select topics of so many levels."""
        if self.unbounded:
            return len(self.levels) - 1 <= levels
        return len(self.levels) == levels

    @property
    def prefix(self) -> str:
        """The literal prefix of all matching topics; may be empty.

        For ``a/+/c`` it is ``a/``; for ``a/#``, which selects ``a`` too, it is ``a``.
        """
        if self.exact:
            return self.text
        literal = list(takewhile(lambda level: level not in WILDCARDS, self.levels))
        if not literal:
            return ""
        return "/".join(literal) + ("" if self.levels[len(literal)] == "#" else "/")

    def matches(self, topic: str) -> bool:
        """Whether the filter matches ``topic``."""
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
        """Whether it matches all topics of another filter."""
        return covers(self.levels, other.levels)

    def overlaps(self, other: "TopicFilter") -> bool:
        """Whether a topic may match both."""
        return overlaps(self.levels, other.levels)

    def seek(self, topic: str) -> str | None:
        """Return the least text greater than ``topic`` that could begin a matching topic.

        None means that no greater topic matches. It allows a skip scan over a sorted index: seek to
        the returned text, read the next topic there, and repeat. Order is that of code points,
        which is also that of UTF-8 bytes.
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
                # All levels match so far: candidates are below this topic, or next to it.
                return topic + "\0"
            if level not in {"+", parts[position]}:
                return self._seek_level(topic, parts, position)
        return self._seek_beside(topic, parts, len(self.levels))

    def _seek_level(self, topic: str, parts: list[str], position: int) -> str | None:
        """Seek to the filter's literal level at ``position``: as a leaf, or below it."""
        wanted = "/".join((*parts[:position], self.levels[position]))
        rest = self.levels[position + 1 :]
        if topic < wanted and rest in {(), ("#",)}:
            return wanted
        if topic < wanted + "/" and rest:
            return wanted + "/"
        return self._seek_beside(topic, parts, position)

    def _seek_beside(self, topic: str, parts: list[str], position: int) -> str | None:
        """No more matches below ``parts[:position]``: seek past the last level of a ``+``."""
        plus = [index for index in range(position) if self.levels[index] == "+"]
        if not plus:
            return None
        end = plus[-1] + 1
        return topic + "\0" if len(parts) == end else "/".join(parts[:end]) + AFTER_SLASH
