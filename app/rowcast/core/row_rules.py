"""Parser of row rules, the conditions of ``@auth`` with claims of the caller, and of expressions.

    owner == $user and (site in $user.sites or level <= 3)
    price * (quantity - returned)

A rule is parsed to the tree of a query (``conditions.py``), with two additions: ``$user``,
``$user.<claim>`` and ``$clientid`` refer to the caller (``claims.py``), and words join conditions.
A rule contains no code; only comparisons are evaluated. The expression of a computed attribute has
the same words: a rule without the caller where it is a Boolean, else arithmetic (``expressions``).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rowcast.core.claims import CLIENT, USER
from rowcast.core.conditions import (
    EVERYTHING,
    NOTHING,
    Claim,
    ClaimCondition,
    Condition,
    Operator,
    Where,
    join,
)
from rowcast.core.expressions import (
    ADD,
    Expression,
    comparison,
    constant,
    operation,
    reference,
)
from rowcast.core.query_terms import Target, Unreadable, find, read_value
from rowcast.core.right_limits import RULE_DEPTH_MAX, RULE_TEXT_CHARS_MAX
from rowcast.core.scalars import LONG_MAX, LONG_MIN
from rowcast.core.tables import Table, Type
from rowcast.core.value_texts import shown

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>-?[0-9]+(?:\.[0-9]+)?)|(?P<sign>==|!=|<=|>=|<|>"
    r"|&&|\|\||[&|()\[\],+*/-])|(?P<word>[A-Za-z_$][A-Za-z0-9_.$-]*))"
)
_OPERATORS: Final = {
    "==": Operator.EQ,
    "!=": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
    "in": Operator.IN,
    "sw": Operator.STARTS_WITH,
    "ew": Operator.ENDS_WITH,
    "ct": Operator.CONTAINS,
}
_AND: Final = frozenset({"and", "&", "&&"})
_OR: Final = frozenset({"or", "|", "||"})
_ADDING: Final = frozenset({ADD, "-"})
_COMPARING: Final = _OPERATORS.keys() | _AND | _OR | {"true", "false"}
"""Words of a rule that no arithmetic has."""
_CONSTANTS: Final = {"true": EVERYTHING, "false": NOTHING}


def parse_rule(text: str, table: Table) -> Where:
    """Parse a rule about a table's records; raises Unreadable with a message."""
    if len(text) > RULE_TEXT_CHARS_MAX:
        raise Unreadable(f"a rule has at most {RULE_TEXT_CHARS_MAX} characters")
    return _Parser(text, table).rule()


def parse_expression(text: str, table: Table, type_: Type) -> Expression:
    """Parse the expression of a computed attribute of this type; raises Unreadable."""
    if len(text) > RULE_TEXT_CHARS_MAX:
        raise Unreadable(f"an expression has at most {RULE_TEXT_CHARS_MAX} characters")
    parser = _ExpressionParser(text, table)
    if type_ is Type.BOOLEAN and any(token[1] in _COMPARING for token in parser.tokens):
        return comparison(parser.rule())
    return parser.expression()


def words_of(text: str) -> frozenset[str]:
    """Return the first parts of the names in a text; raises Unreadable for what is no token."""
    return frozenset(found.split(".")[0] for kind, found in _tokens(text) if kind == "word")


