"""The feature: deletions are noted before they are trimmed, and told to who returns later (E16)."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.callers import Caller
from rowcast.core.compaction_limits import (
    COMPACTED_STEP_BYTES,
    COMPACTED_STEP_EVENTS,
    TOMBSTONES_MAX,
)
from rowcast.core.errors import Error
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.features.compaction.tombstones import Noted, Tombstone, Tombstones
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.seams import Facts
from rowcast.kernel.write import resolver
from rowcast.store.older_rows import Oldest, OldestRoom
from rowcast.store.store import Change, Keep
from rowcast.subscriptions.compacted_past import CompactedPast
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

log = logging.getLogger("rowcast.compaction")

OWNER: Final = "compaction/"
"""The prefix of the owners of tombstones, followed by the name of the table."""
_PLACE: Final = "compaction//place"
"""The owner of the place of each table; no name of a table has a slash."""

_STEP: Final = OldestRoom(COMPACTED_STEP_EVENTS, COMPACTED_STEP_BYTES)


@dataclass(frozen=True, slots=True)
class CompactionBounds:
    """Tombstones of a table, and how much of its history is looked through at a time."""

    tombstones_max: int = TOMBSTONES_MAX
    step: OldestRoom = _STEP


class LogCompaction(Feature):
    """The tombstones of all tables that are compacted."""

    def __init__(
        self,
        store: JournaledStore,
        tables: Sequence[Table],
        bounds: CompactionBounds | None = None,
    ) -> None:
        self._store = store
        self._bounds = bounds or CompactionBounds()
        self._tables = {table.name: table for table in tables if table.compacts}
        self.tombstones = {name: Tombstones(self._bounds.tombstones_max) for name in self._tables}
        self._stale: set[str] = set()
        """Tables whose stored tombstones are to be dropped."""

    def install(self, kernel: Kernel) -> None:
        """Be asked before a part is trimmed, and when a cursor is too old for the log."""
        self._kernel = kernel
        if self._tables:
            kernel.facts(OWNER, self._restore)
            kernel.compaction = self

    def _restore(self, facts: Facts) -> None:
        """Restore tombstones; those of another log, or of an earlier run without it, are stale."""
        places = {name: value for owner, name, value in facts if owner == _PLACE}
        found: dict[str, dict[str, Tombstone]] = {}
        for owner, record_id, value in facts:
            if owner != _PLACE:
                seq, version, at = cast("tuple[int, int, float]", decode(value, CBOR))
                of = found.setdefault(owner.removeprefix(OWNER), {})
                of[record_id] = Tombstone(record_id, seq, version, at)
        for name, table in self._tables.items():
            self._begin(table, places.get(name), found.get(name, {}))

    def _begin(self, table: Table, place: bytes | None, known: Mapping[str, Tombstone]) -> None:
        tombstones, trimmed = self.tombstones[table.name], self._kernel.reader.trimmed([table])
        epoch, since, upto = (
            ("", 0, 0) if place is None else cast("tuple[str, int, int]", decode(place, CBOR))
        )
        if epoch != self._store.epoch or trimmed > upto:
            tombstones.begin(trimmed)
            self._stale.add(table.name)
            return
        tombstones.since, tombstones.upto = since, upto
        ordered = sorted(known.items(), key=lambda item: item[1].seq)
        tombstones.known = dict(ordered)

    # -- before a trim -----------------------------------------------------------------------------

    async def secure(self, source: LogSource, keep: Keep, now_seconds: float) -> int | None:
        """Note the deletions among the oldest events of a part; return how many may be trimmed.

        None if the part is not compacted; 0 if there are none, or the disk refuses.
        """
        table = self._tables.get(source.name) if isinstance(source, Table) else None
        if table is None:
            return None
        found = await self._oldest(table, keep, now_seconds)
        tombstones, beyond = self.tombstones[table.name], 0 if found is None else found.beyond
        changed = tombstones.note(_noted(found), now_seconds)
        gone = tombstones.forget(now_seconds - table.tombstone_seconds)
        if beyond or gone:
            error = await self._keep(table, {**changed, **dict.fromkeys(gone)})
            if error is not None:
                log.warning("%s: nothing is trimmed yet: %s", table.name, error.message)
                self._stale.add(table.name)  # all are written again
                return 0
        return beyond

    async def _oldest(self, table: Table, keep: Keep, now_seconds: float) -> Oldest | None:
        store, step = self._store, self._bounds.step
        return await self._kernel.reader.ask(
            lambda _: store.oldest_beyond(table, keep, now_seconds, step)
        )

    async def _keep(self, table: Table, changed: Mapping[str, Tombstone | None]) -> Error | None:
        """Write changed tombstones, or all where the stored ones are stale, and the place.

        Returns the Error if they are not on the disk then: it may be of these alone.
        """
        owner, tombstones, changes = OWNER + table.name, self.tombstones[table.name], []
        if table.name in self._stale:
            changes.append(Change(owner, "", None))
            changed = tombstones.known
            self._stale.discard(table.name)
        for record_id, made in changed.items():
            value = None if made is None else encode([made.seq, made.version, made.noted_at], CBOR)
            changes.append(Change(owner, record_id, value))
        place = [self._store.epoch, tombstones.since, tombstones.upto]
        changes.append(Change(_PLACE, table.name, encode(place, CBOR)))
        kept: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
        self._kernel.committer.keep(changes, resolver(kept))
        return await kept

    # -- for who returns ---------------------------------------------------------------------------

    def past(self, interest: SubscribedFilter, after: int, caller: Caller) -> CompactedPast | None:
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
        upto = self._kernel.reader.trimmed([table])
        deleted = self.tombstones[table.name].between(after, upto)
        if deleted is None:
            return None
        return CompactedPast(table, interest.topics, after, upto, deleted)


def _noted(found: Oldest | None) -> list[Noted]:
    rows = [] if found is None else found.rows
    return [
        Noted(cast("int", row[0]), cast("str", row[2]), cast("str", row[3]), cast("int", row[4]))
        for row in rows
    ]
