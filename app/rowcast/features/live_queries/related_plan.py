"""What a live query with conditions on related records is made of (M3, A9).

Its conditions are a tree of tables: ``owner.city.country==de`` is about dogs, whose owners are in
some cities. Each step from one table to another is a ``Branch``: which keys lead to a record there
that matches. A record's conditions then follow from its value and from these keys alone, so the
server keeps the keys of the other tables, and no record of this one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rowcast.core.callers import Caller
from rowcast.core.comparison import Place
from rowcast.core.conditions import (
    EVERYTHING,
    Condition,
    Group,
    Operator,
    Where,
    holds,
    join,
    reach,
)
from rowcast.core.evaluation import order_key
from rowcast.core.events import DELETE, Event, Record
from rowcast.core.queries import Query, Select, Sort
from rowcast.core.relations import RelatedKeys, Relation, of_keys
from rowcast.core.tables import Table
from rowcast.features.live_queries.query_index import Key, key_of
from rowcast.features.live_queries.table_values import TableValues
from rowcast.reads.before_image import UnknownBefore, before_of
from rowcast.seams.visibility import Visibility

Counts = list[dict[Key, int]]
"""For each branch, how many records that match each key leads to; keys without any are absent."""

Has = Callable[[int, Key], bool]
"""Whether a key leads to a record that matches, by the number of the branch."""


class Branch:
    """A step to another table; ``number`` is its place in ``Plan.branches``.

    It is one of conditions, or of what is selected (``is_selected``): parts of the other records.
    """

    __slots__ = ("is_selected", "node", "number", "relation", "select")

    def __init__(
        self,
        number: int,
        relation: Relation,
        node: "Node",
        select: Select | None = None,
        *,
        is_selected: bool = False,
    ) -> None:
        self.number = number
        self.relation = relation
        self.node = node
        self.select = select
        self.is_selected = is_selected

    def own_keys(self, value: object, record_id: object) -> list[Key]:
        """Return the keys by which a record of this side leads to the other."""
        found = reach(self.relation.own, value, record_id)
        return _keys(found, listed=self.relation.listed)

    def led_to(self, record: Record | None, has: Has) -> Sequence[Key]:
        """Return the keys that lead to a record of the other side; none if it does not match.

        There is one, unless the relationship is followed backwards.
        """
        if record is None or not self.node.holds(record, has):
            return ()
        values = self.node.values
        found = reach(self.relation.other, values.value(record), values.id(record))
        return _keys(found, listed=self.relation.lists)


class Node:
    """The conditions on one table, within the rights of a caller."""

    def __init__(
        self,
        table: Table,
        where: Where | None,
        branches: Sequence[Branch],
        values: TableValues,
        visibility: Visibility,
        caller: Caller,
    ) -> None:
        """Raise INVALID for conditions that the caller may not have."""
        self.table = table
        self.where = where
        self.branches = branches
        self.values = values
        self.loose = _loose(where)
        """What holds for each record that may match, whatever the other tables have."""
        self._visibility = visibility
        self._caller = caller
        self._readable = visibility.narrowed(caller, table, Query(where))

    def seen(self, record: Record) -> Record | None:
        """Return a record as the caller sees it; None if it may not."""
        return next(iter(self._visibility.records(self._caller, [record])), None)

    def holds(self, record: Record, has: Has) -> bool:
        """Whether a record matches, and may be read."""
        if record.kind == DELETE:
            return False
        value, record_id = self.values.value(record), self.values.id(record)
        return _holds(self.where, value, record_id, has) and self.seen(record) is not None

    def readable(self, counts: Counts) -> Where | None:
        """Return the conditions of a read of the table; None if nothing of it may be read."""
        if self._readable is None:
            return None
        return _resolved(self._readable.where or EVERYTHING, counts)

    def referring(self, keys: Sequence[Iterable[Key]]) -> Where | None:
        """Return the conditions on the records that some keys may concern; None if none can be.

        ``keys`` are those of each branch.
        """
        parts = [
            of_keys(branch.relation, [value for _, value in keys[branch.number]])
            for branch in self.branches
            if keys[branch.number]
        ]
        if not parts:
            return None
        return join([self.loose, join(parts, all_of=False)], all_of=True)

    def narrowed(self, where: Where, limit: int) -> Query | None:
        """Return a query within the caller's rights; None if it may read nothing."""
        asked = self._visibility.narrowed(self._caller, self.table, Query(where))
        return None if asked is None else replace(asked, limit=limit)


