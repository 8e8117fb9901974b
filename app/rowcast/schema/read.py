"""A schema file read: its tables, or everything that is wrong with it at once.

First GraphQL's own rules, then each type by itself, then types beside one another. Each step goes
on after a problem with what it can, so that one run tells all; only a text that is no GraphQL ends
at once.
"""

from pathlib import Path

from graphql import ObjectTypeDefinitionNode

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Attribute, Table, Type
from rowcast.schema.attributes import Types, directives
from rowcast.schema.declarations import declare
from rowcast.schema.declared import declared as as_declared
from rowcast.schema.derived import with_derived
from rowcast.schema.document import read_document
from rowcast.schema.named_queries import named_queries
from rowcast.schema.names import name_node, table_names
from rowcast.schema.problems import Problems, place
from rowcast.schema.rights import refuse_nested
from rowcast.schema.rollups import with_rollups
from rowcast.schema.schema import Schema

_Declared = list[tuple[ObjectTypeDefinitionNode, Table]]


def load_schema(path: Path) -> Schema:
    """Read a schema file; raises INVALID with all its problems, or when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Error(
            Code.INVALID,
            f"{path}: cannot be read ({error.strerror}); name a schema file, or write one with "
            "rowcast init",
        ) from None
    except UnicodeDecodeError as error:
        raise Error(
            Code.INVALID, f"{path}: is not UTF-8 text (at byte {error.start}); save it as UTF-8"
        ) from None
    return parse_schema(text, str(path))


def parse_schema(text: str, name: str = "schema.graphql") -> Schema:
    """Read the text of a schema; raises INVALID with all its problems."""
    problems = Problems(name)
    nodes, operations = read_document(text, problems)
    with_table = [node for node in nodes if "table" in directives(node)]
    types = Types(nodes, table_names(with_table), problems)
    declared = [(node, declare(node, types, problems)) for node in with_table]
    for node in types.nested_types():
        types.of_nested(node)
        refuse_nested(node, problems)
        if "export" in directives(node):
            problems.at(directives(node)["export"], "@export needs @table beside it")
    _check_interfaces(nodes, problems)
    _check_names(declared, problems)
    _check_paths(declared, problems)
    _check_relationships(declared, problems)
    declared = with_derived(with_rollups(declared, problems), problems)
    queries = named_queries(operations, {table.name: table for _, table in declared}, problems)
    if problems:
        problems.refuse()
    return Schema(
        tuple(table for _, table in declared),
        tuple(as_declared(node, table) for node, table in declared),
        text,
        queries,
    )


def _check_interfaces(nodes: list[ObjectTypeDefinitionNode], problems: Problems) -> None:
    for node in nodes:
        if node.interfaces:
            problems.at(node.interfaces[0], "interfaces are not supported here; leave them out")


def _check_names(declared: _Declared, problems: Problems) -> None:
    """No two tables of a database may have one name: SQL names are case-insensitive."""
    seen: dict[tuple[str, str], tuple[ObjectTypeDefinitionNode, Table]] = {}
    for node, table in declared:
        key = (table.database.lower(), table.own_name.lower())
        first, other = seen.setdefault(key, (node, table))
        if first is node:
            continue
        same = (table.database, table.own_name) == (other.database, other.own_name)
        problems.at(
            name_node(node),
            f'the database "{table.database}" has the table "{table.own_name}" already'
            f"{'' if same else ', but for case'}: {first.name.value} ({place(first.name)}); give "
            "one of them another name or another database",
        )


def _check_paths(declared: _Declared, problems: Problems) -> None:
    """No two tables may be exported at one path."""
    seen: dict[str, ObjectTypeDefinitionNode] = {}
    for node, table in declared:
        if table.path is None:
            continue
        first = seen.setdefault(table.path, node)
        if first is not node:
            problems.at(
                directives(node)["export"],
                f'the path "{table.path}" is exported already: by {first.name.value}'
                f" ({place(first.name)}); a path leads to one table",
            )


def _check_relationships(declared: _Declared, problems: Problems) -> None:
    """Both ends of a relationship must be there."""
    tables = {table.name: table for _, table in declared}
    for node, table in declared:
        for attribute in table.attributes:
            if attribute.relationship and attribute.type_name in tables:
                _check_ends(node, table, attribute, tables[attribute.type_name], problems)


def _check_ends(
    node: ObjectTypeDefinitionNode,
    table: Table,
    attribute: Attribute,
    other: Table,
    problems: Problems,
) -> None:
    end, name = attribute.relationship or ("", "")
    field = next(item for item in node.fields or () if item.name.value == attribute.name)
    blamed = directives(field)["relationship"]
    owner = table if end == "from" else other
    known = [item.name for item in owner.attributes if item.stored]
    if name and name not in known:
        problems.at(blamed, f'{owner.name} has no stored attribute "{name}"', nearest(name, known))
    if end == "to" and attribute.type is not Type.LIST:
        problems.at(blamed, f'"{attribute.name}" must be a list, as [{other.name}]: many lead here')
