"""SQLModel classes of declared tables, and read-only sessions, for user code.

The classes have the columns of the tables (``sql_tables.declared_columns``), which decode their
cells: a Date is a ``datetime``, a Decimal a ``Decimal``, a nested value parsed JSON. A session has
its own read-only connection and one read transaction: it sees one committed state, and neither
blocks others nor is blocked.

It reads tables, not records: rights and hooks do not apply, and an expired record is visible until
the server removes it.
"""

import keyword
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pydantic import create_model
from sqlalchemy import Connection, Dialect, Engine, Text, create_engine, event
from sqlalchemy.orm import registry
from sqlalchemy.pool import NullPool
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, Session, SQLModel, select

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table, Type
from rowcast.store.sql_database import file_of
from rowcast.store.sql_rows import cell_of, cell_value
from rowcast.store.sql_tables import SqlType, column_type, declared_columns, sql_name

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


def _model(table: Table, models: registry) -> type[SQLModel]:
    """Create the class of a declared table: a field for each column."""
    fields: dict[str, object] = {}
    for column in declared_columns(table, _value_type):
        field = _field_name(column.name)
        while field in fields:
            field += "_"
        fields[field] = (object, Field(default=None, sa_column=column))
    name = sql_name(table)
    named = {"__module__": __name__, "__tablename__": name, "model_config": _CONFIG}
    made: type[SQLModel] = create_model(
        name,
        __base__=type("Base", (SQLModel,), named, registry=models),
        __cls_kwargs__={"table": True},
        **fields,  # type: ignore[call-overload] # pydantic's plugin cannot see through a dict
    )
    return made


def _field_name(column: str) -> str:
    """Return the name of a column's field.

    A name reserved by Python, Pydantic or SQLModel gets a trailing underscore; leading underscores
    are replaced by a trailing one: ``_seq`` is ``seq_``.
    """
    bare = column.lstrip("_")
    return f"{bare}_" if bare != column or bare in _KEPT_NAMES else bare


_KEPT_NAMES: Final = frozenset({*dir(SQLModel), "registry", *keyword.kwlist})
_CONFIG: Final = {"protected_namespaces": ()}
"""Attributes may begin with ``model_``."""


class ModelDatabase:
    """The classes and sessions of one database.

    A table of the default database has its own name, any other ``database__Table``.
    """

    def __init__(self, tables: Sequence[Table], url: str | Path) -> None:
        self._tables = {sql_name(table): table for table in tables}
        self._registry = registry()
        """Of its own: another schema can have tables of the same names."""
        self._made: dict[str, type[SQLModel]] = {}
        self._file = file_of(url)

    @property
    def names(self) -> list[str]:
        """Names of the tables."""
        return sorted(self._tables)

    def model(self, name: str) -> type[SQLModel]:
        """Return the class of a table. Raises KeyError."""
        if name not in self._made:
            self._made[name] = _model(self._tables[name], self._registry)
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
