"""Role views: a snapshot with only the data that one role may see (S18, M9).

The policy is that of every door: ``@auth`` of tables and attributes, and the rows of ``$SYS/rules``
in the cut. Rows and attributes that the role may not see are left out, masked attributes are
masked. A rule about a single user (``owner == $user``) matches no row for a role, because a role is
no user. The server's own tables and the schema are for administrators only, and so is the audit
log. Beside that the access list of the settings decides (``hooks.acl``), by its rules for anybody;
and where no rule of ``$SYS/rules`` says anything, the grants that all members of the role have.

Changes are what a subscriber with this role is told: a record that comes into sight is a put, one
that leaves it a deletion, so the role's snapshot and its changes are its later snapshot. History
has the values that the role may see.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Generic, TypeVar, cast

import pyarrow as pa

from rowcast.codecs import decode
from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MISSING, Event
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule
from rowcast.features.rights.access_list import AccessList
from rowcast.features.rights.compiled_policy import CompiledPolicy, Subject
from rowcast.features.rights.policy import Policy
from rowcast.features.rights.rights import PRIVATE
from rowcast.features.rights.rule_syntax import stored_rule_of
from rowcast.reads.before_image import find_befores
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.store.read_transaction import ReadTransaction
from rowcast.store.read_transaction_log import LogInTransaction
from rowcast_lake.snapshots.change_writer import ChangeSheet, TableChanges
from rowcast_lake.snapshots.history import HistorySheet
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import TableSheet, TableWriter
from rowcast_lake.snapshots.topic_sheets import MessageSheet, RetainedSheet

_RULES: Final = "$SYS/rules/"


class RoleView:
    """The part of a cut that one role may see."""

    def __init__(
        self,
        role: str,
        tables: Sequence[Table],
        cut: ReadTransaction,
        roles: Collection[str] = (),
        *,
        reads: bool = True,
        access: AccessList | None = None,
    ) -> None:
        """Compile the policy; ``roles`` are those of users. Raises NOT_FOUND for an unknown role.

        Otherwise a misspelt role would silently get only what rules for everybody allow. ``reads``:
        its members have the grant to read.
        """
        shapes = {table.name: CompiledTable(table) for table in tables}
        self._contents = Transcoder(shapes)
        caller = Caller("", Grants(read=reads), roles=frozenset({role}))
        listed = access.of(caller) if access is not None else None
        subject = Subject("", caller.roles, caller.grants, lambda _path: None, listed)
        policy = Policy(tables, tuple(_rules(cut, tables)))
        for table in policy.guarded:
            shapes[table.name].guard()
        known = sorted(policy.roles.union(roles))
        if role not in known:
            raise Error(
                Code.NOT_FOUND,
                f"there is no role {role}{did_you_mean(role, known)}; no @auth, rule or user names "
                f"it, only {', '.join(known)}; add a row to $SYS/roles if it is one",
            )
        self._sight = CompiledPolicy(policy, subject, self._contents, lambda _topic: None)

    def sheet(self, sheet: TableWriter) -> TableWriter | None:
        """Return a table's writer limited to the role; None if the role may see no such table."""
        if isinstance(sheet, TableSheet):
            return SeenTable(sheet, self)
        if isinstance(sheet, MessageSheet | RetainedSheet):
            return SeenTopics(sheet, self)
        if isinstance(sheet, HistorySheet):
            return SeenHistory(sheet, self)
        return None

    def changes(self, sheet: ChangeSheet) -> ChangeSheet:
        """Return a writer of changes limited to the role."""
        return SeenChanges(sheet, self) if isinstance(sheet, TableChanges) else Heard(sheet, self)

    def show(self, record: Event) -> Event | None:
        """Return a record as the role sees it, with its value; None if it is not visible."""
        shown = self._sight.show(record, record=True)
        if shown is None or self._contents.structured(shown):
            return shown
        return shown.changed(decoded=MISSING)

    def visible(
        self, changes: TableChanges, log: LogInTransaction, events: Sequence[Event]
    ) -> list[Event]:
        """Return events of a table as the role is told of them, decoded for ``changes``."""
        if self._sight.table(changes.table) is not None:
            find_befores(log, [changes.table.name], events)
        visible = [(event, self._sight.show(event)) for event in events]
        return [self._read(changes, event, shown) for event, shown in visible if shown is not None]

    def values(self, changes: TableChanges, events: Sequence[Event]) -> list[Event | None]:
        """Return events as records that the role sees, decoded; None for what it does not see."""
        visible = [(event, self._sight.show(event, record=True)) for event in events]
        return [shown and self._read(changes, event, shown) for event, shown in visible]

    def _read(self, changes: TableChanges, event: Event, shown: Event) -> Event:
        """Decode what is shown of an event: a mask need not be valid in the declaration."""
        if shown.kind == DELETE:
            shown.decoded = MISSING
            return shown
        self._contents.structured(shown)  # it empties what nobody can judge
        if not changes.read(event):
            shown.decoded = MISSING
        return shown

    def lets(self, topic: str) -> bool:
        """Whether the role may read an undeclared topic."""
        if topic.startswith(PRIVATE) and not self._sight.admin:
            return False
        return self._sight.lets("read", topic)


