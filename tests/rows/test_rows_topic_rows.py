"""Rows: what an event looks like in its topic's table (F1, F3)."""

from datetime import UTC, datetime

import pytest

from rowcast.codecs import CBOR, JSON, decode, encode
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, SNAPSHOT, Event
from rowcast.core.limits import VALUE_DEPTH_MAX
from rowcast.core.query_text import parse_query
from rowcast.core.topic_tables import METRICS, TopicRoot, TopicTable, message_id
from rowcast.core.topics import TopicFilter
from rowcast.rows.row_ranges import (
    Range,
    direction_of,
    place_of,
    range_of,
    token_of,
    topic_of,
)
from rowcast.rows.topic_rows import (
    LogView,
    MetricsView,
    Row,
    RowFilter,
    row_again,
    row_of,
)
from rowcast.rows.transcoder import Transcoder
from rowcast.subscriptions.backfill import snapshot_of

VERSION = 1_700_000_000_123_456
HOME = LogView(TopicTable("mqtt_home", TopicRoot("home")))
SINGLE = LogView(TopicTable("mqtt_messages", TopicRoot(None)))
METRIC = MetricsView()
ID = message_id(VERSION, 7)


def event(topic="home/temperature", payload=b'{"temp":22.5}', kind=MESSAGE, **facts):
    """Return a logged event of an undeclared topic."""
    return Event(topic, kind, payload, **({"seq": 7, "version": VERSION, "client": "c"} | facts))


def test_a_row_has_the_seven_columns():
    """F3, F20: of one message, exactly."""
    row = row_of(HOME, event(qos=1))
    assert row.topic == f"mqtt_home/{ID}"
    assert row.kind == PUT
    assert row.decoded == {
        "id": ID,
        "topic": "home/temperature",
        "payload": {"temp": 22.5},
        "qos": 1,
        "retain": False,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
        "client_id": "c",
    }
    assert [item.name for item in row.table.attributes] == list(row.decoded)


@pytest.mark.parametrize(
    ("payload", "content_type", "shown"),
    [
        (b'{"temp":22.5}', None, {"temp": 22.5}),
        (b"22.5", None, 22.5),
        (b"on", None, "on"),
        (b"", None, ""),
        (b"22.5", "text/plain", "22.5"),
        (b"\xff\x00", None, b"\xff\x00"),
        (b"\xff\x00", "image/png", b"\xff\x00"),
        (encode({"b": b"\0"}, CBOR), CBOR, {"b": b"\0"}),
    ],
)
def test_a_payload_is_its_value_text_or_bytes(payload, content_type, shown):
    """F3: and every format gives it back."""
    row = row_of(HOME, event(payload=payload, content_type=content_type))
    assert row.decoded["payload"] == shown
    transcoder = Transcoder({})
    for media_type in (JSON, CBOR):
        assert decode(transcoder.payload(row, media_type), media_type)["payload"] == shown


def test_the_end_of_a_retained_value_is_a_row_too():
    """F3: nothing that was said is left out."""
    row = row_of(HOME, event(payload=b"", kind=DELETE, retain=True))
    assert (row.kind, row.decoded["payload"], row.decoded["retain"]) == (PUT, None, True)


def test_what_is_too_deep_for_a_row_is_told_as_text():
    """F3: a payload at the depth limit makes no row that nobody can read."""
    deep = b"[" * VALUE_DEPTH_MAX + b"]" * VALUE_DEPTH_MAX
    row = row_of(HOME, event(payload=deep))
    assert row.decoded["payload"] == deep.decode()
    assert decode(row.payload, JSON)["payload"] == deep.decode()


def test_a_row_is_made_once_for_all_readers():
    """D64: what is encoded for one reader serves the others."""
    one = event()
    assert row_of(HOME, one) is row_of(HOME, one)
    assert row_of(HOME, one, leads=True) is not row_of(HOME, one)


def test_a_copy_of_a_row_is_still_about_its_topic():
    """L12: a hook that changes a copy cannot lose what it is about."""
    row = row_of(HOME, event())
    for copy in (row.changed(qos=0), snapshot_of(row)):
        assert isinstance(copy, Row)
        assert copy.about == "home/temperature"
    assert snapshot_of(row).kind == SNAPSHOT


