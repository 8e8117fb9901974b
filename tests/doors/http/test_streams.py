"""What a stream is of, where it begins and in which format: one set of words for both doors."""

import json

import pytest

from http_server import STREAM, HttpServer
from rowcast.codecs import CBOR, JSON, MSGPACK
from rowcast.core.clock import version_of
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.streams.stream_parameters import accepted, request_of
from rowcast.subscriptions.start_position import StartPosition, start_position

CURSOR = "0badcafe:7"
NOW = 1_767_323_045.0


def request(path="/Dog/1", query="", last_event_id=None):
    scope = {"raw_path": path.encode(), "path": path, "query_string": query.encode()}
    return request_of(scope, NOW, last_event_id)


def refusal(call, *arguments, **named):
    with pytest.raises(Error) as caught:
        call(*arguments, **named)
    return caught.value


@pytest.mark.parametrize(
    ("path", "query", "filters"),
    [
        ("/Dog/1", "", ["Dog/1"]),
        ("/Dog/", "", ["Dog/#"]),
        ("/Dog/a/", "", ["Dog/a/#"]),
        ("/Dog/%2B/x", "", ["Dog/+/x"]),
        ("/Dog/+/x", "", ["Dog/+/x"]),
        ("/Dog/%23", "", ["Dog/#"]),
        ("/Dog/a%2Fb", "", ["Dog/a/b"]),
        ("/D%C3%B6g/1", "", ["Dög/1"]),
        ("/", "topic=a/%2B/b&topic=%23", ["a/+/b", "#"]),
        ("/Dog/1", "topic=Cat/1", ["Dog/1", "Cat/1"]),
        ("/Dog/1", "topic=Dog/1", ["Dog/1"]),
        ("/", "", []),
    ],
)
def test_path_and_query_name_filters(path, query, filters):
    """C8."""
    assert [TopicFilter(text) for text in filters] == list(request(path, query).filters)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("", StartPosition()),
        ("start=current", StartPosition()),
        ("start=new", StartPosition(new=True)),
        (f"since={CURSOR}", StartPosition(since=CURSOR)),
        (f"last_event_id={CURSOR}", StartPosition(since=CURSOR)),
        (f"last_event_id={CURSOR}&since=0badcafe:1", StartPosition(since=CURSOR)),
        ("previousCount=5", StartPosition(previous=5)),
        ("startTime=1767323045000", StartPosition(version=version_of(1767323045000))),
        ("startTime=2026-01-02T03:04:05Z", StartPosition(version=version_of(1767323045000))),
        ("startTime=2026-01-02T03:04:05", StartPosition(version=version_of(1767323045000))),
        ("startTime=0", StartPosition(version=0)),
        ("startTime=now", StartPosition(version=version_of(1767323045000))),
        ("from=-1m", StartPosition(version=version_of(1767322985000))),
        ("from=2026-01-02T05:04:05+02:00", StartPosition(version=version_of(1767323045000))),
        (f"from={CURSOR}", StartPosition(since=CURSOR)),
        ("last=5", StartPosition(previous=5)),
    ],
)
def test_a_query_says_where_to_begin(query, place):
    """C9, C10, C24."""
    assert place == request(query=query).start


def test_what_a_browser_kept_wins_over_what_its_url_repeats():
    """C9."""
    asked = request(query="previousCount=5", last_event_id=CURSOR)
    assert StartPosition(since=CURSOR) == asked.start


