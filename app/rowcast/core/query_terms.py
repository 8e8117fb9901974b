"""The terms of a query: names resolved in a table, and texts parsed as typed values.

``query_text`` splits a query into terms; this module interprets them. A hidden attribute is treated
as unknown. A value that cannot be of the attribute's type is refused instead of matching nothing,
because it is a mistake of the writer.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rowcast.core.conditions import ComputedPath, Operator
from rowcast.core.formula import Formula
from rowcast.core.freshness import STALE
from rowcast.core.limits import QUERY_DEPTH_MAX
from rowcast.core.relation_limits import RELATION_DEPTH_MAX
from rowcast.core.relations import Relation, Tables, relation_of
from rowcast.core.scalars import CONVERT, LONG_MAX, LONG_MIN, Mismatch
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.value_texts import shown

ORDERINGS: Final = frozenset({Operator.GT, Operator.GE, Operator.LT, Operator.LE})
TEXT_OPERATORS: Final = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS})
_TEXT: Final = frozenset({Type.ID, Type.STRING})
_NUMBERS: Final = frozenset({Type.INT, Type.LONG, Type.FLOAT})
_COMPOUND: Final = frozenset({Type.LIST, Type.OBJECT})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_TYPED: Final = re.compile(r"(number|boolean|date|string):(.*)", re.DOTALL)


class Unreadable(Exception):  # noqa: N818 - not an Error: its catcher adds where
    """An invalid term; the text is the message for the caller."""


@dataclass(frozen=True, slots=True)
class Target:
    """A resolved name: a path, and the type of its values (ANY if undeclared)."""

    path: tuple[str, ...]
    type: Type

    @property
    def name(self) -> str:
        """The path as text."""
        return ".".join(self.path)


# -- names -----------------------------------------------------------------------------------------


def find(table: Table, name: str, *, stored: bool) -> Target:
    """Resolve a dotted name; with ``stored``, only to a path that a store can compare."""
    path = tuple(name.split("."))
    if not all(path):
        raise Unreadable(f"{shown(name)} is not the name of an attribute")
    if len(path) > QUERY_DEPTH_MAX:
        raise Unreadable(f"{shown(name)} is more than {QUERY_DEPTH_MAX} keys deep")
    if path == (STALE,):
        raise Unreadable(
            f"{STALE} is true or false, joined to the rest by '&', and not in a group; it asks for "
            "records of a table with @deadline"
        )
    if path == ("$id",):
        key = table.primary_key
        return Target(path, key.type if key and key.type is not Type.ANY else Type.ID)
    attribute = _member(table.name, table.attributes, table.sealed, path[0])
    if attribute is not None and attribute.formula is not None:
        return _computed(attribute, attribute.formula, path, compared=stored)
    if attribute is not None:
        _must_be_stored(attribute, table, compared=stored)
    for part in path[1:]:
        attribute = _inside(attribute, part)
    return Target(path, attribute.type if attribute else Type.ANY)


def follow(table: Table, name: str, tables: Tables) -> tuple[list[Relation], Target]:
    """Resolve a name that may lead through relationships to an attribute of another table."""
    relations: list[Relation] = []
    while True:
        first, dot, rest = name.partition(".")
        relation = relation_of(table, first, tables) if dot else None
        if relation is None:
            return relations, find(table, name, stored=True)
        if len(relations) == RELATION_DEPTH_MAX:
            raise Unreadable(f"{shown(name)} is more than {RELATION_DEPTH_MAX} relationships away")
        relations.append(relation)
        table, name = relation.table, rest


def _member(
    owner: str, attributes: tuple[Attribute, ...], sealed: bool, name: str
) -> Attribute | None:
    """Return the declared attribute, or None for one that may exist undeclared."""
    seen = {item.name: item for item in attributes if not item.hidden}
    if name in seen:
        return seen[name]
    if sealed or any(item.name == name for item in attributes):
        raise Unreadable(f"{owner} has no attribute {shown(name)}{did_you_mean(name, seen)}")
    return None


def _computed(
    attribute: Attribute, formula: Formula, path: tuple[str, ...], *, compared: bool
) -> Target:
    """Return a computed attribute: compared by its formula, and selected as readers get it."""
    if len(path) > 1:
        raise Unreadable(f"{attribute.name} is computed, and has no keys such as {shown(path[1])}")
    return Target(ComputedPath.to(attribute.name, formula) if compared else path, attribute.type)


def _must_be_stored(attribute: Attribute, table: Table, *, compared: bool) -> None:
    if attribute.stored:
        return
    what = "computed" if attribute.computed is not None else "a relationship"
    raise Unreadable(
        f"{attribute.name} is {what}; only stored attributes can be compared"
        f"{_instead(attribute, table)}"
        if compared
        else f"{attribute.name} is {what}, and only stored attributes can be selected; read the "
        "attributes that it is made of"
    )


def _instead(attribute: Attribute, table: Table) -> str:
    """Name the attribute here through which a relationship leads, if it may be known."""
    end, name = attribute.relationship or ("", "")
    through = table.attribute(name) if end == "from" else None
    return f" here, such as {name}" if through is not None and not through.hidden else ""


def _inside(attribute: Attribute | None, part: str) -> Attribute | None:
    if attribute is None or attribute.type is Type.ANY or not attribute.stored:
        return None
    if attribute.type is Type.OBJECT:
        return _member(attribute.type_name, attribute.fields, attribute.sealed, part)
    raise Unreadable(
        f"{attribute.name} is of type {attribute.type};"
        f" only an object has keys such as {shown(part)}"
    )


# -- values ----------------------------------------------------------------------------------------


def read_value(target: Target, operator: Operator, text: str, *, strict: bool) -> object:
    """Parse a decoded text as an operand of this operator.

    With ``strict`` (``=`` and ``===``) text is never interpreted as another type.
    """
    if operator in TEXT_OPERATORS:
        return _text_operand(target, text)
    if operator in ORDERINGS and target.type in _COMPOUND | {Type.BOOLEAN}:
        raise Unreadable(f"{target.name} is of type {target.type}, which has no order")
    try:
        value = _value(target.type, text, strict)
    except Mismatch as mismatch:
        raise Unreadable(f"{target.name}: {shown(text)} is not {mismatch}") from None
    if operator in ORDERINGS and (value is None or isinstance(value, bool)):
        raise Unreadable(f"{target.name}: {shown(text)} has no order; use == or !=")
    return value


def _text_operand(target: Target, text: str) -> str:
    if target.type not in _TEXT | {Type.ANY}:
        raise Unreadable(
            f"{target.name} is of type {target.type}; only text has a beginning, a part and an end"
        )
    return text.removeprefix("string:")


def _value(type_: Type, text: str, strict: bool) -> object:
    if type_ is Type.ANY:
        return text if strict else guessed(text)
    if type_ in _TEXT:
        return text if strict else _text(text)
    if text == "null":
        return None
    if type_ in _COMPOUND:
        raise Mismatch(f"null, and type {type_} can only be compared with null")
    if type_ in _NUMBERS:
        return _number(text.removeprefix("number:"))
    return _PARSE[type_](text)


def _text(text: str) -> str | None:
    """Read a text's value: ``null`` and ``string:null`` differ; other types can never be equal."""
    if text == "null":
        return None
    typed = _TYPED.fullmatch(text)
    if typed is None:
        return text
    if typed[1] != "string":
        raise Mismatch(f"text; write string:{text[:60]} if it is meant as such")
    return typed[2]


