"""Tables: the declared types of records, without storage.

A table is data only. ``schema`` builds it from ``schema.graphql``; ``core/values.py`` checks values
against it; ``store`` creates its SQL table.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from rowcast.core.derivations import DerivedRule
from rowcast.core.formula import Formula
from rowcast.core.partitions import Partition
from rowcast.core.rollups import RollupRule

if TYPE_CHECKING:
    from rowcast.core.clauses import AlarmRule, Clause

DATABASE: Final = "data"
"""The default database."""


class Type(StrEnum):
    """The type of an attribute's values; the value is the name in ``schema.graphql``."""

    ID = "ID"
    STRING = "String"
    INT = "Int"
    """32 bits, signed (GraphQL, 3.5.1)."""
    LONG = "Long"
    """64 bits, signed."""
    FLOAT = "Float"
    DECIMAL = "Decimal"
    BOOLEAN = "Boolean"
    DATE = "Date"
    """A point in time, UTC, microseconds."""
    BYTES = "Bytes"
    ANY = "Any"
    OBJECT = "Object"
    """A nested type: ``fields`` are its attributes."""
    LIST = "List"
    """A list: ``items`` is its element."""


class Role(StrEnum):
    """The server's role in an attribute's value."""

    CREATED_TIME = "createdTime"
    UPDATED_TIME = "updatedTime"
    EXPIRES_AT = "expiresAt"


class Logs(StrEnum):
    """Which events of a table go into the log."""

    ALL = "all"
    QOS1 = "qos1"
    """All but non-retained QoS 0."""
    RETAINED = "retained"
    """Only what changes a record."""


class Invalid(StrEnum):
    """What happens to a value that does not fit the table (A15)."""

    REJECT = "reject"
    """Its writer gets the error."""
    DROP = "drop"
    """It is counted, and its writer is answered as if it had been stored."""
    DEAD_LETTER = "deadLetter"
    """The same, and it is stored with the reason, for administrators."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One declared attribute of a table, of a nested type, or the element of a list."""

    name: str
    type: Type
    required: bool = False
    items: "Attribute | None" = None
    fields: tuple["Attribute", ...] = ()
    type_name: str = ""
    """The nested type's name, when ``type`` is OBJECT."""
    sealed: bool = False
    """A nested type that accepts only its declared fields."""
    primary_key: bool = False
    indexed: bool = False
    hidden: bool = False
    role: Role | None = None
    computed: str | None = None
    """The expression that computes the value, or empty text where a function does.

    Such an attribute is not stored.
    """
    formula: Formula | None = field(default=None, compare=False)
    """What computes the value; made when the whole table is known."""
    relationship: tuple[str, str] | None = None
    """``("from", attribute)`` or ``("to", attribute)``; ``type_name`` is the other table.

    Never stored.
    """
    digits: tuple[int, int] | None = None
    """Precision and scale of a Decimal."""
    description: str = ""
    auth: "tuple[Clause, ...]" = field(default=(), compare=False)
    """``@auth`` clauses in addition to those of the record; empty: no further restriction."""

    @property
    def stored(self) -> bool:
        """Whether the attribute has a column."""
        return self.computed is None and self.relationship is None

    @property
    def has_value(self) -> bool:
        """Whether records have a value of it, stored or computed, which may be hidden."""
        return self.stored or self.formula is not None


