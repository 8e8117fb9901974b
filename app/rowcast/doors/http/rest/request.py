"""A REST request off the hot path: the object shared by the modules of REST."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from rowcast.codecs import CBOR, CBOR_SEQ, CSV, JSON, MSGPACK, NDJSON, encode_answer, negotiate
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.write_marks import numbered, put_mark
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import HeaderList, Headers, Receive, Scope, Send, text_of
from rowcast.doors.http.messages.bodies import read_body
from rowcast.doors.http.messages.parameters import Parameters
from rowcast.doors.http.messages.replies import send_bytes, send_empty
from rowcast.doors.http.uvicorn_fastpath import take_body
from rowcast.features.idempotency.idempotency_keys import Claim
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Route
from rowcast.writes.last_write_wins import put_stamp
from rowcast.writes.write import Receipt

VALUE_TYPES: Final = (JSON, CBOR, MSGPACK)
"""Media types of values; the first is the default."""
RECORD_TYPES: Final = (*VALUE_TYPES, NDJSON, CSV)
ROW_TYPES: Final = (*VALUE_TYPES, NDJSON, CSV, CBOR_SEQ)


@dataclass(slots=True)  # not frozen, because that triples the cost of construction
class Request:
    """A request: its edge, parameters, caller, and ASGI callables."""

    kernel: Kernel
    edge: HttpDoor
    scope: Scope
    headers: Headers
    route: Route
    caller: Caller
    parameters: Parameters
    receive: Receive
    send: Send
    claim: Claim | None = None
    """The claim of its ``Idempotency-Key``, if it has one."""
    read: bytes | None = None
    """The body, once it was read."""

    @property
    def topic(self) -> str:
        """The topic that the path names."""
        return self.route.topic

    @property
    def method(self) -> str:
        """The method."""
        return str(self.scope["method"])

    @property
    def is_head(self) -> bool:
        """Whether it is HEAD."""
        return self.method == "HEAD"

    @property
    def accept(self) -> str | None:
        """The Accept header."""
        return text_of(self.headers, b"accept")

    @property
    def prefers_minimal(self) -> bool:
        """Whether the answer to a write is to have no content (``Prefer``, RFC 7240, 4.2).

        The first of several such preferences counts, and what is not known is ignored (section 2).
        """
        for part in (text_of(self.headers, b"prefer") or "").split(","):
            name, _, value = part.partition(";")[0].partition("=")
            if name.strip().lower() == "return":
                return value.strip().strip('"').lower() == "minimal"
        return False

    @property
    def is_told_as_one(self) -> bool:
        """Whether all of its records are written or none, and nobody is told of each."""
        return self.parameters.atomic and self.prefers_minimal

    @property
    def marks_last(self) -> bool:
        """Whether the mark of its last record stands for all: one receipt, not one for each.

        Not with hooks, which may drop the last one.
        """
        one = self.claim is not None and self.is_told_as_one
        return one and not self.kernel.gate.may_drop

    def arrived_body(self) -> bytes | None:
        """Return the whole body if it has arrived; None: call ``body``."""
        known = self.headers
        is_coded = b"content-encoding" in known or b"transfer-encoding" in known
        if self.read is None and not is_coded:
            self.read = take_body(self.receive, self.edge.settings.body_bytes_max)
        return self.read

    async def body(self) -> bytes:
        """Return the whole body; raises TOO_LARGE, UNSUPPORTED, INVALID.

        Raises UNAUTHENTICATED or DENIED when its caller was removed while the body arrived, and
        sets the caller's rights of now: a body may take minutes.
        """
        if self.arrived_body() is None:
            settings, committer = self.edge.settings, self.kernel.committer
            if self.caller.connection in committer.pending:
                await committer.room(self.caller)  # otherwise many bodies are in memory at once
            self.read = await read_body(
                self.headers,
                self.receive,
                settings.body_bytes_max,
                settings.body_seconds_max,
                self.kernel.reader.shedding.check_unfinished,
            )
            self.caller = self.kernel.reauthorization.current(self.caller)
        return self.read or b""

    def check_rights(self) -> None:
        """Raise when its caller has other rights than when it asked.

        For each part of an answer that its reader may take for as long as it likes.
        """
        if self.kernel.reauthorization.current(self.caller) is not self.caller:
            raise Error(Code.UNAUTHENTICATED, "your access rights have changed; ask again")

    async def answer(
        self, value: object, status: int = HTTPStatus.OK, extra: HeaderList | None = None
    ) -> None:
        """Respond with a value in an acceptable format; raises NOT_ACCEPTABLE."""
        media_type = negotiate(self.accept, VALUE_TYPES)
        body = encode_answer(value, media_type)
        await send_bytes(self.send, status, media_type, body, extra, head=self.is_head)

    async def answer_nothing(self, extra: HeaderList) -> None:
        """Respond to a write without content, with these headers."""
        await send_empty(self.send, HTTPStatus.NO_CONTENT, extra)

    def event(self, kind: str, payload: bytes, content_type: str | None) -> Event:
        """Return the event of this request."""
        caller, headers = self.caller, self.headers
        client = caller.client_id or caller.user
        retain = kind != MESSAGE
        event = Event(self.route.topic, kind, payload, content_type, 1, retain, client=client)
        if b"rowcast-version" in headers:
            stamp_from(event, headers)
        if self.claim is not None or b"rowcast-producer" in headers:
            self.mark(event)
        return event

    def mark(self, event: Event, index: int = 0) -> None:
        """Set an event's idempotency key from the request, with this number (M8)."""
        if self.claim is not None:
            self.claim.mark(event, index)
        mark = text_of(self.headers, b"rowcast-producer")
        if mark is not None:
            put_mark(event, numbered(mark, index), text_of(self.headers, b"rowcast-low"))


def new_event(
    topic: str, kind: str, payload: bytes, content_type: str | None, caller: Caller
) -> Event:
    """Return an event of HTTP: at least once, like a PUBLISH of QoS 1 (B2)."""
    client = caller.client_id or caller.user
    return Event(topic, kind, payload, content_type, 1, kind != MESSAGE, client=client)


def stamp_from(event: Event, headers: Headers) -> None:
    """Set an event's version and origin from the request's headers, if given (E26)."""
    version = text_of(headers, b"rowcast-version")
    if version is not None:
        put_stamp(event, version, text_of(headers, b"rowcast-origin") or "")


def outcome_headers(receipt: Receipt) -> HeaderList:
    """Return the headers of a late write, a repeat, and a value that does not fit (A15)."""
    headers: HeaderList = []
    if receipt.late:
        headers.append((b"rowcast-late", str(receipt.late).encode()))
    if receipt.unfit:
        headers.append((b"rowcast-unfit", receipt.unfit.encode()))
    if receipt.repeat:
        headers.append((b"rowcast-repeat", b"1"))
    return headers


def position_headers(kernel: Kernel, event: Event) -> HeaderList:
    """Return the headers with the position of a write; none when it was not logged."""
    if not event.seq:
        return []
    cursor = kernel.cursor(event.seq).encode()
    headers = [(b"etag", b'"' + cursor + b'"'), (b"rowcast-position", cursor)]
    if event.version:  # an earlier version stored only the position of a write
        headers.append((b"rowcast-version", str(event.version).encode()))
    return headers
