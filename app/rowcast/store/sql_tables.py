"""The SQL tables: columns of declared tables and of the store's own tables.

A declared table has one column for each stored attribute, so any SQL tool reads it:

    <key>            the declared key's name, else ``id``: INTEGER for Int and Long, TEXT otherwise
    <attribute>      ID, String TEXT; Int, Long BIGINT; Float FLOAT; Boolean BOOLEAN; Bytes BLOB;
                     Decimal TEXT, digits kept; Date TEXT, ISO 8601 in UTC with microseconds, so
                     that the order of text is that of time; nested, List and Any TEXT, JSON
    _form            the form of the row: see ``sql_rows``
    _extra           undeclared attributes as one JSON object, with values that SQL cannot
                     distinguish from absence (an explicit null, NaN); of an open table the whole
                     value
    _payload, _content_type   content stored unchanged
    _seq, _version, _client, _qos, _expires, _properties   of the write of the record

A TEXT key clusters the table (WITHOUT ROWID), so reading in topic order is sequential. Only the key
is NOT NULL, so that a later schema can add columns. Rows, migrations and the classes of tables for
user code (``sql_models``) are in other modules.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    text,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeDecorator

from rowcast.core.errors import Code, Error
from rowcast.core.formula import Formula, Term
from rowcast.core.tables import DATABASE, Attribute, Table, Type

FORMER: Final = "rowcast_former"
LOG: Final = "rowcast_log"
META: Final = "rowcast_meta"
STAGED: Final = "rowcast_staged"
STAGED_FACTS: Final = "rowcast_states_unseen"
STATES: Final = "rowcast_states"
TABLES: Final = "rowcast_tables"
TIMES: Final = "rowcast_times"
TOPICS: Final = "rowcast_topics"
RESERVED_PREFIXES: Final = ("rowcast_", "sqlite_")
OVERLAY: Final = "overlay"
STAGED_AFTER: Final = "staged_after"
SWITCHED_IN: Final = "switched_in"
"""Facts of the whole store about staged events; see ``sql_staged.py``."""
_NUMBER: Final = f"FROM {META} WHERE name='{STAGED_AFTER}'"
_AFTER: Final = f"SELECT CAST(value AS INTEGER) {_NUMBER}"
SEEN: Final = f"coalesce(({_AFTER}),{2**63 - 1})"
"""The greatest number of the log that anybody may see, as SQL."""

STATEMENTS_MAX: Final = 64
"""Tables whose statement is remembered: one of them takes SQLAlchemy a millisecond."""

_INTEGERS: Final = frozenset({Type.INT, Type.LONG})
_NOT_INDEXED: Final = frozenset({Type.ANY, Type.OBJECT, Type.LIST})
"""Types stored as JSON, whose text can differ for equal values."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the columns common to all record tables."""

    seq: str = "_seq"
    version: str = "_version"
    client: str = "_client"
    qos: str = "_qos"
    expires: str = "_expires"
    properties: str = "_properties"
    content_type: str = "_content_type"
    payload: str = "_payload"


DECLARED_NAMES: Final = Names()
TOPIC_NAMES: Final = Names(
    "seq", "version", "client", "qos", "expires", "properties", "content_type", "payload"
)
FORM: Final = "_form"
EXTRA: Final = "_extra"


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def sql_name(table: Table) -> str:
    """Return the unique name of a declared table's SQL table.

    It is ``database__Table``, or only ``Table`` in the default database, where that has no ``__``.
    The first ``__`` from the left ends the name of the database; if that would be ambiguous, a dot
    separates the two, which no name of a schema contains.
    """
    database, name = table.database, table.own_name
    if database == DATABASE and _BETWEEN not in name:
        return name
    joined = f"{database}{_BETWEEN}{name}"
    return joined if joined.partition(_BETWEEN)[::2] == (database, name) else f"{database}.{name}"


def former_sql_name(table: Table) -> str:
    """Return the table's name in files of earlier versions, where such names could collide."""
    database, name = table.database, table.own_name
    return name if database == DATABASE else f"{database}{_BETWEEN}{name}"


_BETWEEN: Final = "__"


def key_type(table: Table) -> Type:
    """Return the type of the table's key."""
    key = table.primary_key
    return Type.LONG if key is not None and key.type in _INTEGERS else Type.ID


def key_name(table: Table) -> str:
    """Return the name of the key's column: ``_id`` when another attribute is called ``id``."""
    key = table.primary_key
    if key is not None:
        return key.name
    return "_id" if any(item.name.lower() == "id" for item in table.attributes) else "id"


