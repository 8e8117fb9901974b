"""Reads that follow relationships to other tables (A9, B8).

A condition on another table becomes one on the keys of its matching records, and the related
records of a page are read together: one statement for each relationship, however many records there
are. Every read is that of the caller, with its rights to the other table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.comparison import RANK_LAST, rank_of
from rowcast.core.conditions import Condition, Group, Operator, Where, reach
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.events import MISSING, Record, local_id
from rowcast.core.queries import Query, RelatedSelect, Select
from rowcast.core.relation_limits import RELATED_RECORDS_MAX
from rowcast.core.relations import RelatedKeys, Relation, of_keys, related_conditions
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.rows.transcoder import Transcoder
from rowcast.store.store import Page

Joined = dict[str, object]
"""The values of a record's relationships, by name."""
Key = tuple[int, object]


class Searching(Protocol):
    """What is asked of the kernel's reads, for a caller."""

    async def search(self, table: Table, query: Query, caller: Caller, /) -> Page:
        """Return one page of a query."""


class RelatedReads:
    """Follows relationships for one kernel; ``most``: records of another table at a time."""

    def __init__(
        self, reads: Searching, transcoder: Transcoder, most: int = RELATED_RECORDS_MAX
    ) -> None:
        self._reads = reads
        self._transcoder = transcoder
        self._most = most

    # -- conditions --------------------------------------------------------------------------------

    async def resolved(self, query: Query, caller: Caller) -> Query:
        """Return a query whose conditions are on its own table only.

        It holds for a record if any related record matches. Raises INVALID when too many do.
        """
        if query.where is None or not any(related_conditions(query.where)):
            return query
        return replace(query, where=await self._resolved(query.where, caller))

    async def _resolved(self, where: Where, caller: Caller) -> Where:
        if isinstance(where, Group):
            items = [await self._resolved(item, caller) for item in where.items]
            return replace(where, items=tuple(items))
        if not isinstance(where, Condition) or not isinstance(where.value, RelatedKeys):
            return where
        relation = where.value.relation
        inner = await self._resolved(where.value.where, caller)
        records = await self._read(relation, inner, caller)
        keys = {_key(item): item for record in records for item in self._others(relation, record)}
        return of_keys(relation, list(keys.values()))

    async def _read(
        self, relation: Relation, where: Where, caller: Caller, select: Select | None = None
    ) -> Sequence[Record]:
        """Return the records of the other table that match; raises INVALID for too many.

        Also for a name in ``select`` that is certainly misspelt.
        """
        query = Query(where, select, limit=self._most + 1)
        page = await self._reads.search(relation.table, query, caller)
        if len(page.records) > self._most:
            raise Error(
                Code.INVALID,
                f"{relation.name} leads to more than {self._most} records of "
                f"{relation.table.name}; narrow the query, or ask for smaller pages: limit(100)",
            )
        return page.records

    # -- values ------------------------------------------------------------------------------------

    async def joined(
        self,
        table: Table,
        select: Select | None,
        records: Sequence[Record],
        caller: Caller,
        spelling: str,
    ) -> Mapping[str, Joined]:
        """Return the selected related values of each record, by topic.

        ``spelling`` is the media type that they are spelled for. What a relationship to one record
        does not find is null, and to many an empty list.
        """
        found: dict[str, Joined] = {record.topic: {} for record in records}
        for related in select.related if select is not None and records else ():
            relation = related.relation
            keys = {record.topic: self._keys(relation, table, record) for record in records}
            values = await self._values(related, keys.values(), caller, spelling)
            for topic, own in keys.items():
                items = [item for key in own for item in values.get(key, ())]
                one = items[0] if items else None
                found[topic][relation.name] = items if relation.many else one
        return found

    async def _values(
        self, related: RelatedSelect, keys: Iterable[list[Key]], caller: Caller, spelling: str
    ) -> Mapping[Key, list[object]]:
        """Return the selected values of the other records, by the key that leads to them."""
        relation, select = related.relation, related.select
        wanted = tuple(item for _, item in dict.fromkeys(key for some in keys for key in some))
        if not wanted:
            return {}
        where = Condition(relation.other, Operator.IN, wanted)
        records = await self._read(relation, where, caller, select)
        inner = await self.joined(relation.table, select, records, caller, spelling)
        found: dict[Key, list[object]] = {}
        for record in records:
            value = self._selected(relation.table, select, record, inner[record.topic], spelling)
            for item in self._others(relation, record):
                found.setdefault(_key(item), []).append(value)
        return found

    def _selected(
        self, table: Table, select: Select | None, record: Record, inner: Joined, spelling: str
    ) -> object:
        record_id = parse_id(table, local_id(table, record.topic))
        value = self._transcoder.spelled(record, spelling)
        name = table.primary_key.name if table.primary_key else "id"
        if isinstance(value, dict):
            value = {name: record_id} | value | inner
        else:
            value = {name: record_id, "value": value}
        return project(select, value, record_id)

    def _keys(self, relation: Relation, table: Table, record: Record) -> list[Key]:
        """Return the keys by which a record leads to others."""
        record_id = parse_id(table, local_id(table, record.topic))
        return list(dict.fromkeys(map(_key, relation.keys(self._decoded(record), record_id))))

    def _others(self, relation: Relation, record: Record) -> list[object]:
        """Return the keys by which a record of the other table is led to."""
        record_id = parse_id(relation.table, local_id(relation.table, record.topic))
        found = reach(relation.other, self._decoded(record), record_id)
        return [] if found is None else [found]

    def _decoded(self, record: Record) -> object:
        self._transcoder.structured(record)
        return None if record.decoded is MISSING else record.decoded


def _key(item: object) -> Key:
    """Return a value with its kind, so that 1 and true differ; unhashable ones by their text."""
    rank = rank_of(item)
    return rank, item if rank < RANK_LAST else repr(item)
