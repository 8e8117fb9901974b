"""A stream of one's own making: connect to /Example by WebSocket or by Server-Sent Events."""

from rowcast import Resource, every


class Example(Resource):
    """Greets once a second, sends back what it hears, and streams the events at its path."""

    def connect(self, incoming=None):
        """Return the path's own stream, with more sent into it."""
        outgoing = super().connect(incoming)
        timer = every(1.0, lambda: outgoing.send({"greeting": "hi again!"}))
        if incoming is not None:
            incoming.on("data", outgoing.send)
        outgoing.on("close", timer.cancel)
        return outgoing
