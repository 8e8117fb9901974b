"""Alarms of a table, declared by ``@alarm``; read when its attributes are known.

@alarm(name: "hot", when: "temp=gt=80", for: "30s", clear: "temp=lt=75", severity: "major")
"""

import re
from dataclasses import replace
from typing import Final

from graphql import DirectiveNode, ObjectTypeDefinitionNode

from rowcast.core.alarm_limits import (
    ALARM_FOR_SECONDS_MAX,
    ALARM_NAME_CHARS_MAX,
    ALARMS_OF_TABLE_MAX,
)
from rowcast.core.clauses import AlarmRule, Severity
from rowcast.core.conditions import NOTHING
from rowcast.core.tables import Table
from rowcast.schema.arguments import Arguments
from rowcast.schema.conditions import condition
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
        when=condition(settings, "when", table, problems, "an alarm") or NOTHING,
        clear=condition(settings, "clear", table, problems, "an alarm"),
        for_seconds=seconds,
        severity=Severity(severity) if severity in set(Severity) else Severity.MAJOR,
        webhook=settings.text("webhook") or "",
        when_text=when,
        clear_text=clear,
    )
