"""The WebSocket protocol: commands of a client, and their answers.

A command is a map with an ``op`` and, if the client wants an answer, an ``id`` of its choice:

    {"id": 1, "op": "subscribe", "topic": "Dog/+", "since": "<cursor>"}
        since, start, previousCount, last, startTime or from as in a URL; the answer is
        {"ack": 1, "subscription": 1, "resumed": true, "cursor": "<cursor>"}; with
        "where": "temp=gt=80" beside "topic": "Sensor/+" it is a live query; with "sort": "-temp"
        and "limit": 10 as well, a window of it, and with "select": "id,temp" parts of its records;
        with "commits": true a mark follows each transaction; with "conflate": "1s" a value of a
        record comes only so often
    {"id": 2, "op": "unsubscribe", "subscription": 1}
    {"id": 3, "op": "put", "topic": "Dog/1", "value": {...}, "ifMatch": "<cursor>"}
        patch likewise; delete without a value; message without a condition; the answer is
        {"ack": 3, "cursor": "<cursor>", "version": 7, "created": true}
        "version" and "origin" are the time and the log of its first write; "late" is then the
        version that won over it. "producer" ("meter-7:1:1041") makes it idempotent: a repeat is
        answered with the first cursor and "repeat"
    {"id": 4, "op": "get", "topic": "Dog/1"}
    {"id": 5, "op": "will", "topic": "presence/ann", "value": "away", "retain": true}
        written when the connection is lost; without a topic, there is none any longer
    {"id": 6, "op": "ping"}
    {"id": 7, "op": "replay", "topic": "Sensor/+", "from": "-1h", "speed": 10}
        and pause, resume, speed, seek and stop: ``ws_replays``

A failed command is answered with {"error": <problem details>, "id": 6}, and the connection stays
open. A write is answered when it is durable and announced. Commands take effect in order: a get or
a subscribe waits for earlier writes of its connection; writes are committed together.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from rowcast.codecs import JSON, decode, encode
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import COMMAND_ID_CHARS_MAX
from rowcast.core.meta import meta_of
from rowcast.core.query_topics import named_filter, query_of
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TRANSACTIONS
from rowcast.core.write_marks import put_mark
from rowcast.doors.http.messages.asgi import path_of
from rowcast.doors.http.messages.problems import as_error, problem
from rowcast.doors.http.streams import ws_replays
from rowcast.features.websocket_wills.wills import WebSocketWills
from rowcast.routes.exact_decimals import decoded_exactly
from rowcast.routes.excluded_tables import check_not_excluded
from rowcast.rows.download import Download
from rowcast.seams.user_code import is_mistake
from rowcast.subscriptions.pacing import asked_interval
from rowcast.subscriptions.start_position import START_WORDS, start_position
from rowcast.writes.last_write_wins import put_stamp
from rowcast.writes.write import Condition, Outcome, Receipt

if TYPE_CHECKING:
    from rowcast.doors.http.streams.websocket import Socket

Fields = dict[str, Any]
_COMMON: Final = ("id", "op")
_QUERY: Final = ("where", "sort", "limit", "select")
"""Members of subscribe that make it a live query."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its function, and its members."""

    do: Callable[["Socket", Fields], Awaitable[Fields | None]]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


async def obey(socket: "Socket", payload: str | bytes) -> None:
    """Execute a client's message; errors are answered, never raised."""
    fields: Fields = {}
    try:
        fields = _read(payload, socket.media_type)
        if "value" in fields and isinstance(payload, str):
            registry, topic, value = socket.kernel.registry, fields.get("topic"), fields["value"]
            said = payload.encode(), JSON, "value"
            fields["value"] = decoded_exactly(registry, topic, value, *said)
        answer = await _command(fields).do(socket, fields)
        if answer is not None:
            socket.answer(fields.get("id"), answer)
    except BaseException as failure:  # a bug ends in an answer and in the log
        if not is_mistake(failure):
            raise
        refuse(socket, fields, as_error(failure, "a WebSocket command"))


def refuse(socket: "Socket", fields: Fields, error: Error) -> None:
    """Answer a failed command."""
    topic = fields.get("topic")
    instance = path_of(topic) if isinstance(topic, str) else socket.path
    given = fields.get("id")
    socket.say(
        {
            "error": problem(error, instance, socket.kernel.cursor),
            "id": given if _is_id(given) else None,
        }
    )


# -- reading -------------------------------------------------------------------------------------


def _read(payload: str | bytes, media_type: str) -> Fields:
    """Decode a frame's map: text is JSON, bytes are in the socket's format."""
    if isinstance(payload, str):
        fields = decode(payload.encode(), JSON)
    elif media_type == JSON:
        raise Error(
            Code.UNSUPPORTED,
            "this connection speaks JSON in text frames; connect with ?format=cbor or "
            "?format=msgpack to send binary ones",
        )
    else:
        fields = decode(payload, media_type)
    if not isinstance(fields, dict):
        raise Error(
            Code.INVALID, 'a command is a map with an "op", such as {"id": 1, "op": "ping"}'
        )
    return fields


