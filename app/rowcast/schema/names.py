"""Names of tables: in their database, and among all tables.

A database is a space of names: two of them may each have a table ``Dog``. Everything else, from the
registry to snapshots, knows a table by one name, which no other table has: the table's own name, or
``database.Dog`` where another database has a ``Dog``, too. A table of the default database always
has its own name. No name of a table or database has a dot, so the two kinds cannot be confused.
"""

from collections.abc import Iterable

from graphql import Node, ObjectTypeDefinitionNode

from rowcast.core.tables import DATABASE, qualified
from rowcast.schema.arguments import Arguments
from rowcast.schema.attributes import directives
from rowcast.schema.problems import Problems


def own_name(node: ObjectTypeDefinitionNode) -> str:
    """Return the name of a type's table in its database."""
    arguments = Arguments(directives(node)["table"], Problems(""))
    return arguments.text("table") or node.name.value


def database_argument(arguments: Arguments) -> str:
    """Return the argument that names the database: ``schema`` is its former name."""
    return "schema" if arguments.value_node("database") is arguments.node else "database"


def name_node(node: ObjectTypeDefinitionNode) -> Node:
    """Return the place where a type names its table."""
    settings = Arguments(directives(node)["table"], Problems(""))
    value = settings.value_node("table")
    return node.name if value is settings.node else value


def table_names(nodes: Iterable[ObjectTypeDefinitionNode]) -> dict[str, str]:
    """Return the name that each type's table has among all tables, by type."""
    found = {node.name.value: (_database_of(node), own_name(node)) for node in nodes}
    databases: dict[str, set[str]] = {}
    for database, name in found.values():
        databases.setdefault(name.lower(), set()).add(database.lower())
    return {
        type_: name
        if database == DATABASE or len(databases[name.lower()]) == 1
        else qualified(database, name)
        for type_, (database, name) in found.items()
    }


def _database_of(node: ObjectTypeDefinitionNode) -> str:
    arguments = Arguments(directives(node)["table"], Problems(""))
    return arguments.text(database_argument(arguments)) or DATABASE
