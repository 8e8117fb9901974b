"""Whatever is asked, the answer is no mistake of the server (B1, B6, "bad input")."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amounts import amount
from asgi import asgi

pytestmark = pytest.mark.slow

METHODS = st.sampled_from(
    ["GET", "GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE", "X"]
)
BASES = ["/", "/Dog", "/Dog/", "/Dog/1", "/Dog/a/", "/Number/", "/Number/1", "/Note/n", "/Note/"]
BASES += ["/Open/1", "/Open/", "/loose", "/$SYS/x", "/Timed/1", "/Behind/1", "/a/deep/table/q"]
TAILS = (
    st.just("")
    | st.sampled_from(
        [".json", ".csv", ".name", ".owner.name", "/..", "%2F", "%ff", "%", "//", "x.y"]
    )
    | st.text(max_size=5)
)
TERMS = st.sampled_from(
    [
        "", "count", "meta", "meta=true", "retain=false", "atomic=true", "limit(2)", "limit(1,2)",
        "select(name)", "select([id,age])", "sort(-age)", "age=gt=2", "name==R*", "(age=1|age=2)",
        "from=0", "from=-1h", "_from=0badcafe:1", "to=now", "last=3",
        "to=9999-12-31T23:59:59-23:59",
        "every=1m", "every=999999999w", "every=1ms", "fn=avg,last", "fn=x", "asof=now", "limit=2",
        "asof=0badcafe:1", "select=name", "asof=0",
        "after(x)", "count=maybe", "$id=1", "owner.name=A", "%FF", "a=%00", "[", "select()", "n=5",
    ]
) | st.text("abn=()[]&|%.,$*:<>!0123456789", max_size=12)  # fmt: skip
TAGS = st.sampled_from(["*", '"0badcafe:1"', 'W/"x", "y"', "x", '"0badcafe:99999999999999999999"'])
TYPES = st.sampled_from(
    [
        "application/json", "application/cbor", "application/x-msgpack", "application/x-ndjson",
        "application/cbor-seq", "text/csv", "text/plain", "image/png",
        "application/merge-patch+json",
        "application/x-www-form-urlencoded", "application/json; charset=latin1", "*/*", "x", "",
        "text/*;q=0.5, application/cbor;q=0.1", "application/json;q=2",
    ]
) | st.text(st.characters(max_codepoint=255, blacklist_categories=["Cc"]), max_size=12)  # fmt: skip
HEADERS = st.just({}) | st.fixed_dictionaries(
    {},
    optional={
        "content_type": TYPES,
        "accept": TYPES,
        "if_match": TAGS,
        "if_none_match": TAGS,
        "if_modified_since": st.sampled_from(["x", "Sat, 01 Jan 2000 00:00:00 GMT"]),
        "if_unmodified_since": st.sampled_from(["x", "Sat, 01 Jan 2000 00:00:00 GMT"]),
        "content_encoding": st.sampled_from(["gzip", "identity"]),
        "content_length": st.sampled_from(["0", "-1", "x", "99999999999"]),
        "origin": st.sampled_from(["null", "http://localhost", "http://x.test", "http://["]),
        "host": st.sampled_from(["127.0.0.1:1", "x", "["]),
    },
)
BODIES = st.sampled_from(
    [
        b"", b'{"name":"Rex","age":1}', b'{"name":"Rex","owner":{"name":"A"}}', b'{"age":"x"}',
        b'[{"id":"1","name":"Rex"},{"n":5},3]', b"[[[[[[", b'{"n":1}\n{"n":2}\n', b"\xa1ana\x01",
        b"\x81\xa1n\x01", b"\x9f\xff", b"\xff" * 20, b'{"__op__":"add","value":1}', b"null", b"1",
        b'{"age":{"__op__":"add","value":9999999999999999999}}', b'{"text":"hi"}', b'"x"',
        b'{"name":"\\ud800"}', b"[" * 500, b'{"$date":1}', b'{"weight":"1e9999"}',
    ]
) | st.binary(max_size=40)  # fmt: skip


@pytest.fixture(scope="module")
def rest():
    """One world, and the loop that it lives in, for all examples."""
    loop = asyncio.new_event_loop()
    opened = asgi()
    rest = loop.run_until_complete(opened.__aenter__())
    yield lambda *a, **k: loop.run_until_complete(rest.ask(*a, **k))
    loop.run_until_complete(opened.__aexit__(None, None, None))
    loop.close()


@settings(
    max_examples=amount(long=500, short=125),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    METHODS,
    st.sampled_from(BASES),
    TAILS,
    st.just("") | st.lists(TERMS, max_size=4).map("&".join),
    HEADERS,
    st.lists(BODIES, min_size=1, max_size=2),
)
def test_nothing_asked_breaks_the_server(rest, method, base, tail, query, headers, chunks):
    """The invariant: below 500, and what is refused says why."""
    headers = {
        name: value.encode("latin-1", "replace").decode("latin-1")
        for name, value in headers.items()
    }
    path = f"{base}{tail}".encode("utf-8", "surrogatepass").partition(b"?")[0]
    answer = rest(method, f"/x?{query}", chunks=chunks, raw=path, **headers)
    assert answer.status < 500, answer
    if answer.status >= 400 and method != "HEAD":
        assert answer.value["status"] == answer.status
        assert answer.value["detail"]
    for name, value in answer.headers.items():
        assert name.isascii()
        assert not set(value) & set("\r\n\0")
