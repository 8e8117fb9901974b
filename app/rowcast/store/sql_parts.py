"""Parts of the log, and the mapping from sources to parts.

It is in memory and changed only by the writer, after the transaction on disk, except for trims,
which are noted before. Readers on other threads do single dictionary lookups; ``generation``
changes when a topic table was created or dropped meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.limits import STORE_FORMER_BRANCHES_MAX, STORE_MERGED_PARTS_MAX
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot, TopicTable
from rowcast.store.older_rows import OlderRows
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_tables import sql_name
from rowcast.store.store import Figures

END: Final = 2**63 - 1
"""No number is greater."""

Level = str | None
"""The first level of a branch."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A read plan: the numbers of parts, each with its last position; or the complete log."""

    pieces: tuple[tuple[int, int], ...]
    whole: bool = False
    without: tuple[int, ...] = ()
    """Excluded parts, if the plan reads the complete log."""

    @property
    def name(self) -> str:
        """A text that is equal for equal plans."""
        if self.whole:
            return "#"
        if self.without:
            return f"# without {','.join(map(str, self.without))}"
        return ",".join(str(n) if upto == END else f"{n}-{upto}" for n, upto in self.pieces)

    @property
    def many(self) -> bool:
        """Whether to filter a scan of the log, rather than to merge parts by index."""
        return self.whole or len(self.pieces) > STORE_MERGED_PARTS_MAX

    @property
    def sieve(self) -> str:
        """The SQL condition for a scan of the log."""
        if self.without:
            return f" AND table_id NOT IN ({','.join(map(str, self.without))})"
        if self.whole:
            return ""
        return f" AND table_id IN ({','.join(str(number) for number, _ in self.pieces)})"


