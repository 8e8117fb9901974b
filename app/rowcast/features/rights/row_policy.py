"""Row policy: the records and attributes of a table that one kind of caller may see and write.

An invisible record does not exist for the caller. So events are mapped to visible changes: a record
that becomes visible is a put, one that becomes invisible is a deletion, and the deletion of an
invisible one is not delivered (L13). For that, events of tables whose rules depend on the record
have a before-image (``reads/before_image.py``).

It consists of bound rules and has no state; results are cached on the event.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from rowcast.core.bounded import ClearedCache
from rowcast.core.claims import Facts, bind
from rowcast.core.clauses import Clause, read_rules, rules_reading, write_rule
from rowcast.core.conditions import (
    EVERYTHING,
    NOTHING,
    Where,
    compared,
    holds,
    inputs_of,
    is_constant,
    join,
)
from rowcast.core.errors import Code, Error
from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event, Record, local_id
from rowcast.core.masks import masked, stricter
from rowcast.core.queries import Query
from rowcast.core.right_limits import SHOWN_COPIES_MAX
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.features.rights.decision import Decision
from rowcast.features.rights.table_rules import Alternative, TableRules, View
from rowcast.reads.before_image import UNKNOWN_BEFORE, before_of
from rowcast.rows.transcoder import Transcoder

LEFT_OUT: Final = ""
"""The mask of a removed attribute."""

_UNSAID: Final = TableRules()

_ITSELF: Final = Event("", MESSAGE, b"")
"""Stands for the event itself in its own cache, to avoid a cycle."""

Values = Mapping[str, object]
Grade = tuple[tuple[str, str], ...]
"""Cached redacted copies of an event, by masked attributes."""
_SHOWN: Final = EventCache["tuple[RowPolicy, str, Event | None]"]("shown")
"""For whom and as which kind an event was judged last, and what is shown of it."""
_COPIES: Final = EventCache[ClearedCache[tuple[str, Grade], Event]]("copies")
"""An event without some attributes, by its kind and what is not shown."""


class RowPolicy:
    """One table, for one kind of caller."""

    __slots__ = (
        "_fields",
        "_name",
        "_only",
        "_out",
        "_table",
        "_texts",
        "_transcoder",
        "_views",
        "_write_only",
        "_write_out",
        "_writes",
        "_written",
        "read",
        "shows_all",
    )  # fmt: skip

    def __init__(
        self,
        table: Table,
        roles: frozenset[str],
        facts: Facts,
        transcoder: Transcoder,
        reading: TableRules = _UNSAID,
        writing: TableRules = _UNSAID,
    ) -> None:
        """``reading`` and ``writing`` are what topic rules say beside the table's ``@auth``."""
        self._table = table
        self._transcoder = transcoder

        self._texts = [one.text for _, one in read_rules(table.auth, roles)]
        self._views = [_view(table.auth, roles, facts)]
        """What is said of reading, of which all must hold: ``@auth``, and topic rules."""
        if reading.view is not None:
            self._views.append(reading.view)
        self.read: Where = join(map(_any_of, self._views), all_of=True)
        """The condition of visible records."""
        writes = bind(write_rule(table.auth, roles), facts) if table.auth else EVERYTHING
        ruled = EVERYTHING if writing.view is None else _any_of(writing.view)
        self._writes = join([writes, ruled], all_of=True)
        guarded = [item for item in table.attributes if item.auth]
        self._fields = {item.name: _view(item.auth, roles, facts) for item in guarded}
        self._written = {item.name: bind(write_rule(item.auth, roles), facts) for item in guarded}
        self._out, self._only = reading.out, reading.only
        self._write_out, self._write_only = writing.out, writing.only
        self.shows_all = self.sees_all and self._only is None and not self._blind()
        """Whether it may see all attributes of every record."""

    # -- summary -----------------------------------------------------------------------------------

    @property
    def sees_all(self) -> bool:
        """Whether it may see every record."""
        return self.read is EVERYTHING

    @property
    def sees_nothing(self) -> bool:
        """Whether it may see no record."""
        return self.read is NOTHING

    @property
    def closed(self) -> bool:
        """Whether it may write no record."""
        return self._writes is NOTHING

    @property
    def guards(self) -> bool:
        """Whether the right to write depends on the record or its attributes."""
        return not (self.sees_all and self._writes is EVERYTHING) or self._partial

    @property
    def _partial(self) -> bool:
        """Whether attributes may be hidden from it."""
        masks = any(masks for view in self._views for _, masks, _ in view)
        rows = self._out or self._write_out or self._only is not None
        return bool(masks or self._fields or rows or self._write_only is not None)

    def sees(self, record: Record) -> bool:
        """Whether it may see a record."""
        return self._holds(self.read, record)

    def _holds(self, where: Where, record: Record) -> bool:
        if is_constant(where):
            return where is EVERYTHING
        return holds(where, self._values(record), self._id(record))

    def _values(self, record: Record) -> Values:
        """Return a record's attributes; empty for content without any."""
        self._transcoder.structured(record)
        value = record.decoded
        return cast("Values", value) if isinstance(value, dict) else {}

    def _id(self, record: Record) -> object:
        return parse_id(self._table, local_id(self._table, record.topic))

    def explain(self, writing: bool, record: Record | None) -> Decision | None:
        """Return the decision on a record with its cause; None if the table does not decide."""
        name, where = self._table.name, "as it is now"
        if record is None:
            return None
        for number, view in enumerate(self._views):
            if not self._holds(_any_of(view), record):
                texts = [one.text for one in view] if number else self._texts
                said = "; ".join(texts) or "nothing that applies"
                return Decision(False, f"{name} lets it see by {said}, which does not hold {where}")
        if writing:
            if not self._holds(self._writes, record):
                words = f"no @auth and no rule about records of {name}"
                return Decision(False, f"{words} lets it write the record {where}")
            by = "@auth" if self._table.auth else "a rule about records"
            return Decision(True, f"{by} of {name} lets it write the record {where}")
        firsts = [self._first(view, record).text for view in self._views]
        by = " and ".join(text for text in firsts if text)
        words = f"{by} of {name} holds {where}" if by else f"{name} lets everybody read it"
        return Decision(True, words)

    def _first(self, view: View, record: Record) -> Alternative:
        """Return the first alternative that holds of a record."""
        return next(one for one in view if self._holds(one.where, record))

    # -- reading -----------------------------------------------------------------------------------

    def show(self, event: Event) -> Event | None:
        """Return an event as it sees it: itself, another, or None."""
        known = _SHOWN.of(event, None)
        if known is not None and known[0] is self and known[1] == event.kind:
            return event if known[2] is _ITSELF else known[2]
        shown = self._show(event)
        _SHOWN.put(event, (self, event.kind, _ITSELF if shown is event else shown))
        return shown

    def record(self, record: Record) -> Record | None:
        """Return a record as it sees it: itself, redacted, or None."""
        return self._copy(record, self._grade(record)) if self.sees(record) else None

    def _show(self, event: Event) -> Event | None:
        before = before_of(event)
        had = self.sees_all or (isinstance(before, Event) and self.sees(before))
        if event.kind == DELETE:
            return event if had else None
        if event.kind == MESSAGE:
            if isinstance(before, Event):
                return self._copy(event, self._grade(before)) if had else None
            seen = before is not UNKNOWN_BEFORE and self.sees(event)
            return self._copy(event, self._grade(event)) if seen else None
        if self.sees(event):
            shown = self._copy(event, self._grade(event))
            return shown if had or event.kind != PATCH else shown.changed(kind=PUT)
        if had and event.kind in {PUT, PATCH}:
            return event.changed(
                kind=DELETE, payload=b"", content_type=None, client="", properties=None,
                expires_at=0.0, retain=True,
            )  # fmt: skip
        return None

    def _grade(self, record: Record) -> Grade:
        """Return the masked attributes of a record."""
        if not self._partial:
            return ()
        values, record_id = self._values(record), self._id(record)
        by_auth, *by_rules = self._views
        hidden = _masks_of(by_auth, values, record_id)
        for name, rules in self._fields.items():
            given = [one.masks.get(name) for one in rules if holds(one.where, values, record_id)]
            if None not in given:
                hidden[name] = next((mask for mask in given if mask is not None), LEFT_OUT)
        for view in by_rules:
            for name, mask in _masks_of(view, values, record_id).items():
                hidden[name] = stricter(hidden.get(name, mask), mask)
        hidden |= dict.fromkeys(self._out, LEFT_OUT)
        if self._only is not None:
            key = self._table.primary_key
            shown = self._only | {key.name if key is not None else ""}
            hidden |= dict.fromkeys(values.keys() - shown, LEFT_OUT)
        return tuple(sorted(hidden.items()))

    def _copy(self, event: Event, grade: Grade) -> Event:
        """Return a redacted copy of an event; cached."""
        if not grade:
            return event
        copies = _COPIES.of(event, None)
        if copies is None:
            copies = _COPIES.put(event, ClearedCache(SHOWN_COPIES_MAX))
        copy = copies.get((event.kind, grade))
        if copy is None:
            copy = self._transcoder.rewritten(event, _graded(self._values(event), dict(grade)))
            copies.put((event.kind, grade), copy)
        return copy

    # -- queries -----------------------------------------------------------------------------------

    def narrowed(self, query: Query) -> Query | None:
        """Return a query restricted to visible records; None if there are none.

        Raises INVALID for conditions and orders on attributes not visible in every record, which
        would reveal them.
        """
        blind = self._blind()
        for path in [*compared(query.where), *(key.path for key in query.sort)]:
            for name in sorted({path[0], *inputs_of(path)}):
                self._check(name, blind)
        where = join([self.read, query.where or EVERYTHING], all_of=True)
        if where is NOTHING:
            return None
        return query if where is EVERYTHING else replace(query, where=where)

    def _check(self, name: str, blind: frozenset[str]) -> None:
        key, only = self._table.primary_key, self._only
        named = name in {"$id", key.name if key is not None else "$id"}
        if name in blind or (only is not None and name not in only and not named):
            raise Error(
                Code.INVALID,
                f"{self._table.name} has no attribute {name!r} that you may compare or sort by",
            )

    def _blind(self) -> frozenset[str]:
        """Return the attributes masked in some records."""
        found = set(self._out)
        for view in self._views:
            found.update(name for one in view for name in one.masks if not _bare(view, name))
        found.update(name for name, rules in self._fields.items() if not _bare(rules, name))
        return frozenset(found)

    # -- writing -----------------------------------------------------------------------------------

    def seen(self, record: Record | None) -> Record | None:
        """Return a record as visible to conditions."""
        return record if record is not None and self.sees(record) else None

    def check_old(self, kind: str, topic: str, record: Record | None) -> None:
        """Raise NOT_FOUND or DENIED unless it may change the current record.

        An invisible record counts as missing for delete and patch.
        """
        if self.seen(record) is None:
            if kind in {DELETE, PATCH} and not self.sees_all:
                raise Error(Code.NOT_FOUND, f"there is no record at {topic!r}")
            if record is not None:
                raise _denied(topic)
        if record is not None and not self._holds(self._writes, record):
            raise _denied(topic)

    def check_new(self, event: Event, sent: object, record: Record | None) -> object | None:
        """Return the value to write instead of an event's; None if unchanged.

        ``sent`` is the writer's value. Attributes that it may not change keep their values. Raises
        DENIED.
        """
        if event.kind == DELETE:
            return None
        values: Values = self._values(event)
        new: object | None = None
        if self._partial:
            kept = self._unwritable(record if record is not None else event, values)
            for name in sorted(kept):
                if isinstance(sent, dict) and name in sent:
                    raise Error(
                        Code.DENIED, f"you may not write the attribute {name!r} of {event.topic!r}"
                    )
            old = self._values(record) if record is not None else {}
            stays = {name: old[name] for name in kept if name in old}
            if event.kind == PUT and stays:
                new = values = {**values, **stays}
        if (event.kind != MESSAGE or record is None) and not self._may_be(values, event):
            raise _denied(event.topic)
        return new

    def _may_be(self, values: Values, event: Event) -> bool:
        """Whether it may see and write the new record."""
        record_id = self._id(event)
        return all(holds(bound, values, record_id) for bound in (self.read, self._writes))

    def _unwritable(self, record: Record, sent: Values) -> set[str]:
        """Return the attributes that it may not write: by rule, or because they are masked."""
        values, record_id = self._values(record), self._id(record)
        out = {name for name, _ in self._grade(record)} | self._write_out
        for name, bound in self._written.items():
            if any(clause.write is not None for clause in _auth_of(self._table, name)):
                out.discard(name)
                if not holds(bound, values, record_id):
                    out.add(name)
        if self._write_only is not None:
            key = self._table.primary_key
            out |= (values.keys() | sent.keys()) - self._write_only
            out.discard(key.name if key is not None else "")
        return out


