"""Messages of the AsyncAPI document: values of MQTT, and envelopes of streams."""

from typing import Final

from rowcast.core.events import CURRENT, DELETE, GAP, MESSAGE, PATCH, PUT, RESET, SNAPSHOT
from rowcast.core.freshness import FRESH, SILENT
from rowcast.core.tables import Table
from rowcast.doors.http.documents.schemas import Document, ref
from rowcast.doors.http.streams.ws_protocol import COMMANDS
from rowcast.subscriptions.live_query import Step

_TEXT: Final[Document] = {"type": "string"}
_TEXT_OR_NULL: Final[Document] = {"type": ["string", "null"]}
_KINDS: Final = (SNAPSHOT, PUT, PATCH, DELETE, MESSAGE, SILENT, FRESH)
_USER_PROPERTIES: Final[Document] = {
    "type": "object",
    "description": "User properties of MQTT 5.",
    "properties": {
        "seq": {"type": "string", "description": "The cursor, from which a subscription goes on."},
        "op": {
            "type": "string",
            "description": "delete, where a record is gone; of a live query its step.",
        },
    },
}
_GAP: Final[Document] = {
    "type": "object",
    "description": "What was not passed on here.",
    "properties": {
        "from": _TEXT_OR_NULL,
        "to": _TEXT_OR_NULL,
        "count": {"type": ["integer", "null"]},
        "reason": _TEXT,
    },
}
SCHEMAS: Final[Document] = {
    "Envelope": {
        "type": "object",
        "description": "One event, the same over SSE and WebSocket and in every format.",
        "required": ["cursor", "topic", "kind", "version"],
        "properties": {
            "cursor": _TEXT_OR_NULL,
            "topic": _TEXT_OR_NULL,
            "kind": {
                "enum": [SNAPSHOT, PUT, PATCH, DELETE, MESSAGE, SILENT, FRESH, *map(str, Step)]
            },
            "version": {"type": ["integer", "null"]},
            "value": {},
            "subscription": {"type": "integer", "description": "On WebSocket, of a command."},
        },
    },
    "Mark": {
        "type": "object",
        "description": f"{CURRENT}: all snapshots were sent; {RESET}: all begins anew.",
        "required": ["kind"],
        "properties": {
            "cursor": _TEXT_OR_NULL,
            "kind": {"enum": [CURRENT, RESET]},
            "subscription": {"type": "integer"},
        },
    },
    "Gap": {
        "type": "object",
        "description": "A mark in the place of events.",
        "required": ["kind", "gap"],
        "properties": {"cursor": _TEXT_OR_NULL, "kind": {"const": GAP}, "gap": _GAP},
    },
    "GapNote": {"type": "object", "properties": {"gap": _GAP, "filter": _TEXT}},
    "Command": {
        "type": "object",
        "required": ["op"],
        "properties": {
            "id": {"type": ["integer", "string"], "description": "Comes back with the answer."},
            "op": {"enum": [*COMMANDS]},
            "topic": _TEXT,
            "value": {},
            "since": {"type": "string", "description": "Subscribe after this cursor."},
            "ifMatch": _TEXT,
            "ifNoneMatch": _TEXT,
        },
    },
    "Acknowledgement": {
        "type": "object",
        "required": ["ack"],
        "properties": {"ack": {"type": ["integer", "string"]}, "cursor": _TEXT_OR_NULL},
    },
    "Refusal": {
        "type": "object",
        "required": ["error"],
        "properties": {"id": {"type": ["integer", "string", "null"]}, "error": ref("Problem")},
    },
}


def message(name: str, payload: Document, about: str) -> Document:
    """Return one message."""
    return {"name": name, "summary": about, "payload": payload}


COMMON: Final[Document] = {
    "value": message("value", {}, "Any value, or bytes of any content type."),
    "event": message("event", ref("Envelope"), "One event."),
    "mark": message("mark", ref("Mark"), "A mark in a stream."),
    "gap": message("gap", ref("Gap"), "What was not passed on."),
    "gapNote": message("gapNote", ref("GapNote"), "What was not passed on, and of which filter."),
    "command": message("command", ref("Command"), "What a client asks for."),
    "acknowledgement": message("acknowledgement", ref("Acknowledgement"), "It is done."),
    "refusal": message("refusal", ref("Refusal"), "It is not, and why."),
}
SECURITY: Final[Document] = {
    "password": {"type": "userPassword", "description": "A user's name and password."},
    "scram": {"type": "scramSha256", "description": "MQTT 5: the password does not travel."},
    "certificate": {"type": "X509", "description": "Its common name is the user."},
    "basic": {"type": "http", "scheme": "basic"},
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "ticket": {
        "type": "httpApiKey",
        "in": "query",
        "name": "ticket",
        "description": "Opens one stream: POST /$SYS/tickets/ gives it.",
    },
}


def messages_of(table: Table) -> Document:
    """Return the messages of a table: its values by MQTT, its events on streams."""
    name = table.name
    return {
        name: message(name, ref(name), "The record's value.") | {"headers": _USER_PROPERTIES},
        f"{name}Message": message(
            f"{name}Message", ref(f"{name}Patch"), "A message; no attribute is required."
        ),
        f"{name}Deletion": message(
            f"{name}Deletion", {"type": "string", "maxLength": 0}, "An empty payload: it is gone."
        )
        | {"headers": _USER_PROPERTIES},
        f"{name}Event": message(f"{name}Event", envelope(ref(name)), "One event."),
    }


def envelope(value: Document) -> Document:
    """Return the schema of the envelope of a value."""
    return {"allOf": [ref("Envelope"), {"type": "object", "properties": {"value": value}}]}
