"""Bridges and dead letters as rows: changed at run time, mended and sent again (H2, H13-H17)."""

import json
from functools import partial

import pytest
from bridged import reading, server, to

from http_clients import http_client
from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.auth.anonymous import STRANGER
from rowcast.codecs import JSON
from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.features.rights.rule_syntax import rule_of

pytestmark = NEEDS_MOSQUITTO
RULES = "topic readwrite free/#\n"


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/rules").write_text(RULES)
    with RemoteBroker(tmp_path / "there", f"acl_file {tmp_path}/there/rules") as running:
        yield running


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("rowcast.features.bridges.outbox.backoff_seconds", lambda _attempts: 0.01)
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


class Rest:
    """The server's own REST, as an administrator uses it."""

    def __init__(self, world):
        self._client = http_client(base_url=f"http://127.0.0.1:{world.application.http_port}")

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._client.aclose()

    async def ask(self, method, path, value=None):
        return await self._client.request(method, path, json=value)


async def buried(world, *topics):
    for topic in topics:
        await world.say(topic, topic.encode())
    await world.until(lambda: world.bridge.dead == len(topics))


async def test_a_bridge_is_made_changed_and_ended_at_run_time(broker, folder):
    """H2, M11: rows of a table; it is there after a restart too, and its password is not shown."""
    settings = to(broker, "free/#") | {"password": "secret"}
    del settings["name"]
    async with server(folder) as world, reading(broker) as reader, Rest(world) as rest:
        made = await rest.ask("PUT", "/$SYS/brokers/b", settings)
        assert 204 == made.status_code
        await world.idle()
        await world.say("free/1", b"one")
        await reader.wait(1)
        settings["out"] = [{"filter": "free/#", "prefix": "free/there/"}]
        await rest.ask("PUT", "/$SYS/brokers/b", settings)
        await world.idle()
        await world.say("free/1", b"two")
        assert [("free/1", b"one"), ("free/there/free/1", b"two")] == await reader.wait(2)
    async with server(folder) as world, Rest(world) as rest:
        await world.idle()
        listed = (await rest.ask("GET", "/$SYS/brokers/")).text
        assert "secret" not in listed
        assert 204 == (await rest.ask("DELETE", "/$SYS/brokers/b")).status_code
        assert [] == json.loads((await rest.ask("GET", "/$SYS/brokers/")).text)
        assert 404 == (await rest.ask("DELETE", "/$SYS/brokers/b")).status_code
    async with server(folder) as world:
        assert not world.gateway.bridges


async def test_what_waits_stays_when_a_bridge_is_changed(broker, folder):
    """H2, H21."""
    settings = to(broker, "free/#")
    name = settings.pop("name")
    broker.kill()
    async with server(folder) as world:
        await world.gateway.change(name, settings)
        await world.say("free/1", b"waits")
        await world.gateway.change(name, settings)
        broker.start()
        async with reading(broker) as reader:
            assert ("free/1", b"waits") == (await reader.wait(1))[0]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "host"),
        ({"host": ""}, "host"),
        ({"host": "h", "prot": 1}, 'prot is not a setting; did you mean "port"?'),
        ({"host": "h", "out": [{"filter": "#/a"}]}, "'#' must be"),
        ([1], "a broker is a map"),
    ],
)
async def test_what_is_no_broker_is_refused(folder, value, said):
    """H30: at once, with what is wrong."""
    async with server(folder) as world, Rest(world) as rest:
        answer = await rest.ask("PUT", "/$SYS/brokers/b", value)
        assert 400 == answer.status_code
        assert said in answer.json()["detail"]
        assert not world.gateway.bridges


async def test_the_configuration_s_own_are_not_changed(broker, folder):
    async with server(folder, to(broker)) as world, Rest(world) as rest:
        for method, value in (("PUT", {"host": "h"}), ("DELETE", None)):
            assert 409 == (await rest.ask(method, "/$SYS/brokers/b", value)).status_code


async def test_dead_letters_are_listed_and_sent_again(broker, folder):
    """H13, H15, H16: once the reason is gone; marked, and gone when they are delivered."""
    async with server(folder, to(broker, "#")) as world, Rest(world) as rest:
        await world.idle()
        await buried(world, "shut/1", "shut/2")
        listed = (await rest.ask("GET", "/$SYS/dead_letters/?select(topic,attempts)")).json()
        assert [{"topic": "shut/1", "attempts": 5}, {"topic": "shut/2", "attempts": 5}] == listed
        found = (await rest.ask("GET", "/$SYS/dead_letters/?topic==shut/2&select(id)")).json()
        assert 1 == len(found)
        rules = broker.folder / "rules"
        rules.write_text("topic readwrite #\n")
        broker.reload()
        async with reading(broker, "shut/#") as reader:
            answer = await rest.ask("POST", "/$SYS/dead_letters/", {"broker": "b", "limit": 10})
            assert {"replayed": 2} == answer.json()
            heard = await reader.wait(2)
            await world.until(lambda: not world.bridge.outbox.items)
        assert {("shut/1", b"shut/1"), ("shut/2", b"shut/2")} == set(heard)
        assert "1" == reader.marks(0)["rowcast-again"]
        await world.kernel.committer.settle()
        assert [] == (await rest.ask("GET", "/$SYS/dead_letters/")).json()


