"""Values that do not fit their table: rejected, dropped, or kept as dead letters (A15)."""

import json

import pytest

from asgi import asgi
from build import ANN, Server, refusal
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.features.unfit_values.feature import LEVEL, UnfitValues
from rowcast.schema import parse_schema
from rowcast.writes.write import Receipt

SCHEMA = """
type Strict @table @export { id: ID @primaryKey n: Int }
type Loose @table(invalid: "drop") @export { id: ID @primaryKey n: Int }
type Kept @table(invalid: "deadLetter") @export { id: ID @primaryKey n: Int }
"""
BAD = b'{"n": "many"}'


@pytest.fixture
async def rest():
    async with asgi(SCHEMA) as opened:
        opened.unfit = UnfitValues(bytes_max=20)
        opened.unfit.install(opened.kernel)
        yield opened


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("body", [BAD, b"{", b'{"n": 1.5}'])
async def test_each_table_has_its_way(rest, method, body):
    """A15: nothing is changed or announced at the topic, whatever the writer is told."""
    heard = rest.listen("+/#")
    answers = {}
    for table in ("Strict", "Loose", "Kept"):
        path = f"/{table}/1?retain={'false' if method == 'POST' else 'true'}"
        answers[table] = await rest.ask(method, path, body, content_type="application/json")
        assert (await rest.get(f"/{table}/1")).status == 404
    assert {name: (it.status, it.headers.get("rowcast-unfit")) for name, it in answers.items()} == {
        "Strict": (answers["Strict"].status, None),
        "Loose": (202, "drop"),
        "Kept": (202, "deadLetter"),
    }
    assert answers["Strict"].status in {400, 422}
    assert (heard, rest.unfit.dropped, rest.unfit.kept) == ([], 1, 1)


async def test_a_dead_letter_has_value_and_reason(rest):
    """A15: for administrators, in the log; a long value is cut."""
    heard = rest.listen("$AUDIT/#")
    await rest.put("/Kept/a/b", BAD, content_type="application/json")
    await rest.put("/Kept/c", b"\xff" * 30, content_type="application/json")
    first, second = (json.loads(event.payload) for event in heard)
    assert [event.topic for event in heard] == [f"{LEVEL}/Kept/a/b", f"{LEVEL}/Kept/c"]
    assert (first["payload"], first["topic"], first["kind"]) == (BAD.decode(), "Kept/a/b", "put")
    assert "n" in first["reason"]
    assert (second["bytes"], first["bytes"]) == (30, len(BAD))
    assert second["payload"] != "\xff" * 30
    past = await rest.get("/$AUDIT/refused/value/?last=5")
    assert [row["topic"] for row in past.value] == [f"{LEVEL}/Kept/a/b", f"{LEVEL}/Kept/c"]


async def test_a_creation_and_a_batch(rest):
    got = await rest.post("/Loose/", BAD, content_type="application/json")
    assert (got.status, got.headers["rowcast-unfit"]) == (202, "drop")
    got = await rest.put("/Loose/", b'[{"id":"1","n":1},{"id":"2","n":"x"}]')
    assert [row["status"] for row in got.value] == [201, 202]
    got = await rest.put("/Loose/?atomic", b'[{"id":"3","n":1},{"id":"4","n":"x"}]')
    assert got.status == 422
    assert (await rest.get("/Loose/3")).status == 404


async def test_what_is_always_refused(rest):
    """A patch is merged with the record; other errors are none of the value."""
    await rest.put("/Loose/1", b'{"n":1}')
    assert (await rest.patch("/Loose/1", BAD)).status == 422
    large = b'{"n":1,"text":"' + b"x" * 200_000 + b'"}'
    assert (await rest.put("/Loose/1", large)).status == 413
    assert (await rest.get("/Loose/1")).value == {"id": "1", "n": 1}


async def test_a_numbered_write_is_not_tried_again(rest):
    """M8: its number is stored, so that a repeat gets the same answer."""
    for _ in range(2):
        got = await rest.put("/Loose/1", BAD, rowcast_producer="m:1:1")
        assert got.status in {202, 204}
    assert rest.unfit.dropped == 1


async def test_publishers_of_every_kind():
    """A15: a message that is retained or not, and one of a run; later ones of it are stored."""
    server = Server(parse_schema(SCHEMA).tables)
    UnfitValues().install(server.kernel)
    outcomes = []
    events = [
        Event("Loose/1", PUT, payload, None, 1, retain=True)
        for payload in (b'{"n":1}', BAD, b'{"n":3}')
    ]
    server.kernel.submit_run(events, [outcomes.append] * 3, ANN)
    await server.committer.settle()
    assert sorted(item.unfit for item in outcomes) == ["", "", "drop"]
    event = Event("Kept/1", MESSAGE, BAD, None, 1)
    assert isinstance(await server.kernel.write(event, ANN), Receipt)
    assert await refusal(server.say("Strict/1", BAD)) is Code.UNPROCESSABLE


async def test_a_dead_letter_that_the_disk_refuses_is_no_success():
    """A15: its writer has to send it again."""
    server = Server(parse_schema(SCHEMA).tables)
    UnfitValues().install(server.kernel)

    def refuse(_what):
        raise Error(Code.BUSY, "the disk is full")

    server.store.fault = refuse
    assert await refusal(server.say("Kept/1", BAD)) is Code.BUSY


def test_an_unknown_way_is_a_mistake_of_the_schema():
    with pytest.raises(Error, match="deadLetter"):
        parse_schema('type A @table(invalid: "ignore") @export { id: ID @primaryKey }')


@pytest.mark.parametrize("table", ["Loose", "Kept"])
@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("name", ["idempotency_key", "rowcast_producer"])
async def test_a_repeat_is_told_the_same(rest, table, method, name):
    """A15, M8, B17: not that there is a record."""
    path = f"/{table}/1" if method == "PUT" else f"/{table}/"
    given = {"content_type": "application/json", name: "meter:1:7"}
    first = await rest.ask(method, path, BAD, **given)
    again = await rest.ask(method, path, BAD, **given)
    assert (202, 202) == (first.status, again.status)
    assert first.headers["rowcast-unfit"] == again.headers["rowcast-unfit"]
    assert "1" == again.headers["rowcast-repeat"]
    assert 1 == rest.unfit.dropped + rest.unfit.kept