def _rules(cut: ReadTransaction, tables: Sequence[Table]) -> Iterator[TopicRule]:
    """Return the server's rules in the cut."""
    for rows in cut.retained(_RULES):
        for row in rows:
            topic, payload, content_type = cast("tuple[str, bytes, str | None]", row[:3])
            value = decode(payload, content_type)
            yield stored_rule_of(topic.removeprefix(_RULES), value, tables)


S = TypeVar("S", bound=TableSheet | MessageSheet | RetainedSheet | HistorySheet)


class _Seen(Generic[S]):
    """A sheet of which a role sees a part: with the columns of the whole."""

    def __init__(self, sheet: S, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name, self.key, self.rows = sheet.name, sheet.key, sheet.rows
        self.partition = sheet.partition
        self.content: tuple[str, ...] = sheet.content
        self.schema: pa.Schema = sheet.schema


class SeenTable(_Seen[TableSheet]):
    """The records of a declared table that a role sees."""

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by key."""
        for records in cut.records(self._sheet.table):
            shown = [self._audience.show(record) for record in records]
            seen = [record for record in shown if record is not None]
            if seen:
                yield self._sheet.of_events(seen)


class SeenTopics(_Seen[MessageSheet | RetainedSheet]):
    """The messages, or retained messages, that a role sees."""

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by key."""
        for batch in self._sheet.batches(cut):
            yield from _visible_rows(batch, self._audience)


class SeenHistory(_Seen[HistorySheet]):
    """The values of a declared table that a role sees, with their intervals."""

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, in the order of the log."""
        changes = self._sheet.changes
        for made in self._sheet.intervals(cut):
            shown = self._audience.values(changes, [event for event, _ in made])
            ends = [ended for _, ended in made]
            seen = [(one, ended) for one, ended in zip(shown, ends, strict=True) if one is not None]
            if seen:
                yield self._sheet.with_ends(changes.rows([event for event, _ in seen]), seen)


class SeenChanges:
    """The events of a declared table, as a role is told of them."""

    def __init__(self, sheet: TableChanges, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name: str = sheet.name
        self.schema: pa.Schema = sheet.schema

    def batches(self, log: LogInTransaction, after: int, upto: int) -> Iterator[Batch]:
        """Return its events after a position, up to another."""
        for events in log.of_table(self._sheet.table, after, upto):
            shown = self._audience.visible(self._sheet, log, events)
            if shown:
                yield self._sheet.rows(shown)


class Heard:
    """The events at undeclared topics that a role may read."""

    def __init__(self, sheet: ChangeSheet, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name: str = sheet.name
        self.schema: pa.Schema = sheet.schema

    def batches(self, log: LogInTransaction, after: int, upto: int) -> Iterator[Batch]:
        """Return events after a position, up to another."""
        for batch in self._sheet.batches(log, after, upto):
            yield from _visible_rows(batch, self._audience)


def _visible_rows(batch: Batch, audience: RoleView) -> Iterator[Batch]:
    """Return the rows of the topics that a role may read."""
    topics = batch.column("topic").to_pylist()
    seen = batch.filter(pa.array([audience.lets(topic) for topic in topics]))
    if seen.num_rows:
        yield seen
