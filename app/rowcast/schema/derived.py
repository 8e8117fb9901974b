"""Derived tables, declared by ``@derived``: checked when all tables are known.

type HourlyAvg @table @export @derived(job: "jobs/hourly.py", from: ["Sensor"], every: "5m") {...}
"""

import re
from dataclasses import replace
from typing import Final

from graphql import (
    DirectiveNode,
    EnumValueNode,
    ListValueNode,
    Node,
    ObjectTypeDefinitionNode,
    StringValueNode,
)

from rowcast.core.derivations import DerivedRule
from rowcast.core.derived_limits import (
    DERIVED_EVERY_SECONDS_MAX,
    DERIVED_EVERY_SECONDS_MIN,
    DERIVED_JOB_CHARS_MAX,
    DERIVED_SOURCES_MAX,
)
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Invalid, Role, Table
from rowcast.schema.arguments import Arguments
from rowcast.schema.attributes import directives
from rowcast.schema.problems import Problems

DERIVED: Final = "derived"
_EXAMPLE: Final = '@derived(job: "jobs/hourly.py", from: ["Sensor"], every: "5m")'
_JOB: Final = re.compile(r"jobs(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+\.py")

Declared = list[tuple[ObjectTypeDefinitionNode, Table]]


def with_derived(declared: Declared, problems: Problems) -> Declared:
    """Return the tables, derived ones with their rule."""
    tables = {node.name.value: table for node, table in declared}
    found: Declared = []
    for node, table in declared:
        words = directives(node).get(DERIVED)
        if words is not None:
            _check_fits(words, node, table, problems)
            rule = _rule(Arguments(words, problems), tables, problems)
            table = replace(table, derived=rule)  # noqa: PLW2901 - the same with its rule
        found.append((node, table))
    _check_cycles(found, problems)
    return found


def _rule(settings: Arguments, tables: dict[str, Table], problems: Problems) -> DerivedRule:
    job = settings.text("job") or ""
    if not _JOB.fullmatch(job) or len(job) > DERIVED_JOB_CHARS_MAX:
        message = (
            f"job is the file of a program below jobs/, as in {_EXAMPLE}: letters, digits, "
            f". _ and -, ending in .py, at most {DERIVED_JOB_CHARS_MAX} characters"
        )
        problems.at(settings.value_node("job"), message)
    return DerivedRule(job, _sources(settings, tables, problems), _every(settings, problems))


def _sources(settings: Arguments, tables: dict[str, Table], problems: Problems) -> tuple[str, ...]:
    node = settings.value_node("from")
    items: list[Node] = list(node.values) if isinstance(node, ListValueNode) else [node]
    words = [item for item in items if isinstance(item, StringValueNode | EnumValueNode)]
    found: list[str] = []
    for item in words:
        table = tables.get(item.value)
        if table is None:
            message = f'from names tables of this schema, and there is no "{item.value}"'
            problems.at(item, message, nearest(item.value, list(tables)))
        else:
            found.append(table.name)
    if not words or len(words) < len(items) or len(words) > DERIVED_SOURCES_MAX:
        message = f"from is a list of 1 to {DERIVED_SOURCES_MAX} tables, as in {_EXAMPLE}"
        problems.at(node, message)
    return tuple(dict.fromkeys(found))


def _every(settings: Arguments, problems: Problems) -> float:
    seconds = settings.seconds("every") or 0
    if not DERIVED_EVERY_SECONDS_MIN <= seconds <= DERIVED_EVERY_SECONDS_MAX:
        most = f"{DERIVED_EVERY_SECONDS_MAX / 86_400:g}"
        least = f"{DERIVED_EVERY_SECONDS_MIN:g}"
        problems.at(settings.value_node("every"), f"every is a time from {least} s to {most} days")
        return DERIVED_EVERY_SECONDS_MAX
    return seconds


def _check_fits(
    words: DirectiveNode, node: ObjectTypeDefinitionNode, table: Table, problems: Problems
) -> None:
    """Refuse what would change or drop rows beside the job."""
    ends = any(item.role is Role.EXPIRES_AT for item in table.attributes)
    wrong = {
        "@derived needs @export: without, its rows have no topics": table.path is None,
        "@derived needs an attribute with @primaryKey: by it a row keeps its record": (
            table.primary_key is None
        ),
        "@derived and @rollup exclude each other: a table has one writer": (
            "rollup" in directives(node)
        ),
        "@derived has no expiration: a row ends when the job's result no longer has it": (
            bool(table.expiration_seconds) or ends
        ),
        "@derived has no @deadline: its rows change only when the result does. A late or failed "
        "job makes the table stale": bool(table.deadline_seconds),
        "@derived has no other treatment of invalid rows: a result is written whole, or refused": (
            table.invalid is not Invalid.REJECT
        ),
    }
    for message, applies in wrong.items():
        if applies:
            problems.at(words, message)


def _check_cycles(declared: Declared, problems: Problems) -> None:
    made_of = {
        table.name: table.derived.sources for _, table in declared if table.derived is not None
    }
    for node, table in declared:
        if table.derived is not None and _reaches(table.name, made_of):
            problems.at(directives(node)[DERIVED], f"{table.name} is derived from itself")


def _reaches(name: str, made_of: dict[str, tuple[str, ...]]) -> bool:
    """Whether a table is among what it is made of, directly or not."""
    ahead, seen = list(made_of[name]), set[str]()
    while ahead:
        one = ahead.pop()
        if one == name:
            return True
        if one not in seen:
            seen.add(one)
            ahead += made_of.get(one, ())
    return False