def value_attributes(table: Table) -> tuple[Attribute, ...]:
    """Return the attributes that have a column besides the key."""
    return tuple(item for item in table.attributes if item.stored and not item.primary_key)


SqlType = BigInteger | Float[float] | Boolean | LargeBinary | Text | TypeDecorator[object]


def column_type(type_: Type) -> SqlType:
    """Return the SQL type of a column for a type."""
    match type_:
        case Type.INT | Type.LONG:
            return BigInteger()
        case Type.FLOAT:
            return Float()  # REAL affinity; only numbers are stored in it
        case Type.BOOLEAN:
            return Boolean()
        case Type.BYTES:
            return LargeBinary()
        case _:
            return Text()


def indexes(table: Table) -> dict[str, str]:
    """Return the indexes of a table: name to the text after ``ON <table>``."""
    name = sql_name(table)
    expires = quoted(DECLARED_NAMES.expires)
    wanted = {f"{index_prefix(name)}_expires": f"({expires}) WHERE {expires} IS NOT NULL"}
    for item in table.attributes:
        if item.indexed and item.formula is not None and item.formula.term is not None:
            text = term_text(item.formula.term)
            typed = [(name, str(one.type)) for name, one in _inputs(table, item.formula)]
            mark = crc32(repr((text, typed)).encode())  # another expression is another index
            wanted[f"{index_prefix(name)}{item.name}.{mark:08x}"] = f"({text})"
    for item in value_attributes(table):
        if item.indexed and item.type not in _NOT_INDEXED:
            column = quoted(item.name)
            # The text of a Decimal sorts as text; its rounded value finds candidate rows.
            term = f"CAST({column} AS REAL)" if item.type is Type.DECIMAL else column
            wanted[f"{index_prefix(name)}{item.name}"] = f"({term})"
    return wanted


def _inputs(table: Table, formula: Formula) -> list[tuple[str, Attribute]]:
    return [(item.name, item) for item in table.attributes if item.name in formula.inputs]


def term_text(term: Term) -> str:
    """Return the SQL of a computed number, which SQLite computes bit for bit as Python does.

    Floats are quotients of integers, since SQLite may round what it reads as a decimal fraction.
    """
    if isinstance(term, str):
        return quoted(term)
    if isinstance(term, float):
        above, below = term.as_integer_ratio()
        return f"(CAST({above} AS REAL)/{below})"
    if isinstance(term, int):
        return str(term) if term >= 0 else f"({term})"  # two signs would begin a comment
    left, right = term_text(term.left), term_text(term.right)
    if term.sign == "/":
        left = f"CAST({left} AS REAL)"
    return f"({left}{term.sign}{right})"


def index_prefix(name: str) -> str:
    """Return the prefix of the names of an SQL table's indexes."""
    return f"rowcast_by.{name}."


def check_names(tables: Sequence[Table]) -> None:
    """Raise INVALID when two names are equal in SQL, or one of the store's names is used."""
    seen: dict[str, str] = {}
    for table in tables:
        name = sql_name(table)
        if name.lower().startswith(RESERVED_PREFIXES):
            raise Error(
                Code.INVALID,
                f"the table {name} cannot be kept: names that begin with 'rowcast_' or 'sqlite_' "
                "belong to the store; choose another name",
            )
        if name.lower() in seen:
            raise Error(
                Code.INVALID,
                f"the tables {seen[name.lower()]} and {name} would be one SQL table, whose names "
                "do not tell capitals apart; rename one",
            )
        seen[name.lower()] = name
        _check_columns(table)


def _check_columns(table: Table) -> None:
    seen = {name.lower(): name for name in (*_SYSTEM, key_name(table))}
    for item in value_attributes(table):
        if item.name.lower() in seen:
            raise Error(
                Code.INVALID,
                f"the attribute {table.name}.{item.name} would be the same SQL column as "
                f"{seen[item.name.lower()]!r}; "
                "names of columns do not tell capitals apart, and some that begin with '_' belong "
                "to the store: choose another name",
            )
        seen[item.name.lower()] = item.name


_SYSTEM: Final = (
    FORM,
    EXTRA,
    *(getattr(DECLARED_NAMES, field) for field in Names.__dataclass_fields__),
)


@lru_cache(STATEMENTS_MAX)
def create_statement(table: Table) -> str:
    """Return the SQL statement that creates a declared table."""
    made = SqlTable(sql_name(table), MetaData(), *declared_columns(table))
    made.dialect_options["sqlite"]["with_rowid"] = key_type(table) in _INTEGERS
    return _compiled(CreateTable(made))