class _Parser:
    """A left-to-right parser."""

    def __init__(self, text: str, table: Table) -> None:
        self.tokens = list(_tokens(text))
        self._at = 0
        seen = tuple(replace(item, hidden=False) for item in table.attributes)
        # Rules may use hidden attributes, and a misspelt name must not count as an undeclared one.
        self._table = replace(table, attributes=seen, sealed=not table.open)

    def rule(self) -> Where:
        if not self.tokens:
            raise Unreadable("a rule is a comparison, such as owner == $user")
        found = self._either(0)
        if self._at < len(self.tokens):
            raise Unreadable(f"expected 'and' or 'or' before {shown(self.tokens[self._at][1])}")
        return found

    def _either(self, depth: int) -> Where:
        if depth > RULE_DEPTH_MAX:
            raise Unreadable(f"brackets may be at most {RULE_DEPTH_MAX} deep")
        items = [self._all(depth)]
        while self._peek() in _OR:
            self._at += 1
            items.append(self._all(depth))
        return join(items, all_of=False)

    def _all(self, depth: int) -> Where:
        items = [self._one(depth)]
        while self._peek() in _AND:
            self._at += 1
            items.append(self._one(depth))
        return join(items, all_of=True)

    def _one(self, depth: int) -> Where:
        if self._peek() == "(":
            self._at += 1
            found = self._either(depth + 1)
            self._expect(")")
            return found
        kind, text = self._next("a comparison")
        if kind == "word" and text in _CONSTANTS and self._peek() not in _OPERATORS:
            return _CONSTANTS[text]
        left = self._operand(kind, text)
        _, sign = self._next("an operator such as ==")
        operator = _OPERATORS.get(sign)
        if operator is None:
            raise Unreadable(f"{shown(sign)} is no operator; known are {', '.join(_OPERATORS)}")
        return self._comparison(left, operator)

    def _operand(self, kind: str, text: str) -> Target | Claim | tuple[str, str]:
        if kind != "word" or text in {"true", "false", "null"}:
            return kind, text
        if text.startswith("$") and text != "$id":
            return _claim(text)
        return find(self._table, text, stored=True)

    def _comparison(self, left: "Target | Claim | tuple[str, str]", operator: Operator) -> Where:
        if self._peek() == "[":
            right: object = self._list()
        else:
            right = self._operand(*self._next("a value"))
        if isinstance(right, Target) and operator is Operator.IN and not isinstance(left, Target):
            return _membership(left, right)
        if isinstance(left, Claim) and isinstance(right, Target):
            if operator not in {Operator.EQ, Operator.NE}:
                raise Unreadable(f"write {right.name} to the left of the operator")
            left, right = right, left
        if isinstance(left, tuple):
            if not isinstance(right, Claim) or operator is not Operator.IN:
                raise Unreadable(f"write the attribute to the left of {operator.value}")
            return ClaimCondition(right, Operator.CONTAINS, _literal(_ANYTHING, Operator.EQ, *left))
        if isinstance(right, Target):
            raise Unreadable(
                f"{right.name} is compared with another attribute; a rule compares with a value "
                "or with $user. Put text into quotes"
            )
        return _compared(left, operator, _value(left, operator, right))

    def _list(self) -> list[tuple[str, str]]:
        self._expect("[")
        items: list[tuple[str, str]] = []
        while self._peek() != "]":
            items.append(self._next("a value"))
            if self._peek() == ",":
                self._at += 1
        self._expect("]")
        return items

    def _peek(self) -> str:
        if self._at == len(self.tokens):
            return ""
        kind, text = self.tokens[self._at]
        return "" if kind == "text" else text

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at == len(self.tokens):
            raise Unreadable(f"the rule ends where {wanted} is missing")
        self._at += 1
        return self.tokens[self._at - 1]

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise Unreadable(f"{sign!r} is missing")
        self._at += 1