def guessed(text: str) -> object:
    """Parse a value of an undeclared attribute: typed, or as JSON would parse the text."""
    typed = _TYPED.fullmatch(text)
    if typed is not None:
        return _TYPES[typed[1]](typed[2])
    if text == "null":
        return None
    if text in {"true", "false"}:
        return text == "true"
    return _number(text) if _FLOAT.fullmatch(text) else text


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text):
        whole = int(text) if len(text) <= 20 else LONG_MAX + 1
        if LONG_MIN <= whole <= LONG_MAX:
            return whole
        raise Mismatch("an integer of 64 bits")
    value = float(text) if _FLOAT.fullmatch(text) else math.inf
    if math.isinf(value):
        raise Mismatch("a number")
    return value


def _decimal(text: str) -> object:
    return _converted(Type.DECIMAL, text.removeprefix("number:"), "a decimal number")


def _boolean(text: str) -> bool:
    text = text.removeprefix("boolean:")
    if text not in {"true", "false"}:
        raise Mismatch("true or false")
    return text == "true"


def _date(text: str) -> object:
    text = text.removeprefix("date:")
    value = _number(text) if _FLOAT.fullmatch(text) else text
    return _converted(Type.DATE, value, "a time, such as 2026-01-31T12:00:00Z or milliseconds")


def _bytes(text: str) -> object:
    return _converted(Type.BYTES, text, "base64 with padding")


def _converted(type_: Type, value: object, what: str) -> object:
    try:
        return CONVERT[type_](value)
    except Mismatch:
        raise Mismatch(what) from None


_PARSE: Final[Mapping[Type, Callable[[str], object]]] = {
    Type.DECIMAL: _decimal,
    Type.BOOLEAN: _boolean,
    Type.DATE: _date,
    Type.BYTES: _bytes,
}
_TYPES: Final[Mapping[str, Callable[[str], object]]] = {
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "string": str,
}
