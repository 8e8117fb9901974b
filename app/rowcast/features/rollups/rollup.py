"""One roll-up: a cursor on the log of its table, whose rows are written with its position.

The rows are a function of the log. A write with a time contributes a reading, which a later write
of the same record with the same time replaces; a deletion takes back the reading that the record
had, unless its lifetime was over. What comes more than ``late`` after the end of its period changes
nothing. Time is that of the newest write.

A page of the log is one transaction: the rows that it changes, the readings of open periods as
facts, and the position after it. So a kill neither loses nor repeats a reading.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, cast

from rowcast.codecs import CBOR, JSON, decode, encode
from rowcast.core.bounded import BoundedCache
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, RETAINED, Event, local_id
from rowcast.core.limits import LOG_PAGE_EVENTS
from rowcast.core.rollup_limits import (
    ROLLUP_FIRST_EVENTS,
    ROLLUP_LEAD_SECONDS,
    ROLLUP_PAGE_BYTES,
    ROLLUP_READINGS_MAX,
    ROLLUP_RECORDS_KNOWN,
)
from rowcast.core.rollups import RollupRule
from rowcast.core.scalars import decimal_text
from rowcast.core.tables import Table
from rowcast.features.rollups.periods import Group, Key, Periods, Values
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import Facts
from rowcast.store.store import Change
from rowcast.writes.write import Group as WriteGroup
from rowcast.writes.write import Outcome, Write, resolver

log = logging.getLogger("rowcast.rollups")

OWNER: Final = "rollups/"
"""The prefix of the owners of all facts of roll-ups."""
_PLACE: Final = "place"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LEAD: Final = round(ROLLUP_LEAD_SECONDS / _MICROSECOND.total_seconds())

_LEVEL_CHARS_MAX: Final = 256
"""Longest text that is a level as it is; eight of them fit into a topic."""
_PLAIN: Final = frozenset({"", ".", "..", "null"})
"""Texts that mean something else in a URL, or in an id."""
_ESCAPED: Final = str.maketrans(
    {chr(code): f"%{code:02X}" for code in (*range(32), 127, *b"%/+#$?")}
)

_WRITER = Caller(user="$server", grants=ALL)


@dataclass(frozen=True, slots=True)
class Said:
    """The time that the last write of a record had, in microseconds, None for none; its expiry."""

    at: int | None
    expires_at: float


class Rollup:
    """The rows of one roll-up."""

    readings_max = ROLLUP_READINGS_MAX
    page_events = LOG_PAGE_EVENTS
    page_bytes = ROLLUP_PAGE_BYTES

    def __init__(self, kernel: Kernel, table: Table, source: Table) -> None:
        self._kernel = kernel
        self.table = table
        self.source = source
        self.rule = cast("RollupRule", table.rollup)
        self.periods = Periods(self.rule)
        self.position = 0
        self._limit = ROLLUP_FIRST_EVENTS
        """Events of the next page, by the sizes of those in the last one."""
        self._newest = 0
        """The newest version of a write that was applied: its time, in microseconds."""
        self._floor = 0
        """Periods that begin earlier are complete, or cannot be: they change no more."""
        self._known: BoundedCache[str, Said] = BoundedCache(ROLLUP_RECORDS_KNOWN)
        self._owner = f"{OWNER}{table.name}/"
        self.stale: list[str] = []
        """Owners of facts of an earlier rule, to be dropped."""
        self.too_late = 0
        """Readings and corrections that came too late, or whose time is in the future."""

    # -- restoring ---------------------------------------------------------------------------------

    def restore(self, facts: Facts) -> None:
        """Restore the readings of open periods; those of another rule are dropped."""
        own = [fact for fact in facts if fact[0].startswith(self._owner)]
        place = next((value for owner, _, value in own if owner == self._owner + _PLACE), None)
        said = cast("list[object]", decode(place, CBOR)) if place is not None else []
        if not said or said[0] != self.rule.digest:
            self.stale = sorted({owner for owner, _, _ in own})
            return
        _, self.position, self._newest, self._floor = cast("tuple[str, int, int, int]", said)
        for owner, name, value in own:
            if owner != self._owner + _PLACE:
                group, values = cast("tuple[list[object], list[object]]", decode(value, CBOR))
                at, _, record_id = name.partition("/")
                key, taken = (record_id, int(at)), self.periods.values(values)
                for _ in self.periods.put(key, tuple(group), taken):
                    pass

    # -- the log -----------------------------------------------------------------------------------

    async def catch_up(self, pause: Callable[[], "asyncio.Future[None]"]) -> None:
        """Apply the log up to what is announced, a page at a time; ``pause`` follows a refusal."""
        reader = self._kernel.reader
        while True:
            trimmed = reader.trimmed([self.source])
            limit = min(self._limit, self.page_events)
            page = await reader.page(self.position, limit, [self.source])
            if trimmed > self.position and page.events:
                self._skip(page.events[0].version)
            before = await self._befores(page.events)
            batch = _Batch(self)
            for event in page.events:
                batch.apply(event, before.get(event.seq))
            batch.close()
            self.position = page.upto
            if page.events:
                self._fit(page.events)
                while not await batch.write(self._kernel):
                    await pause()
                self.stale = []
            if page.upto >= self._kernel.committer.announced:
                return

    def _fit(self, events: Sequence[Event]) -> None:
        """Set how many events the next page has, by the sizes of these."""
        size, count = sum(len(event.payload) for event in events), len(events)
        self._limit = max(1, self.page_bytes * count // max(1, size))

    def _skip(self, version: int) -> None:
        """Leave out what the log no longer has: a period that it has a part of would be wrong."""
        if self.position:
            log.error("%s: the log was trimmed before it was rolled up", self.table.name)
        self._floor = max(self._floor, self.rule.period(version) + self.rule.every)

    async def _befores(self, events: Sequence[Event]) -> dict[int, Said]:
        """Return what deleted records had said, by the numbers of the deletions.

        It is read before anything is applied, so that a read that fails can be repeated.
        """
        found: dict[int, Said] = {}
        latest: dict[str, Event] = {}
        for event in events:
            if event.kind not in RETAINED:
                continue
            earlier, latest[event.topic] = latest.get(event.topic), event
            if event.kind != DELETE:
                continue
            known = self._known.get(event.topic) if earlier is None else None
            if earlier is None and known is None:
                reader = self._kernel.reader
                earlier = await reader.change(self.source, event.topic, event.seq - 1)
            if earlier is not None and earlier.kind != DELETE:
                known = self.said(earlier)
            if known is not None:
                found[event.seq] = known
        return found

    def said(self, event: Event) -> Said:
        """Return the time that a write has."""
        value = event.decoded if self._kernel.transcoder.structured(event) else None
        at = value.get(self.rule.time) if isinstance(value, dict) else None
        time = (at - _EPOCH) // _MICROSECOND if isinstance(at, datetime) else None
        return Said(time, event.expires_at)

    def note(self, topic: str, said: Said | None) -> None:
        """Note the last write of a record; None: it is gone."""
        if said is None:
            self._known.pop(topic, None)
        else:
            self._known.put(topic, said)

    def is_open(self, at: int) -> bool:
        """Whether a reading of a time is taken now."""
        start = self.rule.period(at)
        end = start + self.rule.every + self.rule.late
        return start >= self._floor and end >= self._newest and at <= self._newest + _LEAD

    def seen(self, version: int) -> None:
        """Note the time of a write."""
        self._newest = max(self._newest, version)

    def closing(self) -> list[int]:
        """Return the starts of periods that change no more, also because memory is short."""
        ended = self.rule.every + self.rule.late
        starts = sorted(self.periods.open)
        found = [start for start in starts if start + ended < self._newest]
        left, rest = self.periods.readings, starts[len(found) :]
        left -= sum(len(self.periods.open[start].of) for start in found)
        while left > self.readings_max and rest:
            start = rest.pop(0)
            log.warning("%s: too many readings; %d takes no more", self.table.name, start)
            left -= len(self.periods.open[start].of)
            self._floor = max(self._floor, start + self.rule.every)
            found.append(start)
        return found

    # -- what is written ---------------------------------------------------------------------------

    def owner(self, start: int) -> str:
        """Return the owner of the facts of a period."""
        return f"{self._owner}{start}"

    def place(self) -> Change:
        """Return the fact of the position."""
        said = [self.rule.digest, self.position, self._newest, self._floor]
        return Change(self._owner + _PLACE, _PLACE, encode(said, CBOR))

    def rows(self, changed: Iterable[tuple[int, Group]]) -> list[Event]:
        """Return the writes of rows that have changed, without those that are too large.

        A group is as long as a client makes it: the refusal of one row would hold up all others.
        """
        made = [self.event(start, group) for start, group in changed]
        most = self._kernel.admission.payload_bytes_max
        found = [row for row in made if len(row.payload) <= most]
        if left := len(made) - len(found):
            words = "%s: %d rows are left out, because they have more than %d bytes"
            log.warning(words, self.table.name, left, most)
        return found

    def event(self, start: int, group: Group) -> Event:
        """Return the write of the row of a group in a period: its deletion if it has nothing."""
        moment = (_EPOCH + start * _MICROSECOND).isoformat().replace("+00:00", "Z")
        levels = [_level(value) for value in group]
        record_id = "/".join([*levels, moment])
        topic = self.table.topic(record_id)
        row = self.periods.row(start, group)
        if row is None:
            return Event(topic, DELETE, b"", None, 1, True)
        named = dict(zip(self.rule.by, group, strict=True))
        plain = {name: decimal_text(value) for name, value in row.items()}
        value = {**named, self.rule.time: moment, **plain}
        return Event(topic, PUT, encode(value, JSON), JSON, 1, True)


class _Batch:
    """What one page of the log changes."""

    def __init__(self, rollup: Rollup) -> None:
        self._rollup = rollup
        self._facts: dict[tuple[str, str], bytes | None] = {}
        self._dirty: dict[tuple[int, Group], None] = {}
        self._events: list[Event] = []
        self._gone: list[Change] = []

    def apply(self, event: Event, before: Said | None) -> None:
        """Apply one event of the log; ``before`` is what a deleted record had said."""
        rollup = self._rollup
        if event.kind not in RETAINED:
            return
        rollup.seen(event.version)
        record_id = local_id(rollup.source, event.topic)
        if event.kind == DELETE:
            rollup.note(event.topic, None)
            over = before is not None and 0 < before.expires_at <= seconds_of(event.version)
            if before is not None and before.at is not None and not over:
                self._take((record_id, before.at))
            return
        said = rollup.said(event)
        rollup.note(event.topic, said)
        if said.at is not None:
            value = cast("dict[str, object]", event.decoded)
            group = tuple(value.get(name) for name in rollup.rule.by)
            numbers = rollup.periods.values([value.get(name) for name, _ in rollup.rule.values])
            self._put((record_id, said.at), group, numbers)

    def _put(self, key: Key, group: Group, values: Values) -> None:
        rollup = self._rollup
        if not rollup.is_open(key[1]):
            rollup.too_late += 1
            return
        self._dirty.update(dict.fromkeys(rollup.periods.put(key, group, values)))
        self._facts[self._name(key)] = encode([list(group), list(values)], CBOR)

    def _take(self, key: Key) -> None:
        rollup = self._rollup
        if not rollup.is_open(key[1]):
            rollup.too_late += 1
            return
        changed = dict.fromkeys(rollup.periods.take(key))
        if changed:
            self._dirty.update(changed)
            self._facts[self._name(key)] = None

    def _name(self, key: Key) -> tuple[str, str]:
        record_id, at = key
        return self._rollup.owner(self._rollup.rule.period(at)), f"{at}/{record_id}"

    def close(self) -> None:
        """Make the rows, and forget what changes no more."""
        rollup = self._rollup
        self._events = rollup.rows(self._dirty)
        for start in rollup.closing():
            rollup.periods.close(start)
            self._gone.append(Change(rollup.owner(start), "", None))

    async def write(self, kernel: Kernel) -> bool:
        """Write it in one transaction; return whether the disk took it."""
        changes = [Change(owner, "", None) for owner in self._rollup.stale]
        changes += [Change(*name, fact) for name, fact in self._facts.items()]
        changes += [*self._gone, self._rollup.place()]
        try:
            if self._events:
                await _write_all(kernel, self._events, changes)
            else:
                kernel.committer.keep(changes)
                await kernel.committer.durable()
        except Error as error:
            log.warning("%s: its rows wait: %s", self._rollup.table.name, error.message)
            return False
        return True


async def _write_all(kernel: Kernel, events: Sequence[Event], changes: Sequence[Change]) -> None:
    """Write events and changes of facts, all or none; raises the Error of a refusal."""
    writes = [Write(event.changed(), _WRITER, passed=True) for event in events]
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    group = WriteGroup(writes, lambda _outcomes: changes)
    for write in writes:
        kernel.writes.admit(write)
        write.group = group
    writes[-1].done = resolver(future)
    kernel.writes.commit_or_announce(writes)
    outcome = await future
    if isinstance(outcome, Error):
        raise outcome


def _level(value: object) -> str:
    """Return a value as one level of a topic and of a URL, another one for each value."""
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if len(text) > _LEVEL_CHARS_MAX:
        return f"%{blake2b(text.encode(), digest_size=16).hexdigest()}"
    if text in _PLAIN:
        return f"%{text}"
    return text.translate(_ESCAPED)


def refuse_writes(rollup: Table) -> Callable[[Write], None]:
    """Return the step that refuses the writes of clients; administrators may delete rows."""

    def refuse(write: Write) -> None:
        caller = write.caller
        deletes = write.event.kind == DELETE and caller.grants.administer
        if caller.door != "server" and not deletes:
            raise Error(
                Code.NOT_ALLOWED,
                f"the server keeps the rows of {rollup.name}: write the records that it rolls up",
                allow=["GET", "HEAD", "OPTIONS"],
            )

    return refuse
