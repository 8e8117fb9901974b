"""Bodies are held as far as there is memory (K9, L11, P2)."""

import asyncio

import pytest

from asgi import asgi
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.memory_limits import COMMIT_CLIENT_BYTES_HIGH
from rowcast.core.overload_limits import OVERLOAD_UNFINISHED_BYTES
from rowcast.core.shedding import Shed, Shedding
from rowcast.doors.http.messages.bodies import read_body
from rowcast.doors.http.messages.parameters import write_parameters
from rowcast.doors.http.messages.problems import status_of
from rowcast.doors.http.rest.request import Request
from rowcast.routes.registry import Route

PART = OVERLOAD_UNFINISHED_BYTES // 2 + 1


def parts(count):
    """Return a ``receive`` of so many parts, and what is left of them."""
    left = list(range(count))

    async def receive():
        left.pop()
        return {"type": "http.request", "body": bytes(PART), "more_body": bool(left)}

    return receive, left


def lingering(count):
    """Return a ``receive`` of so many parts, of which the first is there and the others are not."""
    given, left = parts(count)

    async def receive():
        if len(left) < count:
            for _ in range(3):
                await asyncio.sleep(0)
        return await given()

    return receive


@pytest.mark.parametrize("level", Shed)
async def test_l11_a_large_body_is_refused_on_its_way_while_memory_is_short(level):
    shedding = Shedding()
    shedding.level = level
    receive, left = parts(4)
    if level < Shed.CONNECTS:
        assert 4 * PART == len(await read_body({}, receive, 10**6, 10, shedding.check_unfinished))
        return
    with pytest.raises(Error) as caught:
        await read_body({}, receive, 10**6, 10, shedding.check_unfinished)
    assert (Code.BUSY, True, 2) == (caught.value.code, caught.value.detail["close"], len(left))
    receive, _ = parts(1)
    assert PART == len(await read_body({}, receive, 10**6, 10, shedding.check_unfinished))


@pytest.mark.parametrize("ending", ["http.disconnect", "over"])
async def test_l11_what_came_of_a_body_goes_with_its_request(ending):
    """The Error would keep it: who cuts bodies off again and again must fill no memory."""
    sayings = [bytes(PART), bytes(PART), b""]

    async def receive():
        body = sayings.pop(0)
        kind = "http.request" if body or ending == "over" else ending
        return {"type": kind, "body": body or bytes(PART), "more_body": True}

    with pytest.raises(Error) as caught:
        await read_body({}, receive, 3 * PART - 1, 10)
    trace = caught.value.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
        assert not trace.tb_frame.f_locals.get("parts")


async def test_c26_a_large_body_that_makes_progress_may_take_its_time():
    """An import over a poor uplink: longer than the time of a small body, and still arriving."""
    assert 3 * PART == len(await read_body({}, lingering(3), 10**6, 0, bytes_per_second_min=1))
    with pytest.raises(Error) as caught:
        await read_body({}, lingering(3), 10**6, 0, bytes_per_second_min=10**12)
    assert (Code.INVALID, 408) == (caught.value.code, status_of(caught.value))


async def test_a_body_waits_while_too_much_of_its_sender_waits_for_the_disk():
    """P2: it is not read, so it is in the sender's memory and not in the server's."""
    caller, much = Caller(), COMMIT_CLIENT_BYTES_HIGH
    async with asgi(body_bytes_max=10**6) as rest:
        kernel, (receive, left) = rest.edge.kernel, parts(4)
        route, parameters = Route("Dog/1", None, "1"), write_parameters(b"")
        request = Request(kernel, rest.edge, {}, {}, route, caller, parameters, receive, None)
        pending = kernel.committer.pending
        pending.hold(caller, much)
        body = asyncio.ensure_future(request.body())
        for _ in range(3):
            await asyncio.sleep(0)
        assert 4 == len(left)
        pending.release(caller, much)
        pending.let_go(crowded=False)
        assert 4 * PART == len(await body)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"21.5", "application/json"),
        (b"true", "application/json"),
        (b'"warm"', "application/json"),
        (b"off", "text/plain; charset=utf-8"),
        (b"a=1&b=2", "application/x-www-form-urlencoded"),
    ],
)
async def test_what_curl_calls_a_form_is_one_only_with_fields(body, media_type):
    """B4, B21: else it is what the same bytes are when MQTT publishes them."""
    async with asgi() as rest:
        await rest.put("/loose/1", body, content_type="application/x-www-form-urlencoded")
        got = await rest.get("/loose/1")
    assert (got.body, got.headers["content-type"]) == (body, media_type)


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"GZIP", b"chunked", b"Chunked"])
async def test_a_body_in_a_coding_that_is_not_read_is_refused(coding):
    """Its bytes would be taken for the value, and stored as that of an undeclared topic."""
    receive, _ = parts(1)
    headers = {b"transfer-encoding": coding}
    async with asgi() as rest:
        route, parameters = Route("a/1", None, "1"), write_parameters(b"")
        request = Request(
            rest.edge.kernel, rest.edge, {}, headers, route, Caller(), parameters, receive, None
        )
        assert request.arrived_body() is None
    if coding.lower() == b"chunked":
        assert PART == len(await read_body(headers, receive, 10**6, 10))
        return
    with pytest.raises(Error) as caught:
        await read_body(headers, receive, 10**6, 10)
    assert (Code.UNSUPPORTED, True) == (caught.value.code, caught.value.detail["close"])
