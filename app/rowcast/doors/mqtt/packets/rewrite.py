"""Topic rewriting, and automatic subscriptions (D54).

A rule selects topics with a filter, matches them with a regular expression, and builds a new topic.
The first rule that selects a topic decides; if its expression does not match, the topic is
unchanged. A filter of SUBSCRIBE is treated like a topic, and of ``$share/group/filter`` and
``$exclusive/filter`` only the filter is rewritten.

Topics are untrusted, so expressions with catastrophic backtracking are refused, and a client's
names never become a wildcard or a separate level. The caller checks the result again.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import (
    AUTO_SUBSCRIPTIONS_MAX,
    REWRITE_EXPRESSION_CHARS_MAX,
    REWRITE_REPEATS_MAX,
    REWRITE_RULES_MAX,
    REWRITE_TOPIC_CHARS_MAX,
)
from rowcast.core.topics import (
    QUEUE_PREFIX,
    SHARE_PREFIX,
    TopicFilter,
    check_filter,
    check_topic,
    fits_level,
)
from rowcast.doors.mqtt.packets.exclusive import EXCLUSIVE_PREFIX
from rowcast.doors.mqtt.packets.offsets import STREAM_PREFIX
from rowcast.mqtt.packets import Subscription
from rowcast.writes.write import Done

log = logging.getLogger("rowcast.mqtt")

Submit = Callable[..., None]
"""``Kernel.submit``, or a wrapper."""
Action = Literal["publish", "subscribe", "all"]

Naming = Callable[[str], str]
"""Normalises a topic or filter with a leading slash: ``Registry.named``."""

_PLACE = re.compile(r"\$(\d{1,2})|\$\{([^}]*)\}")
"""Placeholders of a destination: ``$1`` and so on, ``${clientid}`` and ``${username}``."""
_NAMES = ("clientid", "username")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; ``Rule(...)`` raises INVALID for an invalid one."""

    action: Action
    source: TopicFilter
    expression: re.Pattern[str]
    destination: str

    def rewrite(self, text: str, client_id: str, user: str) -> str:
        """Return the rewritten topic; raises INVALID for an invalid result."""
        if len(text) > REWRITE_TOPIC_CHARS_MAX:
            raise Error(
                Code.INVALID,
                f"a topic that is rewritten here may have {REWRITE_TOPIC_CHARS_MAX} characters, "
                f"not {len(text)}",
            )
        found = self.expression.match(text)
        if found is None:
            return text
        return _fill(self.destination, client_id, user, found)


def make_rule(action: str, source: str, expression: str, destination: str) -> Rule:
    """Return a rule; raises INVALID for an invalid one."""
    if action not in get_args(Action):
        raise Error(Code.INVALID, f"the action {action!r} is not publish, subscribe or all")
    _check_expression(expression)
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise Error(Code.INVALID, f"the expression {expression!r} is wrong: {error}") from None
    _check_places(destination, pattern.groups)
    return Rule(action, TopicFilter(source), pattern, destination)  # type: ignore[arg-type]


def _check_expression(text: str) -> None:
    """Refuse possible catastrophic backtracking: a repeated group, or many repetitions."""
    if len(text) > REWRITE_EXPRESSION_CHARS_MAX:
        raise Error(
            Code.INVALID, f"an expression may have {REWRITE_EXPRESSION_CHARS_MAX} characters"
        )
    bare = re.sub(r"\\.", "x", text, flags=re.DOTALL)  # escapes and sets count as one character
    bare = re.sub(r"\[\^?\]?[^\]]*\]", "x", bare)
    if re.search(r"\)(?:[*+]|\{)", bare):
        raise Error(
            Code.INVALID,
            f"the expression {text!r} repeats a group, which may take forever; "
            "repeat single characters, as in '[^/]+'",
        )
    repeats = len(re.findall(r"(?:[*+]|\{\d*,?\d*\})[?+]?", bare))
    if repeats > REWRITE_REPEATS_MAX:
        raise Error(
            Code.INVALID,
            f"the expression {text!r} has {repeats} repetitions; at most {REWRITE_REPEATS_MAX} are "
            "allowed",
        )


def _check_places(destination: str, groups: int) -> None:
    """Refuse a destination with unknown placeholders, or that is no topic or filter."""
    for number, name in _PLACE.findall(destination):
        if number and not 0 < int(number) <= groups:
            raise Error(
                Code.INVALID, f"{destination!r} names ${number}; the expression has {groups} groups"
            )
        if not number and name not in _NAMES:
            raise Error(
                Code.INVALID,
                f"{destination!r} names ${{{name}}}; known are ${{clientid}} and ${{username}}",
            )
    check_filter(_PLACE.sub("x", destination))


