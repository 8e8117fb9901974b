"""Role views: a snapshot with only the data that one role may see (S18, M9).

The policy is that of every door: ``@auth`` of tables and attributes, and the rows of ``$SYS/rules``
in the cut. Rows and attributes that the role may not see are left out, masked attributes are
masked. A rule about a single user (``owner == $user``) matches no row for a role, because a role is
no user. The server's own tables, the history of tables and the schema are for administrators only.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, cast

import pyarrow as pa

from rowcast.codecs import decode
from rowcast.core.callers import Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import MISSING, Event
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule
from rowcast.features.rights.compiled_policy import CompiledPolicy, Subject
from rowcast.features.rights.policy import Policy
from rowcast.features.rights.rule_syntax import stored_rule_of
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.store.read_transaction import ReadTransaction
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import MessageSheet, RetainedSheet, TableSheet, TableWriter

_RULES: Final = "$SYS/rules/"


class RoleView:
    """The part of a cut that one role may see."""

    def __init__(
        self, role: str, tables: Sequence[Table], cut: ReadTransaction, roles: Collection[str] = ()
    ) -> None:
        """Compile the policy; ``roles`` are those of users. Raises NOT_FOUND for an unknown role.

        Otherwise a misspelt role would silently get only what rules for everybody allow.
        """
        shapes = {table.name: CompiledTable(table) for table in tables}
        self._contents = Transcoder(shapes)
        subject = Subject("", frozenset({role}), Grants(read=True), lambda _path: None)
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
        return None

    def show(self, record: Event) -> Event | None:
        """Return a record as the role sees it, with its value; None if it is not visible."""
        shown = self._sight.show(record, record=True)
        if shown is None or self._contents.structured(shown):
            return shown
        return shown.changed(decoded=MISSING)

    def lets(self, topic: str) -> bool:
        """Whether the role may read an undeclared topic."""
        return self._sight.lets("read", topic)


def _rules(cut: ReadTransaction, tables: Sequence[Table]) -> Iterator[TopicRule]:
    """Return the server's rules in the cut."""
    for rows in cut.retained(_RULES):
        for row in rows:
            topic, payload, content_type = cast("tuple[str, bytes, str | None]", row[:3])
            value = decode(payload, content_type)
            yield stored_rule_of(topic.removeprefix(_RULES), value, tables)


class SeenTable:
    """The records of a declared table that a role sees."""

    def __init__(self, sheet: TableSheet, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name, self.key, self.rows = sheet.name, sheet.key, sheet.rows
        self.partition = sheet.partition
        self.content: tuple[str, ...] = sheet.content
        self.schema: pa.Schema = sheet.schema

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by key."""
        for records in cut.records(self._sheet.table):
            shown = [self._audience.show(record) for record in records]
            seen = [record for record in shown if record is not None]
            if seen:
                yield self._sheet.of_events(seen)


class SeenTopics:
    """The messages, or retained messages, that a role sees."""

    def __init__(self, sheet: MessageSheet | RetainedSheet, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name, self.key, self.rows = sheet.name, sheet.key, sheet.rows
        self.partition = sheet.partition
        self.content: tuple[str, ...] = sheet.content
        self.schema: pa.Schema = sheet.schema

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by key."""
        for batch in self._sheet.batches(cut):
            topics = batch.column("topic").to_pylist()
            seen = batch.filter(pa.array([self._audience.lets(topic) for topic in topics]))
            if seen.num_rows:
                yield seen
