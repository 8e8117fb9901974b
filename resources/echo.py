"""A WebSocket that echoes every message: connect to /Echo."""

from rowcast import Resource


class Echo(Resource):
    """Sends every message back to the client it came from."""

    silent = "connect to /Echo by WebSocket, which answers what you send"

    async def connect(self, incoming=None):
        """Yield each message as it arrives."""
        if incoming is None:  # Server-Sent Events: the client sends nothing
            return
        async for message in incoming:
            yield message
