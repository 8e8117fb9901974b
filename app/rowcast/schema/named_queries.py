"""Live queries that a schema names.

query Hot @query(table: "Sensor", where: "temp=gt=80")
"""

from collections.abc import Iterable, Mapping
from typing import Final

from graphql import OperationDefinitionNode, OperationType

from rowcast.core.named_queries import NamedQuery
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Table
from rowcast.schema.arguments import Arguments
from rowcast.schema.conditions import window_or_conditions
from rowcast.schema.problems import Problems, place

_EXAMPLE: Final = 'query Hot @query(table: "Sensor", where: "temp=gt=80")'


def named_queries(
    nodes: Iterable[OperationDefinitionNode], tables: Mapping[str, Table], problems: Problems
) -> tuple[NamedQuery, ...]:
    """Return the queries of a schema, whose tables are given by name."""
    seen: dict[str, OperationDefinitionNode] = {}
    found: list[NamedQuery] = []
    paths = {table.path for table in tables.values()}
    for node in nodes:
        query = _read(node, tables, problems)
        if query is None:
            continue
        first = seen.setdefault(query.name, node)
        if first is not node:
            problems.at(node, f"query {query.name} is there already ({place(first)}); rename one")
        if query.name in paths:
            problems.at(node, f'a table is exported at "{query.name}"; rename the query')
        found.append(query)
    return tuple(found)


def _read(
    node: OperationDefinitionNode, tables: Mapping[str, Table], problems: Problems
) -> NamedQuery | None:
    words = next((one for one in node.directives or () if one.name.value == "query"), None)
    plain = not (node.variable_definitions or node.selection_set.selections)
    if node.operation is not OperationType.QUERY or node.name is None or words is None or not plain:
        problems.at(node, f"a named query has a name and @query, and no braces: {_EXAMPLE}")
        return None
    settings = Arguments(words, problems)
    name, where = (settings.text(key) or "" for key in ("table", "where"))
    table = tables.get(name)
    if not name or not where:
        problems.at(words, f"@query needs a table and conditions: {_EXAMPLE}")
    elif table is None:
        known = list(tables)
        message = f'there is no table "{name}"; @query needs one of the schema'
        problems.at(settings.value_node("table"), message, nearest(name, known))
    elif table.path is None:
        problems.at(
            settings.value_node("table"),
            f"{name} needs @export: without, its records have no topics, which a query tells",
        )
    else:
        related = {key: one for key, one in tables.items() if "rest" not in one.hidden_from}
        window_or_conditions(settings, "where", table, related, problems)
        return NamedQuery(node.name.value, table, where)
    return None
