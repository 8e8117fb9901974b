"""Parsers of the arguments of ``select``, ``sort`` and ``limit``.

Arguments come already percent-decoded: names of attributes hold no brackets, commas or braces.
"""

import re
from typing import Final

from rowcast.core.conditions import Path
from rowcast.core.grouping import Aggregate, GroupFunction, Grouping
from rowcast.core.limits import (
    QUERY_DEPTH_MAX,
    QUERY_LIMIT_RECORDS_MAX,
    QUERY_SELECT_PATHS_MAX,
    QUERY_SORT_KEYS_MAX,
)
from rowcast.core.queries import Projection, RelatedSelect, Select, Sort
from rowcast.core.query_terms import Unreadable, find
from rowcast.core.relation_limits import RELATION_DEPTH_MAX
from rowcast.core.relations import Relation, Tables, relation_of
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table, Type
from rowcast.core.value_texts import shown

_LIMIT: Final = re.compile(r"\s*([0-9]{1,10})\s*(?:,\s*([0-9]{1,10})\s*)?")
NO_TABLES: Final[Tables] = {}
_SEVERAL: Final = frozenset(",{(")
_AGGREGATE: Final = re.compile(r"([^()]*)\(([^()]*)\)")
_NUMBERS: Final = frozenset({Type.INT, Type.LONG, Type.FLOAT, Type.DECIMAL, Type.ANY})
_UNORDERED: Final = frozenset({Type.LIST, Type.OBJECT})
_PIECE: Final = re.compile(r"[{},()]|[^{},()]+")
_BRACES: Final = {"(": "{", ")": "}"}


def read_limit(argument: str) -> tuple[int, int]:
    """Return limit and offset of ``limit(count)`` or ``limit(start,end)``."""
    match = _LIMIT.fullmatch(argument)
    if match is None:
        raise Unreadable(f"{shown(argument)} is not a limit; write limit(20) or limit(40,60)")
    first, second = int(match[1]), match[2] and int(match[2])
    start, end = (0, first) if second is None else (first, int(second))
    if not start <= end <= QUERY_LIMIT_RECORDS_MAX:
        raise Unreadable(
            f"limit({argument[:30]}) must end at or after its start, and at most at"
            f" {QUERY_LIMIT_RECORDS_MAX}"
        )
    return end - start, start


def read_sort(argument: str, table: Table) -> tuple[Sort, ...]:
    """Return the keys of ``sort(+a,-b)``."""
    names = [name.strip() for name in argument.split(",")]
    if len(names) > QUERY_SORT_KEYS_MAX:
        raise Unreadable(f"a sort has at most {QUERY_SORT_KEYS_MAX} keys, not {len(names)}")
    return tuple(_sort_key(name, table) for name in names)


def _sort_key(name: str, table: Table) -> Sort:
    if "=" in name:
        raise Unreadable(
            f"{shown(name)} is no name to sort by; write sort(-age,name): there is no order by "
            "distance from a target"
        )
    target = find(table, name.lstrip("+-").strip(), stored=True)
    if target.type in {Type.LIST, Type.OBJECT}:
        raise Unreadable(f"{target.name} is of type {target.type}, which has no order")
    return Sort(target.path, name.startswith("-"))


def read_select(argument: str, table: Table, tables: Tables = NO_TABLES) -> Select:
    """Return the parts that ``a,b``, ``a``, ``[a,b]``, ``a{b,c}`` or ``a(b,c)`` names.

    ``tables`` are those to which relationships lead; without, they are not followed.
    """
    text = argument.strip()
    listed = text.startswith("[") and text.endswith("]")
    names = _names(text[1:-1] if listed else text)
    if not names:
        raise Unreadable("a select names no attribute; write select(a,b)")
    if len(names) > QUERY_SELECT_PATHS_MAX:
        raise Unreadable(f"a select has at most {QUERY_SELECT_PATHS_MAX} names, not {len(names)}")
    paths, related = _selected(names, table, tables, 0)
    if listed:
        return Select(paths, Projection.ARRAY, related)
    several = not _SEVERAL.isdisjoint(text)
    return Select(paths, Projection.OBJECT if several else Projection.VALUE, related)


