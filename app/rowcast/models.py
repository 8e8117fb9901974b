"""SQLModel classes of the tables in ``schema.graphql``, and sessions that read them.

``from rowcast.models import Dog, read_session, select`` gives the class of the table ``Dog``. In a
file of ``resources/`` it is of the server that loads the file; elsewhere, such as in a notebook, of
``schema.graphql`` and ``data/`` in the current directory. ``open_models`` names others.

These reads pass by all rights: they are for the server's own code and its operator. SQLModel and
SQLAlchemy's mapper are imported with the first use, so that no other server waits for them.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowcast.core.tables import Table
from rowcast.schema import load_schema

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rowcast.store.sql_models import ModelDatabase, Session, select

    def read_session() -> AbstractContextManager[Session]:
        """Open a session that only reads."""


__all__ = ["Models", "open_models", "read_session", "select"]


class Models:
    """The classes and sessions of one database; each declared table is an attribute."""

    def __init__(self, tables: Sequence[Table], url: str | Path) -> None:
        self._tables = tables
        self._url = url

    def __dir__(self) -> list[str]:
        return [*self._database.names, "read_session"]

    def read_session(self) -> "AbstractContextManager[Session]":
        """Open a session that only reads. Raises NOT_FOUND if there is no database yet."""
        return self._database.read_session()

    @cached_property
    def _database(self) -> "ModelDatabase":
        from rowcast.store.sql_models import ModelDatabase  # noqa: PLC0415 - see above

        return ModelDatabase(self._tables, self._url)

    def __getattr__(self, name: str) -> Any:
        """Return the class of a declared table."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._database.model(name)
        except KeyError:
            known = ", ".join(self._database.names) or "none"
            raise AttributeError(
                f"the schema declares no table {name!r}; it declares {known}"
            ) from None


SERVING: ContextVar[Models | None] = ContextVar("SERVING", default=None)
"""The database of the server that is loading a file of ``resources/``."""


@lru_cache(16)  # classes are made once for each pair of files
def _opened(schema: Path, data: Path) -> Models:
    return Models(load_schema(schema).tables, data / "rowcast.db")


def open_models(schema: str | Path = "schema.graphql", data: str | Path = "data") -> Models:
    """Return the classes and sessions of a schema file and a data directory, as attributes."""
    return _opened(Path(schema).absolute(), Path(data).absolute())


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    if name == "select":
        from rowcast.store.sql_models import select  # noqa: PLC0415 - see above

        return select
    return getattr(SERVING.get() or open_models(), name)
