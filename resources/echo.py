"""A WebSocket that says again what it hears: connect to /Echo."""

from rowcast import Resource


class Echo(Resource):
    """Sends every message back to the client it came from."""

    async def connect(self, incoming=None):
        """Yield what comes in, as it comes in."""
        if incoming is None:  # Server-Sent Events: nobody speaks
            return
        async for message in incoming:
            yield message
