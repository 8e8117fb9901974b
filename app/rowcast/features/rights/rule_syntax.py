"""Rows of ``$SYS/rules`` read as topic rules: who may do what below which topics (L6, L10).

A row is a map: ``{"filter": "sensors/${username}/#", "effect": "allow", "actions": ["write"]}``. It
is about the callers that it names by ``roles`` or ``users``, or else about everybody. With
``attributes`` it is about parts of a table's records; with ``where`` and ``mask`` it allows some of
a table's records, and parts of them (``record_rules.py``). What decides is said in ``policy.py``.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rowcast.core.claims import CLIENT, USER
from rowcast.core.errors import Error
from rowcast.core.patterns import PLACEHOLDER
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule
from rowcast.core.topics import TopicFilter, check_filter
from rowcast.features.rights.record_rules import about_records, names_records, wrong

log = logging.getLogger("rowcast.rights")

ACTIONS: Final = ("read", "subscribe", "write", "publish", "administer", "all")
MEMBERS: Final = (
    "filter", "effect", "actions", "roles", "users", "attributes", "where", "mask", "description",
)  # fmt: skip
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"username": USER, "clientid": CLIENT}

_ALLOWING: Final = {
    "read": frozenset({"read", "subscribe", "all"}),
    "subscribe": frozenset({"read", "subscribe", "all"}),
    "write": frozenset({"write", "all"}),
    "publish": frozenset({"write", "publish", "all"}),
    "administer": frozenset({"administer"}),
}
"""Which of a rule's actions allow what is asked: who may watch a topic is given what is there."""
_DENYING: Final = {
    "read": frozenset({"read", "all"}),
    "subscribe": frozenset({"read", "subscribe", "all"}),
    "write": frozenset({"write", "all"}),
    "publish": frozenset({"write", "publish", "all"}),
    "administer": frozenset({"administer"}),
}


def rule_of(name: str, value: object, tables: Sequence[Table] = ()) -> TopicRule:
    """Read a row as a rule; raises INVALID that says what is wrong with it."""
    rule = _topic_rule(name, value)
    return about_records(rule, value, tables) if names_records(value) else rule


def stored_rule_of(name: str, value: object, tables: Sequence[Table]) -> TopicRule:
    """Read a row that was right when it was written; raises INVALID if it is none.

    If the schema has no longer what it names, it denies what it allowed: its callers see less than
    they should, and not more, and the log says so.
    """
    rule = _topic_rule(name, value)
    if not names_records(value):
        return rule
    try:
        return about_records(rule, value, tables)
    except Error as error:
        log.warning("$SYS/rules/%s: %s. It denies until it is mended", name, error.message)
        return replace(rule, allows=False)


def _topic_rule(name: str, value: object) -> TopicRule:
    if not isinstance(value, Mapping):
        raise wrong("is a map, such as " + _SAMPLE)
    unknown = [key for key in value if key not in MEMBERS and key not in {"id", "_from"}]
    if unknown:
        raise wrong(f"has no member {unknown[0]!r}{did_you_mean(str(unknown[0]), MEMBERS)}")
    text, effect = value.get("filter"), value.get("effect", "allow")
    if not isinstance(text, str) or not text:
        raise wrong("needs a filter, such as " + _SAMPLE)
    if not isinstance(effect, str) or effect not in {"allow", "deny"}:
        raise wrong('has the effect "allow" or "deny"')
    actions = _names(value, "actions")
    for action in sorted(actions - set(ACTIONS)):
        raise wrong(f"knows no action {action!r}{did_you_mean(action, ACTIONS)}")
    if not actions:
        raise wrong(f"names actions: any of {', '.join(ACTIONS)}")
    attributes = _names(value, "attributes")
    if attributes and TopicFilter(PLACEHOLDER.sub("x", text)).path is None:
        raise wrong("about attributes is about a whole table: its filter is such as Dog/#")
    return TopicRule(
        name,
        (text,),
        effect == "allow",
        _answered(actions, _ALLOWING if effect == "allow" else _DENYING),
        _names(value, "roles"),
        _names(value, "users"),
        attributes=attributes,
        places=_places(text),
    )


def _answered(actions: frozenset[str], by: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset(asked for asked, named in by.items() if actions & named)


_SAMPLE: Final = '{"filter": "home/#", "effect": "deny", "actions": ["write"], "roles": ["guest"]}'


def _names(value: Mapping[object, object], member: str) -> frozenset[str]:
    items = value.get(member) or ()
    if not isinstance(items, list | tuple) or not all(isinstance(i, str) and i for i in items):
        raise wrong(f'has {member} as a list of names, such as ["a", "b"]')
    return frozenset(str(item) for item in items)


def _places(text: str) -> dict[str, tuple[str, ...]]:
    """Return the places of a filter; raises INVALID for an unknown one or an illegal filter."""
    places: dict[str, tuple[str, ...]] = {}
    for match in PLACEHOLDER.finditer(text):
        word = match[1]
        path = _NAMES.get(word)
        if path is None and word.startswith("user.") and len(word) > len("user."):
            path = ("$user", word.removeprefix("user."))
        if path is None:
            raise wrong(
                f"has the unknown place {match[0]!r} in its filter; known are ${{username}}, "
                "${clientid} and ${user.<claim>}"
            )
        places[match[0]] = path
    check_filter(PLACEHOLDER.sub("x", text))
    return places
