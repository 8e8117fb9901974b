"""M9: REST, SSE, WebSocket, MQTT and queries agree with the reference evaluator."""

import asyncio
import json
from dataclasses import replace
from functools import partial

import pytest
from rights_doors import basic, compare

from http_clients import http_client
from rowcast.core.callers import SERVER, Caller, Grants
from rowcast.core.events import DELETE, PATCH, PUT, Event
from serving import application, rowcast
from talking import Mqtt

BOTH = Grants(read=True, write=True)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_door_agrees_with_the_reference(tmp_path, seed):
    """M9, L6, L7, L12, L13: for random policies, users, records and acts."""
    assert await compare(seed, partial(application, tmp_path), 12)


@pytest.mark.parametrize("seed", [4, 5])
async def test_every_door_agrees_beside_an_access_list(tmp_path, seed):
    """M9, G20: where an access list has to allow it, too."""
    assert await compare(seed, partial(application, tmp_path), 12, listed=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
async def test_every_door_agrees_with_the_reference_for_long(tmp_path, seed):
    """M9."""
    assert await compare(seed, partial(application, tmp_path), 25)


SCHEMA = """
type Dog @table @export
  @auth(read: "owner == $user") @auth(roles: ["vet"], mask: {phone: "last4"}) {
  id: ID @primaryKey
  owner: String
  phone: String
  size: Int
}
type Cat @table @export { id: ID @primaryKey name: String }
"""
PEOPLE = {
    "ann": Caller("ann", BOTH, "mqtt"),
    "ben": Caller("ben", BOTH, "mqtt"),
    "vi": Caller("vi", BOTH, "mqtt", roles=frozenset({"vet"})),
}


@pytest.fixture
async def program(tmp_path):
    async with application(tmp_path, SCHEMA) as running:

        async def identify(shown):
            known = PEOPLE[shown.username]
            return replace(known, client_id=shown.client_id, peer=shown.peer, door=shown.door)

        running.identity.authenticator.identify = identify
        running.kernel.reauthorization.judges.clear()
        yield running


async def write(program, topic, value, kind=PUT):
    payload = json.dumps(value).encode() if value is not None else b""
    event = Event(topic, kind, payload, "application/json" if payload else None, 1, True)
    await program.kernel.write(event, SERVER)


def client(program, name, client_id="", **more):
    properties = {"session_expiry_interval": 600} if client_id else None
    return Mqtt(
        program.mqtt_port, client_id=client_id, properties=properties, username=name,
        password=b"x", **more,
    )  # fmt: skip


def messages(peer, count):
    found = [peer.message() for _ in range(count)]
    return [(item.topic, json.loads(item.payload) if item.payload else None) for item in found]


async def test_a_session_is_told_what_happened_to_its_sight_while_it_was_away(program):
    """L13, M9: a cursor goes on by the same rules, whatever was meanwhile."""
    peer = await asyncio.to_thread(client, program, "ann", "a1")
    await asyncio.to_thread(peer.subscribe, "Dog/#")
    peer.cut()
    await write(program, "Dog/1", {"owner": "ann", "phone": "1"})
    await write(program, "Dog/2", {"owner": "ben"})
    await write(program, "Dog/1", {"owner": "ben"})
    await write(program, "Dog/2", {"owner": "ann"}, PATCH)
    await write(program, "Dog/3", {"owner": "ben"})
    await write(program, "Dog/3", None, DELETE)
    await write(program, "Cat/1", {"name": "end"})
    with await asyncio.to_thread(client, program, "ann", "a1", clean_start=False) as again:
        told = await asyncio.to_thread(messages, again, 3)
        await asyncio.to_thread(again.subscribe, "Cat/#")
        told += await asyncio.to_thread(messages, again, 1)
    assert [
        ("Dog/1", {"id": "1", "owner": "ann", "phone": "1"}),
        ("Dog/1", None),
        ("Dog/2", {"id": "2", "owner": "ann"}),
        ("Cat/1", {"id": "1", "name": "end"}),
    ] == told


async def test_a_rule_about_records_narrows_who_watches_already(program):
    """M9, C28: of a table without @auth; the record before an event is kept from then on."""
    await write(program, "Cat/1", {"name": "ann"})
    peer = await asyncio.to_thread(client, program, "ann")
    await asyncio.to_thread(peer.subscribe, "Cat/#")
    told = await asyncio.to_thread(messages, peer, 1)
    rule = {"filter": "Cat/#", "actions": ["read"], "users": ["ann"], "where": "name == $user"}
    await write(program, "$SYS/rules/own", rule)
    await write(program, "Cat/2", {"name": "ben"})
    await write(program, "Cat/1", {"name": "ben"}, PATCH)
    await write(program, "Cat/1", {"name": "cem"}, PATCH)
    await write(program, "Cat/2", {"name": "ann"}, PATCH)
    told += await asyncio.to_thread(messages, peer, 2)
    one, two = {"id": "1", "name": "ann"}, {"id": "2", "name": "ann"}
    assert [("Cat/1", one), ("Cat/1", None), ("Cat/2", two)] == told
    peer.cut()


async def test_a_group_deals_to_those_who_may_see(program):
    """M9: shared subscriptions; a member never gets what it may not read."""
    peers = {name: await asyncio.to_thread(client, program, name) for name in ("ann", "ben")}
    for peer in peers.values():
        await asyncio.to_thread(peer.subscribe, "$share/g/Dog/#")
    for number in range(6):
        owner = ("ann", "ben", "cem")[number % 3]
        await write(program, f"Dog/{number}", {"owner": owner})
    for name, peer in peers.items():
        told = await asyncio.to_thread(messages, peer, 2)
        assert [name, name] == [value["owner"] for _, value in told]
        assert not peer.ready()
        peer.cut()


async def test_a_series_counts_what_its_reader_sees(program):
    """L12: also in what is worked out from many events."""
    for number in range(4):
        value = {"owner": ("ann", "ben")[number % 2], "phone": "7", "size": 10**number}
        await write(program, f"Dog/{number}", value)
    counts, texts = [], []
    url = f"http://127.0.0.1:{program.http_port}"
    async with http_client(base_url=url) as http:
        for name in ("ann", "vi"):
            headers = {"authorization": basic(name)}
            series = await http.get("/Dog/?from=-1h&every=2h&fn=sum&select=size", headers=headers)
            counts.append([item["values"]["size"]["sum"] for item in series.json()])
            texts.append((await http.get("/Dog/?from=-1h", headers=headers)).text)
    assert [[1, 100], [1, 10, 100, 1000]] == counts
    assert ["***" in text for text in texts] == [False, True]


SITES = """
type Tank @table @export
  @auth(read: "site in $user.sites") @auth(roles: ["boss"]) { id: ID @primaryKey site: String }
"""


async def test_users_rules_and_the_command_that_explains(tmp_path):
    """L6, L7, L10, M9: users with attributes, rules as rows, live readers, `policy explain`."""
    async with application(tmp_path, SITES) as running:
        url = f"http://127.0.0.1:{running.http_port}"
        async with http_client(base_url=url, timeout=60) as http:

            async def put(path, value, name="root"):
                answer = await http.put(path, json=value, auth=(name, f"secret-{name}"))
                return answer.is_success or answer.status_code

            code = str(running.identity.directory.setup_code)
            root = {"password": "secret-root", "roles": ["admin"], "setup_code": code}
            assert (await http.put("/$SYS/users/root", json=root)).is_success
            ben = {"password": "secret-ben", "attributes": {"sites": ["north"]}}
            assert True is await put("/$SYS/users/ben", ben)
            for number, site in enumerate(("north", "south")):
                assert True is await put(f"/Tank/{number}", {"site": site})
            listed = await http.get("/Tank/", auth=("ben", "secret-ben"))
            assert [{"id": "0", "site": "north"}] == listed.json()
            rule = {"filter": "Tank/0", "effect": "deny", "actions": ["read"], "users": ["ben"]}
            assert 403 == await put("/$SYS/rules/no", rule, "ben")
            for name, code in (("ben", 403), ("root", 200)):  # who is connected, from where (F33)
                them = await http.get("/$SYS/clients/", auth=(name, f"secret-{name}"))
                assert code == them.status_code
            assert True is await put("/$SYS/rules/no", rule)
            assert [] == (await http.get("/Tank/", auth=("ben", "secret-ben"))).json()
        named = url.replace("//", "//root:secret-root@")
        asked = [("Tank/0", 3, "the rule 'no' denies it"), ("Tank/1", 3, "site in $user.sites")]
        for topic, code, words in asked:
            told = await asyncio.to_thread(
                rowcast, "policy", "explain", "ben", "read", topic, "--url", named
            )
            assert code == told.returncode, told.stderr
            assert words in told.stdout
