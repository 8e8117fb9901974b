"""The database of the mirror: its tables, and the position up to which they follow the log.

Rows and position change in one transaction, so an event is there once, whatever is killed. One
server at a time writes: it holds an advisory lock, which ends with its connection. Every method
blocks; it is for one thread.
"""

import json
import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.features.mirror.columns import (
    GENERATION,
    KEY,
    POSITION,
    VERSION,
    Row,
    copy_of,
    json_text,
)

log = logging.getLogger("rowcast.mirror")

PLACE: Final = "_mirror"
COLUMNS_SQL: Final = sa.text(
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = CAST(:of AS regclass) AND attnum > 0 AND NOT attisdropped"
)
"""Names and types of columns, whatever types somebody has added."""
CONNECT_SECONDS: Final = 5
"""Until the server has answered; then it is tried again."""
STATEMENT_SECONDS: Final = 60
"""For one statement: a table that somebody has locked holds up the mirror, and nobody else."""


SWEEP_ROWS: Final = 10_000
"""Rows of a copy that one statement looks at for those of an earlier filling: under a second."""
LIMIT_EXCEEDED: Final = "54"
"""The class of error codes of PostgreSQL for a row that is too large for an index, or a page."""
KEEPALIVES: Final = {"idle": 10, "interval": 5, "count": 3}
"""Seconds, and how often, that PostgreSQL asks after a silent connection: one whose machine is gone
has the lock until it is given up, by default for more than two hours."""


class Place(NamedTuple):
    """What the tables are copies of."""

    epoch: str
    """Of the log; empty: of none yet."""
    position: int
    """Every event up to here is in them."""
    generation: int
    """How often they were filled; rows of an earlier one are removed when a filling ends."""


