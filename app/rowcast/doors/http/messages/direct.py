"""A whole answer with one call, where the server underneath can take it.

ASGI gives an answer in two messages, and each costs a coroutine, a look at every header and a
system call: for a record in memory that is more than all the rest. Uvicorn's ``send`` is a method
of an object that has the transport, so a prepared answer is written there, and the object is left
as its own ``send`` would leave it. With anything in between, or otherwise than expected, it is
plain ASGI.
"""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from rowcast.doors.http.messages.asgi import HeaderList, Message, Receive, Send


class Outlet:
    """A ``send`` that knows whether anything was sent."""

    __slots__ = ("send", "started")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        self.started = True
        await self.send(message)


def has_arrived(receive: Receive) -> bool:
    """Tell whether the whole body is known to be there, so that ``receive`` does not wait."""
    cycle = getattr(receive, "__self__", None)
    return type(cycle) is RequestResponseCycle and not cycle.more_body


def whole_answer(status: int, headers: HeaderList, body: bytes = b"") -> bytes:
    """Return an answer as it goes over the wire; the headers must be ours, not a client's words."""
    lines = [name + b": " + value + b"\r\n" for name, value in headers]
    return b"".join((STATUS_LINE[status], *lines, b"\r\n", body))


def write_whole(send: Send, answer: bytes) -> bool:
    """Write a whole answer if that is possible at once; return whether it was."""
    outlet = send if isinstance(send, Outlet) else None
    cycle = getattr(outlet.send if outlet is not None else send, "__self__", None)
    if (
        type(cycle) is not RequestResponseCycle
        or cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or cycle.default_headers
        or cycle.access_log
        or cycle.waiting_for_100_continue
    ):
        return False
    if outlet is not None:
        outlet.started = True
    cycle.response_started = True
    cycle.transport.write(answer)
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True