def _selected(
    names: list[str], table: Table, tables: Tables, depth: int
) -> tuple[tuple[Path, ...], tuple[RelatedSelect, ...]]:
    """Return the paths of names, and those among them that are relationships."""
    paths: dict[Path, None] = {}
    inner: dict[str, list[str]] = {}
    relations: dict[str, Relation] = {}
    for name in names:
        first, _, rest = name.partition(".")
        relation = relation_of(table, first, tables)
        if relation is None:
            paths[find(table, name, stored=False).path] = None
            continue
        if depth == RELATION_DEPTH_MAX:
            raise Unreadable(f"{shown(name)} is more than {RELATION_DEPTH_MAX} relationships away")
        paths[(first,)] = None
        relations[first] = relation
        inner.setdefault(first, []).append(rest)
    related = tuple(
        RelatedSelect(relation, _inner_select(inner[name], relation.table, tables, depth + 1))
        for name, relation in relations.items()
    )
    return tuple(paths), related


def _inner_select(names: list[str], table: Table, tables: Tables, depth: int) -> Select | None:
    """Return the parts of related records; None for all, where the bare name was given."""
    if "" in names:
        return None
    paths, related = _selected(names, table, tables, depth)
    return Select(paths, Projection.OBJECT, related)


def _names(text: str) -> list[str]:
    """Return dotted names: ``a,b{c,d}`` is ``a``, ``b.c`` and ``b.d``."""
    names: list[str] = []
    outer: list[str] = []
    name = ""
    for found in [*_PIECE.findall(text), ","]:
        piece = _BRACES.get(found, found)
        if piece == "{" and name and len(outer) < QUERY_DEPTH_MAX:
            outer.append(name)
            name = ""
        elif piece in "},":
            if name:
                names.append(".".join((*outer, name)))
            name = ""
            if piece == "}":
                _leave(outer, text)
        elif piece == "{":
            raise Unreadable(f"in select({text[:60]}), '{{' must follow a name, and not too deep")
        else:
            name = piece.strip()
    if outer:
        raise Unreadable(f"in select({text[:60]}), '{{' is not closed by '}}'")
    return names


def _leave(outer: list[str], text: str) -> None:
    if not outer:
        raise Unreadable(f"in select({text[:60]}), '}}' closes nothing")
    outer.pop()


def read_group(argument: str, table: Table) -> Grouping:
    """Return the groups of ``site,count(),avg(temp)``."""
    items = [item.strip() for item in argument.split(",")]
    if len(items) > QUERY_SELECT_PATHS_MAX:
        raise Unreadable(f"a group has at most {QUERY_SELECT_PATHS_MAX} parts, not {len(items)}")
    paths = tuple(_group_path(item, table) for item in items if "(" not in item)
    if len(paths) > QUERY_SORT_KEYS_MAX:
        raise Unreadable(f"groups have at most {QUERY_SORT_KEYS_MAX} attributes, not {len(paths)}")
    aggregates = tuple(_aggregate(item, table) for item in items if "(" in item)
    return Grouping(tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(aggregates)))


def _group_path(name: str, table: Table) -> tuple[str, ...]:
    target = find(table, name, stored=True)
    if target.type in _UNORDERED:
        raise Unreadable(f"{target.name} is of type {target.type}, by which nothing is grouped")
    return target.path


def _aggregate(text: str, table: Table) -> Aggregate:
    match = _AGGREGATE.fullmatch(text)
    names = [item.value for item in GroupFunction]
    word = match[1].strip() if match else text
    if match is None or word not in names:
        raise Unreadable(
            f"{shown(text)} is no function of a group{did_you_mean(word, names)}; write count(), "
            "count(a), sum(a), avg(a), min(a) or max(a)"
        )
    function, name = GroupFunction(word), match[2].strip()
    if not name:
        if function is GroupFunction.COUNT:
            return Aggregate(function)
        raise Unreadable(f"{word}() needs the name of an attribute, such as {word}(price)")
    target = find(table, name, stored=True)
    summed = function in {GroupFunction.SUM, GroupFunction.AVG}
    if (summed and target.type not in _NUMBERS) or (
        function is not GroupFunction.COUNT and target.type in _UNORDERED
    ):
        raise Unreadable(f"{target.name} is of type {target.type}, of which there is no {word}")
    return Aggregate(function, target.path)
