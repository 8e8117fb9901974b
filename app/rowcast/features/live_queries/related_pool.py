"""The records that a past of a live query is about, and how readers are told them (M3, A9).

What is selected of related records (``select(name,owner(name))``) is of the same moment as the
record: both are taken from the pools of their tables, as REST takes them from the store.
"""

from collections.abc import Iterable, Iterator, Mapping

from rowcast.codecs import JSON, encode
from rowcast.core.comparison import Place
from rowcast.core.conditions import reach
from rowcast.core.evaluation import project
from rowcast.core.events import Event, Record
from rowcast.core.queries import Select
from rowcast.features.live_queries.query_index import Key, key_of
from rowcast.features.live_queries.related_plan import Branch, Node, Plan
from rowcast.subscriptions.live_query import PARTS, PLACE, SAME, Step, as_step

_Place = tuple[int, Key]


class Pool:
    """The records of one table that may be concerned, as of one moment."""

    def __init__(self, plan: Plan, table: str) -> None:
        self.records: dict[str, Record] = {}
        self._out = [
            (branch, node)
            for node in plan.nodes
            for branch in node.branches
            if node.table.name == table
        ]
        selected = (item for item in plan.branches if item.is_selected)
        self._in = [item for item in selected if item.node.table.name == table]
        self._referring: dict[_Place, dict[str, None]] = {}
        self._led: dict[_Place, dict[str, None]] = {}

    def put(self, topic: str, record: Record | None) -> None:
        """Set a record; None: there is none."""
        old = self.records.pop(topic, None)
        for found, places in ((self._referring, self._places_out), (self._led, self._places_in)):
            for place in places(old) if old is not None else ():
                found[place].pop(topic, None)
            for place in places(record) if record is not None else ():
                found.setdefault(place, {})[topic] = None
        if record is not None:
            self.records[topic] = record

    def _places_out(self, record: Record) -> Iterator[_Place]:
        for branch, node in self._out:
            for key in branch.own_keys(node.values.value(record), node.values.id(record)):
                yield branch.number, key

    def _places_in(self, record: Record) -> Iterator[_Place]:
        for branch in self._in:
            values = branch.node.values
            found = reach(branch.relation.other, values.value(record), values.id(record))
            key = None if found is None else key_of(found)
            if key is not None:
                yield branch.number, key

    def referring(self, branch: Branch, keys: Iterable[Key]) -> Iterator[str]:
        """Yield the topics of the records that refer to some keys."""
        for key in keys:
            yield from self._referring.get((branch.number, key), ())

    def led(self, branch: Branch, key: Key) -> list[Record]:
        """Return the records that a key leads to, by their ids."""
        found = [self.records[topic] for topic in self._led.get((branch.number, key), ())]
        return sorted(found, key=lambda record: Place(branch.node.values.id(record)))


class SelectedRecords:
    """Makes of records what the readers of a plan see of them: the selected parts."""

    def __init__(self, plan: Plan, pools: Mapping[str, Pool]) -> None:
        self._plan = plan
        self._pools = pools

    def record(self, seen: Record) -> Record:
        """Return a record, as the caller sees it, as its readers are told it."""
        if self._plan.select is None:
            return seen
        value = self._selected(self._plan.root, self._plan.select, seen)
        record = seen.changed(payload=encode(value, JSON), content_type=JSON, table=None)
        record.decoded = value
        PARTS.put(record, True)
        PLACE.put(record, self._plan.place(seen))
        return record

    def value(self, record: Record) -> object:
        """Return what is told of a record where parts are selected, to be compared; else None.

        It is as readers get it: 1, 1.0 and true differ.
        """
        root, select = self._plan.root, self._plan.select
        seen = root.seen(record) if select is not None else None
        return None if seen is None else encode(self._selected(root, select, seen), JSON)

    def change(self, seen: Record, *, same: bool) -> Event:
        """Return the step of a change; ``same``: nothing changed of what is told of it."""
        step = as_step(Step.CHANGE, self.record(seen))
        if same and self._plan.select is not None:
            SAME.put(step, True)
        return step

    def _selected(self, node: Node, select: Select | None, seen: Record) -> object:
        values, table = node.values, node.table
        record_id, value = values.id(seen), values.spelled(seen)
        name = table.primary_key.name if table.primary_key else "id"
        if isinstance(value, dict):
            value = {name: record_id} | value | self._joined(node, seen, record_id)
        else:
            value = {name: record_id, "value": value}
        return project(select, value, record_id)

    def _joined(self, node: Node, seen: Record, record_id: object) -> dict[str, object]:
        """Return the selected parts of related records, by the names of the relationships."""
        found: dict[str, object] = {}
        for branch in node.branches:
            if not branch.is_selected:
                continue
            pool, other = self._pools[branch.node.table.name], branch.node
            keys = dict.fromkeys(branch.own_keys(node.values.value(seen), record_id))
            records = [other.seen(record) for key in keys for record in pool.led(branch, key)]
            items = [self._selected(other, branch.select, it) for it in records if it is not None]
            one = items[0] if items else None
            found[branch.relation.name] = items if branch.relation.many else one
        return found


def is_in(event: Event, table: str) -> bool:
    """Whether an event is one of a table."""
    return event.table is not None and event.table.name == table