class _ExpressionParser(_Parser):
    """A parser of expressions, which are the same for every caller."""

    def expression(self) -> Expression:
        if not self.tokens:
            raise Unreadable("an expression is arithmetic, such as price * quantity")
        found = self._sum(0)
        if self._at < len(self.tokens):
            raise Unreadable(f"expected + - * or / before {shown(self.tokens[self._at][1])}")
        return found

    def _operand(self, kind: str, text: str) -> Target | Claim | tuple[str, str]:
        if kind == "word" and text.startswith("$"):
            raise Unreadable(
                f"{shown(text)} cannot be used: a computed value is the same for every caller; "
                "name attributes, the key by its name"
            )
        return super()._operand(kind, text)

    def _sum(self, depth: int) -> Expression:
        if depth > RULE_DEPTH_MAX:
            raise Unreadable(f"brackets may be at most {RULE_DEPTH_MAX} deep")
        found = self._product(depth)
        while True:
            sign = self._peek()
            if sign in _ADDING:
                self._at += 1
            elif not sign.startswith("-"):  # a - 1 without the space is two tokens: a, -1
                return found
            else:
                sign = ADD
            found = operation(found, sign, self._product(depth))

    def _product(self, depth: int) -> Expression:
        found = self._factor(depth)
        while (sign := self._peek()) in {"*", "/"}:
            self._at += 1
            found = operation(found, sign, self._factor(depth))
        return found

    def _factor(self, depth: int) -> Expression:
        kind, text = self._next("a name or a value")
        if kind == "text":
            return constant(text, Type.STRING)
        if kind == "number":
            return _number_of(text)
        if text == "(":
            found = self._sum(depth + 1)
            self._expect(")")
            return found
        if text == "-":
            return operation(constant(-1, Type.LONG), "*", self._signed(depth))
        target = self._operand(kind, text) if kind == "word" else None
        if not isinstance(target, Target):
            raise Unreadable(f"expected the name of an attribute or a value, not {shown(text)}")
        return reference(target)

    def _signed(self, depth: int) -> Expression:
        """Return what a sign is before, which is no other sign: each would be a recursion."""
        if self._peek() == "-":
            raise Unreadable("'-' is there twice; write brackets")
        return self._factor(depth)


def _number_of(text: str) -> Expression:
    if "." in text:
        return constant(float(text), Type.FLOAT)
    value = int(text) if len(text) <= 20 else LONG_MAX + 1
    if not LONG_MIN <= value <= LONG_MAX:
        raise Unreadable(f"{text[:30]} is no integer of 64 bits")
    return constant(value, Type.LONG)


_ANYTHING: Final = Target(("",), Type.ANY)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            what = f"{shown(text[at:].strip())} means nothing in a rule"
            hint = "; write == to compare" if text[at:].lstrip()[0] == "=" else ""
            raise Unreadable(what + hint)
        kind = match.lastgroup or ""
        found = match[kind]
        yield kind, found[1:-1] if kind == "text" else found
        at = match.end()


def _membership(left: "Claim | tuple[str, str]", right: Target) -> Where:
    """Return the comparison that a list attribute contains a claim or a text."""
    if right.type not in {Type.LIST, Type.ANY}:
        raise Unreadable(f"{right.name} is no list: 'in' goes with a list on its right")
    if isinstance(left, Claim):
        return _compared(right, Operator.HAS, left)
    return _compared(right, Operator.HAS, _literal(_ANYTHING, Operator.EQ, *left))


def _compared(left: Target | Claim, operator: Operator, value: object) -> Where:
    """Return a comparison; a claim on the right has the type of the attribute on the left."""
    if isinstance(left, Claim):
        return ClaimCondition(left, operator, value)
    if isinstance(value, Claim):
        value = Claim(value.path, left.type)
    return Condition(left.path, operator, value)


def _claim(text: str) -> Claim:
    path = tuple(text.split("."))
    known = path in {USER, CLIENT} or (path[0] == "$user" and len(path) == 2 and path[1])
    if not known:
        raise Unreadable(f"{shown(text)} is unknown; known are $user, $user.<claim> and $clientid")
    return Claim(path)


def _value(left: Target | Claim, operator: Operator, right: object) -> object:
    """Return the operand, converted to the attribute's type."""
    if isinstance(right, Claim):
        return right
    target = left if isinstance(left, Target) else _ANYTHING
    if isinstance(right, list):
        if operator is not Operator.IN:
            raise Unreadable(f"a list goes with 'in', not with {operator.value}")
        return tuple(_literal(target, Operator.EQ, *item) for item in right)
    if operator is Operator.IN:
        raise Unreadable("'in' goes with a list such as ['a', 'b'], or with $user.<claim>")
    kind, text = right if isinstance(right, tuple) else ("", "")
    return _literal(target, operator, str(kind), str(text))


def _literal(target: Target, operator: Operator, kind: str, text: str) -> object:
    return read_value(target, operator, text, strict=kind == "text")