def test_an_empty_last_event_id_is_none():
    assert StartPosition() == request(last_event_id="").start


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("previousCount=5&startTime=0", "exclude each other"),
        (f"since={CURSOR}&start=new", "exclude each other"),
        ("since=7", "not a cursor"),
        ("start=now", "'new'"),
        ("previousCount=0", "from 1 to 1000"),
        ("previousCount=1001", "from 1 to 1000"),
        ("previousCount=many", "from 1 to 1000"),
        ("last=5&previousCount=5", "exclude each other"),
        ("from=-1h&last=5", "exclude each other"),
        ("last=0", "last is a number from 1 to 1000"),
        ("startTime=-1", "milliseconds"),
        ("startTime=-1y", "milliseconds"),
        ("startTime=yesterday", "milliseconds"),
        ("startTime=99999999999999999", "milliseconds"),
        ("sincee=x", 'did you mean "since"'),
        ("asof=now", "a stream has no asof"),
        ("temp=gt=1&_asof=-1h", "replay it, as in ?from=-1h&speed=10"),
        ("every=1m&fn=avg", "for an attribute 'every' write every=="),
        ("since=0badcafe:1&since=0badcafe:2", "twice"),
        ("topic=a/%23/b", "last level"),
        ("topic=", "at least one character"),
        ("x=" + "y" * 9000, "8192"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_with_a_hint(query, hint):
    error = refusal(request, query=query)
    assert Code.INVALID == error.code
    assert hint in error.message


def test_a_stream_has_a_bounded_number_of_filters():
    error = refusal(request, query="&".join(f"topic=t/{n}" for n in range(101)))
    assert Code.TOO_LARGE == error.code


def test_a_path_that_is_not_utf_8_is_refused():
    assert Code.INVALID == refusal(request, "/Dog/%FF").code


@pytest.mark.parametrize(
    "fields",
    [{"since": 7}, {"start": True}, {"previousCount": 1.5}, {"startTime": [1]}],
    ids=str,
)
def test_members_of_a_command_have_their_types(fields):
    assert Code.INVALID == refusal(start_position, fields, NOW).code


def test_a_null_member_is_as_if_it_were_not_there():
    assert StartPosition(new=True) == start_position({"since": None, "start": "new"}, NOW)


@pytest.mark.parametrize(
    ("name", "media_type"), [("json", JSON), ("cbor", CBOR), ("msgpack", MSGPACK)]
)
def test_a_query_names_a_format(name, media_type):
    assert media_type == request(query=f"format={name}").format


@pytest.mark.parametrize("name", ["csv", "ndjson", "xml"])
def test_another_format_is_refused(name):
    assert Code.NOT_ACCEPTABLE == refusal(request, query=f"format={name}").code


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, JSON),
        ("text/event-stream", JSON),
        ("text/event-stream, */*", JSON),
        ("text/event-stream, application/cbor", CBOR),
        ("application/msgpack, text/event-stream", MSGPACK),
        ("text/event-stream, application/json;q=0.1, application/cbor;q=0.9", CBOR),
        ("text/event-stream, text/html", JSON),
        ("text/event-stream;q=1, !!", JSON),
    ],
)
def test_the_rest_of_accept_says_the_format(accept, media_type):
    """C15."""
    assert media_type == accepted(accept)


# -- what begins with $, and a leading slash -------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/$nonsense/",
        "/?topic=$replays/%23",
        "/?topic=$queue/a",
        "/$alarms/nope/",
        "/?topic=$SYS/alarms/nope/%23",
    ],
)
async def test_p5_a_stream_of_which_nothing_can_come_is_refused(path):
    """P5: in words, before it begins."""
    async with HttpServer() as doors:
        answer = await doors.http.get(path, headers=STREAM)
    assert answer.status_code in {404, 415}
    assert "$" in answer.json()["detail"]


async def test_p5_on_a_websocket_the_same():
    async with HttpServer() as doors, doors.ws() as socket:
        await socket.send(json.dumps({"id": 1, "op": "subscribe", "topic": "$nonsense/#"}))
        answer = json.loads(await socket.recv())
    assert "nothing is published below '$nonsense'" in answer["error"]["detail"]
    assert "$stream, $query, $replay, $asof" in answer["error"]["detail"]


async def test_p5_a_leading_slash_names_the_resource():
    async with HttpServer() as doors:
        await doors.write("Dog/1")
        async with doors.sse("/?topic=/Dog/%23") as stream:
            [block] = await stream.next()
    assert "Dog/1" == json.loads(block["data"])["topic"]