class Parts:
    """The parts of one opening."""

    def __init__(
        self,
        general: LogPartition,
        tables: Iterable[LogPartition] = (),
        branches: Iterable[LogPartition] = (),
        former: Iterable[tuple[Level, int]] = (),
        forgotten: int = 0,
        former_max: int = STORE_FORMER_BRANCHES_MAX,
    ) -> None:
        self._former_max = former_max
        self.general = general
        self.tables = {part.rows.name: part for part in tables}
        self._by_identity = {id(part.rows.layout.table): part for part in self.tables.values()}
        """The same by the tables themselves, which it holds: hashing a table is slow."""
        self.by_level = {
            part.topic_table.branch.level: part for part in branches if part.topic_table is not None
        }
        self.former = dict(former)
        """Branches with dropped tables, with the position up to which their events were removed."""
        self.forgotten = forgotten
        """The same for all branches without a separate entry."""
        self.hidden: tuple[int, ...] = ()
        """The numbers of dropped parts whose events are not deleted yet."""
        self.older: OlderRows | None = None
        """The archive of what is trimmed; only where it is read, as the applier knows no such."""
        self.generation = 0
        undeclared = [general, *self.by_level.values()]
        self.trimmed_undeclared = max(
            forgotten, *self.former.values(), *(part.trimmed for part in undeclared)
        )

    def become(self, other: "Parts") -> None:
        """Take over the topic tables and trims of a later state of the same file."""
        self.by_level, self.former = other.by_level, other.former
        self.forgotten, self.hidden = other.forgotten, other.hidden
        self.trimmed_undeclared = other.trimmed_undeclared
        self.generation += 1

    def of(self, table: Table | None) -> LogPartition:
        """Return the part with the records of a table, or of all undeclared topics."""
        if table is None:
            return self.general
        part = self._by_identity.get(id(table))
        if part is not None:
            return part
        with suppress(KeyError):
            return self.tables[sql_name(table)]
        raise Error(
            Code.NOT_FOUND,
            f"the store was not opened with the table {table.name}; open it with the whole schema",
        )

    def own(self, source: LogSource) -> LogPartition | None:
        """Return the part of a source: of a branch that of its table, if it has one."""
        if isinstance(source, TopicRoot):
            return self.by_level.get(source.level)
        return self.of(source)

    def is_defined(self, table: TopicTable) -> bool:
        """Whether a table exists; raises CONFLICT when another one has its branch or name."""
        return not self.missing([table])

    def missing(self, tables: Iterable[TopicTable]) -> list[TopicTable]:
        """Return missing tables; raises CONFLICT when another one has a table's branch or name."""
        by_name = {table.name: table for table in self.topic_tables()}
        by_branch = {table.branch: table for table in by_name.values()}
        found: list[TopicTable] = []
        for table in tables:
            known = by_branch.setdefault(table.branch, table)
            if known == table and table.name not in by_name:
                found.append(table)
            if known == table:
                known = by_name.setdefault(table.name, table)
            if known != table:
                raise Error(
                    Code.CONFLICT,
                    f"{table.name} for {table.branch} cannot be: there is {known.name} for "
                    f"{known.branch}; give each branch one name that no other has",
                )
        return found

    def topic_tables(self) -> list[TopicTable]:
        """Return the topic tables, in the order of their creation."""
        parts = list(self.by_level.values())
        return [part.topic_table for part in parts if part.topic_table is not None]

    def numbers(self) -> dict[str, int]:
        """Return the names of the topic tables and the numbers of their parts."""
        return {
            part.topic_table.name: part.table_id
            for part in self.by_level.values()
            if part.topic_table is not None
        }

    # -- trims -------------------------------------------------------------------------------------

    def trimmed(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be trimmed from the database."""
        if source is None:
            return self.trimmed_undeclared
        if not isinstance(source, TopicRoot):
            return self.of(source).trimmed
        part = self.by_level.get(source.level)
        if part is not None:
            return max(part.trimmed, min(self.general.trimmed, part.since))
        return max(self.general.trimmed, self.gone(source.level))

    def forgotten_upto(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be gone: trimmed, and not archived.

        Of all undeclared topics those of the server's own (``$``) do not count: no filter that
        means all of them selects these (MQTT-4.7.2-1).
        """
        older = self.older
        if older is None:
            return self.trimmed(source)
        if source is None:
            own = [
                self._gone_of(part)
                for level, part in list(self.by_level.items())
                if level is None or level[:1] != "$"
            ]
            return max(self.forgotten, *self.former.values(), self._gone_of(self.general), *own)
        if not isinstance(source, TopicRoot):
            return self._gone_of(self.of(source))
        general, part = self._gone_of(self.general), self.by_level.get(source.level)
        if part is not None:
            return max(self._gone_of(part), min(general, part.since))
        return max(general, self.gone(source.level))

    def _gone_of(self, part: LogPartition) -> int:
        """Return the last number of a part that is neither in the database nor archived."""
        older = self.older
        return part.trimmed if older is None else older.after(part.table_id, part.trimmed)

    def gone(self, level: Level) -> int:
        """Return the position up to which events of a branch's dropped tables were removed."""
        return self.former.get(level, self.forgotten)

    def mark(self, part: LogPartition, trimmed: int) -> None:
        """Set a part's trim position."""
        part.trimmed = trimmed
        if part.rows is self.general.rows:
            self.trimmed_undeclared = max(self.trimmed_undeclared, trimmed)

    @contextmanager
    def known_before(self, part: LogPartition) -> Iterator[None]:
        """Let a trim position be raised before the deletion, so that a check after a read sees it.

        Restored if the deletion fails.
        """
        before = part.trimmed, self.trimmed_undeclared
        try:
            yield
        except BaseException:
            part.trimmed, self.trimmed_undeclared = before
            raise

    # -- created and dropped tables ----------------------------------------------------------------

    def add(self, level: Level, part: LogPartition, moved: int) -> None:
        """Add a new table's part, with records moved from the general part."""
        self.general.count -= moved
        part.count = moved
        self.by_level[level] = part
        self.former.pop(level, None)
        self.generation += 1

    def remove(self, level: Level, part: LogPartition) -> None:
        """Remove a table's part, and note the position up to which its events are removed."""
        self.general.count += part.count
        if part.trimmed:
            for oldest in self.too_old():
                self.forgotten = max(self.forgotten, self.former.pop(oldest))
            self.former[level] = part.trimmed
        if part.events:
            self.hidden = (*self.hidden, part.table_id)
        del self.by_level[level]
        self.generation += 1

    def too_old(self) -> list[Level]:
        """Return the branch whose entry is evicted for another one, if any."""
        full = len(self.former) >= self._former_max
        return [next(iter(self.former))] if full else []

    # -- queries -----------------------------------------------------------------------------------

    def figures(self, source: LogSource) -> Figures:
        """Return the counts of a source in memory."""
        if source is None:
            parts = [self.general, *list(self.by_level.values())]
        else:
            own = self.own(source)
            parts = [] if own is None else [own]
        return Figures(
            sum(part.count for part in parts),
            sum(part.events for part in parts),
            sum(part.bytes for part in parts),
            self.trimmed(source),
            self.older is not None and self.forgotten_upto(source) < self.trimmed(source),
        )

    def plan(self, after: int, sources: Sequence[LogSource] | None) -> Plan:
        """Return the read plan of these sources after a position."""
        if sources is None:
            return Plan((), True, self.hidden)
        pieces: dict[int, int] = {}
        general = self.general
        for source in sources:
            if source is None:
                pieces[general.table_id] = END
                pieces |= dict.fromkeys([part.table_id for part in [*self.by_level.values()]], END)
                continue
            part = self.own(source)
            if part is None:
                pieces[general.table_id] = END
                continue
            pieces[part.table_id] = END
            if max(after, self._gone_of(general)) < part.since:
                upto = max(part.since, pieces.get(general.table_id, 0))
                pieces[general.table_id] = upto
        if len(sources) < 2 and len(pieces) <= STORE_MERGED_PARTS_MAX:
            return Plan(tuple(sorted(pieces.items())))
        return self._widened(pieces)

    def _widened(self, pieces: dict[int, int]) -> Plan:
        """Return a plan for these parts; if they are nearly all, by exclusion of the others."""
        known = [self.general, *self.tables.values(), *list(self.by_level.values())]
        others = [part.table_id for part in known if part.table_id not in pieces]
        wanted, without = tuple(sorted(pieces.items())), (*others, *self.hidden)
        if not others and min(pieces.values()) == END:
            return Plan(wanted, True, self.hidden)
        nearly = STORE_MERGED_PARTS_MAX < len(pieces) > len(without)
        return Plan(wanted, without=without if nearly else ())
