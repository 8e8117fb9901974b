"""A custom stream: connect to /Example by WebSocket or Server-Sent Events."""

from rowcast import Resource, every


class Example(Resource):
    """Greets once a second, echoes messages, and streams the events at its path."""

    def connect(self, incoming=None):
        """Return the default stream of the path, with further events."""
        outgoing = super().connect(incoming)
        timer = every(1.0, lambda: outgoing.send({"greeting": "hi again!"}))
        if incoming is not None:
            incoming.on("data", outgoing.send)
        outgoing.on("close", timer.cancel)
        return outgoing
