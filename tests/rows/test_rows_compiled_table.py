"""A table as the kernel works with it (A3, A5, A6, A15)."""

from datetime import UTC, datetime

import pytest

from build import COUNTER, DOG, KEY, NOTE, NOW, code_of
from rowcast.codecs import CBOR, JSON, RAW, decode, encode
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, MESSAGE, MISSING, PATCH, PUT, Event
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast.rows.compiled_table import CompiledTable, give_value

SECRET = Table(
    "Secret",
    "Secret",
    (KEY, Attribute("shown", Type.DATE), Attribute("pin", Type.INT, hidden=True)),
)


def put(topic, payload, content_type=None, kind=PUT):
    return Event(topic, kind, payload, content_type)


def admitted(table, event):
    CompiledTable(table).admit(event)
    return event


# -- admission -------------------------------------------------------------------------------------


def test_a_value_gets_its_key_from_the_topic():
    """A3: the address wins over the body."""
    event = admitted(DOG, put("Dog/1", b'{"name":"Rex","id":"2"}'))
    assert (b'{"id":"1","name":"Rex"}', JSON) == (event.payload, event.content_type)
    assert {"id": "1", "name": "Rex"} == event.decoded


def test_what_needs_no_change_keeps_its_bytes():
    payload = b'{ "id": "1" }'
    assert payload == admitted(DOG, put("Dog/1", payload)).payload


def test_a_changed_value_stays_in_its_media_type():
    event = admitted(DOG, put("Dog/1", encode({"name": "Rex"}, CBOR), CBOR))
    assert {"id": "1", "name": "Rex"} == decode(event.payload, CBOR)


def test_a_value_that_is_known_is_not_decoded():
    """Of a batch whose rows were values before they were payloads."""
    event, value = put("Dog/1", b"no JSON", JSON), {"id": "1", "name": "Rex"}
    give_value(event, value)
    assert admitted(DOG, event).decoded is value
    assert event.encodings is None


def test_a_payload_that_a_hook_has_replaced_is_decoded():
    event = put("Dog/1", b'{"name":"Rex"}', JSON)
    give_value(event, {"name": "Rex"})
    event.payload = b'{"name":"Max"}'
    assert {"id": "1", "name": "Max"} == admitted(DOG, event).decoded


def test_a_value_that_is_known_is_checked():
    event = put("Dog/1", b"", JSON)
    give_value(event, {"name": 5})
    assert code_of(lambda: admitted(DOG, event)) is Code.UNPROCESSABLE


def test_an_integer_key_is_an_integer():
    event = admitted(COUNTER, put("Counter/7", b'{"id":"7"}'))
    assert {"id": 7} == event.decoded


@pytest.mark.parametrize(
    ("topic", "expected"), [("7", None), ("-7", None), ("seven", Code.INVALID), ("", None)]
)
def test_ids_that_no_record_can_have(topic, expected):
    assert expected == code_of(CompiledTable(COUNTER).check_id, topic)
    assert None is code_of(CompiledTable(DOG).check_id, topic)


@pytest.mark.parametrize(
    ("payload", "content_type", "expected"),
    [
        (b"{", None, Code.INVALID),
        (b"{", JSON, Code.INVALID),
        (b"x", RAW, Code.UNSUPPORTED),
        (b"x", "image/png", Code.UNSUPPORTED),
        (b'{"age":"old"}', None, Code.UNPROCESSABLE),
        (b"5", None, Code.UNPROCESSABLE),
    ],
)
def test_a15_what_a_declared_table_refuses(payload, content_type, expected):
    assert expected == code_of(CompiledTable(DOG).admit, put("Dog/1", payload, content_type))


@pytest.mark.parametrize(
    ("payload", "said", "kept_as"),
    [(b"x", RAW, RAW), (b"x", "image/png", "image/png"), (b"\xff", None, RAW), (b"{", None, RAW)],
)
def test_an_open_table_takes_any_bytes(payload, said, kept_as):
    event = admitted(NOTE, put("Note/1", payload, said))
    assert (payload, kept_as, MISSING) == (event.payload, event.content_type, event.decoded)