def _command(fields: Fields) -> Command:
    """Return the command of a map; raises INVALID with a spelling suggestion."""
    op = fields.get("op")
    command = COMMANDS.get(op) if isinstance(op, str) else None
    if command is None:
        near = did_you_mean(str(op), COMMANDS)
        what = "the command has no op" if op is None else f"there is no op {str(op)[:80]!r}{near}"
        raise Error(Code.INVALID, f"{what}; known are {', '.join(COMMANDS)}")
    known = (*_COMMON, *command.required, *command.optional)
    for name in fields:
        if name not in known:
            raise Error(
                Code.INVALID, f"{op} has no member {name[:80]!r}{did_you_mean(name, known)}"
            )
    for name in command.required:
        if name not in fields:
            raise Error(Code.INVALID, f"{op} lacks the member {name!r}")
    if "id" in fields and not _is_id(fields["id"]):
        raise Error(
            Code.INVALID,
            f"an id is an integer or a text of at most {COMMAND_ID_CHARS_MAX} characters",
        )
    return command


def _is_id(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and len(value) <= COMMAND_ID_CHARS_MAX)


def _topic(socket: "Socket", fields: Fields) -> str:
    topic = fields["topic"]
    if not isinstance(topic, str):
        raise Error(Code.INVALID, f"topic is text, not {type(topic).__name__}")
    named = socket.kernel.registry.named(topic)
    socket.check_served(named)
    return named


# -- the commands --------------------------------------------------------------------------------


def _filter(socket: "Socket", fields: Fields) -> str:
    """Return the filter of a subscription, with what its members for a live query say."""
    topic, given = _topic(socket, fields), [fields.get(name) for name in _QUERY]
    if given == [None] * len(_QUERY):
        return named_filter(topic)
    where, sort, limit, select = given
    parts = [
        where,
        None if sort is None else f"sort({_quoted(sort)})",
        None if limit is None else f"limit({_quoted(limit)})",
        None if select is None else f"select({_quoted(select)})",
    ]
    texts = [part for part in parts if part is not None and part != ""]
    asked = "&".join(texts) if all(isinstance(it, str) for it in texts) else None
    found = None if asked is None else query_of(topic, asked, socket.kernel.registry.leads)
    if found is None:
        raise Error(
            Code.INVALID,
            "where is text, the conditions of a URL such as 'temp=gt=80', beside a topic such as "
            "Sensor/+, all records of a table, or Owner/ann/dogs, those of a relationship",
        )
    return found


def _quoted(value: object) -> str:
    """Return the argument of a function of a query, as a URL has it."""
    return quote(str(value), safe=",-()")


async def _subscribe(socket: "Socket", fields: Fields) -> Fields | None:
    await socket.settled()
    commits = fields.pop("commits", False)
    if type(commits) is not bool:
        raise Error(Code.INVALID, "commits is true or false")
    pace = asked_interval(fields.pop("conflate", None))
    start = start_position(fields, socket.kernel.now())
    number, begun = await socket.subscribe(
        _filter(socket, fields), start, commits=commits, conflate=pace
    )
    # sent in the turn in which the stream starts, before its events
    socket.say(
        {
            "ack": fields.get("id"),
            "subscription": number,
            "resumed": begun.resumed,
            "cursor": socket.kernel.cursor(begun.position),
        }
    )
    return None


async def _unsubscribe(socket: "Socket", fields: Fields) -> Fields:
    number = fields["subscription"]
    if not socket.unsubscribe(number):
        raise Error(
            Code.NOT_FOUND, f"there is no subscription {str(number)[:80]} on this connection"
        )
    return {"subscription": number}


async def _put(socket: "Socket", fields: Fields) -> None:
    _write(socket, fields, PUT)


async def _patch(socket: "Socket", fields: Fields) -> None:
    _write(socket, fields, PATCH)


async def _delete(socket: "Socket", fields: Fields) -> None:
    _write(socket, fields, DELETE)


async def _message(socket: "Socket", fields: Fields) -> None:
    _write(socket, fields, MESSAGE)
    if fields["topic"].removeprefix("/") == TRANSACTIONS:  # it writes elsewhere, and later
        await socket.settled()


def _write(socket: "Socket", fields: Fields, kind: str) -> None:
    """Submit a write to the kernel; it is answered when done."""
    media_type = None if kind == DELETE else socket.media_type
    payload = b"" if media_type is None else encode(fields["value"], media_type)
    event = Event(_topic(socket, fields), kind, payload, media_type, qos=1, retain=kind != MESSAGE)
    if "version" in fields or "origin" in fields:
        put_stamp(event, str(fields.get("version")), str(fields.get("origin") or ""))
    if "producer" in fields:
        put_mark(event, str(fields["producer"]))
    condition = _condition(fields, kind, socket.kernel.reader.epoch)

    def done(outcome: Outcome) -> None:
        socket.pending_less()
        if isinstance(outcome, Error):
            refuse(socket, fields, outcome)
            return
        socket.answer(fields.get("id"), _told_of(socket, kind, outcome))

    socket.pending_more()
    socket.kernel.submit(event, socket.caller, done, condition, wants_existed=True)


