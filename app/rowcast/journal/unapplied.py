"""Writes that only the log has, when the schema has changed since: refused, and nothing changes.

A server that was killed may leave them. They were written for the tables as they were declared
then: under another path or another type they would become other records, and without their table
none. The former schema applies them.
"""

from collections.abc import Sequence

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.journal.applying import READ_BYTES
from rowcast.journal.operations import switched_tables
from rowcast.log.batch_content import STAGE, SWITCH, Operation
from rowcast.log.log import Log
from rowcast.store.sql_tables import sql_name
from rowcast.store.sqlite import SqlStore


def check_unapplied(tables: SqlStore, log: Log, declared: Sequence[Table]) -> None:
    """Raise INVALID where tables lack writes of one that is declared otherwise now, or not at all.

    To be called before the tables are opened with what is declared.
    """
    if tables.applied() >= log.head.number:
        return
    otherwise = tables.declared_otherwise(declared)
    if not otherwise:
        return
    same = {table.name for table in declared if sql_name(table) not in otherwise}
    lost = sorted(_written(tables.applied(), log, declared) - same)
    if lost:
        raise Error(
            Code.INVALID,
            f"the log has writes of {', '.join(lost)} that the tables do not have yet, because the "
            "server was killed, and the schema has another path or type for them since, or does "
            "not declare them; start the server once with the schema as it was, stop it, and "
            "change the schema then",
        )


def _written(after: int, log: Log, declared: Sequence[Table]) -> set[str]:
    """Return the names of the tables that batches after a number write."""
    by_name, found = {table.name: table for table in declared}, set[str]()

    def table_of(name: str) -> Table | None:
        found.add(name)
        return by_name.get(name)

    while after < log.head.number:
        for batch in log.read(after, READ_BYTES):
            for operation in batch.content(table_of).operations:
                found.update(_staged(operation))
            after = batch.number
    return found


def _staged(operation: Operation) -> list[str]:
    """Return the tables for which an operation has rows, or shows them."""
    if operation.name == STAGE:
        return [str(operation.arguments[0])]
    if operation.name == SWITCH:
        return [name for name, _, _ in switched_tables(operation.arguments)[1] if name]
    return []