def test_an_open_table_refuses_what_claims_to_be_a_value_and_is_none():
    assert Code.INVALID == code_of(CompiledTable(NOTE).admit, put("Note/1", b"{", JSON))


def test_a_message_may_be_a_part_and_gets_no_key():
    event = admitted(DOG, put("Dog", b'{"age":3}', kind=MESSAGE))
    assert (b'{"age":3}', {"age": 3}) == (event.payload, event.decoded)


def test_a_delete_has_nothing_to_check():
    assert MISSING is admitted(DOG, put("Dog/1", b"", kind=DELETE)).decoded


def test_what_is_no_object_gets_no_key():
    assert [1] == CompiledTable(NOTE).with_id([1], "Note/1")
    keyless = CompiledTable(Table("Bag", "Bag", sealed=True))
    assert {"a": 1} == keyless.with_id({"a": 1}, "Bag/1")


def test_a_table_at_the_root_has_whole_topics_as_ids():
    root = CompiledTable(Table("Root", "", (KEY, Attribute("n", Type.INT))))
    assert {"id": "a/b"} == root.with_id({}, "a/b")


# -- what readers see ------------------------------------------------------------------------------


def test_restored_values_have_their_types_and_are_not_refused():
    shape = CompiledTable(SECRET)
    value = shape.restore({"shown": "2030-01-31T12:00:00Z", "more": 1})
    assert {"shown": datetime(2030, 1, 31, 12, tzinfo=UTC), "more": 1} == value


def test_typed_values_are_plain_text_in_json_only():
    shape, moment = CompiledTable(SECRET), datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert isinstance(shape.spell({"shown": moment}, JSON)["shown"], str)
    assert moment == shape.spell({"shown": moment}, CBOR)["shown"]
    assert 5 == CompiledTable(COUNTER).spell(5, JSON)


def test_hidden_attributes_are_left_out():
    assert {"id": "1"} == CompiledTable(SECRET).visible({"id": "1", "pin": 1234})
    assert {"id": "1"} == CompiledTable(DOG).visible({"id": "1"})


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (Type.DATE, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (Type.STRING, "2023-11-14T22:13:20.000Z"),
        (Type.LONG, 1_700_000_000_000),
        (Type.FLOAT, 1_700_000_000_000),
    ],
)
def test_a5_a_time_in_the_type_of_its_attribute(type_, expected):
    assert expected == CompiledTable.time_value(Attribute("at", type_), NOW)


def ending(type_, seconds=0):
    ends = Attribute("ends", type_, role=Role.EXPIRES_AT)
    return CompiledTable(Table("Token", "Token", (KEY, ends), expiration_seconds=seconds))


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [
        (ending(Type.DATE), datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 60.0),
        (ending(Type.LONG), 60_000, 60.0),
        (ending(Type.STRING), "1970-01-01T00:01:00Z", 60.0),
        (ending(Type.STRING), "1970-01-01T00:01:00", 60.0),
        (ending(Type.LONG), None, 0.0),
        (ending(Type.LONG, 30), None, NOW + 30),
        (ending(Type.LONG, 30), 60_000, 60.0),
    ],
)
def test_a5_a6_when_a_record_ends(shape, value, expected):
    event = Event("Token/1", PATCH, b"", decoded={"ends": value} if value else {})
    assert expected == shape.expiry(event, NOW)
    assert shape.ends


def test_a_value_that_is_no_object_ends_as_its_table_says():
    assert NOW + 30 == ending(Type.LONG, 30).expiry(Event("Token/1", PUT, b"", decoded=5), NOW)


def test_a_time_that_is_none_is_refused():
    event = Event("Token/1", PUT, b"", decoded={"ends": "tomorrow"})
    assert Code.UNPROCESSABLE == code_of(ending(Type.STRING).expiry, event, NOW)
    assert not CompiledTable(DOG).ends
