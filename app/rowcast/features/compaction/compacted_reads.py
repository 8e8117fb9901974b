"""What readers get of a table whose history was compacted: by any process that follows its log.

It reads facts, which the sequencer has changed before each trim. So what a reader gets
is the same at every node and worker, once that has followed the trim itself.
"""

import asyncio
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final
from weakref import WeakValueDictionary

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.compaction.event_keys import kept_event
from rowcast.features.compaction.facts import (
    OWNER,
    PLACE,
    Place,
    kept_owner,
    place_of,
    tombstones_of,
)
from rowcast.features.compaction.tombstones import Tombstones
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.subscriptions.compacted_past import CompactedPast
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

_NOWHERE: Final = Place()


_SEQ: Final = attrgetter("seq")


class KeptRead:
    """What a table keeps, as it was read; all who have it at a time share it."""

    __slots__ = ("__weakref__", "events", "place")

    def __init__(self, place: Place, events: Sequence[Event]) -> None:
        self.place = place
        self.events = events


class CompactedTables(Feature):
    """The tables that compact, as their readers see them."""

    def __init__(self, store: JournaledStore, tables: Sequence[Table]) -> None:
        self._store = store
        self._tables: Mapping[str, Table] = {item.name: item for item in tables if item.compacts}
        self._read: dict[str, tuple[Place, Tombstones]] = {}
        """Of each table what was read last, and its place then."""
        self._held: WeakValueDictionary[str, KeptRead] = WeakValueDictionary()
        self._turns = {name: asyncio.Lock() for name in self._tables}

    def install(self, kernel: Kernel) -> None:
        """Be asked when a cursor or a range begins before the log does."""
        self._kernel = kernel
        if self._tables:
            kernel.compacted = self

    async def past(
        self, interest: SubscribedFilter, after: int, caller: Caller
    ) -> CompactedPast | None:
        """Return what became of the records of an interest whose part of the log was trimmed.

        None if that is not known: of another table, of more than one, of a live query; or where
        the caller's rights depend on records, so that a deletion might tell of a hidden one.
        """
        stage = self._kernel.stage(caller)
        sources = self._kernel.reader.sources_of(interest)
        if len(sources) != 1 or interest.query is not None or interest.replay is not None:
            return None
        table = sources[0]
        if not isinstance(table, Table) or table.name not in self._tables:
            return None
        if table.ruled or (stage is not None and stage.compares):
            return None
        upto = self._kernel.reader.trimmed([table])  # before the facts, which are never older
        deleted = (await self._tombstones(table)).between(after, upto)
        if deleted is None:
            return None
        everything = await self._everything(table)
        kept = self._chosen(everything, interest.topics, upto)
        return CompactedPast(table, interest.topics, after, upto, deleted, kept, everything)

    async def _tombstones(self, table: Table) -> Tombstones:
        """Return the tombstones of a table: those that were read, while none was noted since."""
        store, name = self._store, table.name

        def read() -> tuple[Place, Tombstones] | None:
            place, known = self._place(name), self._read.get(name)
            if known is not None and known[0] == place:
                return None
            found = Tombstones(0)
            if place.epoch == store.epoch:  # else nothing is known of this log
                found.since, found.upto = place.since, place.upto
                found.known = tombstones_of(store.states(OWNER + name), name)
            return place, found

        found = await self._kernel.reader.ask(lambda _: read())
        if found is not None:
            self._read[name] = found
        return self._read[name][1]

    def _place(self, name: str) -> Place:
        """Return up to where a table is compacted, on a reader's thread."""
        facts = self._store.states(PLACE)
        value = next((value for _, own, value in facts if own == name), None)
        return _NOWHERE if value is None else place_of(value)

    async def kept(self, table: Table, topics: TopicFilter, upto: int) -> list[Event]:
        """Return the events at a filter's topics that stay, of those up to a number, in order."""
        everything = await self._everything(table)
        return self._chosen(everything, topics, upto)

    def _chosen(self, everything: KeptRead, topics: TopicFilter, upto: int) -> list[Event]:
        now_seconds = self._kernel.now()
        return [
            event
            for event in everything.events
            if event.seq <= upto and topics.matches(event.topic)
            if not 0 < event.expires_at <= now_seconds
        ]

    async def _everything(self, table: Table) -> KeptRead:
        """Return all that a table keeps: what another reader has, while nothing has changed."""
        store, name, owner = self._store, table.name, kept_owner(table.name)
        if not table.kept_by or name not in self._tables:
            return KeptRead(_NOWHERE, [])

        def read(known: KeptRead | None) -> KeptRead:
            place = self._place(name)
            if known is not None and known.place == place:
                return known
            events = [kept_event(table, value) for _, _, value in store.states(owner)]
            return KeptRead(place, sorted(events, key=_SEQ))

        async with self._turns[name]:  # so of many that come at once, one reads
            known = self._held.get(name)
            found = await self._kernel.reader.ask(lambda _: read(known))
            self._held[name] = found
        return found
