"""Values of a table: validation of input, and conversion of output.

A Checker is compiled once for a table and used for each of its records, so its loop is short: an
attribute whose value already has the right class costs one lookup. A value that needs no change is
returned as the same object, so that the caller can keep its original bytes. All problems of a value
are reported at once, with the same messages on every door. The module knows neither bytes nor
rights nor storage.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.limits import PROBLEMS_MAX
from rowcast.core.merge_patch import is_operation
from rowcast.core.scalars import (
    CONVERT,
    EXACT,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    PLAIN,
    Convert,
    Mismatch,
    decimal_of,
)
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast.core.value_texts import kind_of, shown

_NUMBERS: Final = frozenset({Type.INT, Type.LONG, Type.FLOAT, Type.DECIMAL, Type.ANY})
_INTEGER_CHARS_MAX: Final = len(str(LONG_MIN))
_ABSENT: Final = object()

Problems = list[tuple[str, str]]
"""Path and message of each problem."""


class Checker:
    """The compiled checks and conversions of a table.

    ``converts`` and ``hides`` state whether ``plain`` and ``visible`` ever change a value.
    """

    __slots__ = ("_anything", "_plain", "_shape", "_visible", "converts", "hides")

    def __init__(self, table: Table) -> None:
        self._anything = table.open
        self._shape = _Object(table.name, table.attributes, table.sealed, root=True)
        self._plain = plain_spelling(table)
        hidden = frozenset(item.name for item in table.attributes if item.hidden)
        self._visible = _outgoing(table.attributes, _visible_scalar, hidden)
        self.converts = self._plain is not None
        self.hides = self._visible is not None

    def check(self, value: object, partial: bool = False) -> object:
        """Return the value with its attributes converted to their types, or raise UNPROCESSABLE.

        Returns the same object when nothing changed. With ``partial``, a patch: attributes may be
        missing and numbers may be operations. The key is never required, because the topic contains
        it. Values of created and updated time are dropped, because the server sets them.
        """
        if self._anything:
            return value
        if not isinstance(value, dict):
            raise Error(
                Code.UNPROCESSABLE,
                f"{self._shape.owner} takes an object with its attributes, not {kind_of(value)}",
            )
        problems: Problems = []
        out = self._shape.check(value, "", partial, problems)
        if problems:
            raise _refusal(problems)
        return out

    def plain(self, value: object) -> object:
        """Return the value with declared dates, bytes and decimals in their JSON spelling."""
        return value if self._plain is None else self._plain(value)

    def visible(self, value: object) -> object:
        """Return the value without its hidden attributes."""
        return value if self._visible is None else self._visible(value)


# -- in --------------------------------------------------------------------------------------------


class _Scalar:
    """The check of one scalar."""

    __slots__ = ("_convert", "_type")

    def __init__(self, type_: Type, digits: tuple[int, int] | None) -> None:
        self._type = type_
        self._convert = CONVERT[type_] if digits is None else decimal_of(*digits)

    def check(self, value: object, path: str, partial: bool, problems: Problems) -> object:
        try:
            return self._convert(value)
        except Mismatch as mismatch:
            if not (partial and self._type in _NUMBERS and is_operation(value)):
                article = "an" if self._type in {Type.ID, Type.INT} else "a"
                reason = f" ({mismatch})" if mismatch.args else ""
                _add(problems, path, f"{shown(value)} is not {article} {self._type}{reason}")
            return value


class _List:
    """The check of a list, element by element."""

    __slots__ = ("_exact", "_node", "_required")

    def __init__(self, items: Attribute) -> None:
        self._node = _node(items)
        self._exact = EXACT.get(items.type)
        self._required = items.required

    def check(
        self,
        value: object,
        path: str,
        partial: bool,  # noqa: ARG002 - a list is patched as a whole
        problems: Problems,
    ) -> object:
        if not isinstance(value, list | tuple):
            _add(problems, path, f"{shown(value)} is not a list")
            return value
        out: list[object] | None = None
        for index, item in enumerate(value):
            if type(item) is self._exact:
                continue
            changed = self._element(item, f"{path}[{index}]", problems)
            if changed is not item:
                out = list(value) if out is None else out
                out[index] = changed
        return value if out is None else out

    def _element(self, item: object, path: str, problems: Problems) -> object:
        if item is not None:
            return self._node.check(item, path, False, problems)
        if self._required:
            _add(problems, path, "null is not allowed in this list")
        return item


class _Object:
    """The check of an object: a record (``root``) or a nested type."""

    __slots__ = ("_dropped", "_fields", "_names", "_refused", "_sealed", "owner")

    def __init__(
        self, owner: str, attributes: tuple[Attribute, ...], sealed: bool, *, root: bool = False
    ) -> None:
        set_by_server = {Role.CREATED_TIME, Role.UPDATED_TIME}
        self.owner = owner
        self._sealed = sealed
        self._dropped = frozenset(item.name for item in attributes if item.role in set_by_server)
        self._refused = {
            item.name: "computed" if item.computed is not None else "a relationship"
            for item in attributes
            if not item.stored
        }
        written = [item for item in attributes if item.stored and item.role not in set_by_server]
        self._names = frozenset(item.name for item in written)
        self._fields = tuple(
            (
                item.name,
                EXACT.get(item.type),
                _node(item),
                item.required and not (root and item.primary_key),
            )
            for item in written
        )

    def check(self, value: object, path: str, partial: bool, problems: Problems) -> object:
        if not isinstance(value, dict):
            _add(problems, path, f"{shown(value)} is not an object")
            return value
        out: dict[str, object] = value
        declared = 0
        for name, exact, node, required in self._fields:
            item = value.get(name, _ABSENT)
            if type(item) is exact:
                declared += 1
                continue
            if item is _ABSENT:
                if required and not partial:
                    _add(problems, _below(path, name), "is required")
                continue
            declared += 1
            if item is None:
                if required:
                    _add(problems, _below(path, name), "is required and must not be null")
                continue
            changed = node.check(item, _below(path, name), partial, problems)
            if changed is not item:
                out = dict(value) if out is value else out
                out[name] = changed
        return out if declared == len(value) else self._check_others(out, path, problems)

    def _check_others(
        self, value: dict[str, object], path: str, problems: Problems
    ) -> dict[str, object]:
        """Check members that are not declared, writable attributes."""
        for name in cast("dict[object, object]", value):  # some formats have keys of other types
            if name in self._names or name in self._dropped:
                continue
            if not isinstance(name, str):
                _add(problems, path or self.owner, f"the key {shown(name)} is not text")
            elif name in self._refused:
                _add(
                    problems,
                    _below(path, name),
                    f"is {self._refused[name]}; it cannot be written, so leave it out",
                )
            elif self._sealed:
                _add(problems, _below(path, name), self._unknown(name))
        if self._dropped.isdisjoint(value):
            return value
        return {name: item for name, item in value.items() if name not in self._dropped}

    def _unknown(self, name: str) -> str:
        known = sorted(self._names)
        return (
            f"{self.owner} has no attribute {shown(name)} (it is sealed){did_you_mean(name, known)}"
        )


def _node(attribute: Attribute) -> "_Scalar | _List | _Object":
    if attribute.type is Type.OBJECT:
        return _Object(attribute.type_name, attribute.fields, attribute.sealed)
    if attribute.type is Type.LIST:
        return _List(attribute.items or Attribute("", Type.ANY))
    return _Scalar(attribute.type, attribute.digits)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _add(problems: Problems, path: str, sentence: str) -> None:
    """Add a problem; at the limit, stop the check, because an untrusted list may be long."""
    problems.append((path, sentence))
    if len(problems) == PROBLEMS_MAX:
        raise _refusal(problems)


def _refusal(problems: Problems) -> Error:
    more = "; and perhaps more" if len(problems) == PROBLEMS_MAX else ""
    return Error(
        Code.UNPROCESSABLE,
        "; ".join(f"{path}: {sentence}" for path, sentence in problems) + more,
        problems=[{"path": path, "message": sentence} for path, sentence in problems],
    )


# -- out -------------------------------------------------------------------------------------------

_PerScalar = Callable[[Attribute], Convert | None]


def plain_spelling(table: Table) -> Convert | None:
    """Compile what ``Checker.plain`` does with values of a table; None when nothing changes."""
    return _outgoing(table.attributes, _plain_scalar, frozenset())


def _plain_scalar(attribute: Attribute) -> Convert | None:
    return PLAIN.get(attribute.type)


def _visible_scalar(attribute: Attribute) -> Convert | None:  # noqa: ARG001 - one signature
    return None


def _outgoing(
    attributes: tuple[Attribute, ...], per_scalar: _PerScalar, dropped: frozenset[str]
) -> Convert | None:
    """Compile the conversion of an object; None when nothing changes."""
    changes = {
        item.name: change
        for item in attributes
        if (change := _outgoing_of(item, per_scalar)) is not None
    }
    return _object_change(changes, dropped) if changes or dropped else None


def _outgoing_of(attribute: Attribute, per_scalar: _PerScalar) -> Convert | None:
    if attribute.type is Type.OBJECT:
        hidden = frozenset(item.name for item in attribute.fields if item.hidden)
        dropped = hidden if per_scalar is _visible_scalar else frozenset[str]()
        return _outgoing(attribute.fields, per_scalar, dropped)
    if attribute.type is Type.LIST and attribute.items is not None:
        change = _outgoing_of(attribute.items, per_scalar)
        return None if change is None else _list_change(change)
    return per_scalar(attribute)


def _object_change(changes: Mapping[str, Convert], dropped: frozenset[str]) -> Convert:
    def change(value: object) -> object:
        if not isinstance(value, dict):
            return value
        out = value
        if not dropped.isdisjoint(value):
            out = {name: item for name, item in value.items() if name not in dropped}
        for name, inner in changes.items():
            if name in out:
                item = out[name]
                changed = inner(item)
                if changed is not item:
                    out = dict(out) if out is value else out
                    out[name] = changed
        return out

    return change


def _list_change(inner: Convert) -> Convert:
    def change(value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        out = [inner(item) for item in value]
        return value if all(map(_same_object, out, value)) else out

    return change


def _same_object(one: object, other: object) -> bool:
    return one is other


# -- record ids ------------------------------------------------------------------------------------


def parse_id(table: Table, text: str) -> object:
    """Return the record id of the text in a topic or URL.

    It is an integer for a table with such a key, else text. An integer must be in canonical
    spelling, so that each record has one topic.
    """
    key = table.primary_key
    if key is None:
        return text
    if key.type is Type.LONG:
        least, most = LONG_MIN, LONG_MAX
    elif key.type is Type.INT:
        least, most = INT_MIN, INT_MAX
    else:
        return text
    number = _canonical(text)
    if number is None or not least <= number <= most:
        raise Error(
            Code.INVALID,
            f"{shown(text)} is not an id of {table.name}: write an integer from {least} to {most}"
            " without leading zeros",
        )
    return number


def _canonical(text: str) -> int | None:
    """Return the integer whose one spelling a text is; None for any other text."""
    if len(text) > _INTEGER_CHARS_MAX:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text else None


def id_text(record_id: object) -> str:
    """Return a record id as text for topics and URLs."""
    return str(record_id)
