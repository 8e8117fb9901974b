"""The program under a random policy, and everybody listening at every door, for M9."""

import asyncio
import json
import threading
from base64 import b64encode
from contextlib import suppress

from websockets.exceptions import WebSocketException

from http_clients import http_client
from rights_chance import (
    as_row,
    dice_of,
    random_list,
    random_person,
    random_policy,
    random_value,
)
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.features.rights.rule_syntax import rule_of
from serving import PATIENCE_SECONDS
from talking import Closed, Events, Mqtt, open_websocket

IDS = ("1", "2", "3", "ann", "ben")
QUERIES = ("", "?sort(-level)", "?salary=gt=20", "?owner==ann", "?phone==1", "?site!=north")


class Ports:
    """Where the program listens, for clients in threads."""

    def __init__(self, application):
        self.http_port, self.mqtt_port = application.http_port, application.mqtt_port


class Ear:
    """A client in a thread of its own that writes down what it is told of Doc."""

    def __init__(self, door, ports, name):
        self.heard = []
        self.ready = threading.Event()
        self.refused = False
        self._end = None
        listen = {"sse": self._sse, "ws": self._ws, "mqtt": self._mqtt}[door]
        self.thread = threading.Thread(target=listen, args=(ports, name), daemon=True)
        self.thread.start()

    def close(self):
        if self._end is not None:
            with suppress(OSError, WebSocketException):
                self._end()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()

    def _sse(self, ports, name):
        with Events(ports, "/Doc/", Authorization=basic(name)) as events:
            self.refused = events.status != 200
            if not self.refused:
                for told in events:
                    self._note(told.fields)
        self.ready.set()

    def _ws(self, ports, name):
        headers = {"Authorization": basic(name)}
        try:
            with open_websocket(ports, "/Doc/", additional_headers=headers) as socket:
                self._end = socket.close
                while True:
                    self._note(json.loads(socket.recv(PATIENCE_SECONDS)))
        except WebSocketException:  # refused before or after the upgrade, or the end
            self.refused = not self.ready.is_set()
        self.ready.set()

    def _mqtt(self, ports, name):
        with Mqtt(ports.mqtt_port, username=name, password=b"x") as client:
            self.refused = client.subscribe("Doc/#").reasons[0] > 2
            self._end = client.cut
            self.ready.set()
            with suppress(Closed, OSError, ValueError):
                while True:
                    message = client.message()
                    value = json.loads(message.payload) if message.payload else None
                    self._add(message.topic, "put" if message.payload else "delete", value)

    def _note(self, envelope):
        if envelope["kind"] == "current":
            self.ready.set()
        else:
            self._add(envelope["topic"], envelope["kind"], envelope.get("value"))

    def _add(self, topic, kind, value):
        if value is not None:
            value.pop("id")
        self.heard.append((topic, kind, value))


def basic(name):
    return "Basic " + b64encode(f"{name}:x".encode()).decode()


