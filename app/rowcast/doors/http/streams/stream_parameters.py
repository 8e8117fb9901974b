"""Parameters of a stream, shared by SSE and WebSocket: filters, start and format.

A URL has them in its path and query, a WebSocket's ``subscribe`` as members:

- ``topic`` (a URL may repeat it): a topic filter, with the wildcards of MQTT. A path is one too,
  and a path that ends in ``/`` means all topics below it.
- where to begin: one of the words of ``subscriptions/start_position.py``.
- conditions on the records of a table, as for REST: ``/Sensor/?temp=gt=80`` (M3).
- ``format``: json, cbor or msgpack; ``meta=true``: events have metadata; ``commits=true``: a mark
  follows each transaction; ``conflate=1s``: only so often a value of each record.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from rowcast.codecs import CBOR, JSON, MSGPACK, by_suffix, negotiate
from rowcast.core.errors import Code, Error
from rowcast.core.limits import QUERY_TEXT_CHARS_MAX, STREAM_FILTERS_MAX
from rowcast.core.query_topics import check_no_past, named_filter, query_of
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.messages.asgi import Scope, topic_of
from rowcast.doors.http.messages.parameters import is_switched_on
from rowcast.doors.http.streams.replay_words import REPLAY_WORDS, ReplayWords, replay_asked
from rowcast.subscriptions.pacing import asked_interval
from rowcast.subscriptions.start_position import START_WORDS, StartPosition, start_position

FORMATS: Final = (JSON, CBOR, MSGPACK)
_SWITCHES: Final = ("meta", "delta", "commits")
_WORDS: Final = (*START_WORDS, *REPLAY_WORDS, "last_event_id", "format", "conflate", *_SWITCHES)
_PARAMETERS: Final = ("topic", *_WORDS)
_PARAMETER: Final = re.compile(r"([A-Za-z_]+)=(?![A-Za-z_-]*=)")
_BRACKET: Final = re.compile(r"[&()\[\]]|%(?:28|29|5[BbDd])")
_OPENING: Final = frozenset({"(", "[", "%28", "%5B", "%5b"})
EVENT_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """The parameters of a URL."""

    topic: str
    """The topic of the path; empty for ``/``."""
    filters: tuple[TopicFilter, ...]
    start: StartPosition
    format: str | None
    """A media type, when the query named a format."""
    meta: bool = False
    """Whether events have metadata (A17)."""
    delta: bool = False
    """Whether values are sent as what has changed of them (C16)."""
    commits: bool = False
    """Whether a mark follows each transaction (C23)."""
    conflate: float = 0.0
    """The seconds between values of a record, where no table declares more (M4)."""


# -- parsing -------------------------------------------------------------------------------------


def _nowhere(_topic: str) -> bool:
    return False


def request_of(
    scope: Scope,
    now_seconds: float,
    last_event_id: str | None = None,
    leads: Callable[[str], bool] = _nowhere,
) -> Request:
    """Parse a URL; raises INVALID. ``leads`` tells whether a topic is a record's relationship.

    A client's cursor (``Last-Event-ID``) overrides the URL's start, because a browser repeats the
    URL when it reconnects.
    """
    query = scope["query_string"].decode("latin-1")
    if len(query) > QUERY_TEXT_CHARS_MAX:
        raise Error(
            Code.INVALID,
            f"the query has {len(query)} characters; at most {QUERY_TEXT_CHARS_MAX} are read",
        )
    parameters, conditions = _divided(query)
    filters, fields = _filters_and_fields(parameters)
    named = fields.pop("format", None)
    switches = {name: is_switched_on(name, str(fields.pop(name, "false"))) for name in _SWITCHES}
    pace = asked_interval(fields.pop("conflate", None))
    kept = fields.pop("last_event_id", None) or last_event_id
    topic = topic_of(scope)
    asked = replay_asked(fields, str(kept) if kept else None)
    if asked is not None:
        return _replayed(topic, filters, conditions, asked, _media_type(named), switches)
    # A resource's own stream has ids of its own, so a kept one is only read where it is a cursor.
    start = StartPosition(since=str(kept)) if kept else start_position(fields, now_seconds)
    if of_records := bool(conditions) or leads(topic):
        filters.insert(0, _query(topic, conditions, leads))
    whole = "" if of_records else topic
    return Request(
        topic, _filters(whole, filters), start, _media_type(named), **switches, conflate=pace
    )


def _filters_and_fields(parameters: str) -> tuple[list[str], dict[str, object]]:
    """Return the filters, and the other parameters. Raises INVALID for one that comes twice."""
    filters: list[str] = []
    fields: dict[str, object] = {}
    for name, value in parse_qsl(parameters, keep_blank_values=True):
        if name == "topic":
            filters.append(value)
        elif name in fields:
            raise Error(Code.INVALID, f"the parameter {name!r} comes twice; give it once")
        else:
            fields[name] = value
    return filters, fields


def _replayed(
    topic: str,
    filters: list[str],
    conditions: str,
    asked: ReplayWords,
    media_type: str | None,
    switches: Mapping[str, bool],
) -> Request:
    """Return the request of a stream that replays the past (M6)."""
    if conditions:
        raise Error(Code.INVALID, "a replay has no conditions; replay the table, or its topics")
    if switches["commits"]:
        raise Error(Code.INVALID, "a replay has no commits; a stream from a time on has them")
    found = _filters(topic, filters)
    if len(found) != 1:
        raise Error(Code.INVALID, "a replay has one filter; + and # in it select several topics")
    filters_of_it = (TopicFilter(asked.of(found[0].text)),)
    return Request(topic, filters_of_it, StartPosition(), media_type, switches["meta"])


def _media_type(named: object) -> str | None:
    return _format(str(named)) if named else None


def _divided(query: str) -> tuple[str, str]:
    """Divide a query string into the parameters of the stream, and conditions on records.

    A parameter is ``name=value``; an attribute of that name is compared with ``==``.
    """
    parameters: list[str] = []
    conditions: list[str] = []
    for part in _parts(query):
        found = _PARAMETER.match(part)
        if part:
            check_no_past(part)
            (parameters if found and found[1] in _PARAMETERS else conditions).append(part)
    return "&".join(parameters), "&".join(conditions)


def _parts(query: str) -> Iterator[str]:
    """Yield what is between ``&``, but not within brackets."""
    begin = depth = 0
    for found in _BRACKET.finditer(query):
        if found[0] != "&":
            depth += 1 if found[0] in _OPENING else -1
        elif depth <= 0:
            yield query[begin : found.start()]
            begin = found.end()
    yield query[begin:]


def _query(topic: str, conditions: str, leads: Callable[[str], bool]) -> str:
    """Return the filter of the records of a table that satisfy conditions."""
    name = conditions.partition("=")[0]
    found = query_of(topic, conditions, leads)
    if found is None:
        meant = did_you_mean(name, _PARAMETERS)
        raise Error(
            Code.INVALID,
            f"a stream has no parameter {name[:80]!r}{meant}; conditions on records follow the "
            "path of a table, as in /Sensor/?temp=gt=80, or of a relationship to several records",
        )
    return found


def _filters(topic: str, others: list[str]) -> tuple[TopicFilter, ...]:
    texts = [*([topic + "#" if topic.endswith("/") else topic] if topic else ()), *others]
    if len(texts) > STREAM_FILTERS_MAX:
        raise Error(
            Code.TOO_LARGE, f"one stream has at most {STREAM_FILTERS_MAX} filters, not {len(texts)}"
        )
    return tuple(TopicFilter(text) for text in dict.fromkeys(map(named_filter, texts)))


def _format(name: str) -> str:
    codec = by_suffix(name)
    if codec is None or codec.media_type not in FORMATS:
        known = ("json", "cbor", "msgpack")
        raise Error(
            Code.NOT_ACCEPTABLE,
            f"a stream has no format {name[:80]!r}{did_you_mean(name, known)}; "
            "use json, cbor or msgpack",
        )
    return codec.media_type


def accepted(accept: str | None) -> str:
    """Return the format in Accept besides ``text/event-stream``; JSON if none."""
    others = [item for item in (accept or "").split(",") if EVENT_STREAM not in item.lower()]
    try:
        return negotiate(",".join(others).strip(), FORMATS)
    except Error:
        return JSON
