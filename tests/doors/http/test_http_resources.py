"""Resource classes over REST: verbs with a behaviour of their own (A12, B1)."""

import asyncio
import logging
import sys
from typing import ClassVar

import pytest

from asgi import EPOCH, asgi
from build import ANN, refusal
from rowcast.codecs import CBOR
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.routes.resource import Resource
from rowcast.routes.system_rows import SystemRows
from rowcast.writes.write import Condition


class Lamp(Resource):
    """A place without a table."""

    async def get(self, query=None):
        if self.id == "exit":
            sys.exit("the password")
        return {"id": self.id, "query": query is not None} if self.id != "none" else None

    async def put(self, value):
        if value == "bad":
            raise Error(Code.CONFLICT, "the lamp is broken")
        if value == "bug":
            raise ValueError("the password")
        if value == "exit":
            sys.exit("the password")

    async def post(self, value):
        return {"got": value}


class Silent(Resource):
    """Only streams."""

    def subscribe(self):
        return super().subscribe()


class Odd(Resource):
    """Returns what is no value."""

    async def get(self, query=None):
        return {"bytes": b"\xff\x00", "object": object()}.get(self.id)

    async def delete(self):
        return None


class LoudDog(Resource):
    """The table Dog with louder names."""

    path = "Dog"

    async def get(self, query=None):
        value = await super().get(query)
        return value | {"name": value["name"].upper()} if isinstance(value, dict) else value

    async def put(self, value):
        return await super().put(value | {"name": value["name"].strip()})


class Lights(Resource):
    """Rows of the server, which have no version."""

    path = "$SYS/replays/lights"

    async def put(self, value):
        """Switch it on."""

    async def delete(self):
        """Switch it off."""

    async def publish(self, message):
        """Take a message."""


class Versioned(Lights):
    """Rows whose verbs check the condition."""

    path = "$SYS/replays/versioned"
    versioned = True


class Known(SystemRows):
    """Rows of the server without versions, of which it is known whether they are there."""

    path = "$SYS/replays/known"
    made: ClassVar[dict[str, object]] = {}

    def names(self):
        return list(self.made)

    def row(self, name, *, whole):
        return {"id": name} if name in self.made else None

    async def put(self, value):
        """Take time, as a user's password does."""
        await asyncio.sleep(0)
        self.made[self.id] = value


class Maker(Resource):
    """Makes notes elsewhere than posted."""

    path = "Note"

    async def post(self, value):
        return await super().post({"text": value["text"] + "!"})


@pytest.fixture
async def rest():
    async with asgi(resources=[Lamp, Silent, Odd, LoudDog, Maker]) as opened:
        for rows in (Lights, Versioned, Known):
            opened.kernel.rows(rows.path, rows)
        yield opened


async def test_get_is_what_the_class_returns(rest):
    got = await rest.get("/Lamp/1", accept=CBOR)
    assert (got.status, got.value) == (200, {"id": "1", "query": False})
    assert (await rest.get("/Lamp?x=1")).value == {"id": "", "query": True}


async def test_none_is_not_found(rest):
    assert (await rest.get("/Lamp/none")).status == 404


async def test_head_calls_get(rest):
    head = await rest.head("/Lamp/1")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    ("body", "media_type", "got"),
    [
        (b'{"a":1}', "application/json", {"a": 1}),
        (b'{"a":1}', "", {"a": 1}),
        (b"", "", None),
    ],
)
async def test_post_is_what_the_class_returns(rest, body, media_type, got):
    answer = await rest.post("/Lamp/1", body, content_type=media_type)
    assert (answer.status, answer.value) == (200, {"got": got})


async def test_put_is_the_classes_own(rest):
    assert (await rest.put("/Lamp/1", b'"on"')).status == 204
    refused = await rest.put("/Lamp/1", b'"bad"')
    assert (refused.status, refused.value["detail"]) == (409, "the lamp is broken")


@pytest.mark.parametrize("media_type", ["application/json", ""])
@pytest.mark.parametrize("body", [b'{"name": "Rex"', b"\xff\x00"])
async def test_a_body_that_is_no_value_is_told_as_a_table_tells_it(rest, body, media_type):
    """The class would see bytes, and write them as a value."""
    told = await rest.put("/Note/1", body, content_type=media_type)
    got = await rest.put("/Dog/1", body, content_type=media_type)
    assert (told.status, told.value["detail"]) == (got.status, got.value["detail"])
    assert 400 == got.status
    if media_type:
        lamp = await rest.put("/Lamp/1", body, content_type=media_type)
        assert told.value["detail"] == lamp.value["detail"]


