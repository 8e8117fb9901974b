"""The feature: what is to stay is noted before it is trimmed (E16), and told to who asks later."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from rowcast.core.compaction_limits import (
    COMPACTED_STEP_BYTES,
    COMPACTED_STEP_EVENTS,
    KEPT_BYTES_MAX,
    KEPT_EVENT_BYTES_MAX,
    KEPT_EVENTS_MAX,
    KEPT_STEP_BYTES,
    TOMBSTONES_MAX,
)
from rowcast.core.errors import Error
from rowcast.core.events import local_id
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.features.compaction.compacted_reads import CompactedTables
from rowcast.features.compaction.event_keys import (
    EventKeys,
    event_of,
    kept_event,
    kept_value,
    noted_at,
)
from rowcast.features.compaction.facts import (
    OWNER,
    PLACE,
    Place,
    kept_owner,
    place_change,
    place_of,
    tombstone_change,
    tombstones_of,
)
from rowcast.features.compaction.kept_events import KeptBounds, KeptEvents, TrimmedEvent
from rowcast.features.compaction.tombstones import Tombstone, Tombstones, TrimmedVersion
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import Facts
from rowcast.store.older_rows import Oldest, OldestRoom
from rowcast.store.sql_rows import Row
from rowcast.store.store import Change, Keep
from rowcast.writes.write import resolver

log = logging.getLogger("rowcast.compaction")

_STEP: Final = OldestRoom(COMPACTED_STEP_EVENTS, COMPACTED_STEP_BYTES)
_KEPT: Final = KeptBounds(KEPT_EVENTS_MAX, KEPT_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class CompactionBounds:
    """What stays of a table, and how much of its history is looked through at a time."""

    tombstones_max: int = TOMBSTONES_MAX
    step: OldestRoom = _STEP
    kept: KeptBounds = _KEPT
    event_bytes: int = KEPT_EVENT_BYTES_MAX
    """The largest event that is kept."""

    @property
    def kept_step(self) -> OldestRoom:
        """The step of a table that keeps events."""
        return self.step._replace(bytes=min(self.step.bytes, KEPT_STEP_BYTES))


class _Beyond:
    """What is noted of one table."""

    def __init__(self, table: Table, keys: EventKeys, bounds: CompactionBounds) -> None:
        self.table = table
        self.keys = keys
        self.tombstones = Tombstones(bounds.tombstones_max)
        self.kept = KeptEvents(bounds.kept)
        self.stale = False
        """Whether all stored tombstones are to be written again."""
        self.unsaved: dict[str, bytes | None] = {}
        """Changes of kept events that are not on the disk yet: of one step, and what it evicts."""
        self.kept_stale = False
        """Whether the stored kept events are to be dropped."""
        self.turn = 0
        """That of the place."""

    def place(self, epoch: str) -> Place:
        """Return up to where it is compacted."""
        spelling, noted = tuple(self.keys.spelling), self.tombstones
        return Place(epoch, noted.since, noted.upto, spelling, self.turn)


class LogCompaction(CompactedTables):
    """The tombstones and kept events of all tables that are compacted."""

    def __init__(
        self,
        store: JournaledStore,
        tables: Sequence[Table],
        bounds: CompactionBounds | None = None,
    ) -> None:
        super().__init__(store, tables)
        self._bounds = bounds or CompactionBounds()
        self._beyond: dict[str, _Beyond] = {}

    def install(self, kernel: Kernel) -> None:
        """Be asked before a part is trimmed, too."""
        super().install(kernel)
        self._beyond = {
            name: _Beyond(table, EventKeys(table, kernel.transcoder), self._bounds)
            for name, table in self._tables.items()
        }
        if self._tables:
            kernel.facts(OWNER, self._restore)
            kernel.compaction = self

    @property
    def tombstones(self) -> dict[str, Tombstones]:
        """What is known of the deletions of each table."""
        return {name: beyond.tombstones for name, beyond in self._beyond.items()}

    async def _tombstones(self, table: Table) -> Tombstones:
        return self._beyond[table.name].tombstones  # as they are on the disk, or will be

    def _restore(self, facts: Facts) -> None:
        """Restore what was noted; what is of another log, or ends before the trim, is stale."""
        places = {name: place_of(value) for owner, name, value in facts if owner == PLACE}
        for name, beyond in self._beyond.items():
            place, trimmed = places.get(name), self._kernel.reader.trimmed([beyond.table])
            beyond.turn = 0 if place is None else place.turn
            if place is None or place.epoch != self._store.epoch or trimmed > place.upto:
                beyond.tombstones.begin(trimmed)
                beyond.kept.begin(trimmed)
                beyond.stale = beyond.kept_stale = True
                continue
            tombstones = beyond.tombstones
            tombstones.since, tombstones.upto = place.since, place.upto
            tombstones.known = tombstones_of(facts, name)
            self._restore_kept(beyond, place, facts)

    def _restore_kept(self, beyond: _Beyond, place: Place, facts: Facts) -> None:
        """Restore the index of kept events; those of other keys are stale."""
        beyond.kept.begin(place.upto)
        if place.spelling != tuple(beyond.keys.spelling):
            beyond.kept_stale = True
            return
        owner = kept_owner(beyond.table.name)
        found = [
            (kept_event(beyond.table, value), key, value)
            for own, key, value in facts
            if own == owner
        ]
        for event, key, value in sorted(found, key=lambda item: item[0].seq):
            record_id = local_id(beyond.table, event.topic)
            trimmed = TrimmedEvent(event.seq, record_id, event.kind, event.expires_at, key, value)
            beyond.kept.add(trimmed, noted_at(value))

    # -- before a trim -----------------------------------------------------------------------------

    async def secure(self, source: LogSource, keep: Keep, now_seconds: float) -> int | None:
        """Note what is to stay of the oldest events of a part; return how many may be trimmed.

        None if the part is not compacted; 0 if there are none, or the disk refuses.
        """
        beyond = self._beyond.get(source.name) if isinstance(source, Table) else None
        if beyond is None:
            return None
        found, trimmed = await self._oldest(beyond, keep, now_seconds)
        table, count = beyond.table, 0 if found is None else found.beyond
        changed = beyond.tombstones.note(_noted(found), now_seconds)
        gone = beyond.tombstones.forget(now_seconds - table.tombstone_seconds)
        beyond.unsaved |= beyond.kept.note(trimmed, now_seconds)
        old = beyond.kept.forget(now_seconds, now_seconds - table.tombstone_seconds)
        beyond.unsaved |= dict.fromkeys(old)
        if count or gone or beyond.unsaved:
            error = await self._keep(beyond, {**changed, **dict.fromkeys(gone)})
            if error is not None:
                log.warning("%s: nothing is trimmed yet: %s", table.name, error.message)
                beyond.stale = True  # all are written again
                return 0
        return count

    async def _oldest(
        self, beyond: _Beyond, keep: Keep, now_seconds: float
    ) -> tuple[Oldest | None, list[TrimmedEvent]]:
        """Return the oldest rows of a part, and those that may stay, as they are kept."""
        store, table, bounds = self._store, beyond.table, self._bounds
        step = bounds.kept_step if table.kept_by else bounds.step

        def trimmed(row: Row) -> TrimmedEvent:
            event = event_of(table, row)
            record_id = cast("str", row[2])
            key, value = beyond.keys.key(event, record_id), b""
            if key is not None and len(event.payload) <= bounds.event_bytes:
                value = kept_value(row, now_seconds)
            return TrimmedEvent(event.seq, record_id, event.kind, event.expires_at, key, value)

        def read() -> tuple[Oldest | None, list[TrimmedEvent]]:
            found = store.oldest_beyond(table, keep, now_seconds, step)
            rows = found.rows if found is not None and table.kept_by else []
            return found, [trimmed(row) for row in rows]

        return await self._kernel.reader.ask(lambda _: read())

    async def _keep(self, beyond: _Beyond, changed: Mapping[str, Tombstone | None]) -> Error | None:
        """Write changed tombstones, or all where the stored ones are stale, and the place.

        Returns the Error if they are not on the disk then: it may be of these alone.
        """
        name, changes = beyond.table.name, []
        if beyond.stale:
            changes.append(Change(OWNER + name, "", None))
            changed = beyond.tombstones.known
        if beyond.kept_stale:
            changes.append(Change(kept_owner(name), "", None))
        unsaved, beyond.unsaved = beyond.unsaved, {}
        dropped, beyond.stale, beyond.kept_stale = beyond.kept_stale, False, False
        changes += [tombstone_change(name, record_id, made) for record_id, made in changed.items()]
        changes += [Change(kept_owner(name), key, value) for key, value in unsaved.items()]
        beyond.turn += 1
        changes.append(place_change(name, beyond.place(self._store.epoch)))
        kept: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
        self._kernel.committer.keep(changes, resolver(kept))
        error = await kept
        if error is not None:
            beyond.unsaved, beyond.kept_stale = unsaved | beyond.unsaved, dropped
        return error


def _noted(found: Oldest | None) -> list[TrimmedVersion]:
    rows = [] if found is None else found.rows
    return [
        TrimmedVersion(
            cast("int", row[0]), cast("str", row[2]), cast("str", row[3]), cast("int", row[4])
        )
        for row in rows
    ]
