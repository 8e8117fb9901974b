"""Batches for tests: contents of every kind, and batches that follow one another."""

from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.facts import Change
from rowcast.core.tables import Table
from rowcast.log.batch import Batch
from rowcast.log.batch_content import Content, Operation

DOG = Table("Dog", "Dog")
JSON = "application/json"
EVENTS = (
    Event("Dog/1", PUT, b'{"name":"Rex"}', JSON, 1, True, DOG, "ann", seq=7, version=1 << 50),
    Event("Dog/1", PATCH, b"{}", JSON, 2, True, DOG, "", {"trace": "x"}, seq=8, version=2),
    Event("Dog/1", DELETE, b"", None, 0, True, DOG, expires_at=1.5, seq=9, version=3),
    Event("häuser/\u20ac", MESSAGE, bytes(range(256)), None, 0, seq=11, version=4),
    Event(
        "a",
        MESSAGE,
        b"",
        "text/plain",
        1,
        properties={"user_property": [["k", "v"]], "message_expiry_interval": 60},
        seq=12,
    ),
)
"""One event for each field that can differ; number 10 was refused."""
CHANGES = (Change("session/a", "position", b"\x00\x01"), Change("session/b", "", None))
OPERATIONS = (
    Operation("define", ("mqtt_a", "a")),
    Operation("define", ("mqtt_messages", None)),
    Operation("trim", ("Dog", 5)),
)
FULL = Content(EVENTS, CHANGES, OPERATIONS)


def table_of(name):
    """Find a table by its name."""
    return {"Dog": DOG}.get(name)


def batch_after(log, payload=b"x", count=1):
    """Return the next batch of a log, with messages at one topic."""
    head = log.head
    events = [
        Event("t", MESSAGE, payload, seq=head.last + 1 + index, version=1) for index in range(count)
    ]
    return Batch.make(head.number + 1, log.term, head.last, Content(events), 1_700_000_000_000_000)


def fields(content):
    """Return what makes two contents equal."""
    return (
        [event.fields for event in content.events],
        list(content.changes),
        list(content.operations),
        list(content.origins),
    )