async def test_a_place_without_a_table_takes_any_bytes(rest):
    """Unless they are called a value."""
    assert 204 == (await rest.put("/Lamp/1", b"on", content_type="text/plain")).status
    assert 204 == (await rest.put("/Lamp/1", b"\xff\x00", content_type="")).status


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/Lamp/1", b'"bug"'),
        ("GET", "/Odd/object", b""),
        ("PUT", "/Lamp/1", b'"exit"'),
        ("GET", "/Lamp/exit", b""),
    ],
)
async def test_a_mistake_of_the_class_is_an_incident(rest, method, path, body, caplog):
    """Also an exit, which would end the server for all."""
    with caplog.at_level(logging.ERROR):
        answer = await rest.ask(method, path, body)
    assert (answer.status, b"password" in answer.body) == (500, False)
    assert answer.code == "internal"


async def test_bytes_are_sent_as_they_are(rest):
    got = await rest.get("/Odd/bytes")
    assert (got.body, got.media_type) == (b"\xff\x00", "application/octet-stream")


@pytest.mark.parametrize(
    ("path", "method", "allow"),
    [
        ("/Silent/1", "GET", "OPTIONS"),
        ("/Silent/1", "PUT", "OPTIONS"),
        ("/Lamp/1", "DELETE", "GET, HEAD, PUT, POST, OPTIONS"),
        ("/Odd/1", "POST", "GET, HEAD, DELETE, OPTIONS"),
    ],
)
async def test_verbs_that_a_class_does_not_have(rest, path, method, allow):
    refused = await rest.ask(method, path, b"{}")
    assert (refused.status, refused.headers["allow"]) == (405, allow)


async def test_a_class_changes_what_its_table_does(rest):
    put = await rest.put("/Dog/1", b'{"name":" rex "}')
    assert (put.status, put.etag) == (201, f'"{EPOCH}:1"')
    assert (await rest.get("/Dog/1")).value["name"] == "REX"
    assert [row["name"] for row in (await rest.get("/Dog/")).value] == ["rex"]


async def test_a_class_creates(rest):
    made = await rest.post("/Note/", b'{"text":"hi"}')
    assert made.status == 201
    assert (await rest.get(made.headers["location"])).value == {"text": "hi!"}


async def test_an_own_put_is_not_written_together(rest):
    refused = await rest.put("/Dog/?atomic=true", b'[{"id":"1","name":"x"}]')
    assert refused.status == 405


async def test_a_count_that_a_class_cannot_give_is_refused(rest):
    """B19: in words; the rows came instead, as if it had not been asked for."""
    answer = await rest.get("/Lamp/?count")
    assert (400, True) == (answer.status, "no count at '/Lamp/'" in answer.value["detail"])


@pytest.mark.parametrize(
    "asked",
    [
        {"if_match": f'"{EPOCH}:1"'},
        {"if_match": "*"},
        {"if_none_match": "*"},
        {"if_none_match": f'"{EPOCH}:1"'},
    ],
)
async def test_a_row_without_a_version_takes_no_condition(rest, asked):
    """M11, A16: it is not written as if the condition held."""
    for method in ("PUT", "DELETE"):
        refused = await rest.ask(method, "/$SYS/replays/lights/1", b'"on"', **asked)
        assert (refused.status, "has no version" in refused.value["detail"]) == (400, True)
    assert 204 == (await rest.put("/$SYS/replays/versioned/1", b'"on"', **asked)).status


async def test_a_row_is_made_only_once_where_that_is_asked(rest, monkeypatch):
    """M11, A16: of several at once, too; and not where there must be one."""
    monkeypatch.setattr(Known, "made", {})
    place = f"/{Known.path}/1"
    assert 412 == (await rest.put(place, b'"on"', if_match="*")).status
    both = [rest.put(place, b'"on"', if_none_match="*") for _ in range(2)]
    assert [204, 412] == sorted([one.status for one in await asyncio.gather(*both)])
    assert 204 == (await rest.put(place, b'"off"', if_match="*")).status
    assert "off" == Known.made["1"]
    assert 400 == (await rest.put(place, b'"on"', if_match=f'"{EPOCH}:1"')).status


async def test_a_row_without_a_version_is_written_without_condition(rest):
    assert 204 == (await rest.put("/$SYS/replays/lights/1", b'"on"')).status
    assert 204 == (await rest.delete("/$SYS/replays/lights/1")).status


async def test_a_message_to_a_row_takes_no_condition(rest):
    """A16: as of MQTT's ``if-match``, and ``ifMatch`` of WebSocket."""
    event = Event("$SYS/replays/lights/1", MESSAGE, b"1")
    refused = await refusal(rest.kernel.write(event, ANN, Condition(exists=True)))
    assert Code.INVALID == refused


@pytest.mark.parametrize(
    "name",
    ["if_match", "if_none_match", "if_unmodified_since", "rowcast_producer", "rowcast_version"],
)
async def test_a_post_of_a_class_refuses_what_it_cannot_promise(rest, name):
    """A16, M8: a repeat of the same number would be done twice."""
    refused = await rest.post("/Lamp/1", b"{}", **{name: "meter-7:1:1"})
    assert (refused.status, name.replace("_", "-") in refused.value["detail"].lower()) == (
        400,
        True,
    )
    assert 200 == (await rest.post("/Lamp/1", b"{}")).status
