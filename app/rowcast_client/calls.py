"""The verbs without I/O: the request of each, and the parser of its response."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx

from rowcast.codecs import CBOR, JSON, MSGPACK, decode_answer, encode, is_structured
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean

T = TypeVar("T")
FORMATS: Final = {"json": JSON, "cbor": CBOR, "msgpack": MSGPACK}
_NEXT: Final = re.compile(r'<[^?>]*\?([^>]*)>;\s*rel="?next')


class WriteOptions(TypedDict, total=False):
    """Options of a write."""

    if_match: str | None
    """The cursor that the record must have; ``*``: the record must exist."""
    if_none_match: str | None
    """``*``: the record must not exist."""
    type: str | None
    """The media type of a value that is text or bytes."""
    headers: Mapping[str, str] | None
    """Further headers, such as ``Rowcast-Producer``, which makes a repeated write idempotent."""


class Guard(TypedDict, total=False):
    """Guards of a write of all records that a query selects."""

    confirm: int | None
    """The number of records that it must write; required where the query has no condition."""
    dry_run: bool
    """Only count the records, and return the ids of some."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A record: its value, the cursor of this state, and its media type."""

    value: object
    cursor: str
    type: str


@dataclass(frozen=True, slots=True)
class Page:
    """Rows selected by a query; ``next`` is the query of the next page, empty at the end."""

    rows: list[object]
    next: str
    position: str
    """The cursor to continue from with ``subscribe(..., since=...)``."""


@dataclass(frozen=True, slots=True)
class HistoryReads:
    """Events, the oldest first, or a series; ``trimmed``: the log before it was removed."""

    events: list[object]
    next: str
    position: str
    trimmed: str


