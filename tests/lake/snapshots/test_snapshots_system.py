"""What the server keeps for itself, exported too (S16)."""

import math
from datetime import UTC, datetime

import pytest

from exported import Exported
from rowcast.codecs import CBOR, JSON, encode
from rowcast.features.bridges.dead_letters import DeadLetter, letter_of
from rowcast.features.bridges.outbox import Item
from rowcast.store.store import Change


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path)
    yield made
    made.close()


def test_topics_that_nobody_declared(world):
    """S16: retained messages by topic, and what was said there, also before its table was made."""
    from rowcast.core.events import MESSAGE
    from rowcast.core.topic_tables import TopicRoot, TopicTable

    world.put(None, "home/old", payload=b"1", kind=MESSAGE)
    world.put(None, "homeless/x", payload=b"2", kind=MESSAGE)
    world.store.define(TopicTable("mqtt_home", TopicRoot("home")))
    world.put(None, "home/new", payload=b"\xff", content_type="a/b", expires_at=1.5)
    world.export()
    said = world.rows("mqtt_home")
    assert [(row["topic"], row["payload"], row["_seq"]) for row in said] == [
        ("home/old", b"1", 1),
        ("home/new", b"\xff", 3),
    ]
    assert list(said[0]) == [
        "id", "topic", "payload", "qos", "retain", "timestamp", "client_id", "_seq",
        "_content_type", "payload_text", "_ts", "_op", "_origin", "_client",
    ]  # fmt: skip
    (kept,) = world.rows("_retained")
    assert (kept["topic"], kept["payload"], kept["_content_type"]) == ("home/new", b"\xff", "a/b")
    assert kept["expires"] == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)


def test_sessions_are_rows(world):
    """S16: whose, where in the log, which filters; a damaged one is left out."""
    about = {"created": 5.0, "expiry": 60, "expires": math.inf, "user": "ann", "will": 0}
    world.store.commit(
        [],
        [
            Change("session/c1", "session", encode(about, CBOR)),
            Change("session/c1", "place", encode([7, [1, 2, 3, 0]], CBOR)),
            Change("session/c1", "filter/home/#", encode({}, CBOR)),
            Change("session/c1", "share/g/home/+", encode({}, CBOR)),
            Change("session/c1", "out/12", b"\xa0"),
            Change("session/c2", "session", b"\xff"),
            Change("will/c1", "1", encode({"payload": "s3cret"}, CBOR)),
        ],
    )
    world.export()
    assert world.rows("_sys_sessions") == [
        {
            "client_id": "c1", "user": "ann", "created": datetime(1970, 1, 1, 0, 0, 5, 0, UTC),
            "expires": None, "expiry_seconds": 60, "position": 7, "subscriptions": ["home/#"],
            "shared": ["g/home/+"], "in_flight_out": 1, "in_flight_in": 0,
        }
    ]  # fmt: skip


def test_bridges_and_what_they_gave_up(world):
    """S16: the outbox of each, and the dead letters; never a bridge's settings."""
    place = {"upto": 9, "open": [[8, "a/b", 2, "timeout", True]], "floor": 0, "holes": []}
    world.store.commit(
        [],
        [
            Change("gateway/east", "place", encode(place, CBOR)),
            Change("gateway/east", "settings", encode({"password": "s3cret"}, CBOR)),
        ],
    )
    event = world.event(None, "a/b", payload=b"hello")
    (letter,) = letter_of(DeadLetter("east", 5_000, 7), Item(3, "x/b", event, 4, "refused"), event)
    world.put(None, letter.topic, payload=letter.payload, content_type=JSON)
    world.put(None, f"{letter.topic}/payload", payload=b"large")
    made = world.export()
    assert world.rows("_sys_bridges") == [
        {
            "bridge": "east",
            "position": 9,
            "outbox": [{"seq": 8, "topic": "a/b", "attempts": 2, "error": "timeout"}],
        }
    ]
    (row,) = world.rows("_sys_dead_letters")
    assert (row["bridge"], row["seq"], row["payload"], row["attempts"]) == ("east", 3, "hello", 4)
    assert (row["sent_to"], row["last_error"]) == ("x/b", "refused")
    assert row["dead_lettered"] == datetime(1970, 1, 1, 0, 0, 5, 0, UTC)
    assert not any(b"s3cret" in path.read_bytes() for path in made.place.rglob("*.parquet"))
