"""Live queries that a schema names: ``query Hot @query(table: "Sensor", where: "temp=gt=80")``."""

from dataclasses import dataclass

from rowcast.core.tables import Table


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One of them; a client subscribes to ``$query/<name>/#``."""

    name: str
    table: Table
    conditions: str
    """As in a URL's query string; checked when the schema was read."""

    @property
    def definition(self) -> str:
        """What it selects, as text: another one means that a reader's records may be others."""
        return f"{self.table.name}?{self.conditions}"