@dataclass(frozen=True, slots=True)
class Written:
    """The receipt of a durable write: its status, its cursor and the record's id."""

    status: int
    cursor: str
    id: object = None
    answer: object = None
    """The body of the response, such as the outcomes of a list."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and the parser of its response."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Calls:
    """Builds the calls of a client in one format."""

    def __init__(self, name: str) -> None:
        if name not in FORMATS:
            raise Error(
                Code.INVALID,
                f"there is no format {name!r}{did_you_mean(name, FORMATS)}; known are "
                + ", ".join(FORMATS),
            )
        self.format = name
        self._type = FORMATS[name]
        self._wanted = {"Accept": f"{self._type}, */*;q=0.5"}

    def get(self, topic: str, query: str) -> Call[Answer]:
        """Read a record."""
        return Call("GET", topic_path(topic) + _mark(query), _answer, self._wanted)

    def query(self, table: str, query: str) -> Call[Page]:
        """Read the rows of a table."""
        return Call("GET", f"{topic_path(table)}/{_mark(query)}", _page, self._wanted)

    def history(self, topic: str, words: str) -> Call[HistoryReads]:
        """Read the events of a topic."""
        return Call("GET", topic_path(topic) + _mark(words), _past, self._wanted)

    def put(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Call[Written]:
        """Set a record's value."""
        return self._write("PUT", topic_path(topic), options, value)

    def patch(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Call[Written]:
        """Change some of a record's attributes."""
        return self._write("PATCH", topic_path(topic), options, value)

    def publish(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Call[Written]:
        """Send a message to subscribers."""
        return self._write("POST", f"{topic_path(topic)}?retain=false", options, value)

    def create(self, table: str, value: object, **options: Unpack[WriteOptions]) -> Call[Written]:
        """Add a record, or a list of them."""
        return self._write("POST", f"{topic_path(table)}/", options, value)

    def upsert(self, table: str, values: object, **options: Unpack[WriteOptions]) -> Call[Written]:
        """Write a list of records, which replace those of their ids."""
        return self._write("POST", f"{topic_path(table)}/?upsert", options, values)

    def transaction(self, writes: Sequence[Mapping[str, object]]) -> Call[Written]:
        """Write at any topics, all or nothing."""
        return self._write("POST", "/$tx", {}, list(writes))

    def patch_where(
        self, table: str, query: str, value: object, **guard: Unpack[Guard]
    ) -> Call[Written]:
        """Change some attributes of the records that a query selects."""
        path = f"{topic_path(table)}/?{_guarded(query, guard)}"
        return self._write("PATCH", path, {}, value)

    def delete_where(self, table: str, query: str, **guard: Unpack[Guard]) -> Call[Written]:
        """Remove the records that a query selects."""
        path = f"{topic_path(table)}/?{_guarded(query, guard)}"
        return Call("DELETE", path, _written, self._wanted)

    def delete(self, topic: str, **options: Unpack[WriteOptions]) -> Call[Written]:
        """Remove a record."""
        return Call("DELETE", topic_path(topic), _written, self._wanted | _conditions(options))

    def _write(self, method: str, path: str, options: WriteOptions, value: object) -> Call[Written]:
        media_type = options.get("type") or self._type
        headers = self._wanted | _conditions(options) | {"Content-Type": media_type}
        return Call(method, path, _written, headers, _bytes(value, media_type, options))


def topic_path(topic: str) -> str:
    """Return the URL path of a topic, percent-encoded."""
    levels = [quote(level, safe="", errors="surrogateescape") for level in topic.split("/")]
    return "/" + "/".join(
        re.sub(r"^\.{1,2}$", lambda dots: "%2E" * len(dots[0]), x) for x in levels
    )


def cursor_of(response: httpx.Response) -> str:
    """Return the cursor in a response's ETag, which may name the format; empty without one."""
    return str(response.headers.get("ETag", "")).removeprefix("W/").strip('"').partition(".")[0]


# -- parts -----------------------------------------------------------------------------------------


def _mark(query: str) -> str:
    return f"?{query}" if query else ""


def _guarded(query: str, guard: Guard) -> str:
    terms = [query] if query else []
    if guard.get("confirm") is not None:
        terms.append(f"confirm={guard['confirm']}")
    return "&".join([*terms, "dry_run"] if guard.get("dry_run") else terms)


def _conditions(options: WriteOptions) -> dict[str, str]:
    headers = dict(options.get("headers") or {})
    for name, value in (
        ("If-Match", options.get("if_match")),
        ("If-None-Match", options.get("if_none_match")),
    ):
        if value:
            headers[name] = value if value == "*" else f'"{value}"'
    return headers


def _bytes(value: object, media_type: str, options: WriteOptions) -> bytes:
    """Return a value as bytes; text and bytes with a given type are not encoded."""
    if options.get("type") and isinstance(value, str | bytes):
        return value if isinstance(value, bytes) else value.encode()
    return encode(value, media_type)


def _value(response: httpx.Response) -> object:
    said = str(response.headers.get("content-type", ""))
    if is_structured(said):
        return decode_answer(response.content, said)
    return response.text if said.startswith("text/") else response.content


def _answer(response: httpx.Response) -> Answer:
    said = str(response.headers.get("content-type", "")).partition(";")[0]
    return Answer(_value(response), cursor_of(response), said)


def _rows(response: httpx.Response) -> list[object]:
    value = _value(response)
    return value if isinstance(value, list) else [value]


def _follow(response: httpx.Response) -> tuple[str, str]:
    """Return the query of the next page, and the position of the response in the log."""
    found = _NEXT.search(response.headers.get("link", ""))
    return found[1] if found else "", response.headers.get("rowcast-position", "")


def _page(response: httpx.Response) -> Page:
    return Page(_rows(response), *_follow(response))


def _past(response: httpx.Response) -> HistoryReads:
    trimmed = response.headers.get("rowcast-trimmed", "")
    return HistoryReads(_rows(response), *_follow(response), trimmed)


def _written(response: httpx.Response) -> Written:
    value = _value(response) if response.content else None
    cursor = cursor_of(response) or str(response.headers.get("rowcast-position", ""))
    name = value.get("id") if isinstance(value, dict) else None
    return Written(response.status_code, cursor, name, value)