def _told_of(socket: "Socket", kind: str, receipt: Receipt) -> Fields:
    """Return the answer to a write that succeeded."""
    written = receipt.event
    answer: Fields = {
        "cursor": socket.kernel.cursor(written.seq) if written.seq else None,
        "version": written.version or None,  # not stored by an earlier version
    }
    if kind in {PUT, PATCH}:
        answer["created"] = bool(written.seq) and not receipt.existed and not receipt.late
    if receipt.repeat:
        answer["repeat"] = True
    if receipt.unfit:
        answer["unfit"] = receipt.unfit
    if receipt.late:
        answer["late"] = receipt.late
    return answer


def _condition(fields: Fields, kind: str, epoch: str) -> Condition | None:
    """Return the condition of ``ifMatch`` and ``ifNoneMatch``, as in HTTP."""
    match, none_match = fields.get("ifMatch"), fields.get("ifNoneMatch")
    if none_match is not None and none_match != "*":
        raise Error(Code.INVALID, 'ifNoneMatch is "*": there must be no record')
    if none_match is not None and match is not None:
        raise Error(Code.INVALID, "ifMatch and ifNoneMatch exclude each other; give one of them")
    if none_match is not None:
        return Condition(exists=False)
    if match == "*":
        return Condition(exists=True)
    if match is None:
        return Condition(exists=True, strict=True) if kind == DELETE else None
    if not isinstance(match, str):
        raise Error(Code.INVALID, 'ifMatch is the cursor of a version, or "*"')
    cursor = parse_cursor(match)
    known = cursor.epoch == epoch  # a version of another log does not match
    return Condition(exists=True, seqs=frozenset({cursor.seq} if known else ()))


async def _get(socket: "Socket", fields: Fields) -> Fields:
    await socket.settled()
    with socket.kernel.reader.queue.attributed_to(socket.caller):
        return await _got(socket, fields)


async def _got(socket: "Socket", fields: Fields) -> Fields:
    kernel, topic = socket.kernel, _topic(socket, fields)
    route = kernel.registry.route(topic)
    if route.overrides("get"):
        kernel.authorise_read(topic, socket.caller)
        resource = kernel.resource(topic, socket.caller)
        value = None if resource is None else await resource.get()
        if isinstance(value, Download):
            value.close()
            raise Error(Code.NOT_ALLOWED, f"{topic!r} is a file; get it over HTTP")
        return {"cursor": None, "version": None, "value": value}
    check_not_excluded(route.table, socket.caller.door)
    record = await kernel.read(topic, socket.caller)
    value = kernel.transcoder.spelled(record, socket.media_type)
    meta = meta_of(record, kernel.reader.epoch) if socket.meta else {}
    return {"cursor": kernel.cursor(record.seq), "version": record.version, "value": value} | meta


async def _will(socket: "Socket", fields: Fields) -> Fields:
    wills = socket.kernel.service(WebSocketWills)
    if wills is None:
        raise Error(Code.UNSUPPORTED, "this server takes no wills; connect to http.port")
    if "topic" not in fields:
        key, socket.will = socket.will, ""
        if key:
            await wills.remove(key)
        return {}
    if "value" not in fields or type(fields.get("retain", False)) is not bool:
        raise Error(Code.INVALID, "will takes a topic, a value, and retain, which is true or false")
    topic, kind = _topic(socket, fields), PUT if fields.get("retain") else MESSAGE
    socket.kernel.registry.route(topic)
    socket.kernel.rights.check_writer(topic, socket.caller)
    payload = encode(fields["value"], socket.media_type)
    event = Event(topic, kind, payload, socket.media_type, qos=1, retain=kind == PUT)
    wills.judge(event, socket.caller)
    socket.will = await wills.put(socket.will, event, socket.caller)
    return {}


async def _ping(socket: "Socket", _fields: Fields) -> Fields:
    return {"cursor": socket.kernel.head}


_CONDITIONS: Final = ("ifMatch", "ifNoneMatch")
_STAMP: Final = ("version", "origin", "producer")
COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "subscribe": Command(
            _subscribe, ("topic",), (*_QUERY, "commits", "conflate", *START_WORDS)
        ),
        "unsubscribe": Command(_unsubscribe, ("subscription",)),
        "put": Command(_put, ("topic", "value"), (*_CONDITIONS, *_STAMP)),
        "patch": Command(_patch, ("topic", "value"), (*_CONDITIONS, "producer")),
        "delete": Command(_delete, ("topic",), (*_CONDITIONS, *_STAMP)),
        "message": Command(_message, ("topic", "value"), _STAMP),
        "get": Command(_get, ("topic",)),
        "will": Command(_will, (), ("topic", "value", "retain")),
        "ping": Command(_ping),
        "replay": Command(ws_replays.replay, ("topic", "from"), ("to", "speed")),
        "pause": Command(ws_replays.pause, ("replay",)),
        "resume": Command(ws_replays.resume, ("replay",)),
        "speed": Command(ws_replays.speed, ("replay", "speed")),
        "seek": Command(ws_replays.seek, ("replay", "at")),
        "stop": Command(ws_replays.stop, ("replay",)),
    }
)
