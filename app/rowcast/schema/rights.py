"""Rights: ``@auth`` of a table and of its attributes, read into clauses.

Rules are read when the whole table is known, because they are about its attributes.
"""

from dataclasses import replace
from typing import Final

from graphql import (
    ConstDirectiveNode,
    DirectiveNode,
    FieldDefinitionNode,
    ListValueNode,
    ObjectTypeDefinitionNode,
    ObjectValueNode,
    StringValueNode,
    print_ast,
)

from rowcast.core.clauses import Clause
from rowcast.core.conditions import NOTHING, Where
from rowcast.core.masks import MASKS, is_mask
from rowcast.core.query_terms import Unreadable
from rowcast.core.row_rules import parse_rule
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Attribute, Table
from rowcast.schema.arguments import Arguments
from rowcast.schema.problems import Problems

AUTH: Final = "auth"
_WRONG_MASK: Final = f'a mask is {MASKS}, as in @auth(mask: "last4")'


def with_rights(node: ObjectTypeDefinitionNode, table: Table, problems: Problems) -> Table:
    """Return a table with the rights that its type declares."""
    fields = {field.name.value: field for field in node.fields or ()}
    attributes = tuple(
        _attribute(fields[item.name], item, table, problems) for item in table.attributes
    )
    auth = tuple(
        _clause(words, table, None, problems) for words in node.directives or () if _is_auth(words)
    )
    return replace(table, attributes=attributes, auth=auth)


def refuse_nested(node: ObjectTypeDefinitionNode, problems: Problems) -> None:
    """Note @auth on a nested type, which has no rights of its own: its table's attribute has."""
    of_fields = [words for field in node.fields or () for words in field.directives or ()]
    for words in [*(node.directives or ()), *of_fields]:
        if _is_auth(words):
            problems.at(words, "@auth belongs on a type with @table, or on an attribute of one")


def _is_auth(words: DirectiveNode | ConstDirectiveNode) -> bool:
    return words.name.value == AUTH


def _attribute(
    field: FieldDefinitionNode, attribute: Attribute, table: Table, problems: Problems
) -> Attribute:
    given = [words for words in field.directives or () if _is_auth(words)]
    if not given:
        return attribute
    if attribute.primary_key:
        problems.at(given[0], "the key cannot have @auth: it is in the record's topic")
    auth = tuple(_clause(words, table, attribute.name, problems) for words in given)
    return replace(attribute, auth=auth)


def _clause(
    words: DirectiveNode | ConstDirectiveNode,
    table: Table,
    attribute: str | None,
    problems: Problems,
) -> Clause:
    settings = Arguments(words, problems)
    if not words.arguments:
        problems.at(words, '@auth needs read, write, roles or mask: @auth(read: "owner == $user")')
    rules = {name: _rule(settings, name, table, problems) for name in ("read", "write")}
    if attribute is None:
        masks = _masks(settings, table, problems)
    else:
        masks = _mask(settings, attribute, problems)
    text = print_ast(words)
    return Clause(_roles(settings, problems), rules["read"], rules["write"], masks, text)


def _rule(settings: Arguments, name: str, table: Table, problems: Problems) -> Where | None:
    text = settings.text(name)
    if text is None:
        return None
    try:
        return parse_rule(text, table)
    except Unreadable as unreadable:
        problems.at(settings.value_node(name), f"{name}: {unreadable}")
        return NOTHING


def _roles(settings: Arguments, problems: Problems) -> frozenset[str]:
    node = settings.value_node("roles")
    if node is settings.node:
        return frozenset()
    items = node.values if isinstance(node, ListValueNode) else (node,)
    names = [item.value for item in items if isinstance(item, StringValueNode) and item.value]
    if not names or len(names) != len(items):
        problems.at(node, 'roles must be a list of names, such as ["keeper", "vet"]')
    return frozenset(names)


def _masks(settings: Arguments, table: Table, problems: Problems) -> tuple[tuple[str, str], ...]:
    """Return the masks of a type's clause: of several attributes."""
    node = settings.value_node("mask")
    if node is settings.node:
        return ()
    if not isinstance(node, ObjectValueNode):
        problems.at(node, 'mask must say which attributes, as in {phone: "last4"}')
        return ()
    known = [item.name for item in table.attributes if item.stored and not item.primary_key]
    found = []
    for field in node.fields:
        name, value = field.name.value, field.value
        if name not in known:
            message = f'{table.name} has no attribute "{name}" that could be masked'
            problems.at(field, message, nearest(name, known))
        elif not isinstance(value, StringValueNode) or not is_mask(value.value):
            problems.at(field, _WRONG_MASK)
        else:
            found.append((name, value.value))
    return tuple(found)


def _mask(settings: Arguments, attribute: str, problems: Problems) -> tuple[tuple[str, str], ...]:
    """Return the mask of an attribute's own clause."""
    text = settings.text("mask")
    if text is None:
        return ()
    if not is_mask(text):
        problems.at(settings.value_node("mask"), _WRONG_MASK)
        return ()
    return ((attribute, text),)
