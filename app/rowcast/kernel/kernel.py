"""The kernel: every read, write and watch, from any protocol, goes through it.

A write is routed, changed by hooks, authorised, taken over by a resource class if there is one,
validated (the order of ``steps.py``), committed (``writes/commit.py``) and announced to every
matching subscription; ``commit_or_announce`` says which messages are announced without that. A
watch is authorised for each filter and registered with the bus (``watching.py``). Features attach
at its seams (``seams/``).

Where its attributes come from: ``submit`` and ``submit_run`` are those of ``write_path.py``;
``rights``, ``hooks``, ``visibility``, ``gate`` and the lists of callbacks of ``seams/seams.py``.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from rowcast.bus.bus import Bus
from rowcast.bus.durable_filters import DurableFilters
from rowcast.codecs import JSON, encode
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, RETAINED, Event, Record
from rowcast.core.facts import Change
from rowcast.core.grouping import GroupRow
from rowcast.core.limits import PAYLOAD_BYTES_MAX
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topics import SERVERS_OWN
from rowcast.kernel.admission import Admission
from rowcast.kernel.atomic_batch import AtomicBatch
from rowcast.kernel.creation import Creation
from rowcast.kernel.query_writes import QueryWrites
from rowcast.kernel.readable import RecordReads, not_found
from rowcast.kernel.reauthorization import Reauthorization
from rowcast.kernel.related_reads import RelatedReads
from rowcast.kernel.resource_dispatch import ResourceDispatch
from rowcast.kernel.row_views import Views
from rowcast.kernel.steps import Steps
from rowcast.kernel.watching import Watching
from rowcast.kernel.write_path import WritePath
from rowcast.reads.loop_turns import in_turns
from rowcast.reads.record_cache import UNKNOWN, Unknown
from rowcast.reads.source_heads import SourceHeads
from rowcast.routes.live_rows import LiveRows
from rowcast.routes.registry import Entry, Registry
from rowcast.routes.resource import Resource
from rowcast.rows.transcoder import Transcoder
from rowcast.seams.seams import RowChanged
from rowcast.store.store import Page
from rowcast.subscriptions.reader import Reader
from rowcast.writes.commit import Committer
from rowcast.writes.write import (
    Condition,
    FactsDone,
    Outcome,
    Receipt,
    Write,
    answer,
    resolver,
)


class Kernel(Watching):
    """Reads, writes and watches, for every door."""

    def __init__(
        self,
        registry: Registry,
        bus: Bus,
        committer: Committer,
        reader: Reader,
        now: WallClock,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
    ) -> None:
        super().__init__()
        self.registry = registry
        self.bus = bus
        self.committer = committer
        self.reader = reader
        self._epoch = reader.epoch
        self._connect_reader()
        self.transcoder = Transcoder(registry.shapes)
        self.reauthorization = Reauthorization(now)
        self.readable = RecordReads(reader, self.visibility, now, self.transcoder)
        self.turns = reader.turns
        """Of the loop, for long work of any client."""
        self.turns.waited_for = lambda: bool(len(committer.pending))
        self.views = reader.views = Views(bus, registry, self.turns)
        self.now = self.removal_now = now
        """The time; and the one by which what is over is removed for good: in a cluster no later
        than that of the other nodes (``cluster/clocks.py``)."""
        self.durable = DurableFilters()
        """Filters of durable sessions, whose events must be logged."""
        self.steps = Steps(registry)
        self.admission = Admission(now, payload_bytes_max, self.durable, self.steps)
        self.writes = WritePath(registry, self.steps, self.admission, committer)
        self.submit, self.submit_run = self.writes.submit, self.writes.submit_run
        self._creation = Creation(registry, reader, self.write)
        self.live = LiveRows(self, bus, registry)
        self._resource_dispatch = ResourceDispatch(self)
        self._atomic_batch = AtomicBatch(self)
        self.related = RelatedReads(self, self.transcoder)
        """Follows relationships."""
        self.query_writes = QueryWrites(
            self, self.visibility, self.transcoder, now, self._atomic_batch.write
        )
        self._add_steps()

    def _connect_reader(self) -> None:
        """Tell the reader how far the log reaches, and the committer what is in memory.

        Each is made without the other.
        """
        reader, committer = self.reader, self.committer
        reader.unstored, reader.until_reached = committer.unstored, committer.until_reached
        reader.reach = lambda: committer.reach
        reader.heads = SourceHeads(committer.after_append)
        committer.remembers = reader.remembers

    def _add_steps(self) -> None:
        """Add the kernel's own steps of writes (``steps.py``)."""
        steps = self.steps
        self.writes.on_refused.append(self.listeners.unfit)
        steps.add("resource", self._resource_dispatch.step)
        steps.add("content", self.admission.step)

    def rows(self, path: str, rows: type[Resource]) -> RowChanged:
        """Register system rows at a path; raises CONFLICT if the path is used."""
        self.registry.add(path, rows)
        return partial(self.live.changed, path)

    # -- positions ---------------------------------------------------------------------------------

    def cursor(self, seq: int) -> str:
        """Return the cursor of a position in this log."""
        return f"{self._epoch}:{seq}"

    @property
    def head(self) -> str:
        """Return the cursor of the newest announced position."""
        return self.cursor(self.committer.announced)

    # -- write -------------------------------------------------------------------------------------

    def has_pending_writes(self, caller: Caller) -> bool:
        """Whether a write of the caller waits for a hook or for the disk."""
        return caller.connection in self.committer.pending or caller in self.gate

    def when_stored(self, caller: Caller, done: FactsDone) -> None:
        """Call ``done`` when all earlier writes of the caller are stored."""
        detour = self.writes.detour

        def admitted() -> None:
            if detour is None:
                self.committer.keep((), done)
            else:
                detour.after(caller, lambda: self.committer.keep((), done))

        self.gate.after(caller, admitted, done)

    def write(
        self, event: Event, caller: Caller, condition: Condition | None = None
    ) -> "asyncio.Future[Receipt]":
        """Run a write; return what gets its receipt, or raises its Error."""
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.submit(event, caller, partial(answer, receipt), condition, wants_existed=True)
        return receipt

    async def write_all(
        self,
        events: Sequence[Event],
        caller: Caller,
        *,
        atomic: bool,
        conditions: Sequence[Condition | None] = (),
        wants_existed: bool = True,
        changes: Sequence[Change] = (),
    ) -> list[Outcome]:
        """Run several writes in order: independently, or atomically, maybe on conditions (B11).

        ``wants_existed``: the receipts tell whether there was a record, which may have to be read
        first. ``changes`` of facts are in the transaction of an atomic batch.
        """
        if atomic:
            batch, wanted = self._atomic_batch, wants_existed
            return await batch.write(
                events, caller, conditions=conditions, wants_existed=wanted, changes=changes
            )
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Outcome]] = []
        async for some in in_turns(events):
            for event in some:
                futures.append(loop.create_future())
                self.submit(event, caller, resolver(futures[-1]), wants_existed=wants_existed)
        return list(await asyncio.gather(*futures))

    # -- resources ---------------------------------------------------------------------------------

    def resource(self, topic: str, caller: Caller) -> Resource | None:
        """Return an instance of the resource class at a topic, if any."""
        route = self.registry.route(topic)
        if route.entry is None or route.entry.resource is None:
            return None
        return route.entry.resource(self, topic, route.record_id, caller)

    async def write_value(
        self,
        topic: str,
        kind: str,
        value: object,
        caller: Caller,
        sent: Event | None = None,
        condition: Condition | None = None,
    ) -> Receipt:
        """Write a plain value, bypassing the resource class at its topic.

        ``sent`` is the client's event, whose QoS and properties are kept.
        """
        payload = b"" if kind == DELETE else encode(value, JSON)
        event = Event(topic, kind, payload, JSON if kind != DELETE else None, 1, kind in RETAINED)
        if sent is not None:
            event.qos, event.client, event.properties = sent.qos, sent.client, sent.properties
            event.retain, event.version = sent.retain, sent.version
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        asked = sent is not None and sent.topic == topic  # hooks ran when the client wrote it
        self.writes.carry_out(
            Write(
                event,
                caller,
                partial(answer, receipt),
                condition,
                passed=asked,
                direct=True,
                wants_existed=True,
            )
        )
        return await receipt

    async def create(self, topic: str, event: Event, caller: Caller) -> Receipt:
        """Write ``event`` as a new record of the collection at ``topic``, under a new id."""
        return await self._creation.create(topic, event, caller)

    async def create_value(self, topic: str, value: object, caller: Caller) -> Receipt:
        """Create a record from a plain value."""
        event = Event(topic, PUT, encode(value, JSON), JSON, 1, True)
        return await self.create(topic, event, caller)

    # -- read: ``peek_open`` costs least, ``peek`` does not wait either, ``read`` always answers --

    def peek_open(self, topic: str, caller: Caller) -> Record | None:
        """Return a cached record if only grants decide on it; None: call ``peek``."""
        if (
            self.rights.active
            or self.read_filters
            or self.hooks.supplying
            or not caller.grants.read
            or topic.startswith(SERVERS_OWN)
        ):
            return None
        return self.reader.recall(topic)

    def peek(self, topic: str, caller: Caller) -> Record | Unknown | None:
        """Return the record if that needs no waiting; UNKNOWN: call ``read``."""
        if self.rights.withholding and self.rights.withholds(topic, caller):
            return UNKNOWN  # it may be a collection
        self.rights.check_read(topic, caller)
        if not self.visibility.passes(caller, topic):
            return UNKNOWN
        if self.hooks.supplying:
            return UNKNOWN
        known = self.reader.peek(topic)
        if self.rights.active and isinstance(known, Event):
            return self.rights.record(caller, known)
        return known

    async def read(self, topic: str, caller: Caller) -> Record:
        """Return the current record at a topic; raises NOT_FOUND."""
        self.authorise_read(topic, caller)
        route = self.registry.route(topic)
        record = await self.readable.record(route, topic, caller)
        if record is not None:
            record = self.rights.record(caller, record)
        if record is None or 0 < record.expires_at <= self.now():
            raise not_found(route, self._suggested(caller))
        return record

    def _suggested(self, caller: Caller) -> Iterable[Entry]:
        """Return what may be named to a caller that finds nothing."""
        if not self.rights.active:
            return self.registry.entries
        if self.rights.restricts:
            return ()
        may_read = self.visibility.may_read
        return (entry for entry in self.registry.entries if may_read(caller, entry.path))

    async def read_value(self, topic: str, caller: Caller, query: Query | None) -> object:
        """Return a record's value, or a collection's records as a list; None when there is none."""
        route = self.registry.route(topic)
        if route.shape is not None and not route.record_id:
            page = await self.search(route.shape.table, query or Query(), caller)
            return [self.transcoder.value(record) for record in page.records]
        try:
            return self.transcoder.value(await self.read(topic, caller))
        except Error as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise

    async def search(self, table: Table, query: Query, caller: Caller) -> Page:
        """Return one page of complete records of a query, in its order.

        Records that hooks withhold are left out.
        """
        self.rights.check_table(table, caller)
        return await self.readable.search(table, query, caller)

    async def count(self, table: Table, query: Query, caller: Caller) -> int:
        """Return the number of records of a query; from memory for a complete table (B19)."""
        self.rights.check_table(table, caller)
        return await self.readable.count(table, query, caller)

    async def grouped(self, table: Table, query: Query, caller: Caller) -> list[GroupRow]:
        """Return the groups of a query (``Query.group``), of the records that a caller may see."""
        self.rights.check_table(table, caller)
        return await self.readable.grouped(table, query, caller)

    def authorise_read(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may read a topic."""
        self.rights.check_read(topic, caller)
        if not self.visibility.passes(caller, topic):
            raise Error(Code.DENIED, f"{caller.user} may not read {topic!r}")

    async def stop(self) -> None:
        """Finish running hooks and resource code, and wait until every write is answered."""
        self.reauthorization.stop()
        self.views.removals.stop()
        await self.gate.stop()
        await self._resource_dispatch.stop()
        await self.committer.settle()
