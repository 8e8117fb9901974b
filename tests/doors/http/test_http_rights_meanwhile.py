"""Rights that go while a body arrives, or while an answer is read: both may take long (L8)."""

import asyncio
from dataclasses import replace

import pytest

from asgi import asgi
from rowcast.core.callers import Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.core.limits import HTTP_PAGE_RECORDS
from rowcast.doors.durable_streams.door import streams_door
from rowcast.features.durable_streams.feature import StreamsOfTopics
from rowcast.features.durable_streams.settings import DurableStreamsSection
from rowcast.features.history.bounds import HistoryBounds
from rowcast.features.history.feature import History
from rowcast.routes.resource import Resource

GONE = Error(Code.UNAUTHENTICATED, "the user was removed")


class Taken(Resource):
    """Keeps who has posted to it."""

    posted = ()

    async def post(self, value):
        type(self).posted = (*self.posted, (value, self.caller.grants.write))


def gone(_caller):
    raise GONE


def reader_only(caller):
    return replace(caller, grants=Grants(read=True))


@pytest.fixture
async def world():
    Taken.posted = ()
    async with asgi(resources=[Taken], features=[History(HistoryBounds(page_events=100))]) as one:
        StreamsOfTopics(DurableStreamsSection()).install(one.kernel)
        one.edge.streams = streams_door(one.kernel, 0.01, one.edge.closing)
        yield one


def judge(world, how):
    """Judge everybody so from now on."""
    access = world.kernel.reauthorization
    access.judges.append(how)
    access.changed()


def scope_of(method, path, **headers):
    path, _, query = path.partition("?")
    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": named,
        "client": ("127.0.0.1", 0),
    }


async def send_slowly(world, method, path, how, **headers):
    """Send a body whose second half comes after a change of rights; return the status."""
    sent, parts = [], [b'{"name": ', b'"Rex"}']

    async def receive():
        if len(parts) == 1:
            judge(world, how)
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    scope = scope_of(method, path, content_type="application/json", **headers)
    await world.edge(scope, receive, send)
    return sent[0]["status"]


@pytest.mark.parametrize("how", [gone, reader_only])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/Dog/1"),
        ("PATCH", "/Dog/1"),
        ("POST", "/Dog/"),
        ("PUT", "/Dog/"),
        ("PUT", "/Dog/1?retain=false"),
        ("PUT", "/$streams/s"),
        ("POST", "/$streams/known"),
    ],
)
async def test_l8_a_write_is_refused_to_who_lost_the_right_while_its_body_came(
    world, method, path, how
):
    await world.put("/$streams/known", content_type="application/json")
    heard = world.listen()
    assert await send_slowly(world, method, path, how) in {
        207,
        401,
        403,
    }  # 207 tells of each record
    assert [] == heard


@pytest.mark.parametrize(("how", "posted"), [(gone, []), (reader_only, [False])])
async def test_l8_a_class_that_takes_a_post_knows_the_rights_of_then(world, how, posted):
    await send_slowly(world, "POST", "/Taken", how)
    assert posted == [write for _, write in Taken.posted]


async def test_a_slow_body_of_who_may_still_write_is_written(world):
    assert 201 == await send_slowly(world, "PUT", "/Dog/1", replace)


@pytest.mark.parametrize("how", [gone, reader_only])
@pytest.mark.parametrize("path", ["/Dog/", "/Dog/?from=0"])
async def test_l8_a_long_answer_ends_when_its_reader_has_other_rights(world, path, how):
    """L8: it is cut off, so that it never looks complete."""
    caller = world.edge.caller(scope_of("GET", "/"), "http")
    for number in range(HTTP_PAGE_RECORDS + 1):
        event = Event(f"Dog/{number}", PUT, b'{"name": "Rex"}', None, 1, True)
        await world.kernel.write(event, caller)
    sent, came = [], [{"type": "http.request", "body": b"", "more_body": False}]

    async def send(message):
        if not sent:
            judge(world, how)
        sent.append(message)

    async def receive():
        return came.pop() if came else await asyncio.get_running_loop().create_future()

    with pytest.raises(Error):
        await world.edge(scope_of("GET", path), receive, send)
    assert (200, True) == (sent[0]["status"], sent[-1]["more_body"])
