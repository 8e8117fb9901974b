"""What an event says, in the form a reader wants."""

import pytest

from build import DOG, KEY, NOTE, code_of
from rowcast.codecs import CBOR, JSON, RAW, decode, encode
from rowcast.core.clauses import Clause
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, MISSING, PUT, Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import PLAIN, TEXT, Transcoder, structured_type

SECRET = Table(
    "Secret", "Secret", (KEY, Attribute("at", Type.DATE), Attribute("pin", Type.INT, hidden=True))
)
CONTENTS = Transcoder({table.name: CompiledTable(table) for table in (DOG, NOTE, SECRET)})
AT = "2030-01-31T12:00:00Z"


def event(payload, content_type=None, table=None, decoded=MISSING):
    return Event("x/1", PUT, payload, content_type, table=table, decoded=decoded)


@pytest.mark.parametrize(
    ("payload", "content_type", "expected"),
    [
        (b'{"a":1}', None, True),
        (b'{"a":1}', JSON, True),
        (encode([1], CBOR), CBOR, True),
        (b"hello", None, False),
        (b"hello", JSON, False),
        (b"5", RAW, False),
        (b"5", "image/png", False),
    ],
)
def test_what_counts_as_a_value(payload, content_type, expected):
    item = event(payload, content_type)
    assert [expected, expected] == [CONTENTS.structured(item), CONTENTS.structured(item)]


def test_it_is_decoded_once():
    item = event(b'{"a":1}')
    assert CONTENTS.value(item) is CONTENTS.value(item)


@pytest.mark.parametrize(
    ("payload", "content_type", "expected"),
    [
        (b"hello", None, "hello"),
        (b"hello", "text/plain", "hello"),
        (b"\xff", None, b"\xff"),
        (b"hello", RAW, b"hello"),
        (b'"text"', None, "text"),
    ],
)
def test_plain_bytes_are_text_where_they_can_be(payload, content_type, expected):
    assert expected == CONTENTS.value(event(payload, content_type))


def test_a_deletion_has_no_value_and_no_payload():
    gone = Event("x/1", DELETE, b"")
    assert (None, b"") == (CONTENTS.value(gone), CONTENTS.payload(gone, JSON))


def test_hidden_attributes_never_leave():
    item = event(b'{"id":"1","pin":1234}', JSON, SECRET)
    assert {"id": "1"} == CONTENTS.value(item)
    assert b'{"id":"1"}' == CONTENTS.payload(item, JSON)
    assert b'{"id":"1"}' == CONTENTS.payload(item, None)
    assert {"id": "1"} == decode(CONTENTS.payload(item, CBOR), CBOR)


def test_values_of_the_log_are_of_their_tables_types():
    item = event(b'{"at":"%s"}' % AT.encode(), JSON, SECRET)
    assert 2030 == CONTENTS.value(item)["at"].year
    assert isinstance(CONTENTS.spelled(item, JSON)["at"], str)


def test_an_event_from_before_a_schema_change_is_told_as_it_was():
    item = event(b'{"age":"old"}', JSON, DOG)
    assert {"age": "old"} == CONTENTS.value(item)
    assert b'{"age":"old"}' == CONTENTS.payload(item, JSON)
    odd = event(b'{"at":"some day","pin":1}', JSON, SECRET)
    assert b'{"at":"some day"}' == CONTENTS.payload(odd, JSON)


def test_values_without_a_table_are_spelled_as_they_are():
    assert {"a": 1} == CONTENTS.spelled(event(b'{"a":1}'), JSON)
    assert "hello" == CONTENTS.spelled(event(b"hello", "text/plain", NOTE), JSON)


@pytest.mark.parametrize(
    ("payload", "said", "expected"),
    [(b"5", CBOR, CBOR), (b"5", None, JSON), (b"hello", None, TEXT), (b"\xff", None, RAW)],
)
def test_what_a_payload_is_that_comes_as_it_is(payload, said, expected):
    assert expected == CONTENTS.media_type(event(payload, said))


@pytest.mark.parametrize("wanted", [None, JSON])
def test_what_is_wanted_as_it_came_keeps_its_bytes(wanted):
    payload = b'{ "a": 1 }'
    item = event(payload, JSON)
    assert payload is CONTENTS.payload(item, wanted)
    assert None is item.encodings


def test_another_media_type_is_made_once_for_all_readers():
    item = event(b'{"a":1}', JSON)
    assert {"a": 1} == decode(CONTENTS.payload(item, CBOR), CBOR)
    assert CONTENTS.payload(item, CBOR) is CONTENTS.payload(item, CBOR)


def test_plain_bytes_have_no_other_form():
    assert Code.NOT_ACCEPTABLE == code_of(CONTENTS.payload, event(b"\xff", RAW), JSON)
    assert Code.NOT_ACCEPTABLE == code_of(CONTENTS.payload, event(b"\xff"), JSON)


def test_plain_is_not_a_value():
    item = event(b"\xff", RAW)
    CONTENTS.structured(item)
    assert PLAIN is item.decoded


@pytest.mark.parametrize(
    ("said", "expected"),
    [(None, JSON), (RAW, JSON), ("image/png", JSON), (CBOR, CBOR), ("application/x+cbor", CBOR)],
)
def test_the_structured_type_to_write_in(said, expected):
    assert expected == structured_type(said)


@pytest.mark.parametrize("said", [JSON, CBOR])
def test_a_damaged_event_of_a_table_that_hides_is_told_without_its_content(said, caplog):
    """P3: nobody can say what of its bytes is for whom; its topic is told in the log."""
    damaged = event(b'{"pin": 1234', said, SECRET)
    assert (None, b"null") == (CONTENTS.value(damaged), CONTENTS.payload(damaged, None))
    assert b"null" == CONTENTS.payload(event(b'{"pin": 1234', said, SECRET), JSON)
    assert ("x/1 is damaged" in caplog.text, "1234" in caplog.text) == (True, False)


def test_a_damaged_event_of_a_table_with_rights_is_told_without_its_content():
    """Where whoever may see all of it is asked for, its bytes are nobody's."""
    guarded = Table("Guarded", "Guarded", (KEY,), auth=(Clause(roles=frozenset({"vet"})),))
    transcoder = Transcoder({"Guarded": CompiledTable(guarded)})
    assert transcoder.value(event(b'{"pin": 1234', JSON, guarded)) is None


def test_a_deletion_of_such_a_table_is_not_damaged(caplog):
    """It has no bytes; a live query on related records that reads the log looks at it, too."""
    deletion = Event("x/1", DELETE, b"", table=SECRET)
    assert not CONTENTS.structured(deletion)
    assert (b"", None, PLAIN) == (deletion.payload, deletion.content_type, deletion.decoded)
    assert "damaged" not in caplog.text


def test_bytes_of_a_table_that_shows_all_stay_what_they_are():
    assert b"hello" == CONTENTS.value(event(b"hello", JSON, NOTE))
