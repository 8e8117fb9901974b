"""History over REST: events of a topic or a table, and time series of its numbers.

The first page is read before anything is sent, so an error still has its status. The rest is
streamed page by page. ``Rowcast-Position`` is the end of the response in the log: continuing from
it, here with ``from`` or on a stream with ``since``, misses nothing (M1).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rowcast.codecs import (
    CBOR,
    CBOR_SEQ,
    CSV,
    JSON,
    NDJSON,
    content_type_header,
    negotiate,
    rows_encoder,
)
from rowcast.codecs.csv_text import EXTRA_COLUMN
from rowcast.core.clock import milliseconds_of
from rowcast.core.conditions import Path, holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.events import DELETE, Event, local_id
from rowcast.core.meta import NAMES, meta_of
from rowcast.core.moments import is_relative
from rowcast.core.queries import Projection, Query, Select
from rowcast.core.query_names import is_declared
from rowcast.core.query_text import parse_query
from rowcast.core.relations import relation_of
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.core.values import parse_id
from rowcast.doors.http.messages.asgi import HeaderList, path_of
from rowcast.doors.http.messages.periods import Period, continued
from rowcast.doors.http.messages.replies import SELECTED, send_bytes, send_headers
from rowcast.doors.http.rest.allowed_methods import not_offered
from rowcast.doors.http.rest.path_forms import Reading, readings
from rowcast.doors.http.rest.request import ROW_TYPES, Request
from rowcast.features.history.history import Window, bytes_of, history_of
from rowcast.features.history.series import Series
from rowcast.reads.read_queue import current_read_caller
from rowcast.rows.topic_rows import Row

_ENTRY: Final = ("topic", "value")
_BUCKET: Final = ("topic", "from", "to", "events")


async def send_history(request: Request, period: Period) -> None:
    """Answer a GET or HEAD for history."""
    answer = await answer_to(request, period)
    if request.is_head:
        kind = (b"content-type", answer.content_type.encode())
        await send_headers(request.send, 200, [kind, *SELECTED, *answer.headers()])  # RFC 9110, 8.6
    elif period.every_ms:
        await answer.send_series()
    elif period.last or period.limit is not None:
        await answer.send_whole()
    else:
        await answer.stream()


async def answer_to(request: Request, period: Period) -> "Answer":
    """Return the answer to a request for history, up to what is announced now."""
    route = request.route
    if route.entry is not None and route.shape is None:
        raise not_offered(route, request.method)
    reading = await _reading(request)
    media_type = reading.media_type or negotiate(request.accept, ROW_TYPES)
    table = route.table
    past = history_of(request.kernel)
    start = None if period.start is None else past.moment(period.start, "from")
    end = None if period.end is None else past.moment(period.end, "to")
    topics = _filter(reading.topic, table)
    await _check_no_relationship(request, topics)
    keeps = not period.every_ms  # numbers are added up of what is complete
    window = await past.window(topics, table, request.caller, start, end, keeps=keeps)
    query = _query(request, reading, table)
    fixed = None
    if period.end is not None and end is not None and is_relative(period.end):
        fixed = str(milliseconds_of(end.version))
    return Answer(request, period, window, table, query, media_type, fixed)


async def _reading(request: Request) -> Reading:
    """Return the interpretation of a path: the first with a current or past record."""
    table, kernel = request.route.table, request.kernel
    ways = list(readings(request.topic, table))
    for way in ways if len(ways) > 1 else ():
        if way.topic.endswith("/") or await history_of(kernel).known(
            _filter(way.topic, table), table, request.caller
        ):
            return way
    return ways[0]


async def _check_no_relationship(request: Request, topics: TopicFilter) -> None:
    """Raise INVALID for a relationship, unless there is a record of that id."""
    table, kernel = request.route.table, request.kernel
    topic, _, name = topics.text.rpartition("/")
    if table is None or not local_id(table, topic):
        return
    relation = relation_of(table, name, kernel.registry.related)
    if relation is None or await history_of(kernel).known(topics, table, request.caller):
        return
    raise Error(
        Code.INVALID,
        f"{path_of(topics.text)!r} is a relationship, which has no history of its own; read that "
        f"of {path_of(relation.table.topic(''))!r}, or this one at a moment, with asof",
    )


def _filter(topic: str, table: Table | None) -> TopicFilter:
    """Return the filter of one topic, or of all below a path."""
    if table is not None and topic == table.path:
        topic += "/"
    return TopicFilter(f"{topic}#" if not topic or topic.endswith("/") else topic)


def _query(request: Request, reading: Reading, table: Table | None) -> Query:
    """Return the query for events, with conditions and selection."""
    terms = [request.parameters.query]
    period = request.parameters.period
    select = period.select if period is not None else None
    if reading.path:
        select = ".".join(reading.path)
    if select is not None:
        terms.append(f"select({select})")
    query = parse_query("&".join(filter(None, terms)), table or Table(request.topic, None))
    if request.parameters.count or query != Query(query.where, query.select):
        raise Error(
            Code.INVALID,
            "history comes in the order of time; beside conditions it takes from, to, last, limit "
            "and select, such as ?from=-1h&limit=100",
        )
    return query


@dataclass(frozen=True, slots=True)
class Answer:
    """The response with one window of history."""

    request: Request
    period: Period
    window: Window
    table: Table | None
    query: Query
    media_type: str
    end: str | None
    """A relative ``to`` in milliseconds since 1970: it would be later for each page."""

    @property
    def content_type(self) -> str:
        """The response's content type."""
        return content_type_header(self.media_type)

    def headers(self, until: int | None = None, link: str = "") -> HeaderList:
        """Return the headers: the end position, and whether the window was trimmed."""
        cursor = self.request.kernel.cursor
        position = self.window.until if until is None else until
        headers: HeaderList = [(b"rowcast-position", cursor(position).encode())]
        if self.window.trimmed:
            headers.append((b"rowcast-trimmed", cursor(self.window.trimmed).encode()))
        if link:
            headers.append((b"link", f'<{link}>; rel="next"'.encode()))
        return headers

    def after_window(self) -> Period:
        """Return the period that begins where this one ends."""
        return replace(self.period, start=self.request.kernel.cursor(self.window.until))

    # -- responses -------------------------------------------------------------------------------

    async def send_whole(self) -> None:
        """Respond with the first or the last events, all in memory."""
        until, link = None, ""
        if self.period.last:
            events = await history_of(self.request.kernel).last(
                self.window, self.request.caller, self.period.last, self._wanted_if_any
            )
        else:
            events, more = await self.first(self.period.limit or 0)
            if more:
                until = events[-1].seq
                link = self._next(until)
        await self.send_events(events, until, link)

    async def send_events(
        self, events: Sequence[Event], until: int | None = None, link: str = ""
    ) -> None:
        """Respond with these events; ``until`` is their end, by default that of the window."""
        encoder = rows_encoder(self.media_type, self._columns(events), len(events))
        rows = [encoder.row(self._entry(event)) for event in events]
        body = b"".join((encoder.begin(), *rows, encoder.end()))
        await send_bytes(self.request.send, 200, self.content_type, body, self.headers(until, link))

    async def first(self, count: int) -> tuple[list[Event], bool]:
        """Return up to ``count`` events, fewer if they are large, and whether there are more."""
        found: list[Event] = []
        most_bytes = history_of(self.request.kernel).bounds.whole_bytes
        async for page in self._pages():
            found += page
            if len(found) > count:
                return found[:count], True
            if bytes_of(found) > most_bytes:
                return found, True
        return found, False

    def _next(self, after: int) -> str:
        """Return the path of the next events: the same parameters, from this response's end."""
        request = self.request
        path = request.scope.get("raw_path", b"").decode("ascii", "replace")
        cursor = request.kernel.cursor(after)
        text = request.scope["query_string"].decode("ascii", "replace")
        taken = {item.name for item in self.table.attributes} if self.table is not None else ()
        return f"{path}?{continued(text, cursor, self.end, taken)}"

    async def stream(self) -> None:
        """Respond with all events, page by page."""
        send, pages = self.request.send, self._pages()
        nothing: list[Event] = []
        first = await anext(pages, nothing)
        current_read_caller().renew()  # the query timeout applies to each page
        second = await anext(pages, None) if self.media_type == CSV else None
        columns = self._columns(first, more=second is not None)
        encoder = rows_encoder(self.media_type, columns, None)
        headers = [(b"content-type", self.content_type.encode()), *SELECTED, *self.headers()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        rows = (encoder.row(self._entry(event)) for event in (*first, *(second or ())))
        piece = encoder.begin() + b"".join(rows)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        current_read_caller().renew()
        async for page in pages:
            current_read_caller().renew()  # the query timeout applies to each page
            self.request.check_rights()
            piece = b"".join(encoder.row(self._entry(event)) for event in page)
            if piece:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": encoder.end()})

    async def send_series(self) -> None:
        """Respond with the buckets of a window."""
        kernel, period, select = self.request.kernel, self.period, self.query.select
        paths, buckets = select.paths if select else None, history_of(kernel).bounds.buckets
        series = Series(period.every_ms, period.functions, paths, buckets)
        async for page in self._pages():
            for event in page:
                if event.kind != DELETE:
                    topic = event.about if isinstance(event, Row) else event.topic
                    series.add(topic, event.version, kernel.transcoder.value(event))
        await self._check_names(series.missing)
        rows = list(series.rows())
        if period.last:
            rows = rows[-period.last :]
        rows = rows[: period.limit]
        if self.media_type == CSV:
            rows = [_flat_bucket(row) for row in rows]
        columns = list(dict.fromkeys([*_BUCKET, *(name for row in rows for name in row)]))
        encoder = rows_encoder(self.media_type, columns, len(rows))
        body = b"".join((encoder.begin(), *map(encoder.row, rows), encoder.end()))
        await send_bytes(self.request.send, 200, self.content_type, body, self.headers())

    async def _check_names(self, missing: Sequence[Path]) -> None:
        """Raise INVALID for a name without numbers that is misspelt, as a query's would be (P5)."""
        table, request = self.table, self.request
        if table is None:
            return
        for path in missing:
            if is_declared(table, path):
                continue
            query = Query(select=Select((path,)), limit=1)
            try:
                await request.kernel.search(table, query, request.caller)
            except Error as error:
                if error.code is Code.INVALID:  # else this caller may not read the table
                    raise

    # -- events ------------------------------------------------------------------------------------

    async def _pages(self) -> AsyncIterator[list[Event]]:
        async for page in history_of(self.request.kernel).pages(self.window, self.request.caller):
            yield [event for event in page if self._wanted(event)]

    @property
    def _wanted_if_any(self) -> Callable[[Event], bool] | None:
        return None if self.query.where is None else self._wanted

    def _wanted(self, event: Event) -> bool:
        """Whether an event's value matches the conditions."""
        where = self.query.where
        if where is None:
            return True
        self.request.kernel.transcoder.structured(event)
        return holds(where, event.decoded, self._id(event))

    def _id(self, event: Event) -> object:
        table = self.table or Table(event.topic, None)
        return parse_id(table, local_id(self.table, event.topic))

    def _entry(self, event: Event) -> dict[str, object]:
        """Return an event as a row."""
        spelling = JSON if self.media_type in {CSV, NDJSON} else self.media_type
        spelling = CBOR if spelling == CBOR_SEQ else spelling
        value = None
        if event.kind != DELETE:
            value = self.request.kernel.transcoder.spelled(event, spelling)
            value = project(self.query.select, value, self._id(event))
        meta = meta_of(event, self.request.kernel.reader.epoch)
        if self.media_type == CSV:
            return _flat_entry(event.topic, value) | meta
        return {"topic": event.topic, "value": value, **meta}

    def _columns(self, events: Sequence[Event], *, more: bool = False) -> list[str]:
        """Return CSV's columns: the declared or selected attributes, then others of the first page.

        ``more``: there are other pages, whose events may have other attributes.
        """
        if self.media_type != CSV:
            return []
        known, select = list[str](), self.query.select
        if self.table is not None and select is None:
            known = [i.name for i in self.table.attributes if not i.hidden and i.has_value]
        elif select is not None and select.shape is Projection.OBJECT:
            known = [_column(path[0]) for path in select.paths]
        names = dict.fromkeys(["topic", *known, *(n for e in events for n in self._entry(e))])
        if not known:
            names["value"] = None
        rest = [EXTRA_COLUMN] if more and select is None else []
        return [*(name for name in names if name not in NAMES), *NAMES, *rest]


def _flat_entry(topic: str, value: object) -> dict[str, object]:
    """Return an event with its value flattened to columns."""
    if not isinstance(value, dict):
        return {"topic": topic, "value": value}
    return {"topic": topic, **{_column(name): item for name, item in value.items()}}


def _column(name: str) -> str:
    """Return the column of an attribute, which may be called as a column of every event."""
    return f"value.{name}" if name in _ENTRY else name


def _flat_bucket(row: dict[str, object]) -> dict[str, object]:
    """Return a bucket with its numbers flattened to columns, such as ``temp.avg``."""
    flat = {name: row[name] for name in _BUCKET}
    values = row["values"]
    for name, tally in values.items() if isinstance(values, dict) else ():
        flat |= {f"{name}.{function}": number for function, number in tally.items()}
    return flat
