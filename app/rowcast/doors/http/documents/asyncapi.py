"""The schema as an AsyncAPI 3.0 document: subscriptions and messages, besides OpenAPI's requests.

It describes the server: it *receives* clients' writes and *sends* events. Channels are those of
each table: its records by MQTT, whose payloads are the values, and the streams of a record and of
the table by SSE and WebSocket, whose payloads are envelopes. Schemas are those of the OpenAPI
document, under the same names.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rowcast.codecs import JSON
from rowcast.core.tables import Table, is_kept
from rowcast.doors.http.documents.messages import COMMON, SCHEMAS, SECURITY, messages_of
from rowcast.doors.http.documents.schemas import PROBLEM, ROWS, Document, add_schemas
from rowcast.doors.http.documents.servers import MQTT, SSE, WS
from rowcast.routes.registry import Entry, Registry
from rowcast.rows.topic_rows import LogView

ASYNCAPI_PATH: Final = "/asyncapi.json"
_ABOUT: Final = (
    "Every record is a topic: what is written at one is sent to whoever watches it, over any "
    "protocol. By MQTT a payload is the value; by SSE and WebSocket it is in an envelope with its "
    "cursor, from which a subscription goes on, there or elsewhere. JSON unless asked otherwise: "
    "CBOR and MessagePack are spoken too. /openapi.json has the requests."
)
_ID: Final = "The record's id; it may hold slashes."
_LEVEL: Final = "The first level of the topics; messages for topics of one level."
_RETAINED: Final[Document] = {"qos": 1, "retain": True, "bindingVersion": "0.2.0"}
_MARKS: Final = ("mark", "gap")


class AsyncDocument:
    """The document without the servers, which depend on the request."""

    def __init__(self, registry: Registry, title: str, version: str) -> None:
        self._info = {"title": title, "version": version, "description": _ABOUT}
        self._schemas: Document = {"Problem": PROBLEM} | SCHEMAS
        self._messages: Document = dict(COMMON)
        self._channels: dict[str, tuple[tuple[str, ...], Document]] = {}
        self._operations: dict[str, tuple[str, Document]] = {}
        for entry in registry.entries:
            self._add_entry(entry)
        if registry.logged:  # one entry for all topic tables, which have equal columns
            self._add_rows(ROWS, "mqtt_{level}", {"level": _LEVEL})
        if registry.undeclared:
            self._add_undeclared()
        self._add_own()

    def made(self, servers: Mapping[str, tuple[tuple[str, ...], Document]]) -> Document:
        """Return the document for these servers: by name, the protocols and the description."""
        channels: Document = {}
        for name, (spoken, channel) in self._channels.items():
            speaking = [one for one, (words, _) in servers.items() if set(words) & set(spoken)]
            if speaking:
                channels[name] = channel | {"servers": [_ref("servers", one) for one in speaking]}
        operations = {
            name: operation
            for name, (channel, operation) in self._operations.items()
            if channel in channels
        }
        return {
            "asyncapi": "3.0.0",
            "info": self._info,
            "defaultContentType": JSON,
            "servers": {name: server for name, (_, server) in servers.items()},
            "channels": channels,
            "operations": operations,
            "components": {
                "schemas": self._schemas,
                "messages": self._messages,
                "securitySchemes": SECURITY,
            },
        }

    # -- content ---------------------------------------------------------------------------------

    def _add_entry(self, entry: Entry) -> None:
        if entry.shape is None:
            self._add_resource(entry)
        elif entry.view is None:
            self._add_table(entry.shape.table)
        elif not isinstance(entry.view, LogView):
            self._add_rows(entry.shape.table, entry.path, {})

    def _add_table(self, table: Table) -> None:
        name, hidden = table.name, table.hidden_from
        add_schemas(table, self._schemas)
        self._messages |= messages_of(table)
        if "mqtt" not in hidden:
            said = (name, f"{name}Message", f"{name}Deletion")
            about = table.description or f"The records of {name}."
            self._channel(f"{name}Record", table.topic("{id}"), (MQTT,), said, about, {"id": _ID})
            if not is_kept(table):
                self._operation(
                    "receive", f"write{name}", f"{name}Record", said,
                    "Retained: the record becomes this value; empty: it is deleted. Not retained: "
                    "a message to who watches, and the record stays.",
                    {"bindings": {"mqtt": _RETAINED}},
                )  # fmt: skip
            self._operation(
                "send", f"tell{name}", f"{name}Record", said,
                "The record at once, retained, and then what happens to it; filters such as "
                f"{table.topic('#')} select several.",
            )  # fmt: skip
        self._add_streams(table, table.topic("{id}"), table.topic(""), {})

    def _add_streams(
        self, table: Table, record: str, whole: str, parameters: Mapping[str, str]
    ) -> None:
        name = table.name
        spoken = tuple(word for word in (SSE, WS) if word not in table.hidden_from)
        said = (f"{name}Event", *_MARKS)
        for channel, address, about, more in (
            (f"{name}RecordEvents", f"/{record}", "The events of one record.", {"id": _ID}),
            (f"{name}Events", f"/{whole}", f"The events of all of {name}.", {}),
        ):
            self._channel(channel, address, spoken, said, about, {**more, **parameters})
            self._operation(
                "send", f"stream{channel}", channel, said,
                "First what is there, as snapshots, and the mark current; then what happens. Begin "
                "elsewhere with since, start, last or from.",
            )  # fmt: skip

    def _add_rows(self, table: Table, path: str, parameters: Mapping[str, str]) -> None:
        """Add rows, which can only be subscribed to."""
        name = table.name
        add_schemas(table, self._schemas)
        self._messages |= messages_of(table)
        about = table.description or f"The rows of {name}."
        self._channel(
            f"{name}Record", f"{path}/{{id}}", (MQTT,), (name,), about, {"id": _ID, **parameters}
        )
        self._operation("send", f"tell{name}", f"{name}Record", (name,), "Rows as they come.")
        self._add_streams(table, f"{path}/{{id}}", f"{path}/", parameters)

    def _add_resource(self, entry: Entry) -> None:
        """Add the verbs of a resource class at a path; its values are not described."""
        name = re.sub(r"\W+", "_", entry.path).strip("_") or "root"
        channel, said = f"{name}Resource", ("value",)
        about = f"What {entry.path or '/'} takes and gives is its own code's."
        address = f"{entry.path}/{{id}}" if entry.path else "{id}"
        self._channel(channel, address, (MQTT,), said, about, {"id": _ID})
        self._operation("send", f"tell{channel}", channel, said, "What it says.")
        if entry.overrides & {"put", "publish"}:
            self._operation("receive", f"write{channel}", channel, said, "What it is told.")

    def _add_undeclared(self) -> None:
        about = "Whatever no table declares: any broker's topics. Payloads come as they were sent."
        said, any_topic = ("value",), {"topic": "Any topic."}
        self._channel("undeclared", "{topic}", (MQTT,), said, about, any_topic)
        self._operation("receive", "publish", "undeclared", said, "Send to who listens.")
        self._operation("send", "deliver", "undeclared", said, "What others have sent.")

    def _add_own(self) -> None:
        """Add the server's own topics, streams of any topic, and WebSocket commands."""
        about = "A figure of the server, in Mosquitto's names: clients/connected."
        of_it = {"name": "One or several levels."}
        self._channel("figures", "$SYS/broker/{name}", (MQTT,), ("value",), about, of_it)
        self._operation("send", "tellFigures", "figures", ("value",), "When a figure has changed.")
        about = "What was not passed on, to clients that subscribe to $gap/#."
        of_it = {"identifier": "The subscription's identifier, or 0."}
        self._channel("gaps", "$gap/{identifier}", (MQTT,), ("gapNote",), about, of_it)
        self._operation("send", "tellGaps", "gaps", ("gapNote",), "In the place of what is missing")
        events = ("event", *_MARKS)
        about = "The events at a topic; where it ends with a slash, of all below it."
        self._channel("events", "/{topic}", (SSE, WS), events, about, {"topic": "Any topic."})
        self._operation("send", "streamEvents", "events", events, "As of any record or table.")
        self._add_commands(events)

    def _add_commands(self, events: tuple[str, ...]) -> None:
        answers = ("acknowledgement", "refusal")
        about = "Any connection of WebSocket takes commands."
        binding: Document = {"ws": {"method": "GET", "bindingVersion": "0.1.0"}}
        self._channel("commands", "/", (WS,), ("command", *answers, *events), about, {}, binding)
        reply: Document = {
            "channel": _ref("channels", "commands"),
            "messages": [_ref("channels", "commands", "messages", name) for name in answers],
        }
        about = "One in a frame, answered by one."
        self._operation("receive", "command", "commands", ("command",), about, {"reply": reply})
        about = "The events of subscriptions, which they name."
        self._operation("send", "tellSubscriptions", "commands", events, about)

    # -- parts -----------------------------------------------------------------------------------

    def _channel(
        self,
        name: str,
        address: str,
        spoken: tuple[str, ...],
        messages: Iterable[str],
        about: str,
        parameters: Mapping[str, str],
        binding: Document | None = None,
    ) -> None:
        channel: Document = {
            "address": address,
            "description": about,
            "messages": {one: _ref("components", "messages", one) for one in messages},
        }
        if parameters:
            channel["parameters"] = {key: {"description": text} for key, text in parameters.items()}
        if binding is not None:
            channel["bindings"] = binding
        self._channels[name] = spoken, channel

    def _operation(
        self,
        action: str,
        name: str,
        channel: str,
        messages: Iterable[str],
        about: str,
        more: Document | None = None,
    ) -> None:
        operation: Document = {
            "action": action,
            "channel": _ref("channels", channel),
            "summary": about,
            "messages": [_ref("channels", channel, "messages", one) for one in messages],
        } | (more or {})
        self._operations[name] = channel, operation


def _ref(*steps: str) -> Document:
    return {"$ref": "#/" + "/".join(steps)}
