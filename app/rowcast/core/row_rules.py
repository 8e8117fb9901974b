"""Row rules: conditions on a record in which the caller's own facts may stand.

    owner == $user and (site in $user.sites or level <= 3)

A rule is a query's conditions (``queries.py``) with two additions: ``$user``, ``$user.<claim>`` and
``$clientid`` stand for what is known of the caller, and words join conditions. ``bind`` puts the
caller's facts into their places, and what is left is a plain condition, which every store and
``evaluation`` understand. There is no code in a rule and nothing is evaluated but comparisons.

What is missing allows nothing: a comparison with a claim that the caller does not have, or whose
value cannot be of the attribute's type, is false whatever its operator.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from rowcast.core.evaluation import holds
from rowcast.core.queries import Condition, Group, Operator
from rowcast.core.query_terms import ORDERINGS, TEXT_OPERATORS, Target, Unreadable, find, read_value
from rowcast.core.right_limits import RULE_CLAIM_ITEMS_MAX, RULE_DEPTH_MAX, RULE_TEXT_CHARS_MAX
from rowcast.core.scalars import CONVERT, Mismatch
from rowcast.core.tables import Table, Type
from rowcast.core.values import shown

USER: Final = ("$user",)
CLIENT: Final = ("$clientid",)
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>-?[0-9]+(?:\.[0-9]+)?)|(?P<sign>==|!=|<=|>=|<|>"
    r"|&&|\|\||[&|()\[\],])|(?P<word>[A-Za-z_$][A-Za-z0-9_.$-]*))"
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
_CONSTANTS: Final = {"true": True, "false": False}
_SCALARS: Final = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Claim:
    """A place for one of the caller's facts: ``$user``, ``$clientid`` or ``$user.<name>``."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison: of an attribute or a fact of the caller, with a value or such a fact."""

    left: Target | Claim
    operator: Operator
    right: object


@dataclass(frozen=True, slots=True)
class Joined:
    """Rules joined by ``and`` (``all_of``) or by ``or``."""

    items: tuple["Rule", ...]
    all_of: bool


Rule = Comparison | Joined | bool
Bound = Condition | Group | bool
"""A rule for one caller: conditions on a record, or what it comes to whatever the record."""
Facts = Callable[[tuple[str, ...]], object]
"""Gives a caller's fact; None where it has none."""


# -- reading -----------------------------------------------------------------------------------


def parse_rule(text: str, table: Table) -> Rule:
    """Read a rule about a table's records; raises Unreadable with a sentence."""
    if len(text) > RULE_TEXT_CHARS_MAX:
        raise Unreadable(f"a rule has at most {RULE_TEXT_CHARS_MAX} characters")
    return _Parser(text, table).rule()


class _Parser:
    """One reading, left to right."""

    def __init__(self, text: str, table: Table) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        seen = tuple(replace(item, hidden=False) for item in table.attributes)
        # A rule may look at what nobody is shown, and a mistaken name must not pass for another.
        self._table = replace(table, attributes=seen, sealed=not table.open)

    def rule(self) -> Rule:
        if not self._tokens:
            raise Unreadable("a rule is a comparison, such as owner == $user")
        found = self._either(0)
        if self._at < len(self._tokens):
            raise Unreadable(f"expected 'and' or 'or' before {shown(self._tokens[self._at][1])}")
        return found

    def _either(self, depth: int) -> Rule:
        if depth > RULE_DEPTH_MAX:
            raise Unreadable(f"brackets may be at most {RULE_DEPTH_MAX} deep")
        items = [self._all(depth)]
        while self._peek() in _OR:
            self._at += 1
            items.append(self._all(depth))
        return items[0] if len(items) == 1 else Joined(tuple(items), all_of=False)

    def _all(self, depth: int) -> Rule:
        items = [self._one(depth)]
        while self._peek() in _AND:
            self._at += 1
            items.append(self._one(depth))
        return items[0] if len(items) == 1 else Joined(tuple(items), all_of=True)

    def _one(self, depth: int) -> Rule:
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

    def _comparison(self, left: "Target | Claim | tuple[str, str]", operator: Operator) -> Rule:
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
            return Comparison(right, Operator.CONTAINS, _literal(_ANYTHING, Operator.EQ, *left))
        if isinstance(right, Target):
            raise Unreadable(
                f"{right.name} is compared with another attribute; a rule compares with a value "
                "or with $user. Put text into quotes"
            )
        return Comparison(left, operator, _value(left, operator, right))

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
        if self._at == len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return "" if kind == "text" else text

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise Unreadable(f"the rule ends where {wanted} is missing")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise Unreadable(f"{sign!r} is missing")
        self._at += 1


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


