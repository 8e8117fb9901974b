"""Computed attributes: their expressions read, when all attributes of the table are known.

total: Float @computed(from: "price * quantity")

They come before rights, alarms and queries, which may compare them. One may use others, so those
are read first; what is left when nothing more can be read goes in a circle.
"""

import re
from dataclasses import replace
from typing import Final

from graphql import ObjectTypeDefinitionNode

from rowcast.core.code_formula import CodeFormula
from rowcast.core.expressions import fitted, term_of
from rowcast.core.formula import Formula
from rowcast.core.query_terms import Unreadable
from rowcast.core.row_rules import parse_expression, words_of
from rowcast.core.tables import Attribute, Table, Type
from rowcast.schema.arguments import Arguments
from rowcast.schema.attributes import Directives, directives
from rowcast.schema.problems import Problems

COMPUTED: Final = "computed"
_DASHED: Final = re.compile(r'has no attribute "(\w+)-(\w+)"')
_NOTHING: Final = Formula(lambda _: None, frozenset())
"""Stands for a formula that was refused, so that what uses the attribute is not refused as well."""


def with_computed(node: ObjectTypeDefinitionNode, table: Table, problems: Problems) -> Table:
    """Return a table whose computed attributes have their formulas."""
    if all(item.computed is None for item in table.attributes):
        return table
    fields = {field.name.value: directives(field) for field in node.fields or ()}
    reading = _Reading(table, fields, problems)
    reading.read()
    return reading.table


class _Reading:
    """The computed attributes of one table, read one after another."""

    def __init__(self, table: Table, words: dict[str, Directives], problems: Problems) -> None:
        self.table = table
        self._words = words
        self._problems = problems
        self._uses: dict[str, frozenset[str]] = {}
        """What is not read yet, and the names in its expression."""

    def read(self) -> None:
        for item in self.table.attributes:
            if item.computed is not None:
                self._check(item)
                self._begin(item, item.computed)
        while ready := [name for name, uses in self._uses.items() if uses.isdisjoint(self._uses)]:
            for name in ready:
                self._finish(name)
        for name in self._uses:
            self._refuse(name, f"it is computed from itself: {self._circle(name)}")
            self._set(name, _NOTHING)

    def _begin(self, item: Attribute, text: str) -> None:
        try:
            if text:
                self._uses[item.name] = words_of(text)
            else:
                self._set(item.name, CodeFormula(self.table, item))
        except Unreadable as unreadable:
            self._refuse(item.name, str(unreadable))
            self._set(item.name, _NOTHING)

    def _finish(self, name: str) -> None:
        del self._uses[name]
        item = self.table.attribute(name)
        if item is None or item.computed is None:
            return
        try:
            self._set(name, self._formula(item, item.computed))
        except Unreadable as unreadable:
            self._refuse(name, f"{unreadable}{_spaced(str(unreadable))}")
            self._set(name, _NOTHING)

    def _formula(self, item: Attribute, text: str) -> Formula:
        if item.type in {Type.LIST, Type.OBJECT}:
            raise Unreadable(
                f"no expression is a {item.type}; write @computed alone, and a function in "
                "resources/"
            )
        found = parse_expression(text, self.table, item.type)
        hidden = {one.name for one in self.table.attributes if one.hidden}
        if exposed := sorted(hidden & found.inputs) if not item.hidden else ():
            raise Unreadable(f"{exposed[0]} is hidden, and {item.name} would tell it; hide both")
        of, term = fitted(found, item), term_of(found, item)
        keys = {one.name for one in self.table.attributes if one.primary_key}
        if keys & found.inputs:  # its column is another one for content that is no value
            term = None
        if item.indexed and term is None:
            raise Unreadable(
                "@indexed is for the sums, differences, products and quotients of Int, Long and "
                "Float attributes, declared as the Long or Float that they are, without the key"
            )
        return Formula(of, found.inputs, found.size, term)

    def _circle(self, name: str) -> str:
        """Return the way back to an attribute, or as far as it leads into a circle."""
        way = [name]
        while len(way) == len(set(way)):
            way.append(min(self._uses[way[-1]] & self._uses.keys()))
        return " > ".join(way)

    def _check(self, item: Attribute) -> None:
        """Refuse what does not fit a value that is not stored."""
        if item.indexed and not item.computed:
            self._refuse(item.name, "@indexed is for expressions, not for functions")
        if item.required:
            self._refuse(
                item.name, f"{item.name} may be null, where what it is made of is; leave out '!'"
            )
        if "auth" in self._words[item.name]:
            self._refuse(
                item.name,
                "@auth belongs on the attributes that it is made of: for who may not see them, "
                f"{item.name} is null",
            )

    def _refuse(self, name: str, message: str) -> None:
        words = self._words[name][COMPUTED]
        blamed = Arguments(words, self._problems).value_node("from")
        self._problems.at(blamed, f'"{name}" cannot be computed: {message}')

    def _set(self, name: str, formula: Formula) -> None:
        attributes = tuple(
            replace(item, formula=formula) if item.name == name else item
            for item in self.table.attributes
        )
        self.table = replace(self.table, attributes=attributes)


def _spaced(message: str) -> str:
    """Return how to write a difference that was read as a name, if that is what is wrong."""
    found = _DASHED.search(message)
    return f"; a difference has spaces: {found[1]} - {found[2]}" if found else ""