class Plan:
    """The tree of one query; ``branches`` has those deepest in it first."""

    def __init__(
        self,
        table: Table,
        where: Where | None,
        values: Callable[[Table], TableValues],
        visibility: Visibility,
        caller: Caller,
        select: Select | None = None,
        sort: tuple[Sort, ...] = (),
    ) -> None:
        """Raise INVALID for conditions that the caller may not have."""
        self._values = values
        self._sort = sort
        self._visibility = visibility
        self._caller = caller
        self.select = select
        self.branches: list[Branch] = []
        self.root = self._node(table, where, select)
        self.outer = frozenset(branch.number for branch in self.root.branches)
        """The branches of the table that the query is about."""

    def tells(self, event: Event) -> bool:
        """Whether an event is of a table of which parts are told beside a record."""
        table = event.table
        return table is not None and any(
            branch.is_selected and branch.node.table.name == table.name for branch in self.branches
        )

    def place(self, seen: Record) -> tuple[Place, ...]:
        """Return the sort key of a record of the query's table, as the caller sees it."""
        values = self.root.values
        return order_key(self._sort, values.value(seen), values.id(seen))

    @property
    def joins(self) -> bool:
        """Whether parts of related records are selected."""
        return any(branch.is_selected for branch in self.branches)

    def _node(self, table: Table, where: Where | None, select: Select | None = None) -> Node:
        first: list[Branch] = []
        asked = None if where is None else self._branched(where, first)
        for related in select.related if select is not None else ():
            relation, inner = related.relation, related.select
            node = self._node(relation.table, None, inner)
            node.narrowed(of_others(relation, ()), 1)
            branch = Branch(len(self.branches), relation, node, inner, is_selected=True)
            self.branches.append(branch)
            first.append(branch)
        values = self._values(table)
        return Node(table, asked, first, values, self._visibility, self._caller)

    def _branched(self, where: Where, found: list[Branch]) -> Where:
        """Return conditions whose related ones name their branch, which ``found`` gets."""
        if isinstance(where, Group):
            return replace(where, items=tuple(self._branched(item, found) for item in where.items))
        if not isinstance(where, Condition) or not isinstance(where.value, RelatedKeys):
            return where
        relation = where.value.relation
        node = self._node(relation.table, where.value.where)
        branch = Branch(len(self.branches), relation, node)
        self.branches.append(branch)
        found.append(branch)
        return replace(where, value=branch)

    @property
    def nodes(self) -> Iterator[Node]:
        """The conditions on each table, the deepest first."""
        for branch in self.branches:
            yield branch.node
        yield self.root

    def holder(self, branch: Branch) -> Node:
        """Return the node from which a branch leads."""
        return next(node for node in self.nodes if branch in node.branches)

    @property
    def tables(self) -> list[Table]:
        """The tables, each once, with that of the query first."""
        named = {node.table.name: node.table for node in [self.root, *self.nodes]}
        return list(named.values())

    def loose(self, table: Table) -> Where:
        """Return what holds for each record of a table that may concern the query."""
        parts = [node.loose for node in self.nodes if node.table.name == table.name]
        return join(parts, all_of=False)

    def count(self, event: Event, counts: Counts, positions: Sequence[int] = ()) -> set[int] | None:
        """Take a write of a related record; return the branches of which a key is new, or gone.

        None: that is not known. Where it was one deep in the tree, others are not counted yet.
        ``positions`` are those of each branch, if they differ.
        """
        before, moved = before_of(event), set[int]()
        if isinstance(before, UnknownBefore):
            return None
        has = has_of(counts)
        for branch in self.branches:
            number, node = branch.number, branch.node
            known = branch.is_selected or (bool(positions) and event.seq <= positions[number])
            if known or event.table is None or node.table.name != event.table.name:
                continue
            old, new = branch.led_to(before, has), branch.led_to(event, has)
            if old != new:
                gone, come = add(counts[number], old, -1), add(counts[number], new, 1)
                moved |= {number} if gone ^ come else set()
        return moved


def _keys(found: object, *, listed: bool) -> list[Key]:
    """Return a value as a key, or the items of a list, each once."""
    if not listed:
        items: Iterable[object] = (found,)
    else:
        items = found if isinstance(found, list | tuple) else ()
    keys = (key_of(item) for item in items if item is not None)
    return list(dict.fromkeys([key for key in keys if key is not None]))


def of_others(relation: Relation, keys: Iterable[Key]) -> Where:
    """Return the condition on the records of the other table that some keys lead to."""
    return Condition(relation.other, Operator.IN, tuple(value for _, value in keys))


def anything(_number: int, _key: Key) -> bool:
    """Have every key: what holds then may match."""
    return True


def has_of(counts: Counts) -> Has:
    """Return whether a key leads to a record, by how many there are."""
    return lambda number, key: key in counts[number]


def add(counted: dict[Key, int], keys: Iterable[Key], more: int) -> set[Key]:
    """Count more, or fewer records of some keys; return those that are new, or gone."""
    moved: set[Key] = set()
    for key in keys:
        old = counted.get(key, 0)
        counted[key] = old + more
        if not counted[key]:
            del counted[key]
        if not old or not old + more:
            moved.add(key)
    return moved


def _holds(where: Where | None, value: object, record_id: object, has: Has) -> bool:
    """Evaluate as ``conditions.holds`` does, and branches by their keys."""
    if isinstance(where, Group):
        held = (_holds(item, value, record_id, has) for item in where.items)
        return all(held) if where.all_of else any(held)
    branch = where.value if isinstance(where, Condition) else None
    if isinstance(branch, Branch):
        return any(has(branch.number, key) for key in branch.own_keys(value, record_id))
    return holds(where, value, record_id)


def _loose(where: Where | None) -> Where:
    """Return conditions without those on other tables, which may hold."""
    if isinstance(where, Group):
        return join(map(_loose, where.items), all_of=where.all_of)
    if where is None or (isinstance(where, Condition) and isinstance(where.value, Branch)):
        return EVERYTHING
    return where


def _resolved(where: Where, counts: Counts) -> Where:
    """Return conditions on their own table only: branches are replaced by their keys."""
    if isinstance(where, Group):
        return replace(where, items=tuple(_resolved(item, counts) for item in where.items))
    if isinstance(where, Condition) and isinstance(where.value, Branch):
        branch = where.value
        return of_keys(branch.relation, [value for _, value in counts[branch.number]])
    return where
