"""The steps of a write: the features' functions, compiled once for each route.

A feature adds a factory under one of the names in ORDER. At the first write to a route, or to any
record of a table, every factory is called; each write there then runs only the returned steps. A
feature whose factory would return another result calls ``changed``. Steps for a property of an
event are looked up by its name, so that an event without properties runs none of them.

Access is part of the kernel: without a feature that authorises, every write is refused.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import EXPIRY
from rowcast.routes.registry import Compiled, Registry, Route
from rowcast.writes.write import Step, Write

ORDER: Final = (
    "hooks",  # first, because they may change the topic; they check the rights to it themselves
    "access",  # before any answer reveals what is at the topic
    "delay",  # checked like the final write, and stored until then
    "resource",  # the class decides, validates and writes itself
    "rows",  # rights on this record: checked when it is decided
    "content",  # size, type, expiry, whether it is logged
    "retained",  # quotas and rates: refused writes do not count
    "topic_table",  # creates a table, so it comes after all checks
    "backlog",  # whether readers that must keep up have space
    "recent",  # records the topic of an accepted write
)
"""The names of the steps in order, which is a promise to users."""

BARE: Final = frozenset({"access", "content", "recent"})
"""The steps at a topic without features; the last of them is removed after the first write."""
BARE_STEPS: Final = len(BARE) - 1
"""How many steps a topic without features has once "recent" has removed itself."""

TAKING_OVER: Final = frozenset({"hooks", "delay", "resource"})
"""Steps that may take a write over, or begin another."""

STEADY: Final = frozenset({"access", "content", "topic_table", "recent"})
"""Steps whose answer to a message at an undeclared topic holds for the next one of its caller,
provided that it has the same QoS, no properties, and is not too large."""

Factory = Callable[[Route], Step | None]
"""Returns the step of a route; None if there is none. It is asked once for all records of a table,
and once for all plain topics, so the step takes the topic and the id from the write."""


class Steps:
    """The factories of the features of one kernel."""

    def __init__(self, registry: Registry) -> None:
        self._factories: dict[str, list[Factory]] = {name: [] for name in ORDER}
        self._not_for_messages: set[Factory] = set()
        self._in_order: list[tuple[str, Factory, bool]] = []
        """Each factory with its name, and whether its steps run for messages, too."""
        self._before_route: dict[str, Step] = {}
        self._after_content: dict[str, Step] = {}
        self._of_tables = registry.of_tables
        self.changed = registry.forget_routes
        """Recompile every route on next use."""
        self.properties = {EXPIRY}
        """Names of properties that need a step before an event is announced."""
        self.may_announce: Callable[[Caller, str], bool] | None = _nobody
        """Returns whether a caller may send a message to an undeclared topic; None where its grant
        to write alone decides, which costs no call."""

    def add(self, name: str, factory: Factory, *, messages: bool = True) -> None:
        """Add a factory under a name of ORDER, after existing ones.

        Its steps run for ``messages``, too, or only for writes that change a record.
        """
        self._factories[name].append(factory)
        if not messages:
            self._not_for_messages.add(factory)
        self._sort()

    def remove(self, name: str, factory: Factory) -> None:
        """Remove a factory; ignored if it was not added."""
        if factory in self._factories[name]:
            self._factories[name].remove(factory)
            self._not_for_messages.discard(factory)
            self._sort()

    def _sort(self) -> None:
        self._in_order = [
            (name, factory, factory not in self._not_for_messages)
            for name, factories in self._factories.items()
            for factory in factories
        ]
        self.changed()

    def on_property(self, name: str, step: Step, *, first: bool = False) -> None:
        """Run a step for each event with a property; ``first``: before any other step."""
        (self._before_route if first else self._after_content)[name] = step
        self.properties.add(name)

    def before_route(self, properties: Mapping[str, object]) -> Collection[Step]:
        """Return the steps of these properties that run before any other."""
        return dict.fromkeys(
            step for name, step in self._before_route.items() if name in properties
        )

    def after_content(self, properties: Mapping[str, object]) -> Iterable[Step]:
        """Return the steps of these properties that run at the end of the step "content"."""
        return dict.fromkeys(
            step for name, step in self._after_content.items() if name in properties
        )

    def compile(self, route: Route) -> tuple[Step, ...]:
        """Set and return a route's steps, in order.

        Records of one table have the same, and so have all plain topics: the factories are asked
        for the first of them alone.
        """
        shape = route.record_of
        if shape is None and not route.plain:
            return route.take(self._compiled(route))
        known = self._of_tables.get(shape)
        if known is None:
            known = self._of_tables[shape] = self._compiled(route)
        return route.take(known)

    def _compiled(self, route: Route) -> Compiled:
        """Ask the factories for the steps of a route."""
        steps: list[Step] = []
        of_messages: list[Step] = []
        checked, bare, steady = True, route.plain, route.shape is None
        hooks, closed = 0, True
        for name, factory, asks_messages in self._in_order:
            step = factory(route)
            if step is None:
                continue
            steps.append(step)
            if asks_messages:
                of_messages.append(step)
                bare = bare and name in BARE
                steady = steady and name in STEADY
            if name in TAKING_OVER:
                checked = False
            hooks += name == "hooks"
            closed = closed and name != "access"
        if closed:
            steps.insert(hooks, _refuse)
            of_messages.insert(hooks, _refuse)
        found = tuple(steps)
        messages = found if of_messages == steps else tuple(of_messages)
        return Compiled(found, messages, checked, bare, steady)


def _nobody(_caller: Caller, _topic: str) -> bool:
    return False


def _refuse(write: Write) -> None:
    """Refuse a write, because no feature authorises."""
    raise Error(Code.DENIED, f"{write.caller.user} may not write {write.event.topic!r}")