class MirrorDatabase:
    """One connection, opened anew after each failure."""

    def __init__(self, address: str, schema: str, tables: Sequence[Table]) -> None:
        self._schema = schema
        self._lock = crc32(f"rowcast mirror {schema}".encode())
        metadata = sa.MetaData(schema=schema)
        self.copies: dict[str, sa.Table] = {
            table.name: copy_of(table, metadata) for table in tables
        }
        self._place = sa.Table(
            PLACE,
            metadata,
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("epoch", sa.Text, nullable=False),
            sa.Column("position", sa.BigInteger, nullable=False),
            sa.Column("generation", sa.Integer, nullable=False),
            sa.Column("columns", sa.Text),
        )
        self._metadata = metadata
        self.refused = 0
        """Rows that the database did not take, since the start of the server."""
        self.stopped: dict[str, str] = {}
        """Why a table is not followed any more, by name; each connection tries them again."""
        self._engine = _engine_of(address)
        self._link: sa.Connection | None = None

    # -- the connection ----------------------------------------------------------------------------

    def open(self) -> Place:
        """Connect, make what is missing, and return what is there. Raises BUSY."""
        self.close()
        self.stopped.clear()
        try:
            self._link = link = self._engine.connect()
            if not link.scalar(sa.select(sa.func.pg_try_advisory_lock(self._lock))):
                raise Error(
                    Code.BUSY,
                    f"another server keeps the mirror in the schema {self._schema}; end it, or "
                    "choose another mirror.schema",
                )
            link.commit()  # the lock stays with the connection
            with link.begin():
                return self._prepare(link)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def _prepare(self, link: sa.Connection) -> Place:
        """Make and adapt the tables; a copy that may lack something has them filled again."""
        link.execute(sa.schema.CreateSchema(self._schema, if_not_exists=True))
        there = set(sa.inspect(link).get_table_names(self._schema))
        self._metadata.create_all(link)
        if PLACE in there:  # an earlier release has stored no columns
            where = link.dialect.identifier_preparer.format_table(self._place)
            link.exec_driver_sql(f"ALTER TABLE {where} ADD COLUMN IF NOT EXISTS columns TEXT")
        changed = [self._adapt(link, copy) for copy in self.copies.values()]
        found = link.execute(sa.select(self._place)).first()
        columns = {copy.name: [one.name for one in copy.columns] for copy in self.copies.values()}
        known, none = json.dumps(columns), Place("", 0, 0)
        if found is None:
            link.execute(self._place.insert().values(id=1, columns=known, **none._asdict()))
            return none
        if found.columns != known:
            link.execute(self._place.update().values(columns=known))
        if any(changed) or columns.keys() - there or _lacks(found.columns, columns):
            none = Place("", 0, found.generation)
            self._move(link, none)  # also if the filling is interrupted
            return none
        return Place(found.epoch, found.position, found.generation)

    def _adapt(self, link: sa.Connection, copy: sa.Table) -> bool:
        """Give a copy the columns that its table has now; return whether any is new.

        Raises CONFLICT for a table that is no copy: nothing of that may go.
        """
        dialect, names = link.dialect, link.dialect.identifier_preparer
        where = names.format_table(copy)
        there = {str(name): str(kind) for name, kind in link.execute(COLUMNS_SQL, {"of": where})}
        if not {KEY, VERSION, POSITION, GENERATION} <= there.keys():
            raise Error(
                Code.CONFLICT,
                f"{where} is there, and is not a copy that a mirror has made; rename it, or choose "
                "another mirror.schema",
            )
        changed = False
        for column in copy.columns:
            kind, name = column.type.compile(dialect), names.quote(column.name)
            if there.get(column.name) == kind.lower():
                continue
            if column.name in there:
                link.exec_driver_sql(f"ALTER TABLE {where} DROP COLUMN {name}")
            changed = True
            link.exec_driver_sql(f"ALTER TABLE {where} ADD COLUMN {name} {kind}")
        return changed

    def close(self) -> None:
        """End the connection."""
        if self._link is not None:
            with suppress(SQLAlchemyError):
                self._link.close()
            self._link = None

    def cut(self) -> None:
        """End the connection from another thread: what waits for an answer there fails at once."""
        with suppress(Exception):  # it has ended already
            driver = None if self._link is None else self._link.connection.driver_connection
            if driver is not None:
                number = os.dup(driver.fileno())
                with socket.socket(fileno=number) as way:
                    way.shutdown(socket.SHUT_RDWR)

    # -- rows --------------------------------------------------------------------------------------

    def begin_filling(self) -> int:
        """Return the generation of a new filling; one that was interrupted had another.

        Else its rows of records that are gone since would stay. Raises BUSY.
        """
        link = self._linked()
        try:
            with link.begin():
                there = link.execute(sa.select(self._place).with_for_update()).one()
                self._move(link, Place("", 0, there.generation + 1))
                return int(there.generation) + 1
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def fill(self, name: str, rows: Iterable[Row], generation: int) -> None:
        """Write records as they are at the position of a filling. Raises BUSY."""
        link = self._linked()
        if name in self.stopped:
            return
        try:
            with link.begin(), self._alone(link, name):
                self._write(link, self.copies[name], rows, generation)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def sweep(self, name: str, generation: int, after: str | None, rows: int) -> str | None:
        """Remove what is of an earlier filling among the next rows of a copy, by key.

        Returns the last key it has looked at, None at the end. Raises BUSY.
        """
        link, copy = self._linked(), self.copies[name]
        key, last = copy.c[KEY], None
        following = sa.true() if after is None else key > after
        some = sa.select(key).where(following).order_by(key).limit(rows).subquery()
        try:
            with link.begin(), self._alone(link, name):
                last = link.scalar(sa.select(sa.func.max(some.c[KEY])))
                if last is not None:
                    old = copy.c[GENERATION] != generation
                    link.execute(copy.delete().where(following, key <= last, old))
        except SQLAlchemyError as error:
            raise _failed(error) from error
        return last if name not in self.stopped else None

    def filled(self, place: Place) -> None:
        """End a filling. Raises BUSY."""
        link = self._linked()
        try:
            with link.begin():
                self._move(link, place)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def apply(
        self, changes: Mapping[str, Mapping[str, Row | None]], before: Place, after: Place
    ) -> None:
        """Write what the log has between two positions: by table and key, None: deleted.

        Raises CONFLICT when another server has gone on from ``before``, BUSY.
        """
        link = self._linked()
        try:
            with link.begin():
                there = link.execute(sa.select(self._place).with_for_update()).first()
                if there is None or (there.epoch, there.position) != (
                    before.epoch,
                    before.position,
                ):
                    raise Error(Code.CONFLICT, "the mirror is at another position: it is looked up")
                for name, rows in changes.items():
                    if name in self.stopped:
                        continue
                    with self._alone(link, name):
                        self._change(link, self.copies[name], rows, after.generation)
                self._move(link, after)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    @contextmanager
    def _alone(self, link: sa.Connection, name: str) -> Iterator[None]:
        """Change one copy; a constraint that somebody has given it stops this copy alone.

        A row cannot be left out for it: one that takes a value which another gives up in the same
        transaction would be missing for good.
        """
        try:
            with link.begin_nested():
                yield
        except IntegrityError as error:
            self._stop(link, name, _reason(error))

    def _stop(self, link: sa.Connection, name: str, why: str) -> None:
        """Follow a table no more, and note that its copy has to be filled again."""
        self.stopped[name] = why
        log.error(
            "the mirror has stopped following %s, the others go on: a constraint of its copy in "
            "PostgreSQL refuses a record: %s; drop the constraint, and start the server again",
            name, why,
        )  # fmt: skip
        known: dict[str, list[str]] = json.loads(
            link.scalar(sa.select(self._place.c.columns)) or "{}"
        )
        known.pop(self.copies[name].name, None)
        link.execute(self._place.update().values(columns=json.dumps(known)))

    def _change(
        self, link: sa.Connection, copy: sa.Table, rows: Mapping[str, Row | None], generation: int
    ) -> None:
        """Write and remove rows of a copy, by key."""
        gone = [key for key, row in rows.items() if row is None]
        if gone:
            link.execute(copy.delete().where(copy.c[KEY].in_(gone)))
        self._write(link, copy, [row for row in rows.values() if row is not None], generation)

    def _write(
        self, link: sa.Connection, copy: sa.Table, rows: Iterable[Row], generation: int
    ) -> None:
        given = [row | {GENERATION: generation} for row in rows]
        if not given:
            return
        statement = insert(copy)
        changed = {item.name: statement.excluded[item.name] for item in copy.columns}
        newer = copy.c[POSITION] <= statement.excluded[POSITION]
        older = copy.c[GENERATION] != generation  # of a log that was begun anew
        upsert = statement.on_conflict_do_update(
            index_elements=[KEY], set_=changed, where=sa.or_(newer, older)
        )
        try:
            with link.begin_nested():
                link.execute(upsert, given)
        except DBAPIError as error:
            if not _is_of_a_row(error):
                raise
            for row in given:  # one of them has what no check here knows: the others count
                self._write_alone(link, copy, upsert, row)

    def _write_alone(
        self, link: sa.Connection, copy: sa.Table, upsert: sa.Executable, row: Row
    ) -> None:
        """Write a row; one that is refused goes, because it would be an old one from now on."""
        try:
            with link.begin_nested():
                link.execute(upsert, row)
        except DBAPIError as error:
            if not _is_of_a_row(error):
                raise
            self.refused += 1
            log.warning("the mirror leaves out %.200r: %s", row[KEY], _reason(error))
            old = copy.c[POSITION] <= row[POSITION]
            link.execute(copy.delete().where(copy.c[KEY] == row[KEY], old))

    def _move(self, link: sa.Connection, place: Place) -> None:
        link.execute(self._place.update().values(place._asdict()))

    def _linked(self) -> sa.Connection:
        if self._link is None:
            raise Error(Code.BUSY, "the mirror has no connection")
        return self._link


