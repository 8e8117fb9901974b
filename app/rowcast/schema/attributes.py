"""Attributes: the fields of a type, with their types followed into nested ones.

A nested type, one without ``@table``, becomes the shape of a value inside a record. It is made once
and shared. One that holds itself, even by way of others, has no end and is refused.
"""

from collections.abc import Mapping
from typing import Final

from graphql import (
    DirectiveNode,
    FieldDefinitionNode,
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    ObjectTypeDefinitionNode,
    TypeNode,
)

from rowcast.core.limits import DECIMAL_DIGITS_MAX, IDENTIFIER_CHARS_MAX, NESTED_TYPES_DEPTH_MAX
from rowcast.core.tables import Attribute, Role, Type
from rowcast.schema.arguments import Arguments
from rowcast.schema.problems import Problems, place
from rowcast.schema.vocabulary import RESERVED_ATTRIBUTE_PREFIXES, SCALARS

KEY_TYPES: Final = frozenset({Type.ID, Type.STRING, Type.INT, Type.LONG, Type.ANY})
ROLE_TYPES: Final = frozenset({Type.LONG, Type.FLOAT, Type.DATE, Type.STRING})
_COMPOUND: Final = frozenset({Type.OBJECT, Type.LIST})
_TABLE_ONLY: Final = frozenset(
    {
        "primaryKey",
        "indexed",
        "createdTime",
        "updatedTime",
        "expiresAt",
        "relationship",
        "computed",
        "decimal",
    }
)
_UNKNOWN: Final = Attribute("", Type.ANY)
"""Stands for a type that validation has refused already."""

Directives = dict[str, DirectiveNode]


def directives(node: ObjectTypeDefinitionNode | FieldDefinitionNode) -> Directives:
    """Return a definition's directives by name; of one given twice, the first."""
    found: Directives = {}
    for item in node.directives or ():
        found.setdefault(item.name.value, item)
    return found


def description(node: ObjectTypeDefinitionNode | FieldDefinitionNode) -> str:
    """Return a definition's docstring."""
    return node.description.value if node.description else ""


