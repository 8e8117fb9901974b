"""Roll-ups, declared by ``@rollup``: read when all tables are known, and given their attributes.

type Hourly @table @export
  @rollup(of: "Sensor", by: ["site"], time: "at", every: "1h", values: {temp: ["avg", "max"]})
"""

from dataclasses import replace
from typing import Final

from graphql import (
    DirectiveNode,
    EnumValueNode,
    ListValueNode,
    Node,
    ObjectTypeDefinitionNode,
    ObjectValueNode,
    StringValueNode,
)

from rowcast.core.rollup_limits import (
    ROLLUP_BY_MAX,
    ROLLUP_EVERY_SECONDS_MAX,
    ROLLUP_EVERY_SECONDS_MIN,
    ROLLUP_LATE_SECONDS,
    ROLLUP_LATE_SECONDS_MAX,
    ROLLUP_VALUES_MAX,
)
from rowcast.core.rollups import FUNCTIONS, RollupRule, column
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Attribute, Table, Type
from rowcast.schema.arguments import Arguments
from rowcast.schema.attributes import directives
from rowcast.schema.problems import Problems

ROLLUP: Final = "rollup"
_EXAMPLE: Final = (
    '@rollup(of: "Sensor", by: ["site"], time: "at", every: "1h", values: {temp: ["avg"]})'
)
_NUMBERS: Final = frozenset({Type.INT, Type.LONG, Type.FLOAT, Type.DECIMAL})
_TEXTS: Final = frozenset({Type.ID, Type.STRING})
_GROUPS: Final = frozenset({Type.ID, Type.STRING, Type.INT, Type.LONG, Type.BOOLEAN})

Declared = list[tuple[ObjectTypeDefinitionNode, Table]]


def with_rollups(declared: Declared, problems: Problems) -> Declared:
    """Return the tables, roll-ups with their rule and attributes."""
    tables = {node.name.value: table for node, table in declared}
    found: Declared = []
    for node, table in declared:
        words = directives(node).get(ROLLUP)
        found.append((node, table if words is None else _rolled(words, table, tables, problems)))
    rules = {table.name: table.rollup.of for _, table in found if table.rollup is not None}
    for node, table in found:
        if table.rollup is not None and _is_circle(table.name, rules):
            problems.at(directives(node)[ROLLUP], f"{table.name} rolls up what is made of it")
    return found


def _is_circle(name: str, rules: dict[str, str]) -> bool:
    seen: set[str] = set()
    while name in rules and name not in seen:
        seen.add(name)
        name = rules[name]
    return name in seen


def _rolled(
    words: DirectiveNode, table: Table, tables: dict[str, Table], problems: Problems
) -> Table:
    settings = Arguments(words, problems)
    name = settings.text("of") or ""
    source = tables.get(name)
    if table.path is None:
        problems.at(words, "@rollup needs @export: without, its rows have no topics")
    if source is None or source.path is None:
        blamed = settings.value_node("of")
        hint = nearest(name, [key for key in tables if key != name])
        problems.at(blamed, f"@rollup needs an exported type of records, as in {_EXAMPLE}", hint)
        return table
    values = _values(settings, source, problems)
    rule = RollupRule(
        of=source.name,
        by=_by(settings, source, problems),
        time=_time(settings, source, problems),
        every_seconds=_every(settings, problems),
        values=values,
        late_seconds=_late(settings, source, problems),
        decimals=frozenset(name for name, _ in values if _is_decimal(source, name)),
    )
    return _with_attributes(words, replace(table, rollup=rule), source, problems)


def _is_decimal(source: Table, name: str) -> bool:
    known = source.attribute(name)
    return known is not None and known.type is Type.DECIMAL


def _known(source: Table, types: frozenset[Type]) -> list[str]:
    return [
        item.name
        for item in source.attributes
        if item.type in types and item.stored and not item.hidden
    ]


def _check_name(
    name: str, blamed: Node, source: Table, types: frozenset[Type], problems: Problems
) -> None:
    known = _known(source, types)
    if name not in known:
        kinds = ", ".join(sorted(types))
        message = f'{source.name} has no attribute "{name}" of a type that fits: {kinds}'
        problems.at(blamed, message, nearest(name, known))


def _time(settings: Arguments, source: Table, problems: Problems) -> str:
    name = settings.text("time") or ""
    if not name:
        message = f"time is the attribute, a Date, that says when a reading was: {_EXAMPLE}"
        problems.at(settings.value_node("time"), message)
        return name
    _check_name(name, settings.value_node("time"), source, frozenset({Type.DATE}), problems)
    return name


