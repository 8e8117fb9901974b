"""Alarms of a table, declared by ``@alarm``; read when its attributes are known.

@alarm(name: "hot", when: "temp=gt=80", for: "30s", clear: "temp=lt=75", severity: "major")
"""

import re
from dataclasses import replace
from typing import Final

from graphql import DirectiveNode, Node, ObjectTypeDefinitionNode

from rowcast.core.alarm_limits import (
    ALARM_FOR_SECONDS_MAX,
    ALARM_NAME_CHARS_MAX,
    ALARMS_OF_TABLE_MAX,
)
from rowcast.core.clauses import AlarmRule, Severity
from rowcast.core.conditions import ID_PATH, NOTHING, Where, compared
from rowcast.core.errors import Error
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Table
from rowcast.schema.arguments import Arguments
from rowcast.schema.problems import Problems

ALARM: Final = "alarm"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_EXAMPLE: Final = '@alarm(name: "hot", when: "temp=gt=80")'


def with_alarms(node: ObjectTypeDefinitionNode, table: Table, problems: Problems) -> Table:
    """Return a table with the alarms that its type declares."""
    given = [words for words in node.directives or () if words.name.value == ALARM]
    if not given:
        return table
    if table.path is None:
        problems.at(given[0], "@alarm needs @export: without, its records have no topics")
    if len(given) > ALARMS_OF_TABLE_MAX:
        problems.at(given[-1], f"a table has at most {ALARMS_OF_TABLE_MAX} alarms")
    rules: list[AlarmRule] = []
    for words in given:
        rule = _rule(words, table, problems)
        if any(other.name == rule.name for other in rules):
            problems.at(words, f'{table.name} has an alarm "{rule.name}" already; rename one')
        rules.append(rule)
    return replace(table, alarms=tuple(rules))


def _rule(words: DirectiveNode, table: Table, problems: Problems) -> AlarmRule:
    settings = Arguments(words, problems)
    name, when, clear = (settings.text(key) or "" for key in ("name", "when", "clear"))
    if not when or not name:
        problems.at(words, f"@alarm needs a name and a condition, such as {_EXAMPLE}")
    elif not _NAME.fullmatch(name) or len(name) > ALARM_NAME_CHARS_MAX:
        problems.at(
            settings.value_node("name"),
            f"an alarm's name has at most {ALARM_NAME_CHARS_MAX} letters, digits, _ and -",
        )
    seconds = settings.seconds("for") or 0
    if seconds > ALARM_FOR_SECONDS_MAX:
        most = f"{ALARM_FOR_SECONDS_MAX:g}"
        problems.at(settings.value_node("for"), f"a condition holds for at most {most} seconds")
    severity = settings.choice("severity", [item.value for item in Severity])
    return AlarmRule(
        name=name,
        when=_condition(settings, "when", table, problems) or NOTHING,
        clear=_condition(settings, "clear", table, problems),
        for_seconds=seconds,
        severity=Severity(severity) if severity in set(Severity) else Severity.MAJOR,
        webhook=settings.text("webhook") or "",
        when_text=when,
        clear_text=clear,
    )


def _condition(settings: Arguments, name: str, table: Table, problems: Problems) -> Where | None:
    """Return a condition as a REST query has it; it takes no functions."""
    text = settings.text(name)
    if not text:
        return None
    blamed = settings.value_node(name)
    try:
        query = parse_query(text, table)
    except Error as error:
        problems.at(blamed, f"{name}: {error.message}")
        return NOTHING
    if query.where is None or query != Query(query.where):
        problems.at(
            blamed,
            f'{name} takes conditions alone, such as "temp=gt=80&site==A": no select, sort, '
            "limit, after or _stale",
        )
    _check_names(query.where, blamed, table, problems)
    return query.where


def _check_names(where: Where | None, blamed: Node, table: Table, problems: Problems) -> None:
    """Note undeclared attributes: an alarm of a misspelt one would never be raised."""
    known = [item.name for item in table.attributes]
    for path in compared(where):
        if not table.open and path != ID_PATH and path[0] not in known:
            message = f'{table.name} declares no attribute "{path[0]}", which an alarm needs'
            problems.at(blamed, message, nearest(path[0], known))
