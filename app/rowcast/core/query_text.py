"""Parser of a URL's query string: the text after ``?``, still percent-encoded.

    price=gt=100&lt=200&[color==red|color==black]&select(id,price)&sort(-price)&limit(20)

The grammar, smallest first:

- value: percent-encoded text. With every operator but ``=`` and ``===`` also ``null``,
  ``number:30``, ``boolean:true``, ``date:2026-01-31``, ``string:null``; ``==abc*`` is a prefix.
- condition: name, operator, value. After a condition on the same level, ``=lt=200`` refers to the
  same name, and after an ordering ``lt=200`` does, unless the table declares such an attribute.
- group: ``(`` or ``[``, then conditions and groups joined all by ``&`` or all by ``|``.
- query: a group without brackets, and among it functions, each joined by ``&``: ``select(...)``,
  ``sort(...)``, ``limit(...)``, ``after(...)``, and where groups are offered ``group(...)``.

Brackets, ``<`` and ``>`` may be percent-encoded, as browsers send them: a group is closed the way
it was opened, and in a value an encoded bracket is text. The text is parsed in one pass; the result
is a Query, or Error(INVALID) with the position of the mistake. What names and values mean is in
``query_terms``; what conditions mean, in ``conditions``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from rowcast.core.conditions import Condition, Group, Operator, Where
from rowcast.core.errors import Code, Error
from rowcast.core.freshness import STALE
from rowcast.core.limits import QUERY_CONDITIONS_MAX, QUERY_DEPTH_MAX, QUERY_TEXT_CHARS_MAX
from rowcast.core.queries import Query
from rowcast.core.query_functions import NO_TABLES, read_group, read_limit, read_select, read_sort
from rowcast.core.query_names import WRITTEN
from rowcast.core.query_terms import ORDERINGS, Target, Unreadable, follow, read_value
from rowcast.core.relations import RelatedKeys, Tables, through
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.value_texts import shown

_FUNCTIONS: Final = ("select", "sort", "limit", "after")
_GROUP: Final = "group"
_NESTED: Final = ("group", "select")
"""Functions with brackets in their argument."""
_STALE: Final = re.compile(rf"{STALE}==?(true|false)(?=&|$)")
_FUNCTION: Final = re.compile(r"([A-Za-z-]+)(?:\(|%28)")
_BRACKET: Final = re.compile(r"(\(|%28)|\)|%29")
_OPEN: Final = re.compile(r"[(\[]|%28|%5[Bb]")
_CLOSE: Final = {"(": ")", "[": "]", "%28": "%29", "%5B": "%5D"}
_NAME: Final = re.compile(r"(?:[^=<>!&|()\[\]%]|%(?!3[CcEe]|2[89]|5[BbDd]))*")
_OPERATOR: Final = re.compile(r"===|!==|=[A-Za-z_-]*=|!=|(?:[<>]|%3[CcEe])=?|=")
_SYMBOLS: Final = {
    "=": Operator.EQ,
    "==": Operator.EQ,
    "===": Operator.EQ,
    "!=": Operator.NE,
    "!==": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_NAMED: Final = {item.value: item for item in Operator if item is not Operator.HAS}
"""Operators by their names in queries."""
_STRICT: Final = frozenset({"=", "===", "!=="})
_PAIRS: Final = {")": "(", "]": "["}


def parse_query(
    text: str, table: Table, *, groups: bool = False, tables: Tables = NO_TABLES
) -> Query:
    """Read a query string as a query of one table's records; raises INVALID for anything else.

    ``groups``: it may return groups in place of records. ``tables``: those to which relationships
    lead; conditions on them must be resolved (``relations.RelatedKeys``).
    """
    if len(text) > QUERY_TEXT_CHARS_MAX:
        raise Error(
            Code.INVALID,
            f"the query has {len(text)} characters; at most {QUERY_TEXT_CHARS_MAX} are read",
        )
    known = (*_FUNCTIONS, _GROUP) if groups else _FUNCTIONS
    reader = _Reader(text, table, known, tables)
    try:
        return reader.query()
    except Unreadable as unreadable:
        at = reader.start + 1
        raise Error(Code.INVALID, f"{unreadable} (at character {at})", character=at) from None


@dataclass(slots=True)
class _Level:
    """The parsed part of one level of the query."""

    close: str
    depth: int
    items: list[Where] = field(default_factory=list)
    joint: str = ""
    """``&`` or ``|``, known after two items."""
    pending: str = ""
    """The separator just read."""
    last: str = ""
    """The kind of the last element: an ``item``, a ``function`` or empty."""


class _Reader:
    """A left-to-right parser; ``start`` is the offset of the current term."""

    def __init__(self, text: str, table: Table, known: Sequence[str], tables: Tables) -> None:
        self._text = text
        self._known = known
        self._tables = tables
        self._table = table
        self._position = 0
        self._conditions = 0
        self._functions: dict[str, tuple[str, int]] = {}
        self.start = 0
        self._stale: bool | None = None

    def query(self) -> Query:
        where = self._level(_Level("", 0))
        limit, offset = (None, 0) if (text := self._argument("limit")) is None else read_limit(text)
        sort = () if (text := self._argument("sort")) is None else read_sort(text, self._table)
        select = (
            None
            if (text := self._argument("select")) is None
            else read_select(text, self._table, self._tables)
        )
        if (text := self._argument(_GROUP)) is not None:
            return self._grouped(text, where)
        after = self._argument("after")
        if after == "" or (after and offset):
            raise Unreadable("after(...) takes a page token, and beside it only limit(count)")
        return Query(where, select, sort, limit, offset, after, self._stale)

    def _grouped(self, text: str, where: Where | None) -> Query:
        if len(self._functions) > 1:
            raise Unreadable("group(...) is not joined by select, sort, limit or after")
        return Query(where, stale=self._stale, group=read_group(text, self._table))

    def _argument(self, name: str) -> str | None:
        argument, self.start = self._functions.get(name, (None, 0))
        return argument

    # -- levels ------------------------------------------------------------------------------------

    def _level(self, level: _Level) -> Where | None:
        """Parse one level up to its closing bracket; None when it has no condition."""
        if level.depth > QUERY_DEPTH_MAX:
            raise Unreadable(f"groups may be at most {QUERY_DEPTH_MAX} deep")
        while self._more(level):
            self.start = self._position
            if self._text[self._position] in "&|":
                self._separator(level)
            elif level.last and not level.pending:
                raise Unreadable("expected '&' or '|' here")
            elif level.depth or not self._function(level):
                self._item(level)
        if level.pending == "|" or (level.depth and not level.items):
            raise Unreadable("a condition is missing here")
        if len(level.items) > 1:
            return Group(tuple(level.items), all_of=level.joint == "&")
        return level.items[0] if level.items else None

    def _more(self, level: _Level) -> bool:
        """Whether the level continues; skips its closing bracket."""
        if self._position == len(self._text):
            if level.close:
                self.start = self._position
                raise Unreadable(f"a group is not closed by {level.close!r}")
            return False
        if level.close and self._at(level.close):
            self._position += len(level.close)
            return False
        return True

    def _at(self, close: str) -> bool:
        end = self._position + len(close)
        return self._text[self._position : end].upper() == close

    def _separator(self, level: _Level) -> None:
        separator = self._text[self._position]
        if level.pending == "|" or (separator == "|" and (level.pending or not level.last)):
            raise Unreadable("a condition is missing here")
        level.pending = separator
        self._position += 1

    def _function(self, level: _Level) -> bool:
        """Parse a function, if there is one."""
        match = _FUNCTION.match(self._text, self._position)
        if match is None:
            return self._table.deadline_seconds > 0 and self._staleness(level)
        name = match[1]
        if name not in self._known:
            raise Unreadable(f"there is no function {name}(){did_you_mean(name, self._known)}")
        if name in self._functions:
            raise Unreadable(f"{name}() is there twice")
        end, after = self._closed(name, match.end())
        if level.pending == "|":
            raise Unreadable("a function is joined to the rest by '&', not '|'")
        self._functions[name] = (self._decode(self._text[match.end() : end]), self._position)
        self._position = after
        level.last, level.pending = "function", ""
        return True

    def _closed(self, name: str, start: int) -> tuple[int, int]:
        """Return where the argument of a function ends, and its bracket; a group has functions."""
        depth = 1
        for bracket in _BRACKET.finditer(self._text, start):
            depth += 1 if bracket[1] and name in _NESTED else -1 if not bracket[1] else 0
            if depth == 0:
                return bracket.span()
        raise Unreadable(f"{name}( is not closed by ')'")

    def _staleness(self, level: _Level) -> bool:
        """Parse ``_stale=true``, which tests a record's time and not its value."""
        match = _STALE.match(self._text, self._position)
        if match is None:
            return False
        if level.pending == "|":
            raise Unreadable(f"{STALE} is joined to the rest by '&', not '|'")
        self._stale = match[1] == "true"
        self._position = match.end()
        level.last, level.pending = "function", ""
        return True

    def _item(self, level: _Level) -> None:
        """Parse a condition or a group, and check that its separator is that of the ones before."""
        if level.last == "function" and level.pending == "|":
            raise Unreadable("a function is joined to the rest by '&', not '|'")
        if level.items and level.joint not in {"", level.pending}:
            raise Unreadable(
                "'&' and '|' are mixed; put brackets around what belongs together,"
                " as in a=1&[b=2|c=3]"
            )
        level.joint = level.pending if level.items else ""
        opened = _OPEN.match(self._text, self._position)
        if opened is not None:
            self._position = opened.end()
            inner = self._level(_Level(_CLOSE[opened[0].upper()], level.depth + 1))
            level.items += [inner] if inner is not None else []
        else:
            level.items.append(self._condition(level))
        level.last, level.pending = "item", ""

    # -- conditions --------------------------------------------------------------------------------

    def _condition(self, level: _Level) -> Condition:
        match = _NAME.match(self._text, self._position)
        raw = match[0] if match else ""
        symbol = _OPERATOR.match(self._text, self._position + len(raw))
        if symbol is None:
            raise Unreadable(
                f"expected a condition such as a==1, not {shown(self._text[self.start :])}"
            )
        written = symbol[0].upper().replace("%3C", "<").replace("%3E", ">")
        before = self._continued(level)
        if before and written == "=" and self._goes_on(before, raw):
            written, raw = f"={raw}=", ""
        name = ".".join(before.path) if before and not raw else self._decode(raw)
        if name in WRITTEN and not self._table.open and self._table.attribute(name) is None:
            raise Unreadable(
                f"{self._table.name} has no attribute {shown(name)}; write {WRITTEN[name]}"
            )
        relations, target = follow(self._table, name, self._tables)
        self.start = symbol.start()
        operator = _SYMBOLS.get(written) or self._named(written.strip("=").lower())
        self._position = symbol.end()
        condition = self._compared(target, operator, self._value(level.close), written)
        for relation in reversed(relations):
            condition = through(relation, condition)
        return condition

    def _continued(self, level: _Level) -> Condition | None:
        """Return the previous condition, whose name this one may reuse."""
        before = level.items[-1] if level.items and level.last == "item" else None
        if not isinstance(before, Condition) or isinstance(before.value, RelatedKeys):
            return None
        return before if level.pending == "&" else None

    def _goes_on(self, before: Condition, word: str) -> bool:
        """Whether ``lt=200`` is the other end of a range, not an attribute's name."""
        return (
            word in ORDERINGS
            and before.operator in ORDERINGS
            and self._table.attribute(word) is None
        )

    def _value(self, close: str) -> str:
        """Return a raw value; brackets within it must be balanced."""
        self.start = self._position
        opened: list[str] = []
        while self._position < len(self._text):
            character = self._text[self._position]
            if character in "&|" or (character == "%" and close[:1] == "%" and self._at(close)):
                break
            if character in "([":
                opened.append(character)
            elif character in ")]":
                if not opened and character == close:
                    break
                if not opened or opened.pop() != _PAIRS[character]:
                    self.start = self._position
                    raise Unreadable(
                        f"{character!r} closes nothing; write %{ord(character):X} in a value"
                    )
            self._position += 1
        return self._text[self.start : self._position]

    def _compared(self, target: Target, operator: Operator, raw: str, written: str) -> Condition:
        if operator is Operator.IN:
            inner = raw[1:-1] if raw.startswith("(") and raw.endswith(")") else raw
            texts = inner.split(",")
            self._count(len(texts))
            values = tuple(self._read(target, operator, text) for text in texts)
            return Condition(target.path, operator, values)
        self._count(1)
        if written == "==" and raw.endswith("*"):
            operator, raw = Operator.STARTS_WITH, raw[:-1]
        value = self._read(target, operator, raw, strict=written in _STRICT)
        return Condition(target.path, operator, value)

    def _named(self, word: str) -> Operator:
        try:
            return _NAMED[word]
        except KeyError:
            known = list(_NAMED)
            raise Unreadable(
                f"there is no operator ={word}={did_you_mean(word, known)};"
                " write %3D for an equals sign in a value"
            ) from None

    def _read(
        self, target: Target, operator: Operator, raw: str, *, strict: bool = False
    ) -> object:
        return read_value(target, operator, self._decode(raw), strict=strict)

    def _count(self, values: int) -> None:
        self._conditions += values
        if self._conditions > QUERY_CONDITIONS_MAX:
            raise Unreadable(f"a query compares with at most {QUERY_CONDITIONS_MAX} values")

    def _decode(self, raw: str) -> str:
        try:
            text = unquote(raw, errors="strict")
            text.encode()
        except UnicodeError:
            raise Unreadable("what is percent-encoded here is not UTF-8") from None
        if "\0" in text:
            raise Unreadable("a query must not hold the character NUL")
        return text
