"""What an event looks like on its way to another broker, and back (H1, H33-H36, H41)."""

import pytest

from rowcast.codecs import JSON
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.bridges.messages import Sender, event_of, message_of
from rowcast.features.bridges.plan import Route
from rowcast.rows.transcoder import Transcoder

EPOCH = "0badcafe"


def sent(event, **facts):
    facts = {"again": False, "waited": False} | facts
    return message_of(event, Transcoder({}), Sender(EPOCH, "b", 5), 100.0, **facts)


def marks(message):
    return dict(message.properties["user_property"])


def heard(payload=b"x", retain=0, **properties):
    """Return what becomes of a message, whose properties are as gmqtt gives them."""
    given = {"retain": retain, "dup": 0} | {name: [value] for name, value in properties.items()}
    pairs = given.get("user_property")
    if pairs:
        given["user_property"] = list(pairs[0])
    return event_of("a/b", payload, 1, given, "$gateway/b", EPOCH)


@pytest.mark.parametrize(("kind", "retain"), [(PUT, True), (DELETE, True), (MESSAGE, False)])
def test_what_makes_a_record_is_retained(kind, retain):
    """H1."""
    event = Event("a/b", kind, b"" if kind == DELETE else b"x", JSON, seq=7, version=9)
    assert (retain, event.payload) == (sent(event).retain, sent(event).payload)


def test_marks_tell_which_one_it_is():
    """H41, H36, H34."""
    event = Event("a/b", MESSAGE, b"x", seq=7, version=9_000_000)
    known = {"rowcast-id": f"{EPOCH}:7", "rowcast-version": "9000000", "rowcast-origin": EPOCH,
             "rowcast-path": EPOCH, "rowcast-producer": f"{EPOCH}/b:1:7",
             "rowcast-low": "5"}  # fmt: skip
    assert known == marks(sent(event))
    late = {"rowcast-again": "1", "rowcast-historical": "9000000"}
    assert known | late == marks(sent(event, again=True, waited=True))


def test_properties_go_with_it():
    event = Event("a/b", MESSAGE, b"x", "text/plain", seq=7, expires_at=130.4)
    event.properties = {"response_topic": "r", "correlation_data": b"c",
                        "user_property": [["mine", "1"], ["rowcast-id", "forged"]]}  # fmt: skip
    message = sent(event)
    assert ("text/plain", "r", b"c", 30) == (
        message.properties["content_type"],
        message.properties["response_topic"],
        message.properties["correlation_data"],
        message.properties["message_expiry_interval"],
    )
    assert ("1", f"{EPOCH}:7") == (marks(message)["mine"], marks(message)["rowcast-id"])


def test_what_expires_later_than_mqtt_can_say_is_sent():
    """MQTT 5, 3.3.2.3.3: such as a record whose @expiresAt is in the year 9999."""
    message = sent(Event("a/b", PUT, b"x", "text/plain", seq=7, expires_at=253_402_214_400.0))
    assert 2**32 - 1 == message.properties["message_expiry_interval"]


def test_what_is_over_is_not_sent():
    assert sent(Event("a/b", MESSAGE, b"x", seq=7, expires_at=99.0)) is None


@pytest.mark.parametrize(
    ("payload", "retain", "kind"), [(b"x", 1, PUT), (b"", 1, DELETE), (b"x", 0, MESSAGE)]
)
def test_a_message_from_there_is_an_event(payload, retain, kind):
    """H33."""
    event = heard(payload, retain, content_type="text/plain", message_expiry_interval=5)
    assert (kind, "text/plain", bool(retain)) == (event.kind, event.content_type, event.retain)
    path = {"user_property": [["rowcast-path", EPOCH]]}
    assert ({"message_expiry_interval": 5} | path, "$gateway/b") == (event.properties, event.client)


def test_what_was_here_before_is_nothing_new():
    """H34: a circle of any length ends where it began."""
    assert heard(user_property=[("rowcast-path", f"11111111,{EPOCH},22222222")]) is None
    event = heard(user_property=[("rowcast-path", "11111111"), ("mine", "1")])
    said = event.properties["user_property"]
    assert [["mine", "1"], ["rowcast-path", f"11111111,{EPOCH}"]] == said


def test_a_position_says_which_log_a_message_comes_from():
    """H34: a Rowcast server gives it to its subscribers, and this may be one at both ends."""
    assert heard(user_property=[("seq", f"{EPOCH}:17")]) is None
    event = heard(user_property=[("seq", "11111111:17"), ("seq", "17")])
    assert [["seq", "17"], ["rowcast-path", f"11111111,{EPOCH}"]] == (
        event.properties["user_property"]
    )


def test_a_stamp_from_there_is_kept():
    """H36, E26: a value that waited does not win over a newer one."""
    event = heard(user_property=[("rowcast-version", "17"), ("rowcast-origin", "11111111")])
    assert (17, "11111111") == (event.version, event.properties["origin"])
    with pytest.raises(Error) as refused:
        heard(user_property=[("rowcast-version", "soon")])
    assert Code.INVALID is refused.value.code


@pytest.mark.parametrize(
    ("strip", "prefix", "topic", "there"),
    [
        ("", "", "a/b", "a/b"),
        ("", "site/", "a/b", "site/a/b"),
        ("a/", "", "a/b", "b"),
        ("a/", "x/", "a/b", "x/b"),
        ("c/", "", "a/b", "a/b"),
    ],
)
def test_topics_are_mapped(strip, prefix, topic, there):
    """H35."""
    assert there == Route(TopicFilter("#"), prefix, strip).topic(topic)
