"""The source text of a table; the comments beside each name. For the documentation of a schema."""

from collections.abc import Sequence

from graphql import ConstDirectiveNode, FieldDefinitionNode, ObjectTypeDefinitionNode, print_ast

from rowcast.core.tables import Table

Facts = dict[str, object]


def declared(node: ObjectTypeDefinitionNode, table: Table) -> Facts:
    """Return a type of a schema file as it is written: a row of ``$SYS/schema``."""
    loc = node.loc
    return {
        "name": table.name,
        "path": table.path,
        "description": table.description,
        "directives": _words(node.directives or ()),
        "attributes": [_attribute(field) for field in node.fields or ()],
        "text": loc.source.body[loc.start : loc.end] if loc is not None else "",
    }


def _attribute(field: FieldDefinitionNode) -> Facts:
    words = _words(field.directives or ())
    return {"name": field.name.value, "type": print_ast(field.type), "directives": words}


def _words(directives: Sequence[ConstDirectiveNode]) -> list[str]:
    return [print_ast(one) for one in directives]
