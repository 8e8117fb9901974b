"""One catalogue of errors (B16): every code has one face on every door of this room."""

import logging

import pytest

from asgi import asgi
from rowcast.codecs import CBOR, JSON, MSGPACK, decode
from rowcast.core.callers import NONE
from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.problems import (
    STATUSES,
    as_error,
    problem,
    problem_body,
    problem_headers,
    status_of,
)
from rowcast.routes.resource import Resource

TABLE = {
    Code.INVALID: (400, 1007),
    Code.UNPROCESSABLE: (422, 1007),
    Code.UNAUTHENTICATED: (401, 4401),
    Code.DENIED: (403, 4403),
    Code.NOT_FOUND: (404, 4404),
    Code.NOT_ALLOWED: (405, 4405),
    Code.CONFLICT: (409, 4409),
    Code.PRECONDITION: (412, 4412),
    Code.GONE: (410, 4410),
    Code.TOO_LARGE: (413, 1009),
    Code.UNSUPPORTED: (415, 1003),
    Code.NOT_ACCEPTABLE: (406, 1003),
    Code.BUSY: (503, 1013),
    Code.INTERNAL: (500, 1011),
}


class Failing(Resource):
    """Raises the error whose code is its id."""

    path = "fail"

    async def get(self, query=None):
        raise Error(Code(self.id), f"this is {self.id}")

    async def put(self, value):
        await self.get()


@pytest.fixture
async def rest():
    async with asgi(resources=[Failing]) as opened:
        yield opened


async def test_who_deletes_a_table_is_told_to_name_a_record(rest):
    """B16: how to mend it; the table stays."""
    refused = await rest.delete("/Dog")
    assert refused.status == 405
    assert refused.value["detail"].endswith("; name a record, such as '/Dog/1'")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/note/1", '; did you mean "Note"?'),
        ("/Notes/1", '; did you mean "Note"?'),
        ("/Behnd/1", "; messages that were not retained are in its history, such as ?last=10"),
    ],
    ids=["another case", "misspelt", "not shown here"],
)
async def test_a_misspelt_table_is_told(rest, path, hint):
    """B16: how to mend it."""
    assert (await rest.get(path)).value["detail"] == f"there is no record at {path[1:]!r}{hint}"


def test_the_table_has_every_code():
    assert set(TABLE) == set(STATUSES) == set(Code)


@pytest.mark.parametrize(("code", "face"), TABLE.items(), ids=map(str, TABLE))
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_every_code_is_told(rest, method, code, face):
    """B16: status and problem details, whichever way the error came."""
    answer = await rest.ask(method, f"/fail/{code}", b"{}")
    details = answer.value
    assert (answer.status, STATUSES[code].close) == face
    assert details == {
        "type": f"urn:rowcast:error:{code}",
        "title": STATUSES[code].title,
        "status": face[0],
        "detail": f"this is {code}",
        "instance": f"/fail/{code}",
        "code": str(code),
    }
    assert answer.media_type == "application/problem+json"


def test_a_rate_is_the_callers_own():
    assert status_of(Error(Code.BUSY, "slower", rate=True)) == 429


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Error(Code.NOT_ALLOWED, "", allow=["GET", "PUT"]), [(b"allow", b"GET, PUT")]),
        (Error(Code.BUSY, ""), [(b"retry-after", b"1")]),
        (Error(Code.BUSY, "", retry_after_seconds=9), [(b"retry-after", b"9")]),
        (Error(Code.PRECONDITION, "", seq=4), [(b"etag", b'"e:4"')]),
        (Error(Code.CONFLICT, "", seq=4), []),
    ],
)
def test_what_an_error_brings_as_headers(error, expected):
    assert problem_headers(error, lambda seq: f"e:{seq}") == expected


def test_facts_are_plain():
    error = Error(Code.CONFLICT, "x", seq=4, tags={"a"}, inner={"b": object}, status="mine")
    details = problem(error, "/x", lambda seq: f"e:{seq}")
    assert (details["cursor"], details["tags"], details["status"]) == ("e:4", ["a"], 409)
    assert isinstance(details["inner"]["b"], str)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON), ("*/*", JSON), ("application/cbor", CBOR), ("application/x-msgpack", MSGPACK),
        ("text/html", JSON), ("malformed;;q", JSON), ("text/event-stream", JSON),
    ],
)  # fmt: skip
def test_problems_are_told_in_any_case(accept, expected):
    """Also to who accepts nothing that there is."""
    media_type, body = problem_body({"status": 404}, accept)
    assert media_type.startswith("application/problem+")
    assert decode(body, expected) == {"status": 404}


def test_a_bug_is_logged_and_not_told(caplog):
    with caplog.at_level(logging.ERROR):
        error = as_error(ValueError("the password"), "GET /x")
    (record,) = caplog.records
    assert (error.code, "password" in error.message) == (Code.INTERNAL, False)
    assert error.detail["incident"] in error.message
    assert error.detail["incident"] in record.getMessage()
    assert "the password" in caplog.text


async def test_who_may_nothing_is_asked_to_sign_in():
    async with asgi(grants=NONE, resources=[Failing]) as rest:
        for method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"):
            for path in ("/Dog/1", "/Dog/", "/loose", "/fail/busy"):
                answer = await rest.ask(method, path, b"{}")
                assert answer.status in {401, 405}, (method, path)
        for path in ("/", "/Dog", "/Dog/?count"):
            assert (await rest.get(path)).status == 401


async def test_what_the_server_keeps_to_itself(rest):
    assert (await rest.put("/$SYS/x", b"1")).status == 403
