"""The schema under which the batches of a cluster's log were written.

A batch names tables, and has values as they were declared then. Under a later schema, which gives a
table another path or type, or does not declare it, they would become other records, or none. So the
sequencer begins its term with its schema, as a fact of the log, where that is another than before.
Tables that lack batches take them under the schema of each, and are changed for the next one at the
same position as those of all other nodes.

Logs of earlier releases do not say their schema, until a sequencer of this one begins its term.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.facts import Change
from rowcast.core.tables import Table
from rowcast.journal.applier import Applier
from rowcast.journal.applying import READ_BYTES
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.writer_lock import WriterLock
from rowcast.log.batch import Batch
from rowcast.log.engine import Engine
from rowcast.schema import parse_schema
from rowcast.store.sql_database import file_of
from rowcast.store.sql_migrate import WIDER
from rowcast.store.sql_report import schema_changes
from rowcast.store.sql_tables import sql_name, value_attributes
from rowcast.store.sqlite import SqlStore

SCHEMA: Final = ("log", "schema")
"""The owner and the name of the fact with the text of the schema."""

OTHER: Final = (
    "its schema is another one; give all nodes the same schema.graphql. It keeps its tables as "
    "they are, and begins when a node with its schema is the sequencer"
)
"""What a node says while it waits for that."""


def written_under(facts: dict[tuple[str, str], bytes]) -> str:
    """Return the schema of the last batch, of facts that have it; empty if it is not known."""
    return facts.get(SCHEMA, b"").decode()


def begin_term(store: JournaledStore, schema: str) -> None:
    """Append the first batch of a term, with its schema where that is another. Raises BUSY."""
    known = written_under(store.facts([SCHEMA])) == schema
    store.begin_term(() if known else (Change(*SCHEMA, schema.encode()),))


def schema_in(changes: Sequence[Change]) -> str:
    """Return the schema that begins with a batch, by its changes; empty if none does."""
    for owner, name, value in changes:
        if (owner, name) == SCHEMA and value:
            return value.decode()
    return ""


def reads_otherwise(tables: SqlStore, schema: str) -> bool:
    """Whether batches that tables lack may mean something else under a schema than under theirs."""
    written = written_under(tables.facts([SCHEMA]))
    if written in {"", schema}:
        return False
    now = {table.name: table for table in parse_schema(schema).tables}
    return any(_is_other(each, now.get(each.name)) for each in parse_schema(written).tables)


def _is_other(before: Table, now: Table | None) -> bool:
    """Whether records of a table are others, as it is declared now, or none."""
    if now is None or (now.path, sql_name(now)) != (before.path, sql_name(before)):
        return True
    types = {item.name: item.type for item in value_attributes(before)}
    pairs = [(types.get(item.name, item.type), item.type) for item in value_attributes(now)]
    return any(was is not is_now and (was, is_now) not in WIDER for was, is_now in pairs)


def check_head(tables: SqlStore, last: int, schema: str) -> None:
    """Raise BUSY where tables lack batches of the log that are to be applied under another one."""
    if tables.applied() < last and reads_otherwise(tables, schema):
        raise Error(
            Code.BUSY,
            "the tables of this node lack batches that were written under another schema",
            retry_after_seconds=1,
        )


class WrittenSchema:
    """The tables of a node before they are opened with its ``schema``, the text of it."""

    def __init__(self, url: str, engine: Engine, schema: str) -> None:
        self._url, self._engine, self._schema = url, engine, schema
        self.differs = False
        """Whether a batch was met that was written under another schema."""
        self._written, self._seen = "", -1
        """The schema of the last batch that was applied here, and its number."""

    def settle(self, *, all_of_it: bool = False) -> bool:
        """Apply what the tables lack, each batch under its schema, where that is needed. Blocks.

        Returns whether the tables may be opened with the schema of this node; they lack nothing
        then that was written under another one. ``all_of_it``: also where only batches that come
        later can tell, for who takes them without a look at each. Raises BUSY, and INVALID where
        the tables cannot be changed for this schema.
        """
        if not file_of(self._url).is_file():
            return True
        with _opened(self._url, self._engine.epoch) as tables:
            otherwise = reads_otherwise(tables, self._schema)
            applied = tables.applied()
        if not (otherwise or self.differs or (all_of_it and self._changes_after(applied))):
            return True
        if otherwise:
            self._check()
        if self._engine.bounds()[1] != self._seen:
            self._written, self._seen = self._apply()
            self.differs = False
        return self._written == self._schema

    def _check(self) -> None:
        """Raise INVALID for a change that would be refused when it is carried out."""
        tables = parse_schema(self._schema).tables
        for change in schema_changes(file_of(self._url), tables):
            if change.description.startswith("refused"):
                raise Error(Code.INVALID, f"{change.what}: {change.description}")

    def _batches(self, after: int) -> Iterator[tuple[Batch, str]]:
        """Yield the batches after one, and the schema that begins with each; empty: the same."""
        while found := self._engine.read(after, READ_BYTES):
            for data in found:
                batch = Batch.read(data)
                yield batch, schema_in(batch.content(lambda _: None).changes)
                after = batch.number

    def _changes_after(self, applied: int) -> bool:
        """Whether a batch after one begins with another schema than this node's."""
        return any(schema not in {"", self._schema} for _, schema in self._batches(applied))

    def _apply(self) -> tuple[str, int]:
        """Apply all that the tables lack; return the schema of the last batch, and its number."""
        with _opened(self._url, self._engine.epoch) as tables:
            written = written_under(tables.facts([SCHEMA])) or self._schema
            after = tables.applied()
        while True:
            with _opened(self._url, self._engine.epoch) as tables:
                declared = parse_schema(written).tables
                tables.open(declared)
                following = self._take(Applier(tables, declared), after, written)
                tables.sync()
                after = tables.applied()
            if not following:
                return written, after
            written = following

    def _take(self, applier: Applier, after: int, written: str) -> str:
        """Apply batches up to one that begins with another schema; return that, or nothing."""
        size, waiting = 0, list[Batch]()
        for batch, schema in self._batches(after):
            if schema not in {"", written}:
                applier.apply(waiting)
                return schema
            waiting.append(batch)
            size += len(batch.data)
            if size >= READ_BYTES:
                applier.apply(waiting)
                size, waiting = 0, []
        applier.apply(waiting)
        return ""


@contextmanager
def _opened(url: str, epoch: str) -> Iterator[SqlStore]:
    tables = SqlStore(url, synced=False, epoch=epoch)
    lock = WriterLock(tables.path)
    try:
        lock.acquire()
        tables.look_again()
        yield tables
    finally:
        tables.close()
        lock.release()
