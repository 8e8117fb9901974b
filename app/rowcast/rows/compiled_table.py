"""A compiled table: its checker, and the values that the server adds to a record.

One shape for each declared table, made at start and shared by every door, so the same words refuse
the same value everywhere (A15). It knows nothing of topics' routes, callers or storage.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, cast

from rowcast.codecs import (
    JSON,
    RAW,
    codec_for,
    decode,
    encode,
    is_structured,
    json_text,
    may_be_json,
    rows_with_texts,
)
from rowcast.core.errors import Code, Error
from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, MESSAGE, MISSING, Event
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast.core.values import Checker, parse_id
from rowcast.core.write_marks import ORIGIN
from rowcast.rows.written_digits import taking

DATE_TYPES: Final = {Type.DATE}
TEXT_TYPES: Final = {Type.STRING, Type.ID}


_GIVEN: Final[EventCache[tuple[bytes, object]]] = EventCache("given value")


def give_value(event: Event, value: object) -> None:
    """Say what a payload holds, which was just encoded, so that admission need not decode it."""
    _GIVEN.put(event, (event.payload, value))


def _given(event: Event) -> object:
    """Take the value that was given with a payload; MISSING if it has another payload by now."""
    known = _GIVEN.of(event, None)
    if event.encodings is not None:
        event.encodings.pop(_GIVEN, None)
        event.encodings = event.encodings or None
    return MISSING if known is None or known[0] is not event.payload else known[1]


class CompiledTable:
    """A declared table, compiled."""

    __slots__ = (
        "_needing",
        "_restorer",
        "checker",
        "computed",
        "decimals",
        "ends",
        "expires",
        "guarded",
        "hides",
        "id_from",
        "key",
        "managed",
        "numbered",
        "open",
        "reshapes",
        "ruled",
        "table",
    )

    def __init__(self, table: Table) -> None:
        self.table = table
        self.checker = Checker(table)
        self._restorer: Checker | None = None
        self.decimals = taking(table.attributes)
        """Takes the digits of decimals as written; None if the table declares none."""
        key = table.primary_key
        self.key = key.name if key is not None else None
        self.numbered = key is not None and key.type in {Type.INT, Type.LONG}
        """Whether ids are numbers."""
        self.id_from = len(table.path) + 1 if table.path else 0
        """Where in the topic of a record its id begins."""
        self.open = table.open
        self.hides = table.hides
        self.reshapes = table.reshapes
        """Whether readers get other values than are stored."""
        self.computed = _computed(table)
        self.guarded = table.restricted
        """Whether rights may depend on what is in a record."""
        self.ruled = table.ruled
        """Whether events need the record before them: rights depend on it, or live queries do."""
        self._needing = {"@auth"} if table.ruled else set[str]()
        times = {Role.CREATED_TIME, Role.UPDATED_TIME}
        self.managed = tuple(item for item in table.attributes if item.role in times)
        """Attributes whose value is the server's: times of creation and of the last change."""
        self.expires = next(
            (item.name for item in table.attributes if item.role is Role.EXPIRES_AT), None
        )
        self.ends = table.expiration_seconds > 0 or self.expires is not None
        """Whether records end by themselves."""

    def guard(self) -> None:
        """Let rights depend on records from now on, because a rule says so."""
        self.guarded = True
        self.need_before("rules")

    def need_before(self, what: str) -> None:
        """Give events the record before them, as something needs."""
        self._needing.add(what)
        self.ruled = True

    def need_no_more(self, what: str) -> None:
        """Note that something needs the record before no more."""
        self._needing.discard(what)
        self.ruled = bool(self._needing)

    def admit(self, event: Event) -> None:
        """Check an event of this table and give it its decoded value.

        Raises INVALID for bytes that cannot be decoded, UNSUPPORTED for a media type the table does
        not take, UNPROCESSABLE for values of the wrong type.
        """
        if event.kind == DELETE:
            return
        value = self._decoded(event)
        if value is event:  # plain bytes, which an open table takes as they are
            return
        exact = value
        if self.decimals is not None:
            exact = self.exactly(value, event.payload, event.content_type)
        checked = self.checker.check(exact, partial=event.kind == MESSAGE)
        as_read = checked is value and not self.managed
        if event.kind != MESSAGE:
            checked = self.with_id(checked, event.topic)
            if self.managed and event.properties is not None and ORIGIN in event.properties:
                checked = self._with_creation(checked, value)
        event.decoded = checked
        if checked is not value:
            media_type = event.content_type or JSON
            if media_type != JSON and not is_structured(media_type):
                media_type = JSON
            event.content_type = media_type
            if self.checker.converts:
                checked = self.spell(checked, media_type)
            if as_read and event.content_type == JSON:  # only its key is new
                event.payload = json_text.encode_again(checked, event.payload)
            else:
                event.payload = encode(checked, media_type)

    def patch_of(self, event: Event) -> object:
        """Return the value in a patch; raises INVALID."""
        value = decode(event.payload, event.content_type)
        return self.exactly(value, event.payload, event.content_type)

    def exactly(self, value: object, payload: bytes, content_type: str | None) -> object:
        """Return what was decoded from a payload, with the digits of decimals as written there."""
        if self.decimals is None or codec_for(content_type).media_type != JSON:
            return value
        said = json_text.with_texts(payload)
        return value if said is None else self.decimals(value, said)

    def all_exactly(
        self, values: list[object], payload: bytes, content_type: str | None
    ) -> list[object]:
        """Return the rows of a batch likewise."""
        take = self.decimals
        said = None if take is None else rows_with_texts(payload, content_type)
        if take is None or said is None:
            return values
        return [take(value, text) for value, text in zip(values, said, strict=True)]

    def _decoded(self, event: Event) -> object:
        """Return the value, or the event itself when its bytes are to be kept as they are."""
        said = event.content_type
        if said is not None and said != JSON and not is_structured(said):
            if self.open:
                return event
            raise Error(
                Code.UNSUPPORTED,
                f"the table {self.table.name} takes values, not {said}; send JSON in UTF-8, "
                "CBOR or MessagePack, with its Content-Type",
            )
        if said is None and self.open and not may_be_json(event.payload):
            event.content_type = RAW
            return event
        try:
            value = MISSING if event.encodings is None else _given(event)
            if value is MISSING:
                value = decode(event.payload, said)
        except Error:
            if said is None and self.open:
                event.content_type = RAW
                return event
            raise
        event.content_type = said or JSON
        return value

    def _with_creation(self, checked: object, given: object) -> object:
        """Return a value with the time of creation that it had elsewhere (E28).

        A write that brings its version brings the record as it is there; only what is no time of
        the attribute's type is left out, for which the server sets its own.
        """
        if not (isinstance(given, dict) and isinstance(checked, dict)):
            return checked
        names = [item.name for item in self.managed if item.role is Role.CREATED_TIME]
        found = {name: given[name] for name in names if given.get(name) is not None}
        try:
            brought = self.restore(found)
        except Error:
            return checked
        return checked | cast("dict[str, object]", brought)

    def check_id(self, record_id: str) -> None:
        """Raise INVALID for an id that no record of the table can have."""
        if self.numbered and record_id:
            parse_id(self.table, record_id)

    def with_id(self, value: object, topic: str) -> object:
        """Return the value with its key as the topic says: the address wins over the body."""
        key = self.key
        if key is None or not isinstance(value, dict):
            return value
        text, known = topic[self.id_from :], cast("dict[str, object]", value)
        own = known.get(key)
        if (type(own) is int and str(own) == text) if self.numbered else own == text:
            return value
        wanted = parse_id(self.table, text) if self.numbered else text
        if key not in known:
            return {key: wanted, **known}
        return {key: wanted} | {name: item for name, item in known.items() if name != key}

    def restore(self, value: object) -> object:
        """Return a value of the log as it was written: of its types, nothing refused."""
        if self._restorer is None:  # most tables of most servers have nothing to restore
            self._restorer = Checker(_loose(self.table))
        return self._restorer.check(value, partial=True)

    def spell(self, value: object, media_type: str) -> object:
        """Return the value as this media type spells it: plain text for typed values in JSON."""
        if self.checker.converts and media_type == JSON:
            return self.checker.plain(value)
        return value

    def visible(self, value: object) -> object:
        """Return the value without hidden attributes."""
        return self.checker.visible(value) if self.hides else value

    def read(self, value: object) -> object:
        """Return a record's value as readers get it: nothing hidden, and with what is computed."""
        shown = self.visible(value)
        if not self.computed or not isinstance(shown, dict):
            return shown
        return {**shown, **{name: of(shown) for name, of in self.computed}}

    @staticmethod
    def time_value(attribute: Attribute, seconds: float) -> object:
        """Return a time, in seconds since 1970 (UTC), as the attribute's type writes it."""
        moment = datetime.fromtimestamp(seconds, UTC)
        if attribute.type in DATE_TYPES:
            return moment
        if attribute.type in TEXT_TYPES:
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return round(seconds * 1000)

    def expiry(self, event: Event, now_seconds: float) -> float:
        """Return when the record ends, in seconds since 1970; 0 for never (A5, A6)."""
        value = event.decoded
        own = value.get(self.expires) if self.expires and isinstance(value, dict) else None
        if isinstance(own, datetime):
            return own.timestamp()
        if isinstance(own, int | float):
            return own / 1000
        if isinstance(own, str):
            return _seconds(own, f"{self.expires} of {event.topic}")
        lives = self.table.expiration_seconds
        return now_seconds + lives if lives else 0.0


def _computed(table: Table) -> tuple[tuple[str, Callable[[object], object]], ...]:
    """Return the names that are computed for readers, and what computes each."""
    shown = [item for item in table.attributes if not item.hidden]
    return tuple((item.name, item.formula.of) for item in shown if item.formula is not None)


def _seconds(text: str, what: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Error(
            Code.UNPROCESSABLE, f"{what} is no time: {text[:40]!r}; write 2030-01-31T12:00:00Z"
        ) from None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def _loose(table: Table) -> Table:
    """Return the table's types without its rules: what it once accepted, it takes back."""
    attributes = tuple(
        replace(item, role=None, required=False, digits=None)
        for item in table.attributes
        if item.stored
    )
    return replace(table, attributes=attributes, sealed=False)