def _fill(destination: str, client_id: str, user: str, found: "re.Match[str] | None" = None) -> str:
    """Return a destination with its placeholders replaced."""

    def value(place: "re.Match[str]") -> str:
        if place[1]:
            return (found[int(place[1])] if found is not None else "") or ""
        text = client_id if place[2] == "clientid" else user
        if not fits_level(text):
            raise Error(
                Code.INVALID,
                f"${{{place[2]}}} cannot stand in a topic: {text[:100]!r} is empty or holds one of "
                "'+', '#' and '/'",
            )
        return text

    return _PLACE.sub(value, destination)


class Rewriting:
    """All rules, in their order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        if len(rules) > REWRITE_RULES_MAX:
            most = REWRITE_RULES_MAX
            raise Error(Code.INVALID, f"{len(rules)} rules; at most {most} are allowed")
        self.publishes = tuple(rule for rule in rules if rule.action != "subscribe")
        self.subscribes = tuple(rule for rule in rules if rule.action != "publish")

    def topic(self, topic: str, client_id: str, user: str, named: Naming = str) -> str:
        """Return the rewritten topic of a PUBLISH; raises INVALID for an invalid one."""
        new = _rewritten_or_named(self.publishes, topic, client_id, user, named)
        if new is not topic:
            check_topic(new)
        return new

    def filter(self, text: str, client_id: str, user: str, named: Naming = str) -> str:
        """Return the rewritten filter of SUBSCRIBE and UNSUBSCRIBE; the caller checks it."""
        prefix, rest = _prefix(text)
        return prefix + _rewritten_or_named(self.subscribes, rest, client_id, user, named)


def rewritten_submit(rewriting: Rewriting, submit: Submit, named: Naming = str) -> Submit:
    """Wrap ``submit`` to rewrite the topics of clients' publishes first."""

    def rewritten(event: Event, caller: Caller, done: Done, *more: object) -> None:
        try:
            event.topic = rewriting.topic(event.topic, caller.client_id, caller.user, named)
        except Error as error:
            done(Error(Code.NOT_FOUND, error.message))  # 0x90, Topic Name invalid
        else:
            submit(event, caller, done, *more)

    return rewritten


def one_by_one(submit: Submit) -> Submit:
    """Return a ``Kernel.submit_run`` that passes each write to ``submit``."""

    def submit_run(events: list[Event], dones: list[Done], caller: Caller) -> None:
        for event, done in zip(events, dones, strict=True):
            submit(event, caller, done)

    return submit_run


def _rewritten(rules: Iterable[Rule], text: str, client_id: str, user: str) -> str:
    for rule in rules:
        if text and rule.source.matches(text):
            return rule.rewrite(text, client_id, user)
    return text


def _rewritten_or_named(
    rules: Sequence[Rule], text: str, client_id: str, user: str, named: Naming
) -> str:
    """Rewrite a topic, else its form without the leading slash, so that no rule is bypassed."""
    new = _rewritten(rules, text, client_id, user)
    meant = named(text) if new is text else text
    return new if meant == text else _rewritten(rules, meant, client_id, user)


def divided(text: str) -> tuple[str, str]:
    """Split a filter from all subscription prefixes."""
    for prefix in (QUEUE_PREFIX, STREAM_PREFIX):
        if text.startswith(prefix):
            return prefix, text.removeprefix(prefix)
    return _prefix(text)


def _prefix(text: str) -> tuple[str, str]:
    """Split a filter from its prefix, which is not rewritten."""
    if text.startswith(EXCLUSIVE_PREFIX):
        return EXCLUSIVE_PREFIX, text.removeprefix(EXCLUSIVE_PREFIX)
    if text.startswith(SHARE_PREFIX):
        group, slash, rest = text.removeprefix(SHARE_PREFIX).partition("/")
        return f"{SHARE_PREFIX}{group}{slash}", rest
    return "", text


class AutoSubscriptions:
    """Automatic subscriptions of new sessions."""

    def __init__(self, wanted: Sequence[Subscription]) -> None:
        if len(wanted) > AUTO_SUBSCRIPTIONS_MAX:
            raise Error(
                Code.INVALID,
                f"{len(wanted)} subscriptions; at most {AUTO_SUBSCRIPTIONS_MAX} are allowed",
            )
        for item in wanted:
            prefix, rest = _prefix(item.filter)
            _check_places(rest, 0)
            if prefix.startswith(SHARE_PREFIX) and item.no_local:  # MQTT-3.8.3-4
                raise Error(Code.INVALID, f"{item.filter!r} is shared and cannot have no_local")
        self._wanted = tuple(wanted)

    def of(self, client_id: str, user: str) -> Iterator[Subscription]:
        """Yield the subscriptions of one client, without those with missing placeholders."""
        for item in self._wanted:
            try:
                yield replace(item, filter=_fill(item.filter, client_id, user))
            except Error as error:
                log.warning("%s is not subscribed to %s: %s", client_id, item.filter, error.message)
