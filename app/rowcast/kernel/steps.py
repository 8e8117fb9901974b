"""The steps of a write: what the features have to say about it, compiled once for each route.

A feature adds a factory under one of the names in ORDER. When the first write comes to a route,
every factory is asked whether its feature has a say there; the steps that they return are what each
write of that route is asked, and nothing else. A feature whose answer would be another now calls
``changed``. Features that look at a property of an event are found by its name, so that an event
without properties asks none of them.

Access is part of the kernel: where no feature says who may write, every write is refused.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import EXPIRY
from rowcast.kernel.registry import Registry, Route
from rowcast.kernel.write import Step, Write

ORDER: Final = (
    "hooks",  # asked first: they may change the topic, and what is refused anyway they never see
    "access",  # before anything tells its caller what is at the topic
    "delay",  # judged as what it will be, and kept until then
    "resource",  # the class decides, validates and writes in its own way
    "rows",  # who may write this record: says so on the writer thread
    "content",  # size, type, expiry, whether it is logged
    "retained",  # how many, how fast: what is refused before uses up nothing of it
    "topic_table",  # makes a table, so it comes after all that refuses
    "backlog",  # whether the readers that must keep up have room
    "recent",  # notes the topic of a write that was taken
)
"""The names of the steps in the order in which they are asked, which is a promise to users."""

BARE: Final = frozenset({"access", "content", "recent"})
"""The steps at a topic where no feature has a say; the last of them goes with the first write."""

Factory = Callable[[Route], Step | None]
"""Returns what is asked of each write of a route; None where there is nothing to ask."""


class Steps:
    """The factories of the features of one kernel."""

    def __init__(self, registry: Registry) -> None:
        self._factories: dict[str, list[Factory]] = {name: [] for name in ORDER}
        self._of_records: set[Factory] = set()
        self._first: dict[str, Step] = {}
        self._admitted: dict[str, Step] = {}
        self.changed = registry.forget_routes
        """Have every route compiled anew."""
        self.properties = {EXPIRY}
        """Names of properties that an event cannot be announced without a look at."""
        self.may_announce: Callable[[Caller, str], bool] = _nobody
        """Tells whether a caller may send a message to a topic that no table declares."""

    def add(self, name: str, factory: Factory, *, messages: bool = True) -> None:
        """Add a factory under a name of ORDER, after those that are there.

        Its steps are asked about ``messages``, too, or only about what changes a record.
        """
        self._factories[name].append(factory)
        if not messages:
            self._of_records.add(factory)
        self.changed()

    def remove(self, name: str, factory: Factory) -> None:
        """Take away a factory; one that was not added is ignored."""
        if factory in self._factories[name]:
            self._factories[name].remove(factory)
            self._of_records.discard(factory)
            self.changed()

    def on_property(self, name: str, step: Step, *, first: bool = False) -> None:
        """Ask a step about each event with a property: ``first``, before any other step."""
        (self._first if first else self._admitted)[name] = step
        self.properties.add(name)

    def first(self, properties: Mapping[str, object]) -> Collection[Step]:
        """Return what is asked about these properties before any other step."""
        return dict.fromkeys(step for name, step in self._first.items() if name in properties)

    def admitted(self, properties: Mapping[str, object]) -> Iterable[Step]:
        """Return what is asked about these properties of a write whose content is admitted."""
        return dict.fromkeys(step for name, step in self._admitted.items() if name in properties)

    def compile(self, route: Route) -> tuple[Step, ...]:
        """Give a route what is asked of each write there, in order; return it."""
        steps: list[Step] = []
        of_messages: list[Step] = []
        route.bare = route.plain
        for name, factories in self._factories.items():
            made = [
                (step, factory not in self._of_records)
                for factory in factories
                if (step := factory(route)) is not None
            ]
            if name == "access" and not made:
                made = [(_refuse, True)]
            steps += [step for step, _ in made]
            asked = [step for step, messages in made if messages]
            of_messages += asked
            if asked and name not in BARE:
                route.bare = False
        route.steps, route.message_steps = tuple(steps), tuple(of_messages)
        return route.steps


def _nobody(_caller: Caller, _topic: str) -> bool:
    return False


def _refuse(write: Write) -> None:
    """Refuse a write, because nobody says who may write."""
    raise Error(Code.DENIED, f"{write.caller.user} may not write {write.event.topic!r}")