def _membership(left: "Claim | tuple[str, str]", right: Target) -> Comparison:
    """Return that a list attribute has a fact of the caller, or a text, as an item."""
    if right.type not in {Type.LIST, Type.ANY}:
        raise Unreadable(f"{right.name} is no list: 'in' goes with a list on its right")
    if isinstance(left, Claim):
        return Comparison(right, Operator.HAS, left)
    return Comparison(right, Operator.HAS, _literal(_ANYTHING, Operator.EQ, *left))


def _claim(text: str) -> Claim:
    path = tuple(text.split("."))
    known = path in {USER, CLIENT} or (path[0] == "$user" and len(path) == 2 and path[1])
    if not known:
        raise Unreadable(f"{shown(text)} is unknown; known are $user, $user.<claim> and $clientid")
    return Claim(path)


def _value(left: Target | Claim, operator: Operator, right: object) -> object:
    """Return what is compared with, of the attribute's type."""
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


# -- a caller's own ------------------------------------------------------------------------------


def claims_of(rule: Rule | None) -> Iterator[tuple[str, ...]]:
    """Give the facts of the caller that a rule looks at."""
    if isinstance(rule, Joined):
        for item in rule.items:
            yield from claims_of(item)
    elif isinstance(rule, Comparison):
        yield from (side.path for side in (rule.left, rule.right) if isinstance(side, Claim))


def bind(rule: Rule, facts: Facts) -> Bound:
    """Return the rule for one caller."""
    if isinstance(rule, bool):
        return rule
    if isinstance(rule, Joined):
        return join([bind(item, facts) for item in rule.items], all_of=rule.all_of)
    right = rule.right
    if isinstance(right, Claim):
        right = facts(right.path)
        if right is None:
            return False
    if isinstance(rule.left, Claim):
        return _known(facts(rule.left.path), rule.operator, right)
    operand = _operand(rule.left, rule.operator, right, claimed=isinstance(rule.right, Claim))
    if operand is _UNFIT:
        return False
    return Condition(rule.left.path, rule.operator, operand)


_UNFIT: Final = object()


def _known(left: object, operator: Operator, right: object) -> bool:
    """Compare two facts that are known before any record is."""
    if left is None:
        return False
    if operator is Operator.CONTAINS and isinstance(left, list | tuple):
        return any(_same(item, right) for item in left)
    if operator is Operator.IN:
        choices = right if isinstance(right, list | tuple) else (right,)
        return any(_same(left, item) for item in choices)
    return holds(Condition(("fact",), operator, right), {"fact": left}, None)


def _same(one: object, other: object) -> bool:
    return holds(Condition(("fact",), Operator.EQ, other), {"fact": one}, None)


def _operand(target: Target, operator: Operator, value: object, *, claimed: bool) -> object:
    """Return a caller's fact as the attribute's type writes it; _UNFIT if it cannot be."""
    if not claimed:
        return value
    if operator is Operator.IN:
        items = value if isinstance(value, list | tuple) else [value]
        fitting = [_fitted(target, item) for item in items[:RULE_CLAIM_ITEMS_MAX]]
        return tuple(item for item in fitting if item is not _UNFIT) or _UNFIT
    if operator is Operator.HAS:  # a claim with several values is no one item
        return value if isinstance(value, _SCALARS) else _UNFIT
    fitted = _fitted(target, value)
    if operator in TEXT_OPERATORS and not isinstance(fitted, str):
        return _UNFIT
    if operator in ORDERINGS and isinstance(fitted, bool):
        return _UNFIT
    return fitted


def _fitted(target: Target, value: object) -> object:
    if not isinstance(value, _SCALARS):
        return _UNFIT
    if target.type is Type.ANY:
        return value
    if target.type in {Type.ID, Type.STRING}:  # tokens may number what is text here
        return str(value) if isinstance(value, str | int) and value not in _BOTH else _UNFIT
    if target.type in {Type.LIST, Type.OBJECT}:
        return _UNFIT
    try:
        return CONVERT[target.type](value)
    except Mismatch:
        return _UNFIT


_BOTH: Final = (True, False)


def join(items: list[Bound], *, all_of: bool) -> Bound:
    """Return rules as one: what is settled already settles it, or falls away."""
    left: list[Condition | Group] = []
    for item in items:
        if isinstance(item, bool):
            if item is not all_of:
                return item
        else:
            left.append(item)
    if not left:
        return all_of
    return left[0] if len(left) == 1 else Group(tuple(left), all_of)


def bound_holds(bound: Bound, value: object, record_id: object) -> bool:
    """Tell whether a record satisfies a caller's rule."""
    return bound if isinstance(bound, bool) else holds(bound, value, record_id)
