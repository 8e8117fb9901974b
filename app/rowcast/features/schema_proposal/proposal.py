"""A schema proposal: tables for undeclared topics, inferred from their messages (F34).

Each first level becomes a table if its values have consistent fields; otherwise each second level
is tried separately, and the rest is a table that accepts anything. Then the proposal is parsed like
any schema, and every observed message is validated with it, to count the accepted ones. It only
proposes: operators copy it into ``schema.graphql``.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rowcast.codecs import decode
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.core.tables import Table
from rowcast.features.schema_proposal.fields import Field, Fields
from rowcast.rows.compiled_table import CompiledTable
from rowcast.schema.read import parse_schema

AGREEMENT: Final = 0.99
"""The fraction of values that must have fields for a table to declare them."""
REQUIRED_MIN: Final = 20
"""The number of values, all with a field, from which it is proposed as required."""


@dataclass(slots=True)
class Proposed:
    """One proposed table: the text of its type, and its statistics."""

    name: str
    path: str
    text: str
    messages: int
    topics: int
    rate: float
    """Messages per second."""
    accepted: int = 0
    """The number of accepted messages."""


@dataclass(slots=True)
class Proposal:
    """The proposed tables."""

    tables: list[Proposed] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The schema."""
        return "\n".join(table.text for table in self.tables)


@dataclass(slots=True)
class _Seen:
    """Messages below one path."""

    path: str
    events: list[Event] = field(default_factory=list)
    fields: Fields = field(default_factory=Fields)

    def add(self, event: Event, value: object) -> None:
        self.events.append(event)
        self.fields.see(value)

    @property
    def agrees(self) -> bool:
        """Whether nearly all values have fields, and most fields have one type."""
        fields = self.fields
        if not fields.values or fields.values < AGREEMENT * (fields.values + fields.others):
            return False
        known = [item for item in fields.by_name.values() if item.types]
        mixed = sum(item.type == "Any" and len(item.types) > 1 for item in known)
        return mixed * 2 <= len(known)


def propose(events: Iterable[Event], taken: Iterable[str] = ()) -> Proposal:
    """Return tables for the topics of these events; ``taken`` are used names."""
    by_first: dict[str, list[tuple[Event, object]]] = {}
    for event in events:
        if event.kind != DELETE and "/" in event.topic and event.payload:
            by_first.setdefault(event.topic.partition("/")[0], []).append((event, _value(event)))
    names = {name.lower() for name in taken}
    proposal = Proposal()
    for first, seen in by_first.items():
        for group in _groups(first, seen):
            table = _table(group, names)
            if _is_schema(table.text):  # a path may belong to the server
                names.add(table.name.lower())
                proposal.tables.append(table)
    _try(proposal, [event for seen in by_first.values() for event, _ in seen])
    return proposal


def _value(event: Event) -> object:
    """Return the value of an event; plain bytes have no fields."""
    try:
        return decode(event.payload, event.content_type)
    except Error:
        return None


def _groups(first: str, seen: Sequence[tuple[Event, object]]) -> list[_Seen]:
    """Return the groups below a first level, the more specific first."""
    whole = _Seen(first)
    by_second: dict[str, _Seen] = {}
    topics = {event.topic for event, _ in seen}
    for event, value in seen:
        whole.add(event, value)
        path = "/".join(event.topic.split("/")[:2])
        if path != event.topic and path not in topics:
            by_second.setdefault(path, _Seen(path)).add(event, value)
    if whole.agrees or not any(group.agrees for group in by_second.values()):
        return [whole]
    apart = {path: group for path, group in by_second.items() if group.agrees}
    rest = _Seen(first)
    for event, value in seen:
        if "/".join(event.topic.split("/")[:2]) not in apart:
            rest.add(event, value)
    return [*apart.values(), *([rest] if rest.events else [])]


def _table(group: _Seen, taken: set[str]) -> Proposed:
    name = _name(group.path, taken)
    count = len(group.events)
    topics = len({event.topic for event in group.events})
    times = [event.version for event in group.events if event.version]
    seconds = (max(times) - min(times)) / 1_000_000 if times else 0.0
    rate = (count - 1) / seconds if seconds else 0.0
    lines = [
        f"# {count} messages at {topics} topics, {rate:.3g} in a second.",
        f"type {name} @table @export(name: {json.dumps(group.path, ensure_ascii=False)})",
    ]
    fields = group.fields.nameable if group.agrees else {}
    if fields:
        lines[-1] += " {"
        lines += [_line(name, found, group.fields) for name, found in fields.items()]
        lines.append("}")
    return Proposed(name, group.path, "\n".join(lines) + "\n", count, topics, rate)


def _line(name: str, found: Field, fields: Fields) -> str:
    """Return the declaration of a field, with its observations."""
    always = found.seen == fields.values and not fields.others and found.seen >= REQUIRED_MIN
    notes = [] if always else [f"in {found.seen} of {fields.values}"]
    if found.least is not None and found.most is not None and found.type != "Any":
        notes.insert(0, f"{found.least:g} to {found.most:g}")
    comment = f"  # {', '.join(notes)}" if notes else ""
    return f"  {name}: {found.type}{'!' if always else ''}{comment}"


def _name(path: str, taken: set[str]) -> str:
    """Return a free name for a type, from its path."""
    words = re.findall("[A-Za-z0-9]+", path)
    name = "".join(word[0].upper() + word[1:] for word in words)[:40] or "Topics"
    if not name[0].isalpha() or name.lower().startswith("mqtt"):
        name = f"Topics{name}"
    free, number = name, 2
    while free.lower() in taken or not _is_schema(f"type {free} @table @export\n"):
        free, number = f"{name}{number}", number + 1
    return free


def _is_schema(text: str) -> bool:
    try:
        parse_schema(text)
    except Error:
        return False
    return True


def _try(proposal: Proposal, events: Sequence[Event]) -> None:
    """Count the messages that each proposed table accepts."""
    schema = parse_schema(proposal.text) if proposal.tables else None
    if schema is None:
        return
    by_name = {table.name: table for table in proposal.tables}
    shapes = {table.name: CompiledTable(table) for table in schema.tables}
    for event in events:
        route = schema.route(event.topic)
        if route is not None:
            by_name[route[0].name].accepted += _takes(shapes[route[0].name], route, event)


def _takes(shape: CompiledTable, route: tuple[Table, str], event: Event) -> bool:
    table, record_id = route
    if event.kind in RETAINED and not record_id:
        return False
    try:
        shape.check_id(record_id)
        shape.admit(event.changed(table=table))
    except Error:
        return False
    return True