def _lacks(followed: str | None, columns: Mapping[str, Sequence[str]]) -> bool:
    """Whether a copy has a column that was not followed: one that is declared again is old."""
    known: dict[str, list[str]] = json.loads(followed or "{}")
    return any(not set(names) <= set(known.get(copy, ())) for copy, names in columns.items())


def _engine_of(address: str) -> sa.Engine:
    """Return what connects; raises INVALID for an address that cannot be read."""
    session = {"statement_timeout": STATEMENT_SECONDS * 1000}
    session |= {f"tcp_keepalives_{name}": number for name, number in KEEPALIVES.items()}
    known = {
        "connect_timeout": CONNECT_SECONDS,
        "options": " ".join(f"-c {name}={value}" for name, value in session.items()),
        "application_name": "rowcast",
    }
    try:
        return sa.create_engine(
            address, poolclass=sa.NullPool, json_serializer=json_text, connect_args=known
        )
    except ValueError:  # of the port; what it says may be a part of a password
        raise Error(
            Code.INVALID,
            "mirror.url cannot be read; it is postgresql://user:password@host:port/database, with "
            "@ and : in a password written as %40 and %3A",
        ) from None
    except (ArgumentError, ImportError) as error:
        raise Error(
            Code.INVALID,
            f"mirror.url cannot be used ({_reason(error)}); it is the address of a database, and "
            "needs: pip install 'rowcast[postgres]'",
        ) from error


def _is_of_a_row(error: DBAPIError) -> bool:
    """Whether PostgreSQL refuses a row for what is in it: a value, or its size in an index."""
    code = str(getattr(error.orig, "sqlstate", ""))
    return isinstance(error, DataError) or code.startswith(LIMIT_EXCEEDED)


def _failed(error: SQLAlchemyError) -> Error:
    return Error(Code.BUSY, f"PostgreSQL does not take this now: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Return the first line of what a driver says, which names no password."""
    cause = getattr(error, "orig", None) or error
    return (str(cause) or type(cause).__name__).splitlines()[0][:300]
