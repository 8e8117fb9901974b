"""Ids over REST: the path is the topic, whatever is in it (A11)."""

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amounts import amount
from asgi import asgi
from rowcast.codecs import encode
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import TOPIC_LEVELS_MAX
from rowcast.writes.write import Condition


@pytest.fixture
async def rest():
    async with asgi() as opened:
        yield opened


IDS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0+#"), min_size=1)


@settings(
    max_examples=amount(long=150, short=37),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(IDS.filter(lambda text: not text.endswith("/") and text.count("/") < TOPIC_LEVELS_MAX - 3))
async def test_any_id_survives_the_path(rest, record_id):
    """A11: unicode, dots, spaces, slashes, percent signs; the topic is the same string."""
    await check_id(rest, record_id)


@pytest.mark.parametrize("record_id", ["a b", "ü/ö", "100%", "%2F", "a?b", ".json", "..", "a//b"])
async def test_ids_that_are_easily_lost(rest, record_id):
    """A11."""
    await check_id(rest, record_id)


async def check_id(rest, record_id):
    heard = rest.listen()
    heard.clear()
    for safe in ("/", ""):
        raw = b"/Dog/" + quote(record_id, safe=safe).encode()
        put = await rest.ask("PUT", "/Dog/x", b'{"name":"Rex"}', raw=raw)
        assert put.status in {201, 204}
        assert heard[-1].topic == f"Dog/{record_id}"
        if put.status == 201:
            got = await rest.ask("GET", "/Dog/x", raw=put.headers["location"].encode())
            assert got.value["id"] == record_id
        got = await rest.ask("GET", "/Dog/x", raw=raw)
        assert (got.status, got.value["id"]) == (200, record_id)
    made = await rest.ask("DELETE", "/Dog/x", raw=raw)
    assert made.status == 204


@pytest.mark.parametrize("record_id", ["x/", "a//", "/"])
async def test_an_id_that_ends_in_a_slash_is_refused_on_every_door(rest, record_id):
    """A11: its path is that of the records below it, so nobody could read it over REST."""
    words = "leave the slash at the end out"
    for kind in (PUT, PATCH):
        event = Event(f"Dog/{record_id}", kind, b'{"name":"Rex"}', None, 1, True)
        with pytest.raises(Error, match=words):
            await rest.kernel.write(event, Caller("ann", ALL, "mqtt"))
    row = {"id": record_id, "name": "Rex"}
    batch = await rest.put("/Dog/", encode([row], "application/json"))
    assert words in str(batch.value)
    made = await rest.post("/Dog/", encode(row, "application/json"))
    assert (made.status, words in made.value["detail"]) == (400, True)
    assert [] == (await rest.get("/Dog/")).value


async def test_what_an_earlier_version_took_can_be_deleted_and_messages_are_none(rest):
    ann = Caller("ann", ALL, "mqtt")
    with pytest.raises(Error, match="there is no record"):
        strict = Condition(exists=True, strict=True)
        await rest.kernel.write(Event("Dog/x/", DELETE, b"", None, 1, True), ann, strict)
    await rest.kernel.write(Event("Dog/x/", MESSAGE, b'{"name":"Rex"}', None, 1), ann)
    await rest.kernel.write(Event("loose/x/", PUT, b"1", None, 1, True), ann)
    assert 1 == (await rest.get("/loose/x/")).value


@pytest.mark.parametrize("raw", [b"/Dog/%ff", b"/Dog/%00", b"/Dog/a+b", b"/Dog/%23", b"/Dog/\xff"])
async def test_a_path_that_is_no_topic(rest, raw):
    assert (await rest.ask("GET", "/", raw=raw)).status == 400


@pytest.mark.parametrize("record_id", ["x", "1.5", "007", "99999999999"])
async def test_an_id_that_the_key_cannot_be(rest, record_id):
    assert (await rest.put(f"/Number/{record_id}", b"{}")).status == 400
    assert (await rest.get(f"/Number/{record_id}")).status in {400, 404}


async def test_a_table_of_several_levels(rest):
    await rest.put("/a/deep/table/1/2", b'{"x":1}')
    assert (await rest.get("/a/deep/table/1/2")).value == {"id": "1/2", "x": 1}
    assert (await rest.get("/a/deep/table")).value["records"] == "/a/deep/table/"