def _view(clauses: tuple[Clause, ...], roles: frozenset[str], facts: Facts) -> View:
    """Return what ``@auth`` says of reading, for one kind of caller."""
    if not rules_reading(clauses):
        return (Alternative(EVERYTHING, {}),)
    found = [
        Alternative(bind(rule, facts), dict(one.masks), one.text)
        for rule, one in read_rules(clauses, roles)
    ]
    return tuple(item for item in found if item.where is not NOTHING)


def _any_of(view: View) -> Where:
    return join([one.where for one in view], all_of=False)


def _masks_of(view: View, values: Values, record_id: object) -> dict[str, str]:
    """Return the attributes that are masked by every alternative that holds."""
    whole = [one.masks for one in view if holds(one.where, values, record_id)]
    names = {name for masks in whole for name in masks}
    return {n: whole[0][n] for n in names if all(n in masks for masks in whole)}


def _bare(view: View, name: str) -> bool:
    """Whether an attribute is shown of every record without a mask."""
    return any(one.where is EVERYTHING and name not in one.masks for one in view)


def _auth_of(table: Table, name: str) -> tuple[Clause, ...]:
    attribute = table.attribute(name)
    return attribute.auth if attribute is not None else ()


def _graded(values: Values, grade: Mapping[str, str]) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name, value in values.items():
        mask = grade.get(name)
        if mask is None:
            shown[name] = value
        elif mask != LEFT_OUT:
            shown[name] = masked(value, mask)
    return shown


def _denied(topic: str) -> Error:
    return Error(Code.DENIED, f"you may not write {topic!r}")
