"""Alarms: follows the records of tables with ``@alarm``, and stores and reports what changes.

It listens on the bus like any subscriber. The state of each alarm is a function of the log and of
time (``state_machine.py``). A change that others are told of is stored in one transaction with the
event at its topic, the call of its webhook, all silent changes before it, and the position of the
log up to which all that is applied. At start, the stored states are restored, and the log after
that position is applied with the times of its events. So a kill neither loses a change nor repeats
one. Where the log no longer reaches back, and for a new or changed alarm, the state is computed
from the current records.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, cast

from rowcast.bus.subscriber import Subscriber
from rowcast.codecs import CBOR, decode, encode
from rowcast.core.alarm_limits import (
    ALARM_CHANGES_PER_COMMIT,
    ALARM_CHECKPOINT_EVENTS,
    ALARM_CHECKPOINT_SECONDS,
    ALARM_DUE_PER_TURN,
    ALARM_RETRY_SECONDS,
    ALARM_TIMER_SECONDS_MAX,
)
from rowcast.core.callers import ALL, Caller
from rowcast.core.clauses import AlarmRule
from rowcast.core.clock import seconds_of
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, RETAINED, Event, local_id
from rowcast.core.limits import LOG_PAGE_EVENTS, SCAN_PAGE_RECORDS
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.core.values import parse_id
from rowcast.features.alarms.alarm_facts import event_of
from rowcast.features.alarms.alarm_states import AlarmStates, Entry
from rowcast.features.alarms.state_machine import Alarm, Step
from rowcast.features.alarms.webhooks import Call, Webhooks
from rowcast.kernel.feature import Background
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import Facts, RowChanged
from rowcast.store.store import Change
from rowcast.writes.last_write_wins import is_stamped
from rowcast.writes.write import Group, Outcome, Write, resolve

log = logging.getLogger("rowcast.alarms")

OWNER: Final = "alarms/"
"""The prefix of the owners of its facts."""
STATES: Final = f"{OWNER}states"
PLACE: Final = f"{OWNER}place"
_POSITION: Final = "position"
_RULES: Final = "rules"

_WRITER = Caller(user="$server", grants=ALL)


class Alarms(Subscriber):
    """The alarms of one kernel."""

    changes_per_commit = ALARM_CHANGES_PER_COMMIT
    checkpoint_events = ALARM_CHECKPOINT_EVENTS
    retry_seconds = ALARM_RETRY_SECONDS

    _timer_at = 0.0  # uvloop's handle of a call that is due at once cannot say when

    def __init__(
        self, kernel: Kernel, states: AlarmStates, calls: Webhooks, changed: RowChanged
    ) -> None:
        self._kernel = kernel
        self.states = states
        self._calls = calls
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._sources = list(states.tables)
        self._rules: dict[str, str] = {}
        """The digests of the rules whose states are known, by table and name."""
        self._computed: int | None = None
        """Entries after which the rules are stored, since their states are; None: they are."""
        self._live = False
        self._timer: asyncio.Handle | None = None
        self._writing = 0
        """Entries of the journal that are being stored."""
        self._scheduled = False
        self._checkpoint: asyncio.TimerHandle | None = None
        self._stored_position = 0
        self._ended = 0
        """Entries that were stored since the start."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._stopped = False
        self.behind = Background()
        """Reads the log where its events were not offered."""

    # -- the start ---------------------------------------------------------------------------------

    def restore(self, facts: Facts) -> None:
        """Restore what an earlier run has stored."""
        place = {name: decode(value, CBOR) for owner, name, value in facts if owner == PLACE}
        states = self.states
        states.position = self._stored_position = cast("int", place.get(_POSITION, 0))
        self._rules = cast("dict[str, str]", place.get(_RULES, {}))
        found = ((name, value) for owner, name, value in facts if owner == STATES)
        for name in states.restore(found):
            states.remove(name)

    async def start(self) -> None:
        """Compute the states from the log or the records, and follow the log from now on."""
        wanted = {
            f"{table.name}/{rule.name}": rule.digest
            for table in self._sources
            for rule in table.alarms
        }
        if not (wanted or self._rules):  # nothing is declared, nor was before: nothing is written
            return
        for table in self._sources:
            self._kernel.bus.add(TopicFilter.below(table.path or ""), self)
        if self._kernel.reader.trimmed(self._sources) > self.states.position:
            self._rules = {}  # a part that is needed is gone
        self._rules = {
            name: digest for name, digest in self._rules.items() if wanted.get(name) == digest
        }
        if self._rules:
            await self._catch_up()
        self.states.position = max(self.states.position, self._kernel.committer.announced)
        for table in self._sources:
            for rule in table.alarms:
                if f"{table.name}/{rule.name}" not in self._rules:
                    await self._compute(table, rule)
        self._rules = wanted
        self._computed = len(self.states.journal)
        await self._catch_up(live=True)
        self._flush_soon()
        self._arm()

    async def _catch_up(self, *, live: bool = False) -> None:
        """Apply the log up to what is announced; ``live``: then listen to the bus."""
        if not self._sources:
            return
        reader, states = self._kernel.reader, self.states
        while True:
            page = await reader.page(states.position, LOG_PAGE_EVENTS, self._sources)
            for event in page.events:
                self._apply(event, min(seconds_of(event.version), self._kernel.now()))
            states.position = max(states.position, page.upto)
            if page.upto >= self._kernel.committer.announced:
                self._live = live
                return

    async def _compute(self, table: Table, rule: AlarmRule) -> None:
        """Compute the states of a rule from current records."""
        reader, states = self._kernel.reader, self.states
        await reader.caught_up()
        query, found = Query(rule.when, limit=SCAN_PAGE_RECORDS), set[str]()
        while True:
            page = await reader.search(table, query)
            for record in page.records:
                found.add(record.topic)
                self._observe((rule,), record, min(seconds_of(record.version), self._kernel.now()))
            if not page.after:
                break
            query = replace(query, after=page.after)
        for held in states.of_rule(table, rule):
            if held.topic in found:
                continue
            kept = await reader.get(table, held.topic)
            if kept is None:
                states.delete(rule, held.topic, self._kernel.now())
            else:
                self._observe((rule,), kept, min(seconds_of(kept.version), self._kernel.now()))

    # -- events ------------------------------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Apply a write of a record."""
        table = event.table
        if table is None or not table.alarms or event.kind not in RETAINED or not self._live:
            return
        now = self._kernel.now()
        self._apply(event, now if is_stamped(event) else min(seconds_of(event.version), now))
        if self.states.journal:
            self._flush_soon()
            self._arm()
        elif event.seq - self._stored_position > self.checkpoint_events:
            self._flush_soon()

    def fall_behind(self, event: Event) -> None:  # noqa: ARG002 - all are read
        """Read from the log what is not offered, and what comes meanwhile."""
        if self._live and not self._stopped:
            self._live = False
            self.behind.run(self._follow())

    async def _follow(self) -> None:
        while not self._live:
            try:
                await self._catch_up(live=True)
            except Error as error:  # such as BUSY, of a disk that is slow for a moment
                log.warning("alarms read the log later: %s", error.message)
                await asyncio.sleep(self.retry_seconds)
        self._flush_soon()
        self._arm()

    def _apply(self, event: Event, at: float) -> None:
        table = event.table
        if table is None or event.kind not in RETAINED:
            return
        self.states.position = event.seq
        rules = table.alarms
        if not self._live:
            rules = tuple(rule for rule in rules if f"{table.name}/{rule.name}" in self._rules)
        if event.kind != DELETE:
            self._observe(rules, event, at)
            return
        for rule in rules:
            self.states.delete(rule, event.topic, at)

    def _observe(self, rules: Sequence[AlarmRule], record: Event, at: float) -> None:
        table = cast("Table", record.table)
        value = record.decoded if self._kernel.transcoder.structured(record) else None
        record_id = parse_id(table, local_id(table, record.topic))
        for rule in rules:
            self.states.observe(rule, record.topic, at, value, record_id)

    # -- time --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Set the timer for the next alarm that is due."""
        due = self.states.next_due
        if self._stopped or due == float("inf"):
            return
        seconds = min(max(0.0, due - self._kernel.now()), ALARM_TIMER_SECONDS_MAX)
        when = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        """Let time pass, for a bounded number of alarms per turn."""
        self._timer = None
        self.states.advance(self._kernel.now(), ALARM_DUE_PER_TURN)
        self._flush_soon()
        self._arm()

    # -- storing -----------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Store the journal at the end of this turn, or later if nobody is told of it."""
        if self._scheduled or self._writing or self._stopped:
            return
        states = self.states
        urgent = len(states.journal) >= self.changes_per_commit or any(
            entry.happened is not None for entry in states.journal
        )
        behind = states.position - self._stored_position > self.checkpoint_events
        if urgent or behind or self._waiters or self._computed is not None:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        elif states.journal and self._checkpoint is None:
            self._checkpoint = self._loop.call_later(ALARM_CHECKPOINT_SECONDS, self._store_silent)

    def _store_silent(self) -> None:
        self._checkpoint = None
        self._flush()

    def _flush(self) -> None:
        """Store the next entries of the journal in one transaction."""
        self._scheduled = False
        if self._writing or self._stopped:
            return
        if self._kernel.committer.crowded:
            self._scheduled = True
            self._kernel.committer.when_relieved(self._flush)
            return
        states = self.states
        entries = states.journal[: self.changes_per_commit]
        position = states.position
        if len(states.journal) > len(entries):  # what is not stored must be applied again
            position = min(entries[-1].position, states.journal[len(entries)].position - 1)
        position = max(position, self._stored_position)
        changes = [Change(STATES, name, fact) for name, fact in _facts(entries).items()]
        changes.append(Change(PLACE, _POSITION, encode(position, CBOR)))
        if self._computed is not None and len(entries) >= self._computed:
            changes.append(Change(PLACE, _RULES, encode(self._rules, CBOR)))
        calls = self._calls.plan(entries)
        changes += [call.change for call in calls]
        self._writing = len(entries) or 1
        self._submit(entries, changes, partial(self._stored, entries, position, calls))

    def _submit(
        self,
        entries: Sequence[Entry],
        changes: Sequence[Change],
        done: Callable[[Error | None], None],
    ) -> None:
        events = [event_of(entry) for entry in entries if entry.happened is not None]
        writes = [Write(event, _WRITER, passed=True) for event in events if event is not None]
        if not writes:
            self._kernel.committer.keep(changes, done)
            return

        def ended(outcome: Outcome) -> None:
            done(outcome if isinstance(outcome, Error) else None)

        group = Group(writes, lambda _outcomes: changes)
        writes[-1].done = ended
        try:
            for write in writes:
                self._kernel.writes.admit(write)
                write.group = group
            self._kernel.writes.commit_or_announce(writes)
        except Error as error:
            done(error)

    def _stored(
        self,
        entries: Sequence[Entry],
        position: int,
        calls: Sequence[Call],
        error: Error | None,
    ) -> None:
        """Note that entries are stored, or try again later."""
        self._writing = 0
        if error is not None:
            log.warning("%d changes of alarms are not stored yet: %s", len(entries), error.message)
            if not self._stopped:
                self._loop.call_later(ALARM_RETRY_SECONDS, self._flush)
            return
        self._stored_position = position
        if self._computed is not None:
            left = self._computed - len(entries)
            self._computed = left if left > 0 else None
        self._calls.add(calls)
        del self.states.journal[: len(entries)]
        self._ended += len(entries)
        for name in {entry.name: None for entry in entries}:
            self._changed(name)
        waiters, self._waiters = self._waiters, []
        for wanted, future in waiters:
            if wanted <= self._ended:
                resolve(future, None)
            else:
                self._waiters.append((wanted, future))
        if self.states.journal:
            self._flush_soon()

    async def change(self, name: str, act: Callable[[Alarm, float], Step], user: str) -> None:
        """Apply what somebody does to an alarm, and wait until it is stored."""
        self.states.change(name, self._kernel.now(), act, user)
        self._flush_soon()
        self._arm()
        await self.stored()

    async def stored(self) -> None:
        """Wait until all changes so far are stored."""
        wanted = self._ended + len(self.states.journal)
        if wanted > self._ended:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((wanted, future))
            self._flush_soon()
            await future

    def stop(self) -> None:
        """Stop; what is not stored is computed again at the next start."""
        self._stopped = True
        for timer in (self._timer, self._checkpoint):
            if timer is not None:
                timer.cancel()
        for table in self._sources:
            self._kernel.bus.remove(TopicFilter.below(table.path or ""), self)
        for _, future in self._waiters:
            future.cancel()


def _facts(entries: Sequence[Entry]) -> dict[str, bytes | None]:
    """Return the last fact of each alarm."""
    last = {entry.name: entry for entry in entries}
    return {name: entry.fact for name, entry in last.items()}
