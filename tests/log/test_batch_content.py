"""What the encoder of the log takes, its decoder reads; all else is refused before it is there."""

from contextlib import closing
from datetime import UTC, datetime

import msgpack
import pytest

from build import ANN, Server
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.core.facts import Change
from rowcast.log.batch_content import Content, Operation, Origin, decode_content, encode_content
from rowcast.store.sqlite import SqlStore
from rowcast.writes.write import Receipt, Write

TODAY = datetime(2026, 1, 2, tzinfo=UTC)

WRONG = {
    "topic": [None, b"a", 1],
    "payload": ["text", None, 1],
    "content_type": [b"a", 1],
    "qos": [3, -1, True, 1.0],
    "client": [None, b"a", 1],
    "properties": [
        [],
        {1: "a"},
        {"a": {1: "b"}},
        {"a": [{2: "b"}]},
        {"a": [[({None: 1},)]]},
        {"a": {"b": TODAY}},
        {"a": TODAY},
    ],
    "expires_at": ["soon", None, True],
}

RIGHT = {
    "payload": [b"x", b""],
    "content_type": ["text/plain", None],
    "qos": [0, 1, 2],
    "properties": [
        {},
        {"message_expiry_interval": 7, "user_property": (("a", "b"), ("a", "c"))},
        {"a": {"b": [1, 2.5, None, True, b"x", {"c": ()}]}},
    ],
    "expires_at": [1.5, 7],
}


def encoded(**facts):
    event = Event("a", PUT, b"x", seq=5, version=9)
    for name, value in facts.items():
        setattr(event, name, value)
    return encode_content(Content([event]), 5)


@pytest.mark.interpreted  # a compiled event takes no value of another type, or makes it its own
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_an_event_that_could_not_be_read_again_is_not_encoded(name, value):
    with pytest.raises((Error, TypeError)) as refused:
        encoded(**{name: value})
    if isinstance(refused.value, Error):
        assert Code.INVALID == refused.value.code
        assert f"its {name} is " in refused.value.message


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values]
)
def test_what_is_encoded_is_read_again(name, value):
    (event,) = decode_content(encoded(**{name: value}), 5, {}.get).events
    found = getattr(event, name)
    assert _listed(value) == found


def _listed(value):
    """Return what MessagePack makes of tuples."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("change", [("a", "b", "text"), ("a", 1, b"x"), (None, "b", None)])
def test_a_fact_that_could_not_be_read_again_is_not_encoded(change):
    with pytest.raises(Error) as refused:
        encode_content(Content(changes=[Change("a", "b", b"x"), Change(*change)]), 1)
    assert Code.INVALID == refused.value.code


async def test_one_wrong_event_among_others_is_refused_alone(tmp_path):
    """Its source is new, and asks nobody: the tables can follow the log all the same."""
    room, outcomes = Server(store=SqlStore(tmp_path / "rowcast.db")), []
    with closing(room.store):
        events = [Event(f"u/{at}", PUT, b"1", None, 1, True) for at in range(3)]
        events[1].properties = {"a": TODAY}
        room.committer.submit([Write(event, ANN, outcomes.append) for event in events])
        await room.committer.settle()
        assert [Receipt, Error, Receipt] == [type(outcome) for outcome in outcomes]
        assert "its properties is " in outcomes[1].message
        topics = [event.topic for event in room.store.read(0, 9)]
    assert ["u/0", "u/2"] == topics


def test_the_library_that_encodes_writes_the_bytes_of_the_one_that_decodes():
    events = [
        Event(f"t/{at}", PUT, b"x" * at, None, qos, True, client="é", version=2**62, seq=5 + at)
        for at, qos in zip((0, 31, 32, 255, 256, 70_000), (0, 1, 2, 0, 1, 2), strict=True)
    ]
    for event, properties in zip(events, RIGHT["properties"], strict=False):
        event.properties = properties
    content = Content(
        events,
        [Change("owner", "name", b"value"), Change("owner", "", None)],
        [Operation("define", ("a", 1, 2.5, b"x", None))],
        [Origin("node", 1, 2, 3, b"\0\1")],
    )
    for some in (content, content._replace(origins=()), Content()):
        encoded = encode_content(some, 5)
        assert msgpack.packb(msgpack.unpackb(encoded, strict_map_key=True)) == encoded