class Doors:
    """A program, people, and what is in its table."""

    def __init__(self, seed, *, listed):
        self.dice = dice_of(seed)
        self.policy = random_policy(self.dice)
        if listed:
            self.policy.listed = random_list(dice_of(f"list {seed}"))
        self.people = {f"p{number}": random_person(self.dice) for number in range(3)}
        self.values, self.ears, self.acts = {}, [], 0

    def begin(self, application):
        """Let these people in, under these rules."""
        self.kernel = application.kernel
        application.identity.authenticator.identify = self._identify
        self.kernel.reauthorization.judges.clear()
        tables = self.kernel.rights.policy.tables
        rules = [rule_of(name, as_row(rule), tables) for name, rule in self.policy.rules.items()]
        self.kernel.rights.replace(rules)
        self.ports = Ports(application)
        url = f"http://127.0.0.1:{self.ports.http_port}"
        self.http = http_client(base_url=url, timeout=PATIENCE_SECONDS)

    async def _identify(self, shown):
        person = self.people[shown.username]
        grants = ALL if "admin" in person.roles else Grants(person.read, person.write)
        return Caller(
            person.name, grants, shown.door, shown.client_id, shown.peer,
            roles=person.roles, claims=person.claims,
        )  # fmt: skip

    async def listen(self):
        """Have everybody listen at every door."""
        for name, person in self.people.items():
            for door in ("sse", "ws", "mqtt"):
                ear = Ear(door, self.ports, name)
                await asyncio.to_thread(ear.ready.wait, PATIENCE_SECONDS)
                self.ears.append((door, person, ear, []))
            refused = {door: ear.refused for door, who, ear, _ in self.ears if who is person}
            assert 1 == len(set(refused.values())), (self.known, person, refused)
            listed = self.policy.lists(person, "subscribe", "Doc/#")
            assert listed or all(refused.values()), (self.known, person)

    # -- acts --------------------------------------------------------------------------------------

    @property
    def known(self):
        policy = self.policy
        return policy.schema, policy.rules, policy.listed, self.people, self.values

    async def write(self):
        """Do a random write at a random door, and see what becomes of it."""
        self.acts += 1
        name = self.dice.choice(sorted(self.people))
        door = self.dice.choice(("rest", "ws", "mqtt"))
        kind = self.dice.choice(("put", "put", "delete") if door == "mqtt" else _KINDS)
        record_id, given = self.dice.choice(IDS), random_value(self.dice)
        if kind == "patch":
            given = dict(self.dice.sample(sorted(given.items()), min(2, len(given))))
        person, topic, old = self.people[name], f"Doc/{record_id}", self.values.get(record_id)
        status, new = self.policy.after(person, topic, kind, old, given)
        if status == 404 and door == "mqtt" and self.policy.sees_all(person):
            status, new = 204, None  # to delete what is not there is no mistake in MQTT
        said = await self._sent(door, name, kind, topic, given)
        assert said == (status in {201, 204} or status), (self.known, name, door, kind, topic)
        if said is not True:
            return
        for way, who, _, expected in self.ears:
            heard = self.policy.event(who, topic, kind, old, new)
            if heard is not None:
                told = "put" if way == "mqtt" and heard[0] == "patch" else heard[0]
                expected.append((topic, told, heard[1]))
        self.values = {key: item for key, item in self.values.items() if key != record_id}
        if new is not None:
            self.values[record_id] = new

    async def _sent(self, door, name, kind, topic, given):
        """Send a write; return True if it was done, else 403 or 404."""
        if door == "rest":
            body = None if kind == "delete" else json.dumps(given)
            headers = {"authorization": basic(name), "content-type": "application/json"}
            answer = await self.http.request(
                kind.upper(), f"/{topic}", content=body, headers=headers
            )
            return answer.status_code in {200, 201, 204} or answer.status_code
        send = self._by_socket if door == "ws" else self._by_mqtt
        return await asyncio.to_thread(send, name, kind, topic, given)

    def _by_socket(self, name, kind, topic, given):
        headers = {"Authorization": basic(name)}
        with open_websocket(self.ports, "/", additional_headers=headers) as socket:
            command = {"id": 1, "op": kind, "topic": topic}
            socket.send(json.dumps(command if kind == "delete" else command | {"value": given}))
            answer = json.loads(socket.recv(PATIENCE_SECONDS))
        return "ack" in answer or {"denied": 403, "not_found": 404}[answer["error"]["code"]]

    def _by_mqtt(self, name, kind, topic, given):
        with Mqtt(self.ports.mqtt_port, username=name, password=b"x") as client:
            payload = b"" if kind == "delete" else json.dumps(given).encode()
            reason = client.publish(topic, payload).reason
        return reason < 128 or (403 if reason == 135 else 404)

    async def read(self):
        """Ask for a record, for all, and for some, and compare."""
        name = self.dice.choice(sorted(self.people))
        await self._read_one(name)
        for query in ("", self.dice.choice(QUERIES)):
            await self._read_all(name, query)

    async def _get(self, name, path):
        self.acts += 1
        return await self.http.get(path, headers={"authorization": basic(name)})

    async def _read_one(self, name):
        person, record_id = self.people[name], self.dice.choice(IDS)
        answer = await self._get(name, f"/Doc/{record_id}")
        value = self.values.get(record_id)
        known = (*self.known, name, record_id, answer.text)
        if not self.policy.may(person, "read", f"Doc/{record_id}") or not self.policy.opens(person):
            assert 403 == answer.status_code, known
        elif value is None or not self.policy.sees(person, value):
            assert 404 == answer.status_code, known
            absent = await self._get(name, "/Doc/none")
            if absent.status_code == 404:
                words = absent.text.replace("Doc/none", f"Doc/{record_id}")
                assert words == answer.text, known
        else:
            assert {"id": record_id} | self.policy.shown(person, value) == answer.json(), known

    async def _read_all(self, name, query):
        person, policy = self.people[name], self.policy
        visible = {
            key: policy.shown(person, value)
            for key, value in self.values.items()
            if policy.may(person, "read", f"Doc/{key}") and policy.sees(person, value)
        }
        answer = await self._get(name, f"/Doc/{query}")
        known = (*self.known, name, query, answer.text)
        compared = {"?sort(-level)": "level", "?salary=gt=20": "salary", "?phone==1": "phone"}
        compared |= {"?owner==ann": "owner", "?site!=north": "site"}
        if answer.status_code == 403:
            assert not visible, known
        elif compared.get(query) in policy.unsure(person):
            assert 400 == answer.status_code, known
        else:
            found = {item.pop("id"): item for item in answer.json()}
            assert {k: v for k, v in visible.items() if _selected(query, v)} == found, known

    async def settle(self):
        """Compare what everybody heard, in order and nothing else."""
        for _, _, ear, expected in self.ears:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(ear.heard) < len(expected) and not ear.refused:
                    await asyncio.to_thread(ear.thread.join, 0.005)
        for name in self.people:
            await self._get(name, "/Doc/1")

    def compare(self):
        """Compare once all ears are closed: then nothing more can come."""
        for door, person, ear, expected in self.ears:
            ear.close()
            self.acts += len(expected)
            wanted = [] if ear.refused else expected
            assert wanted == ear.heard, (self.known, door, person)


_KINDS = ("put", "put", "patch", "delete")


def _selected(query, value):
    if query == "?salary=gt=20":
        return (value.get("salary") or 0) > 20
    if query == "?owner==ann":
        return value.get("owner") == "ann"
    if query == "?phone==1":
        return value.get("phone") == "1"
    return query != "?site!=north" or value.get("site") != "north"


async def compare(seed, running, acts, *, listed=False):
    """Compare one random policy at all doors; return how many questions were asked.

    ``listed``: a random access list has to allow everything, too.
    """
    doors = Doors(seed, listed=listed)
    settings = {"hooks.acl": json.dumps(doors.policy.listed)} if listed else {}
    async with running(doors.policy.schema, settings) as application:
        doors.begin(application)
        await doors.listen()
        for _ in range(acts):
            await doors.write()
            await doors.read()
        await doors.settle()
        await doors.http.aclose()
    await asyncio.to_thread(doors.compare)
    return doors.acts