class Types:
    """All object types of a document, and the attributes that each comes to."""

    def __init__(
        self,
        nodes: list[ObjectTypeDefinitionNode],
        tables: Mapping[str, str],
        problems: Problems,
    ) -> None:
        self._problems = problems
        self._nodes = {node.name.value: node for node in nodes}
        self._tables = tables
        """The names of the tables, by the types that declare them."""
        self._nested: dict[str, tuple[Attribute, ...]] = {}
        self._open: list[str] = []
        """Nested types being made, outermost first."""

    def table_name(self, type_name: str) -> str:
        """Return the name of the table that a type with ``@table`` declares."""
        return self._tables[type_name]

    def nested_types(self) -> list[ObjectTypeDefinitionNode]:
        """Return the types that are no tables; ``Query`` is GraphQL's own and not looked at."""
        return [
            node
            for name, node in self._nodes.items()
            if name not in self._tables and name != "Query"
        ]

    def of_table(self, node: ObjectTypeDefinitionNode) -> tuple[Attribute, ...]:
        """Return a table's attributes."""
        fields = self._fields(node)
        made = tuple(self._attribute(field, in_table=True) for field in fields)
        self._check_roles(fields, made)
        return made

    def of_nested(self, node: ObjectTypeDefinitionNode) -> tuple[Attribute, ...]:
        """Return a nested type's attributes, made once."""
        name = node.name.value
        if name not in self._nested:
            self._open.append(name)
            fields = self._fields(node)
            made = tuple(self._attribute(field, in_table=False) for field in fields)
            self._open.pop()
            self._nested[name] = made
        return self._nested[name]

    # -- fields ------------------------------------------------------------------------------------

    def _fields(self, node: ObjectTypeDefinitionNode) -> list[FieldDefinitionNode]:
        """Return the fields with valid names, each name once: SQL names are case-insensitive."""
        seen: dict[str, FieldDefinitionNode] = {}
        for field in node.fields or ():
            name = field.name.value
            known = seen.setdefault(name.lower(), field)
            if name.startswith(RESERVED_ATTRIBUTE_PREFIXES):
                self._problems.at(
                    field.name, f'"{name}" begins with "{name[0]}", which is kept for the server'
                )
            if len(name) > IDENTIFIER_CHARS_MAX:
                self._problems.at(
                    field.name, f"the name is longer than {IDENTIFIER_CHARS_MAX} characters"
                )
            if known is not field and known.name.value != name:
                self._problems.at(
                    field.name,
                    f'"{name}" and "{known.name.value}" ({place(known.name)}) differ only in case',
                )
            if field.arguments:
                self._problems.at(field.arguments[0], "attributes take no arguments")
        return list(seen.values())

    def _attribute(self, field: FieldDefinitionNode, *, in_table: bool) -> Attribute:
        words = directives(field)
        if not in_table:
            for name in sorted(_TABLE_ONLY & words.keys()):
                self._problems.at(words[name], f"@{name} belongs into a type with @table")
        relationship = self._relationship(words, field) if in_table else None
        shape = self._shape(field.type, related=relationship is not None)
        made = Attribute(
            name=field.name.value,
            type=shape.type,
            required=shape.required,
            items=shape.items,
            fields=shape.fields,
            type_name=shape.type_name,
            sealed=shape.sealed,
            primary_key="primaryKey" in words,
            indexed="indexed" in words,
            hidden="hidden" in words,
            digits=self._digits(words, shape.type),
            role=next((role for role in Role if role.value in words), None),
            computed=self._computed(words),
            relationship=relationship,
            description=description(field),
        )
        self._check_field(made, words)
        return made

    def _digits(self, words: Directives, kind: Type) -> tuple[int, int] | None:
        """Return how many digits a Decimal has, and how many of them after the point."""
        node = words.get("decimal")
        if node is None:
            return None
        given = Arguments(node, self._problems)
        precision, scale = given.count("precision"), given.count("scale", least=0) or 0
        if kind is not Type.DECIMAL:
            self._problems.at(node, f"@decimal is for a Decimal, not {kind}")
        elif precision is None or not scale <= precision <= DECIMAL_DIGITS_MAX:
            self._problems.at(
                node,
                f"@decimal needs a precision, at most {DECIMAL_DIGITS_MAX} digits, and no greater"
                " scale, such as @decimal(precision: 12, scale: 2)",
            )
        return None if precision is None else (precision, scale)

    def _computed(self, words: Directives) -> str | None:
        if "computed" not in words:
            return None
        given = Arguments(words["computed"], self._problems)
        text = given.text("from")
        if text == "":  # not to be taken for a function
            self._problems.at(
                given.value_node("from"),
                "the expression is missing; write one, or @computed alone for a function",
            )
        return text or ""

    def _relationship(
        self, words: Directives, field: FieldDefinitionNode
    ) -> tuple[str, str] | None:
        if "relationship" not in words:
            return None
        arguments = Arguments(words["relationship"], self._problems)
        ends = [(end, name) for end in ("from", "to") if (name := arguments.text(end))]
        if len(ends) != 1:
            self._problems.at(
                words["relationship"],
                f'"{field.name.value}" needs one end: @relationship(from: an attribute here)'
                " or @relationship(to: an attribute there)",
            )
        return ends[0] if ends else ("from", "")

    def _check_field(self, made: Attribute, words: Directives) -> None:
        """See that the directives fit one another and the type."""
        if made.primary_key and (made.type not in KEY_TYPES or not made.stored):
            self._problems.at(
                words["primaryKey"],
                f'the key "{made.name}" must be a stored ID, String, Int, Long or Any',
            )
        if made.indexed and (made.type in _COMPOUND or made.relationship is not None):
            self._problems.at(words["indexed"], f'"{made.name}" cannot be indexed: it is no scalar')
        if made.role and (made.type not in ROLE_TYPES or not made.stored or made.primary_key):
            self._problems.at(
                words[made.role.value],
                f'@{made.role.value} needs a Date, Long, Float or String; "{made.name}" is none',
            )

    def _check_roles(self, fields: list[FieldDefinitionNode], made: tuple[Attribute, ...]) -> None:
        """See that a table has each of the key and the roles at most once, on its own attribute."""
        seen: dict[str, FieldDefinitionNode] = {}
        for field, attribute in zip(fields, made, strict=True):
            names = [role.value for role in Role if role.value in directives(field)]
            if len(names) > 1:
                message = f'"{attribute.name}" cannot be both @{names[0]} and @{names[1]}'
                self._problems.at(field.name, message)
            for name in [*names, *(["primaryKey"] if attribute.primary_key else [])]:
                first = seen.setdefault(name, field)
                if first is not field:
                    self._problems.at(
                        directives(field)[name],
                        f'a table has one @{name}; "{first.name.value}" ({place(first)}) is it',
                    )

    # -- types -------------------------------------------------------------------------------------

    def _shape(self, node: TypeNode, depth: int = 0, *, related: bool = False) -> Attribute:
        """Return a nameless attribute that has the type."""
        if isinstance(node, NonNullTypeNode):
            inner = self._shape(node.type, depth, related=related)
            return Attribute(
                "", inner.type, True, inner.items, inner.fields, inner.type_name, inner.sealed
            )
        if isinstance(node, ListTypeNode):
            if depth + len(self._open) >= NESTED_TYPES_DEPTH_MAX:
                return self._too_deep(node)
            items = self._shape(node.type, depth + 1, related=related)
            name = items.type_name if related else ""
            return Attribute("", Type.LIST, items=items, type_name=name)
        if not isinstance(node, NamedTypeNode):  # pragma: no cover - GraphQL has these three
            return _UNKNOWN
        return self._named(node, related=related)

    def _named(self, node: NamedTypeNode, *, related: bool) -> Attribute:
        name = node.name.value
        if related:
            return self._related(node)
        if name in SCALARS:
            return Attribute("", SCALARS[name])
        if name in self._tables:
            self._problems.at(
                node,
                f"{name} is a table; add @relationship(from: an attribute here), or nest a type"
                " without @table",
            )
        if name not in self._nodes or name in self._tables:
            return _UNKNOWN
        return self._object(node)

    def _related(self, node: NamedTypeNode) -> Attribute:
        name = node.name.value
        if name in self._tables:
            return Attribute("", Type.OBJECT, type_name=self._tables[name])
        if name in self._nodes or name in SCALARS:
            self._problems.at(
                node, f"{name} is no table; a relationship leads to a type with @table"
            )
        return _UNKNOWN

    def _object(self, node: NamedTypeNode) -> Attribute:
        name = node.name.value
        if name in self._open:
            self._problems.at(
                node,
                f"{' > '.join([*self._open[self._open.index(name) :], name])}: a nested type"
                " cannot hold itself; make it a table and relate to it, or use Any",
            )
            return _UNKNOWN
        if len(self._open) >= NESTED_TYPES_DEPTH_MAX:
            return self._too_deep(node)
        inner = self._nodes[name]
        sealed = "sealed" in directives(inner)
        return Attribute(
            "", Type.OBJECT, fields=self.of_nested(inner), type_name=name, sealed=sealed
        )

    def _too_deep(self, node: TypeNode) -> Attribute:
        self._problems.at(node, f"types nest more than {NESTED_TYPES_DEPTH_MAX} deep; use Any")
        return _UNKNOWN