def _every(settings: Arguments, problems: Problems) -> float:
    seconds = settings.seconds("every") or 0
    if not ROLLUP_EVERY_SECONDS_MIN <= seconds <= ROLLUP_EVERY_SECONDS_MAX:
        most = f"{ROLLUP_EVERY_SECONDS_MAX / 86_400:g}"
        problems.at(settings.value_node("every"), f"every is a time from 1 s to {most} days")
        return ROLLUP_EVERY_SECONDS_MAX
    return seconds


def _late(settings: Arguments, source: Table, problems: Problems) -> float:
    seconds = settings.seconds("late")
    if seconds is None:
        return ROLLUP_LATE_SECONDS
    if seconds > ROLLUP_LATE_SECONDS_MAX:
        most = f"{ROLLUP_LATE_SECONDS_MAX / 86_400:g}"
        problems.at(settings.value_node("late"), f"late is at most {most} days")
    if 0 < source.history_seconds < seconds:
        message = f"{source.name} has a shorter history: late must not be longer than that"
        problems.at(settings.value_node("late"), message)
    return seconds


def _words(node: Node) -> list[tuple[Node, str]]:
    """Return the words of a list, or one word."""
    items = node.values if isinstance(node, ListValueNode) else (node,)
    texts = (item for item in items if isinstance(item, StringValueNode | EnumValueNode))
    return [(item, item.value) for item in texts]


def _by(settings: Arguments, source: Table, problems: Problems) -> tuple[str, ...]:
    node = settings.value_node("by")
    if node is settings.node:
        return ()
    words = _words(node)
    for item, name in words:
        _check_name(name, item, source, _GROUPS, problems)
    names = tuple(name for _, name in words)
    if not words or len(words) > ROLLUP_BY_MAX or len(set(names)) < len(names):
        problems.at(node, f"by is a list of 1 to {ROLLUP_BY_MAX} different attributes")
    return names


def _values(
    settings: Arguments, source: Table, problems: Problems
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    node = settings.value_node("values")
    if not isinstance(node, ObjectValueNode) or not node.fields:
        problems.at(node, f"values says what of which attribute, as in {_EXAMPLE}")
        return ()
    found: list[tuple[str, tuple[str, ...]]] = []
    for field in node.fields:
        name, words = field.name.value, _words(field.value)
        _check_name(name, field, source, _NUMBERS, problems)
        for item, function in words:
            if function not in FUNCTIONS:
                message = f'there is no function "{function}": {", ".join(FUNCTIONS)}'
                problems.at(item, message, nearest(function, list(FUNCTIONS)))
        if not words:
            problems.at(field, f"values of {name} needs functions: {', '.join(FUNCTIONS)}")
        found.append((name, tuple(dict.fromkeys(function for _, function in words))))
    if sum(len(functions) for _, functions in found) > ROLLUP_VALUES_MAX:
        problems.at(node, f"a roll-up has at most {ROLLUP_VALUES_MAX} values")
    return tuple(found)


def _with_attributes(
    words: DirectiveNode, table: Table, source: Table, problems: Problems
) -> Table:
    """Return the table with the attributes of its rows, beside those that it declares."""
    made = [*_made(table, source)]
    declared = {item.name: item for item in table.attributes}
    names = [item.name for item in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        problems.at(words, f'two attributes of {table.name} would be called "{twice}"')
    if table.primary_key is not None and table.primary_key.type not in _TEXTS:
        problems.at(words, f"the key of {table.name} must be an ID or a String")
    for item in made:
        other = declared.get(item.name)
        if other is not None and (other.type is not item.type or other.required):
            message = f'"{item.name}" of {table.name} is {item.type}, without !: the server sets it'
            problems.at(words, message)
        elif other is not None and other.digits is not None:
            message = f'"{item.name}" of {table.name} has no @decimal: the server sets its digits'
            problems.at(words, message)
    new = (item for item in made if item.name not in declared)
    return replace(table, attributes=(*table.attributes, *new))


def _made(table: Table, source: Table) -> list[Attribute]:
    rule = table.rollup
    if rule is None:
        return []
    found = [] if table.primary_key else [Attribute("id", Type.ID, primary_key=True)]
    for name in rule.by:
        known = source.attribute(name)
        if known is not None:
            found.append(Attribute(name, known.type, indexed=True))
    found.append(Attribute(rule.time, Type.DATE, indexed=True))
    for name, functions in rule.values:
        known = source.attribute(name)
        found += [_column(known, name, function) for function in functions if known is not None]
    return found


def _column(source: Attribute, name: str, function: str) -> Attribute:
    """Return the attribute with a function of an attribute."""
    kind = source.type
    if function == "count" or (function == "sum" and kind is Type.INT):
        kind = Type.LONG
    elif function == "avg":
        kind = Type.DECIMAL if kind is Type.DECIMAL else Type.FLOAT
    return Attribute(column(name, function), kind)
