"""A schema: the declared tables, and which of them a topic belongs to.

It is data made once at the start; finding a route costs one look-up for each level of the topic.
"""

from dataclasses import dataclass, field

from rowcast.core.named_queries import NamedQuery
from rowcast.core.tables import Table


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared tables, in the order of the file."""

    tables: tuple[Table, ...] = ()
    declared: tuple[dict[str, object], ...] = field(default=(), compare=False, repr=False)
    """The same as they are written, each as a row."""
    text: str = field(default="", compare=False, repr=False)
    """The text that it was read from."""
    queries: tuple[NamedQuery, ...] = field(default=(), compare=False, repr=False)
    """The live queries that it names."""
    _paths: dict[str, Table] = field(init=False, compare=False, repr=False)
    _names: dict[str, Table] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        paths = {table.path: table for table in self.tables if table.path is not None}
        object.__setattr__(self, "_paths", paths)
        object.__setattr__(self, "_names", {table.name: table for table in self.tables})

    def table(self, name: str) -> Table | None:
        """Return the table of that name."""
        return self._names.get(name)

    def exported(self, path: str) -> Table | None:
        """Return the table exported at exactly this path."""
        return self._paths.get(path)

    def route(self, topic: str) -> tuple[Table, str] | None:
        """Return the table whose path is the longest that begins the topic, and the record's id.

        The id is empty for the path itself, which is the table as a whole. None means that the
        topic is not declared.
        """
        end = len(topic)
        while end >= 0:
            table = self._paths.get(topic[:end])
            if table is not None and end > 0:
                return table, topic[end + 1 :]
            end = topic.rfind("/", 0, end)
        root = self._paths.get("")
        return None if root is None else (root, topic)
