"""The registry: which table and which resource is at a topic. The longest path wins.

Built once at start from the schema and from the classes in ``resources/``; a lookup is a dictionary
hit for a topic seen before. It decides what a topic *is*, not who may use it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rowcast.core.bounded import ClearedCache
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, TOPIC_CACHED_BYTES_MAX
from rowcast.core.tables import Table
from rowcast.core.topics import DELAYED_PREFIX, check_topic
from rowcast.kernel.resource import OVERRIDABLE, Resource
from rowcast.kernel.write import Step, Write
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.topic_rows import View

VERB_OF_KIND: Mapping[str, str] = {
    PUT: "put", PATCH: "patch", DELETE: "delete", MESSAGE: "publish",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a path: a table's shape, a resource class, or both."""

    path: str
    shape: CompiledTable | None = None
    resource: type[Resource] | None = None
    overrides: frozenset[str] = frozenset()
    """The verbs that the resource class gives a behaviour of its own."""
    view: View | None = None
    """The rows that the path shows: of a topic table, whose shape this is."""


@dataclass(slots=True)
class Route:
    """Where one topic leads: the entry, and the record's id within it."""

    topic: str
    entry: Entry | None
    record_id: str
    plain: bool = False
    """Whether it is an undeclared topic that anyone may write to: nothing to validate or
    transform, and no history."""
    steps: tuple[Step, ...] | None = None
    """What each write here is asked, in order; compiled when the first comes (``steps.py``)."""
    message_steps: tuple[Step, ...] = ()
    """The same of a message, which changes no record."""
    bare: bool = False
    """Whether a message is asked for nothing but the caller's right and the content here."""

    @property
    def shape(self) -> CompiledTable | None:
        """The declared table's shape; None where there is no table."""
        return self.entry.shape if self.entry is not None else None

    @property
    def table(self) -> Table | None:
        """The declared table, if any."""
        return self.entry.shape.table if self.entry and self.entry.shape else None

    @property
    def view(self) -> View | None:
        """What shows rows here; None for everything that can be written."""
        return self.entry.view if self.entry is not None else None

    def overrides(self, verb: str) -> bool:
        """Tell whether a resource class has its own behaviour for this verb here."""
        return self.entry is not None and verb in self.entry.overrides


class Registry:
    """Paths to entries, topics to routes."""

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        undeclared: bool = True,
        logged: bool = False,
        routes_max: int = MATCH_CACHE_TOPICS_MAX,
    ) -> None:
        self.shapes = {table.name: CompiledTable(table) for table in tables}
        self.undeclared = undeclared
        """Whether what no table declares is a topic too; what is the server's own always is."""
        self.logged = logged
        """Whether messages at such topics have a history."""
        self._entries: dict[str, Entry] = {
            table.path: Entry(table.path, self.shapes[table.name])
            for table in tables
            if table.path is not None
        }
        self._routes: ClearedCache[str, Route] = ClearedCache(routes_max)
        self.on_first_write: Callable[[Route], object] | None = None
        """Told of the first write at a topic since its route was made."""

    @property
    def entries(self) -> Sequence[Entry]:
        """What is exported, by path."""
        return [self._entries[path] for path in sorted(self._entries)]

    @property
    def paths(self) -> Iterable[str]:
        """The paths of what is exported, in no order."""
        return self._entries

    def named(self, text: str) -> str:
        """Return the topic or filter that one with a leading slash means.

        ``/Dog/1`` is written as the URL's path is and means ``Dog/1`` where ``Dog`` is declared;
        any other is a topic of its own (MQTT-4.7.3-1), also beside a topic table. So is what is
        meant behind ``$delayed/<seconds>/``: rights and hooks judge it now, as what it will be.
        """
        text = self._declared(text)
        if not text.startswith(DELAYED_PREFIX):
            return text
        seconds, slash, meant = text.removeprefix(DELAYED_PREFIX).partition("/")
        return f"{DELAYED_PREFIX}{seconds}{slash}{self._declared(meant)}"

    def _declared(self, text: str) -> str:
        """Return what a leading slash names; anything else as it is."""
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
        """Put a resource class at a path; at a table's path it replaces the table's behaviour.

        Raises CONFLICT when another class is there already.
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
        self._routes.clear()

    def has(self, name: str) -> bool:
        """Tell whether something is declared under a name or at a path."""
        return name in self.shapes or name in self._entries

    def show(self, view: View) -> None:
        """Put a topic table at the path that is its name."""
        name = view.table.name
        self.shapes[name] = view.shape
        self._entries[name] = Entry(name, view.shape, view=view)
        self._routes.clear()

    def hide(self, name: str) -> None:
        """Take away a topic table."""
        del self.shapes[name], self._entries[name]
        self._routes.clear()

    def reserve(self, path: str, verbs: Iterable[str]) -> None:
        """Keep a path for the kernel itself, which carries out these verbs there."""
        self._entries[path] = Entry(path, overrides=frozenset(verbs))
        self._routes.clear()

    def first_write_step(self, route: Route) -> Step | None:
        """Return the step that tells of the first write since a route was made, and no other."""
        tell = self.on_first_write
        if tell is None:
            return None

        def first(_write: Write) -> None:
            tell(route)
            route.steps = tuple(step for step in route.steps or () if step is not first)
            route.message_steps = tuple(step for step in route.message_steps if step is not first)

        return first

    def forget_routes(self) -> None:
        """Make every route anew, with its steps, when it is asked for next."""
        self._routes.clear()

    @property
    def known(self) -> Mapping[str, Route]:
        """Where topics lead for which that was asked before; one view that stays up to date."""
        return self._routes

    def route(self, topic: str) -> Route:
        """Return where a topic leads.

        Raises INVALID for what is no topic, and NOT_FOUND for an undeclared one when those are
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
