"""SQLModel classes of declared tables, and read-only sessions, for user code.

The classes come from the factory that creates the tables (``sql_tables.Models``), with columns that
decode their cells: a Date is a ``datetime``, a Decimal a ``Decimal``, a nested value parsed JSON. A
session has its own read-only connection and one read transaction: it sees one committed state, and
neither blocks others nor is blocked.

It reads tables, not records: rights and hooks do not apply, and an expired record is visible until
the server removes it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import Connection, Dialect, Engine, Text, create_engine, event
from sqlalchemy.pool import NullPool
from sqlalchemy.types import TypeDecorator
from sqlmodel import Session, SQLModel, select

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table, Type
from rowcast.store.sql_database import file_of
from rowcast.store.sql_rows import cell_of, cell_value
from rowcast.store.sql_tables import Models, SqlType, column_type, sql_name

__all__ = ["ModelDatabase", "Session", "select"]

_TEXTS: Final = frozenset({Type.DECIMAL, Type.DATE, Type.ANY, Type.OBJECT, Type.LIST})
"""Types stored as text that must be decoded."""


class _Value(TypeDecorator[object]):
    """A TEXT column that encodes and decodes values."""

    impl = Text
    cache_ok = True

    def __init__(self, kept: Type) -> None:
        super().__init__()
        self.kept = kept

    def process_bind_param(self, value: object, dialect: Dialect) -> object:  # noqa: ARG002
        """Return the cell of a value."""
        return cell_of(self.kept, value)

    def process_result_value(self, value: object, dialect: Dialect) -> object:  # noqa: ARG002
        """Return the value of a cell."""
        return cell_value(self.kept, value)


def _value_type(kept: Type) -> SqlType:
    return _Value(kept) if kept in _TEXTS else column_type(kept)


class ModelDatabase:
    """The classes and sessions of one database.

    A table of the default database has its own name, any other ``database__Table``.
    """

    def __init__(self, tables: Sequence[Table], url: str | Path) -> None:
        self._tables = {sql_name(table): table for table in tables}
        self._models = Models(_value_type)
        self._made: dict[str, type[SQLModel]] = {}
        self._file = file_of(url)

    @property
    def names(self) -> list[str]:
        """Names of the tables."""
        return sorted(self._tables)

    def model(self, name: str) -> type[SQLModel]:
        """Return the class of a table. Raises KeyError."""
        if name not in self._made:
            self._made[name] = self._models.model(self._tables[name])
        return self._made[name]

    @contextmanager
    def read_session(self) -> Iterator[Session]:
        """Open a read-only session. Raises NOT_FOUND if there is no database yet."""
        if not self._file.exists():
            raise Error(
                Code.NOT_FOUND,
                f"there is no database at {self._file}; start the server once, or name its data",
            )
        with Session(self._engine) as session:
            yield session

    @cached_property
    def _engine(self) -> Engine:
        address = f"sqlite:///file:{quote(str(self._file))}?mode=ro&uri=true"
        # The driver would only begin a transaction at the first write, which never happens.
        arguments = {"isolation_level": None}
        engine = create_engine(address, poolclass=NullPool, connect_args=arguments)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("PRAGMA query_only=ON")
            connection.exec_driver_sql("BEGIN")

        return engine
