"""How a WebSocket of the Python client signs in, and whom it trusts (O10)."""

import asyncio
from functools import partial

import pytest

from rowcast.core.errors import Code
from rowcast_client import Problem, Rowcast, Socket
from securing import Authority, ServerFiles
from serving import application, rowcast

SCHEMA = """
type Dog @table @export { id: ID @primaryKey name: String }
type Bill @table @export @auth(roles: ["admin"]) { id: ID @primaryKey }
"""
LOGIN = b'{"user": "ben", "password": "pencil"}'
SOON = {"wait": lambda _: asyncio.sleep(0)}


def user(folder, name, role):
    done = rowcast("user", "add", name, "--role", role, "--data", folder, stdin="pencil\n")
    assert 0 == done.returncode, done.stderr


@pytest.fixture
async def program(tmp_path):
    user(tmp_path / "data", "ann", "admin")
    user(tmp_path / "data", "ben", "clerk")
    async with application(tmp_path, SCHEMA, {"security.anonymous": "nobody"}) as running:
        yield running


@pytest.mark.slow  # the commands hash passwords
async def test_it_signs_in_as_its_client(program):
    host = f"127.0.0.1:{program.http_port}"
    client = partial(Rowcast, f"http://{host}")
    async with client(user="ben", password="pencil") as ben:
        token = (await ben.request("POST", "/$SYS/login", LOGIN)).json()["token"]
    ways = (
        client(user="ben", password="pencil"),
        client(token=token),
        Rowcast(f"http://ben:pencil@{host}"),
    )
    for n, way in enumerate(ways):
        async with way as rows, Socket(rows, meta=True) as socket:
            dogs = socket.subscribe("Dog/#", start="new")
            await anext(dogs)
            await socket.put("Dog/1", {"name": str(n)})
            event = await anext(dogs)
            assert str(n) == event.value["name"]
            assert "_client" in event.fields
            with pytest.raises(Problem) as denied:
                await socket.put("Bill/1", {})
            assert 403 == denied.value.status
            assert "pencil" not in repr(rows.way)
            assert "pencil" not in rows.way.url


@pytest.mark.slow
async def test_who_may_not_connect_is_told(program):
    url = f"http://127.0.0.1:{program.http_port}"
    async with Rowcast(url, user="ben", password="pen") as rows:
        with pytest.raises(Problem) as wrong:
            await Socket(rows, patient=True).open()
    assert (401, Code.UNAUTHENTICATED) == (wrong.value.status, wrong.value.code)


@pytest.mark.slow
async def test_who_may_not_stay_is_told(program):
    """L11: subscriptions and commands end with the Problem that says why."""
    url = f"http://127.0.0.1:{program.http_port}"
    async with (
        Rowcast(url, user="ann", password="pencil") as ann,
        Rowcast(url, user="ben", password="pencil") as ben,
        Socket(ben, **SOON) as socket,
    ):
        dogs = socket.subscribe("Dog/#", start="new")
        await anext(dogs)
        await ann.patch("$SYS/users/ben", {"disabled": True})
        for told in (lambda: anext(dogs), lambda: socket.get("Dog/1")):
            with pytest.raises(Problem) as ended:
                await told()
            assert (True, Code.DENIED) == (ended.value.is_final, ended.value.code)


async def test_it_trusts_what_its_client_trusts(tmp_path):
    authority = Authority(tmp_path)
    files = ServerFiles(tmp_path, authority.issue("localhost"))
    settings = {
        "http.securePort": 0, "tls.certificate": files.certificate, "tls.privateKey": files.key,
    }  # fmt: skip
    async with application(tmp_path, SCHEMA, settings) as program:
        url = f"https://localhost:{program.doors.https_port}"
        async with Rowcast(url, authority=authority.file) as rows, Socket(rows) as socket:
            assert 201 == (await socket.put("Dog/1", {})).status
        async with Rowcast(url) as rows:
            with pytest.raises(Problem, match="is not trusted"):
                await Socket(rows).open()
        plain = f"http://localhost:{program.doors.https_port}"
        async with Rowcast(plain) as rows:
            with pytest.raises(Problem):
                await Socket(rows).open()