@dataclass(frozen=True, slots=True)
class Table:
    """A shape declared in ``schema.graphql``.

    ``path`` is where it is exported: the first levels of its records' topics and URLs. It is empty
    for a table exported at the root and None for one that is not exported.
    """

    name: str
    """The unique name, internally and for clients.

    It is ``database.name`` where another database has a table of that name.
    """
    path: str | None
    attributes: tuple[Attribute, ...] = ()
    database: str = DATABASE
    sealed: bool = False
    logs: Logs = Logs.ALL
    expiration_seconds: float = 0
    """Lifetime of a record after its last write; 0: unlimited."""
    history_seconds: float = 0
    """The log keeps the table's events at least this long; 0 means no limit of its own."""
    history_events: int = 0
    """How many of its last events the log keeps; 0 means no limit of its own."""
    history_bytes: int = 0
    """How many bytes of payload of its last events; 0 means no limit of its own."""
    compacts: bool = False
    """Of what its history has no longer, the end of each record stays (E16)."""
    kept_by: tuple[str, ...] = ()
    """The parts of the key of which the newest event stays, where that is not the records' own.

    Names of attributes, or ``topic`` and ``clientId`` where no attribute has that name.
    """
    tombstone_seconds: float = 0
    """How long the deletion of a record stays beyond its history, where it compacts."""
    deadline_seconds: float = 0
    """Time without a write after which a record is stale; 0: never (M4)."""
    delivers_latest: bool = False
    """A slow reader gets only the newest event of each record (M4)."""
    conflate_seconds: float = 0
    """Least time between two values of a record that a reader gets; 0: it gets each (M4)."""
    partition: Partition | None = None
    """By what the files of its snapshots are divided."""
    invalid: Invalid = Invalid.REJECT
    """What happens to a value that does not fit."""
    hidden_from: frozenset[str] = frozenset()
    """Doors that do not expose it: ``rest``, ``mqtt``, ``ws``, ``sse``."""
    description: str = ""
    auth: "tuple[Clause, ...]" = field(default=(), compare=False)
    """``@auth`` clauses for its records; empty: the global grants decide."""
    alarms: "tuple[AlarmRule, ...]" = field(default=(), compare=False)
    """What is watched of each of its records."""
    rollup: RollupRule | None = field(default=None, compare=False)
    """Of which table it has what, if the server keeps its rows."""
    derived: DerivedRule | None = field(default=None, compare=False)
    """Which job makes its rows from which tables, if one does (W4)."""
    primary_key: Attribute | None = field(init=False, compare=False, repr=False)
    """The declared key; None for a table whose ids are only in the URL and topic."""

    def __post_init__(self) -> None:
        """Find the key once, because every row asks for it."""
        key = next((item for item in self.attributes if item.primary_key), None)
        object.__setattr__(self, "primary_key", key)

    @property
    def own_name(self) -> str:
        """The name within its database."""
        return self.name.removeprefix(qualified(self.database, ""))

    @property
    def restricted(self) -> bool:
        """Whether it has ``@auth`` clauses."""
        return bool(self.auth) or any(item.auth for item in self.attributes)

    @property
    def ruled(self) -> bool:
        """Whether rights depend on the content of the record."""
        clauses = [*self.auth, *(one for item in self.attributes for one in item.auth)]
        return any(item.looks for item in clauses)

    @property
    def open(self) -> bool:
        """Whether it accepts any content: it declares at most a key, and is not sealed."""
        return not self.sealed and all(item.primary_key for item in self.attributes)

    @property
    def hides(self) -> bool:
        """Whether any attribute is hidden."""
        return any(item.hidden for item in self.attributes)

    @property
    def computes(self) -> bool:
        """Whether readers are told values that are computed."""
        return any(item.formula is not None and not item.hidden for item in self.attributes)

    @property
    def reshapes(self) -> bool:
        """Whether readers get other values than are stored."""
        return self.hides or self.computes

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of that name."""
        return next((item for item in self.attributes if item.name == name), None)

    def topic(self, record_id: str) -> str:
        """Return the topic of the record with this id."""
        return f"{self.path}/{record_id}" if self.path else record_id


def qualified(database: str, name: str) -> str:
    """Return the name of a table together with that of its database."""
    return f"{database}.{name}"


def is_kept(table: Table) -> bool:
    """Whether the server alone makes its records: of a roll-up, or by a job."""
    return table.rollup is not None or table.derived is not None
