"""Audiences: a snapshot of what one role may see, and as it is shown to it (S18, M9).

The same policy decides as on every door: ``@auth`` of tables and attributes, and the rows of
``$SYS/rules`` that the cut has. Rows that the role may not see are left out, attributes too, and
what is masked is masked. A rule about a single user (``owner == $user``) lets a role see nothing,
for a role is nobody. What the server keeps for itself, and the past of tables, is for
administrators only, and so is the schema.
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
from rowcast.features.rights.compiled_policy import CompiledPolicy, Subject
from rowcast.features.rights.policy import Policy
from rowcast.features.rights.topic_rules import TopicRule, rule_of
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.store.read_transaction import ReadTransaction
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import MessageSheet, RetainedSheet, TableSheet, TableWriter

_RULES: Final = "$SYS/rules/"


class RoleView:
    """What one role sees of a cut."""

    def __init__(
        self, role: str, tables: Sequence[Table], cut: ReadTransaction, roles: Collection[str] = ()
    ) -> None:
        """Compile what is said; ``roles`` are those of users. Raises NOT_FOUND for no role at all.

        A misspelt role would else be one that only rules for everybody are about.
        """
        self._contents = Transcoder({table.name: CompiledTable(table) for table in tables})
        subject = Subject("", frozenset({role}), Grants(read=True), lambda _path: None)
        policy = Policy(tables, tuple(_rules(cut)))
        known = sorted(policy.roles.union(roles))
        if role not in known:
            raise Error(
                Code.NOT_FOUND,
                f"there is no role {role}{did_you_mean(role, known)}; no @auth, rule or user names "
                f"it, only {', '.join(known)}; add a row to $SYS/roles if it is one",
            )
        self._sight = CompiledPolicy(policy, subject, self._contents, lambda _topic: None)

    def sheet(self, sheet: TableWriter) -> TableWriter | None:
        """Return what it sees of a table; None: nothing of the kind is for it."""
        if isinstance(sheet, TableSheet):
            return SeenTable(sheet, self)
        if isinstance(sheet, MessageSheet | RetainedSheet):
            return SeenTopics(sheet, self)
        return None

    def show(self, record: Event) -> Event | None:
        """Return what a record is to it, with its value; None: nothing."""
        shown = self._sight.show(record, record=True)
        if shown is None or self._contents.structured(shown):
            return shown
        return shown.changed(decoded=MISSING)

    def lets(self, topic: str) -> bool:
        """Tell whether it may read a topic that nobody declared."""
        return self._sight.lets("read", topic)


def _rules(cut: ReadTransaction) -> Iterator[TopicRule]:
    """Return the rules of the server, as the cut has them."""
    for rows in cut.retained(_RULES):
        for row in rows:
            topic, payload, content_type = cast("tuple[str, bytes, str | None]", row[:3])
            yield rule_of(topic.removeprefix(_RULES), decode(payload, content_type))


class SeenTable:
    """The records of a declared table that an audience sees."""

    def __init__(self, sheet: TableSheet, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name, self.key, self.day, self.rows = sheet.name, sheet.key, sheet.day, sheet.rows
        self.content: tuple[str, ...] = sheet.content
        self.schema: pa.Schema = sheet.schema

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows that a cut has, in the order of their keys."""
        for records in cut.records(self._sheet.table):
            shown = [self._audience.show(record) for record in records]
            seen = [record for record in shown if record is not None]
            if seen:
                yield self._sheet.of_events(seen)


class SeenTopics:
    """The messages, or retained messages, that an audience sees."""

    def __init__(self, sheet: MessageSheet | RetainedSheet, audience: RoleView) -> None:
        self._sheet = sheet
        self._audience = audience
        self.name, self.key, self.day, self.rows = sheet.name, sheet.key, sheet.day, sheet.rows
        self.content: tuple[str, ...] = sheet.content
        self.schema: pa.Schema = sheet.schema

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows that a cut has, in the order of their keys."""
        for batch in self._sheet.batches(cut):
            topics = batch.column("topic").to_pylist()
            seen = batch.filter(pa.array([self._audience.lets(topic) for topic in topics]))
            if seen.num_rows:
                yield seen
