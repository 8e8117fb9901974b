"""The registry: which table and which resource is at a topic. The longest path wins.

Built once at start from the schema and from the classes in ``resources/``; a lookup is a dictionary
hit for a known topic. It resolves topics, and does not authorise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rowcast.core.bounded import ClearedCache
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, TOPIC_CACHED_BYTES_MAX
from rowcast.core.relations import relation_of
from rowcast.core.tables import Table
from rowcast.core.topics import DELAYED_PREFIX, check_topic
from rowcast.routes.resource import OVERRIDABLE, Resource
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.topic_rows import View
from rowcast.writes.write import Step

UNDECLARED: Final = "{topic}"
"""The label of all undeclared topics."""
VERB_OF_KIND: Final[Mapping[str, str]] = {
    PUT: "put", PATCH: "patch", DELETE: "delete", MESSAGE: "publish",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of a path: a compiled table, a resource class, or both."""

    path: str
    shape: CompiledTable | None = None
    resource: type[Resource] | None = None
    overrides: frozenset[str] = frozenset()
    """The verbs that the resource class overrides."""
    view: View | None = None
    """The view of a topic table, whose shape this is."""


class Compiled(NamedTuple):
    """The steps of a route; the fields of the same names of ``Route`` say more."""

    steps: tuple[Step, ...]
    message_steps: tuple[Step, ...]
    checked: bool
    bare: bool
    steady: bool


class Route:
    """The route of a topic: the entry, and the record's id within it."""

    __slots__ = (
        "bare", "checked", "entry", "label", "message_steps", "plain", "record_id", "shape",
        "steady", "steps", "table", "topic", "view",
    )  # fmt: skip

    def __init__(
        self, topic: str, entry: Entry | None, record_id: str, *, plain: bool = False
    ) -> None:
        self.topic = topic
        self.entry = entry
        self.record_id = record_id
        self.label = (UNDECLARED, False) if entry is None else (entry.path, record_id != "")
        """For the times of requests: the path of the entry, and whether a record is named."""
        self.plain = plain
        """Whether it is a plain undeclared topic: nothing to validate or transform, and no
        history."""
        self.steps: tuple[Step, ...] | None = None
        """The steps of each write here, in order; compiled at the first (``kernel/steps.py``)."""
        self.message_steps: tuple[Step, ...] = ()
        """The same for a message, which changes no record."""
        self.bare = False
        """Whether a message only needs the checks of rights and content here."""
        self.checked = False
        """Whether no step takes a write over here; known once the steps are compiled."""
        self.steady = False
        """Whether what its steps say of a message holds for the next one, too."""
        self.shape: CompiledTable | None = entry.shape if entry is not None else None
        """The compiled table; None if there is none."""
        self.table: Table | None = self.shape.table if self.shape is not None else None
        """The declared table, if any."""
        self.view: View | None = entry.view if entry is not None else None
        """The view of a topic table; None for writable topics."""

    @property
    def record_of(self) -> CompiledTable | None:
        """The table of which the topic is a record like any other; None for any other topic."""
        entry = self.entry
        alike = entry is not None and self.view is None and not entry.overrides and self.record_id
        return self.shape if alike else None

    def take(self, compiled: Compiled) -> tuple[Step, ...]:
        """Take these steps; return those that change a record."""
        self.steps, self.message_steps, self.checked, self.bare, self.steady = compiled
        return compiled.steps

    def overrides(self, verb: str) -> bool:
        """Whether a resource class overrides this verb here."""
        return self.entry is not None and verb in self.entry.overrides