async def test_a_dead_letter_is_mended_and_sent(broker, folder):
    """M11: PUT what it should have been."""
    async with server(folder, to(broker, "#")) as world, Rest(world) as rest:
        await world.idle()
        await buried(world, "shut/1")
        (letter,) = (await rest.ask("GET", "/$SYS/dead_letters/")).json()
        path = f"/$SYS/dead_letters/b/{letter['id']}"
        assert letter == (await rest.ask("GET", path)).json()
        async with reading(broker, "free/#") as reader:
            changes = {"topic": "free/1", "payload": "mended"}
            assert 204 == (await rest.ask("PUT", path, changes)).status_code
            assert [("free/1", b"mended")] == await reader.wait(1)


async def test_a_large_one_comes_back_whole(broker, folder):
    """H20: up to the greatest payload."""
    payload = b"\xff" * 1_900_000
    async with server(folder, to(broker, "#")) as world, Rest(world) as rest:
        await world.idle()
        await world.say("shut/1", payload)
        await world.until(lambda: world.bridge.dead == 1)
        (letter,) = (await rest.ask("GET", "/$SYS/dead_letters/")).json()
        assert "apart" == letter["payload_encoding"]
        async with reading(broker, "free/#") as reader:
            path = f"/$SYS/dead_letters/b/{letter['id']}"
            await rest.ask("PUT", path, {"topic": "free/1"})
            assert [("free/1", payload)] == await reader.wait(1)


async def test_a_dead_letter_is_discarded(broker, folder):
    async with server(folder, to(broker, "#")) as world, Rest(world) as rest:
        await world.idle()
        await buried(world, "shut/1")
        (letter,) = (await rest.ask("GET", "/$SYS/dead_letters/")).json()
        path = f"/$SYS/dead_letters/b/{letter['id']}"
        assert 204 == (await rest.ask("DELETE", path)).status_code
        assert [404, 404] == [
            (await rest.ask(method, path)).status_code for method in ("GET", "DELETE")
        ]


@pytest.mark.parametrize("bad", [{}, {"broker": "nobody"}, {"broker": "b", "limit": 0}])
async def test_a_wrong_replay_is_refused(broker, folder, bad):
    """H30."""
    async with server(folder, to(broker)) as world, Rest(world) as rest:
        answer = await rest.ask("POST", "/$SYS/dead_letters/", bad)
        assert (404 if bad.get("broker") == "nobody" else 400) == answer.status_code


async def test_a_stranger_may_change_nothing(broker, folder):
    """L17."""
    stranger = Caller("anonymous", STRANGER, "http", peer="192.0.2.1")
    async with server(folder, to(broker)) as world:
        event = Event("$SYS/brokers/evil", PUT, b'{"host":"h"}', "application/json", 1, True)
        with pytest.raises(Error) as refused:
            await world.kernel.write(event, stranger)
        assert Code.UNAUTHENTICATED is refused.value.code
        resource = world.kernel.resource("$SYS/dead_letters", stranger)
        with pytest.raises(Error) as refused:
            await resource.post({"broker": "b"})
        assert Code.UNAUTHENTICATED is refused.value.code


async def test_l17_where_rules_restrict_only_the_role_admin_makes_a_bridge(broker, folder):
    """It carries what the server may read, so a rule about bridges would be one about all."""
    own = Grants(write=True, administer=True)
    # Not users of the file, whose rights would be looked up when their writes are carried out.
    operator = Caller("$olga", own, "http", roles=frozenset({"operator"}))
    root = Caller("$root", own, "http", roles=frozenset({"admin"}))
    async with server(folder, to(broker)) as world:
        event = partial(Event, kind=PUT, payload=b'{"host":"h"}', content_type=JSON, qos=1)
        await world.kernel.write(event("$SYS/brokers/first", retain=True), operator)
        world.kernel.rights.replace([rule_of("r", {"filter": "a/#", "actions": ["read"]})])
        with pytest.raises(Error, match="only the role admin") as refused:
            await world.kernel.write(event("$SYS/brokers/evil", retain=True), operator)
        assert Code.DENIED is refused.value.code
        await world.kernel.write(event("$SYS/brokers/good", retain=True), root)
        assert {"b", "first", "good"} == set(world.gateway.bridges)


async def test_what_waits_is_summed_up(broker, folder):
    """H16, H37: how many, how old, which numbers."""
    broker.kill()
    async with server(folder, to(broker, "u/#")) as world, Rest(world) as rest:
        await world.say("u/1", b"x")
        broker.start()
        await world.idle()
        row = (await rest.ask("GET", "/$SYS/brokers/b")).json()
        row["outbox"].pop("growth_per_second")
        empty = {"pending": 0, "waiting_bytes": 0, "full_in_seconds": None, "retrying": 0,
                 "max_attempts_seen": 0, "oldest": None, "newest": None}  # fmt: skip
        assert (empty, 0.0) == (row["outbox"], row["lag_seconds"])