def _compiled(statement: CreateTable | CreateIndex) -> str:
    return str(statement.compile(dialect=sqlite.dialect()))


def declared_columns(
    table: Table, type_of: Callable[[Type], SqlType] = column_type
) -> list["Column[object]"]:
    """Return the columns of a declared table; ``type_of`` gives the type of an attribute's."""
    names = DECLARED_NAMES
    integer = key_type(table) in _INTEGERS
    key = Integer() if integer else Text()
    return [
        Column(key_name(table), key, primary_key=True, autoincrement=False),
        Column(FORM, Integer(), server_default="0"),
        *(Column(item.name, type_of(item.type)) for item in value_attributes(table)),
        Column(names.seq, BigInteger()),
        Column(names.version, BigInteger()),
        Column(names.client, Text()),
        Column(names.qos, Integer()),
        Column(names.expires, Float()),
        Column(names.properties, Text()),
        Column(names.content_type, Text()),
        Column(EXTRA, Text()),
        Column(names.payload, LargeBinary()),
    ]


@lru_cache(1)  # they are the same for each file
def create_own_statements() -> dict[str, tuple[str, ...]]:
    """Return the SQL statements that create the store's own tables and their indexes, by table."""
    metadata = MetaData()
    _own_tables(metadata)
    return {
        made.name: (
            _compiled(CreateTable(made)),
            *(_compiled(CreateIndex(index)) for index in made.indexes),
        )
        for made in metadata.sorted_tables
    }


def _own_tables(metadata: MetaData) -> None:
    """Define the log, the current values of undeclared topics, the states, and the accounts."""
    SqlTable(
        LOG,
        metadata,
        Column("seq", Integer(), primary_key=True, autoincrement=False),
        Column("table_id", Integer(), nullable=False),
        Column("topic", Text(), nullable=False),
        Column("kind", Text(), nullable=False),
        Column("version", BigInteger(), nullable=False),
        Column("qos", Integer(), nullable=False),
        Column("retain", Boolean(), nullable=False),
        Column("client", Text(), nullable=False),
        Column("content_type", Text()),
        Column("expires", Float()),
        Column("properties", Text()),
        Column("payload", LargeBinary(), nullable=False),
        Index("rowcast_log_table", "table_id", "seq"),
    )
    SqlTable(
        TOPICS,
        metadata,
        Column("topic", Text(), primary_key=True),
        Column("seq", BigInteger(), nullable=False),
        Column("version", BigInteger(), nullable=False),
        Column("client", Text(), nullable=False),
        Column("qos", Integer(), nullable=False),
        Column("expires", Float()),
        Column("properties", Text()),
        Column("content_type", Text()),
        Column("payload", LargeBinary(), nullable=False),
        Index("rowcast_topics_expires", "expires", sqlite_where=text("expires IS NOT NULL")),
        sqlite_with_rowid=False,
    )
    SqlTable(
        STATES,
        metadata,
        Column("owner", Text(), primary_key=True),
        Column("name", Text(), primary_key=True),
        Column("value", LargeBinary(), nullable=False),
        sqlite_with_rowid=False,
    )
    SqlTable(
        STAGED_FACTS,
        metadata,
        Column("name", Text(), primary_key=True),
        Column("owner", Text(), primary_key=True),
        Column("value", LargeBinary(), nullable=False),
        sqlite_with_rowid=False,
    )
    _account_tables(metadata)


def _account_tables(metadata: MetaData) -> None:
    """Define the tables of facts of the whole store, and of the parts of the log."""
    SqlTable(
        META,
        metadata,
        Column("name", Text(), primary_key=True),
        Column("value", Text(), nullable=False),
    )
    SqlTable(
        TABLES,
        metadata,
        Column("id", Integer(), primary_key=True, autoincrement=False),
        Column("name", Text(), nullable=False, unique=True),
        Column("path", Text()),
        Column("shape", Text(), nullable=False),
        Column("trimmed", BigInteger(), nullable=False, default=0),
        Column("events", BigInteger(), nullable=False, default=0),
        Column("bytes", BigInteger(), nullable=False, default=0),
        Column("records", BigInteger()),
        Column("mixed", Boolean()),
    )
    SqlTable(
        TIMES,
        metadata,
        Column("second", Integer(), primary_key=True, autoincrement=False),
        Column("seq", BigInteger(), nullable=False),
    )
    SqlTable(
        FORMER,
        metadata,
        Column("branch", Text(), primary_key=True),
        Column("trimmed", BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