class Registry:
    """Paths to entries, topics to routes."""

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        undeclared: bool = True,
        routes_max: int = MATCH_CACHE_TOPICS_MAX,
    ) -> None:
        self.shapes = {table.name: CompiledTable(table) for table in tables}
        self.related = {table.name: table for table in tables if "rest" not in table.hidden_from}
        """The tables to which relationships lead over REST, by name."""
        alarms = (rule.name for table in tables if table.path for rule in table.alarms)
        self.alarms = frozenset(alarms)
        """The names of the alarms that there can be."""
        self.undeclared = undeclared
        """Whether undeclared topics are allowed; the server's own always are."""
        self.logged = False
        """Whether messages at such topics have a history."""
        self._entries: dict[str, Entry] = {
            table.path: Entry(table.path, self.shapes[table.name])
            for table in tables
            if table.path is not None
        }
        self.silent: dict[str, str] = {}
        """Paths at which nothing is published, with the reason that a subscriber is told."""
        self._routes: ClearedCache[str, Route] = ClearedCache(routes_max)
        self.of_tables: dict[CompiledTable | None, Compiled] = {}
        """The steps that all records of a table have, once one of them is written; under None those
        of all plain topics."""
        self.known: Mapping[str, Route] = self._routes
        """Cached routes by topic; a live view."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The exported entries, by path."""
        return [self._entries[path] for path in sorted(self._entries)]

    @property
    def paths(self) -> Iterable[str]:
        """The exported paths, unordered."""
        return self._entries

    def named(self, text: str) -> str:
        """Normalise a topic or filter with a leading slash.

        ``/Dog/1`` is spelt like a URL's path and means ``Dog/1`` if ``Dog`` is declared; any other
        is a distinct topic (MQTT-4.7.3-1), even if a topic table exists. The same applies after
        ``$delayed/<seconds>/``, because rights and hooks apply to the final topic.
        """
        text = self._declared(text)
        if not text.startswith(DELAYED_PREFIX):
            return text
        seconds, slash, meant = text.removeprefix(DELAYED_PREFIX).partition("/")
        return f"{DELAYED_PREFIX}{seconds}{slash}{self._declared(meant)}"

    def _declared(self, text: str) -> str:
        """Return the declared topic of a leading slash; anything else unchanged."""
        if text[:1] != "/":
            return text
        path = text = text[1:]
        while path:
            entry = self._entries.get(path)
            if entry is not None and entry.view is None:
                return text
            path = path.rpartition("/")[0]
        return "/" + text

    def add(self, path: str, resource: type[Resource]) -> None:
        """Register a resource class at a path; at a table's path it overrides the table's verbs.

        Raises CONFLICT when the path has a class already.
        """
        known = self._entries.get(path)
        if known is not None and known.resource is not None:
            raise Error(
                Code.CONFLICT,
                f"two resources want the path {path!r}: {known.resource.__name__} and "
                f"{resource.__name__}; give one of them another `path`",
            )
        overrides = frozenset(
            verb for verb in OVERRIDABLE if getattr(resource, verb) is not getattr(Resource, verb)
        )
        shape = known.shape if known is not None else None
        self._entries[path] = Entry(path, shape, resource, overrides)
        if resource.silent:
            self.silent[path] = resource.silent
        self.forget_routes()

    def declares(self, topic: str) -> bool:
        """Whether a declared table has a topic, or is one, without a resource class."""
        path = topic
        while path:
            entry = self._entries.get(path)
            if entry is not None:
                return entry.shape is not None and entry.view is None and not entry.resource
            path = path.rpartition("/")[0]
        return False

    def leads(self, topic: str) -> bool:
        """Whether a topic is a record's relationship to several others, as ``Owner/ann/dogs``."""
        topic, _, name = topic.rpartition("/")
        found = self._find(topic) if topic and name else None
        if found is None or found.table is None or not found.record_id or found.view is not None:
            return False
        relation = relation_of(found.table, name, self.related)
        return relation is not None and relation.many

    def entry(self, path: str) -> Entry | None:
        """Return the entry at exactly this path."""
        return self._entries.get(path)

    def has(self, name: str) -> bool:
        """Whether a name or path is declared."""
        return name in self.shapes or name in self._entries

    def show(self, view: View) -> None:
        """Add a topic table at its name."""
        name = view.table.name
        self.shapes[name] = view.shape
        self._entries[name] = Entry(name, view.shape, view=view)
        self.forget_routes()

    def hide(self, name: str) -> None:
        """Remove a topic table."""
        del self.shapes[name], self._entries[name]
        self.forget_routes()

    def reserve(self, path: str, verbs: Iterable[str]) -> None:
        """Reserve a path for the kernel itself, with these verbs."""
        self._entries[path] = Entry(path, overrides=frozenset(verbs))
        self.forget_routes()

    def log_undeclared(self) -> None:
        """Give messages at undeclared topics a history; the caller adds the step that logs them."""
        self.logged = True
        self.forget_routes()

    def forget_routes(self) -> None:
        """Clear cached routes and their steps; they are rebuilt on use."""
        self._routes.clear()
        self.of_tables.clear()

    def route(self, topic: str) -> Route:
        """Return the route of a topic.

        Raises INVALID for an invalid topic, and NOT_FOUND for an undeclared one when those are
        rejected.
        """
        route = self._routes.get(topic)
        if route is None:
            check_topic(topic)
            route = self._find(topic)
            if route.entry is None and not self.undeclared and topic[0] != "$":
                raise Error(
                    Code.NOT_FOUND,
                    f"nothing is declared at {topic!r}; declare a table in schema.graphql, or set "
                    "topics.undeclared to table or route",
                )
            if len(topic) <= TOPIC_CACHED_BYTES_MAX:
                self._routes.put(topic, route)
        return route

    def shape_at(self, topic: str) -> CompiledTable | None:
        """Return the compiled table of a topic, which need not be a legal one; None without one."""
        return self._find(topic).shape

    def table_at(self, topic: str) -> Table | None:
        """Return the declared table of a topic, which need not be legal; a topic table is none."""
        found = self._find(topic)
        return found.table if found.view is None else None

    def declared(self) -> list[Table]:
        """Return the declared tables that have a path."""
        entries = self._entries.values()
        return [one.shape.table for one in entries if one.shape is not None and one.view is None]

    def compiled(self, topic: str) -> Compiled | None:
        """Return the steps of a topic that is a record of a table like others written before.

        For many topics at once, which would push the routes of all others out of the cache. None
        for any other topic: ask for its route. Raises INVALID for an invalid topic.
        """
        path, _, record_id = topic.rpartition("/")
        entry = self._entries.get(path) if path and record_id else None
        if entry is None or entry.shape is None or entry.overrides or topic in self._entries:
            return None
        check_topic(topic)
        return self.of_tables.get(entry.shape)

    def _find(self, topic: str) -> Route:
        path, rest = topic, ""
        while True:
            entry = self._entries.get(path)
            if entry is not None and path:
                return Route(topic, entry, rest)
            cut = path.rfind("/")
            if cut < 0:
                break
            path = path[:cut]
            rest = topic[cut + 1 :]
        root = self._entries.get("")
        if root is not None and topic[0] != "$":
            return Route(topic, root, topic)
        return Route(topic, None, topic, plain=topic[0] != "$" and not self.logged)
