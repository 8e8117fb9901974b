"""Streams without a socket: an EventSource or a WebSocket of a test, as plain ASGI calls.

A reader extends one of them, and takes what has come from ``sent``. ``self.home`` has the edge.
"""

import asyncio
import json
from collections import deque
from dataclasses import replace

from rowcast.auth.authenticator import Authenticator


class Stream:
    """One stream of an edge."""

    gone = ""
    """The message that says that the client has left."""

    def begin(self, kind, path, query="", headers=()):
        self.inbox, self.sent = asyncio.Queue(), deque()
        scope = {
            "type": kind,
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": list(headers),
            "client": ("127.0.0.1", 0),
            "subprotocols": [],
        }
        self.task = asyncio.create_task(self.home.edge(scope, self.inbox.get, self._send))

    async def _send(self, message):
        self.sent.append(message)

    async def cut(self):
        """End it from the client's side."""
        await self.inbox.put({"type": self.gone, "code": 1006})
        await self.task


class EventStream(Stream):
    """An EventSource, which goes on from a cursor."""

    gone = "http.disconnect"

    def open(self, path, query, cursor=""):
        headers = [(b"accept", b"text/event-stream")]
        if cursor:
            headers.append((b"last-event-id", cursor.encode()))
        self.begin("http", path, query, headers)


class Socket(Stream):
    """A WebSocket."""

    gone = "websocket.disconnect"

    async def connect(self):
        self.begin("websocket", "/")
        await self.inbox.put({"type": "websocket.connect"})

    async def say(self, **command):
        await self.inbox.put({"type": "websocket.receive", "text": json.dumps(command)})

    def answers(self):
        """Take what was sent, decoded; a message without text is an empty one."""
        while self.sent:
            message = self.sent.popleft()
            yield json.loads(message["text"]) if "text" in message else {}


class EverybodyIs(Authenticator):
    """Takes every client for the caller that ``caller()`` returns."""

    def __init__(self, caller):
        super().__init__()
        self._caller = caller

    def anonymous(self, peer, door, client_id=""):
        return replace(self._caller(), door=door, peer=peer, client_id=client_id)