@pytest.mark.parametrize("content_type", [None, "text/plain"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [(b"23", 23), (b"0.25", 0.25), (b"123 seconds", "123 seconds"), (b"", "")],
)
def test_a_metric_is_a_number_where_it_is_written_as_one(text, shown, content_type):
    """F1: {id = topic, topic, value, timestamp}."""
    record = event("$SYS/broker/uptime", text, PUT, content_type=content_type)
    row = row_of(METRIC, record)
    assert row.topic == f"{METRICS}/$SYS/broker/uptime"
    assert row.decoded["value"] == shown
    assert type(row.decoded["value"]) is type(shown)
    assert list(row.decoded) == ["id", "topic", "value", "timestamp"]
    assert row.decoded["id"] == row.decoded["topic"] == "$SYS/broker/uptime"


@pytest.mark.parametrize(
    ("view", "text", "source"),
    [
        (HOME, "mqtt_home/#", "home/#"),
        (HOME, "mqtt_home/+", "home/#"),
        (HOME, f"mqtt_home/{ID}", "home/#"),
        (HOME, "mqtt_home/a/b", None),
        (SINGLE, "mqtt_messages/#", "+"),
        (METRIC, f"{METRICS}/#", "$SYS/#"),
        (METRIC, f"{METRICS}/+/broker/#", "$SYS/broker/#"),
        (METRIC, f"{METRICS}/$SYS/broker/uptime", "$SYS/broker/uptime"),
        (METRIC, f"{METRICS}/home/#", None),
    ],
)
def test_a_filter_of_rows_is_about_topics(view, text, source):
    """F3: what the bus is to offer for it."""
    found = RowFilter(view, TopicFilter(text)).source
    assert (found.text if found else None) == source


def test_a_filter_of_rows_selects_nothing_but_rows():
    """X1: not what the branch's filter matches besides."""
    rows = RowFilter(HOME, TopicFilter("mqtt_home/+"))
    assert rows.row(event()) is not None
    assert rows.row(event("home")) is None, "a topic of one level is of another table"
    assert rows.row(event(seq=0)) is None, "what is not logged is no row"
    assert rows.row(event(table=METRIC.table)) is None, "a declared table's event is its own"
    one = RowFilter(HOME, TopicFilter(f"mqtt_home/{ID}"))
    assert one.row(event()) is not None
    assert one.row(event(seq=8)) is None


def test_what_was_in_flight_is_the_same_row_again():
    """D27: a row that was sent before a kill is told by the topic under which it was sent."""
    one = event()
    assert row_again(one, "") is one
    assert row_again(one, "home/temperature") is one
    again = row_again(one, f"mqtt_home/{ID}")
    assert again.payload == row_of(HOME, event()).payload
    assert row_again(event(seq=8), f"mqtt_home/{ID}").topic == "home/temperature"


# -- ranges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Range()),
        (f"id=={ID}", Range(6, 7)),
        (f"id=in={ID},{message_id(VERSION, 9)}", Range(6, 9)),
        ("id==nonsense", Range(upto=0)),
        (f"id=gt={ID}", Range(start=VERSION // 1000 * 1000)),
        (f"id=lt={ID}", Range()),
        ("timestamp=ge=2023-11-14T22:13:20.123456Z", Range(start=VERSION)),
        ("timestamp=lt=2023-11-14T22:13:20Z", Range()),
        (f"topic==home/a&[id=={ID}]", Range(6, 7)),
        (f"[id=={ID}|topic==home/a]", Range()),
    ],
)
def test_conditions_narrow_what_is_read(text, wanted):
    """F3: an id or a time costs what it selects, not what the table holds."""
    assert range_of(parse_query(text, HOME.table).where) == wanted


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("topic==home/a", "home/a"),
        ("qos==1&[topic==home/a&retain==true]", "home/a"),
        ("[topic==home/a|topic==home/b]", None),
        ("topic=sw=home/a", None),
        ("topic==null", None),
        ("", None),
    ],
)
def test_one_topic_is_looked_for_by_itself(text, topic):
    assert topic_of(parse_query(text, HOME.table).where) == topic


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("", 1),
        ("sort(id)", 1),
        ("sort(-timestamp)", -1),
        ("sort(-id,topic)", -1),
        ("sort(topic)", 0),
        ("sort(-payload.temp)", 0),
    ],
)
def test_the_log_is_in_order_already(text, direction):
    assert direction_of(parse_query(text, HOME.table).sort) == direction


def test_a_page_token_is_of_one_order():
    token = token_of(-1, 7, 9)
    assert place_of(-1, token) == (7, 9)
    for direction, text in ((1, token), (-1, "x"), (1, "é"), (1, ""), (1, "Pg"), (1, "A" * 99)):
        with pytest.raises(Error) as refused:
            place_of(direction, text)
        assert refused.value.code is Code.INVALID
