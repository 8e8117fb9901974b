"""One cursor everywhere (M1): who changes protocols misses and doubles nothing."""

import json
import random
import socket
import threading
from dataclasses import dataclass

import pytest

from serving import PATIENCE_SECONDS, Server, wait_until
from talking import Events, Mqtt, open_websocket, query, told, user_properties

HOPS = 300
EVENTS_PER_HOP_MAX = 12
KEYS = "abcd"
FILTER = "Counter/#"


# -- the log, as its writer was told ---------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """One acknowledged write."""

    cursor: str
    topic: str
    kind: str
    n: int | None

    @property
    def seq(self):
        """Return its number."""
        return seq_of(self.cursor)


def seq_of(cursor):
    """Return the number in a cursor."""
    return int(cursor.partition(":")[2])


class Writer:
    """Writes one event after the other, by all doors, as long as the reader is near."""

    def __init__(self, server, seed):
        self.log = []
        self._server = server
        self._random = random.Random(seed)
        self._go = threading.Condition()
        self._wanted = 0
        self._thread = threading.Thread(target=self._run)
        self._failed = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.allow(-1)
        self._thread.join()
        assert [] == self._failed

    def allow(self, count):
        """Let it write until the log has so many events; -1 ends it."""
        with self._go:
            self._wanted = count
            self._go.notify()

    def _run(self):
        try:
            with Mqtt(self._server.mqtt_port) as client, self._server.client() as http:
                number = 0
                while self._may_write():
                    self.log.append(self._write(client, http, number))
                    number += 1
        except Exception as failure:
            self._failed.append(failure)
            raise

    def _may_write(self):
        with self._go:
            self._go.wait_for(lambda: self._wanted < 0 or len(self.log) < self._wanted)
            return self._wanted >= 0

    def _write(self, client, http, number):
        topic = f"Counter/{self._random.choice(KEYS)}"
        body = {"n": number}
        how = self._random.choice(("mqtt put", "mqtt message", "put", "message", "delete", "patch"))
        if how.startswith("mqtt"):
            retain = how == "mqtt put"
            answer = client.publish(topic, json.dumps(body).encode(), retain=retain)
            kind = "put" if retain else "message"
            return Written(user_properties(answer)["seq"], topic, kind, number)
        method, path = (
            ("POST", f"/{topic}?retain=false") if how == "message" else (how, f"/{topic}")
        )
        answer = http.request(method.upper(), path, json=None if how == "delete" else body)
        if answer.status_code == 404:  # nothing to patch or delete
            return self._write(client, http, number)
        assert answer.is_success, answer.text
        n = None if how == "delete" else number
        return Written(answer.headers["Rowcast-Position"], topic, how, n)


# -- the ways to read on ---------------------------------------------------------------------------


def by_events(server, since, count, rng):
    """Server-Sent Events with Last-Event-ID."""
    with Events(server, "/Counter/", since=since) as events:
        heard = [as_written(events.next()) for _ in range(count)]
        finish(events.socket, rng)
    return heard


def by_websocket(server, since, count, rng):
    """WebSocket with `since`."""
    with open_websocket(server, f"/Counter/{query(since=since)}") as websocket:
        heard = [as_written(told(websocket)) for _ in range(count)]
        finish(websocket.socket, rng)
    return heard


def by_mqtt(server, since, count, rng):
    """MQTT 5 with the user property `since`."""
    heard = []
    with Mqtt(server.mqtt_port) as client:
        wanted = {"user_property": (("since", since),)}
        client.subscribe(FILTER, properties=wanted, retain_as_published=True)
        while len(heard) < count:
            message = client.message()
            assert not message.topic.startswith("$"), message
            n = json.loads(message.payload)["n"] if message.payload else None
            users = user_properties(message)
            kind = users.get("op") or ("put" if message.retain else "message")
            heard.append(Written(users["seq"], message.topic, kind, n))
        finish(client.socket, rng)
    return heard


def as_written(event):
    """Return what a stream told as what the writer knows."""
    assert event.kind in {"put", "patch", "delete", "message"}, event
    n = event.value["n"] if event.kind != "delete" else None
    return Written(event.fields["cursor"], event.fields["topic"], event.kind, n)


def finish(connected, rng):
    """Cut a connection off, or leave it to be closed in order."""
    if rng.random() < 0.5:
        connected.shutdown(socket.SHUT_RDWR)


def poll(server):
    """Read the whole table over REST: its state, and the cursor it holds at."""
    answer = server.request("GET", "/Counter/?limit(100)")
    state = {f"Counter/{record['id']}": record["n"] for record in answer.json()}
    return state, answer.headers["Rowcast-Position"]


def fold(log, until):
    """Return the records that the events of a log make, up to a position."""
    state = {}
    for event in log:
        if event.seq > until or event.kind == "message":
            continue
        if event.kind == "delete":
            state.pop(event.topic, None)
        else:
            state[event.topic] = event.n
    return state


STREAMS = (by_events, by_websocket, by_mqtt)


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_reader_that_changes_protocols_hears_exactly_the_log(server, seed):
    """Cut at random points and resumed by a randomly chosen protocol, hundreds of times.

    Now and then it reads the table over REST instead and goes on from there: what it did not hear
    meanwhile is in what it read.
    """
    rng = random.Random(seed)
    _, position = poll(server)
    heard, states, skipped = [], [], set()
    with Writer(server, seed) as writer:
        for _ in range(HOPS):
            if rng.random() < 0.1:
                states.append(poll(server))
                skipped |= set(range(seq_of(position) + 1, seq_of(states[-1][1]) + 1))
                position = states[-1][1]
            count = rng.randint(0, EVENTS_PER_HOP_MAX)
            writer.allow(len(heard) + len(skipped) + 2 * EVENTS_PER_HOP_MAX)
            heard += rng.choice(STREAMS)(server, position, count, rng)
            position = heard[-1].cursor if count else position
    until = seq_of(position)
    expected = [x for x in writer.log if x.seq <= until and x.seq not in skipped]
    assert expected == heard
    assert len(heard) > HOPS
    assert [fold(writer.log, seq_of(cursor)) for _, cursor in states] == [x for x, _ in states]


# -- cursors that cannot be continued --------------------------------------------------------------


def events_at_start(server, since):
    """Return the kinds that Server-Sent Events begin with, up to an event that is written now."""
    with Events(server, "/Counter/", since=since) as events:
        return until_put(server, lambda: events.next().kind)


def websocket_at_start(server, since):
    """The same by WebSocket."""
    with open_websocket(server, f"/Counter/{query(since=since)}") as websocket:
        return until_put(server, lambda: told(websocket).kind)


def mqtt_at_start(server, since):
    """The same by MQTT, whose marks are messages of the server's own."""
    marks = {"$reset": "reset", "$snapshot": "current"}
    with Mqtt(server.mqtt_port) as client:
        client.subscribe(FILTER, properties={"user_property": (("since", since),)})

        def kind():
            message = client.message()
            mark = marks.get(message.topic.partition("/")[0])
            return mark or ("snapshot" if message.retain else "put")

        return until_put(server, kind)


def until_put(server, kind):
    """Return the kinds up to that of a PUT, which is sent when the current records are told."""
    kinds = [kind()]
    while kinds[-1] != "put":
        if kinds[-1] == "current":
            server.request("PUT", "/Counter/a", json={"n": 0})
        kinds.append(kind())
    return kinds


BEGINNINGS = (events_at_start, websocket_at_start, mqtt_at_start)
ANEW = ["reset", "snapshot", "snapshot", "current", "put"]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_a_cursor_of_another_log_gives_one_reset(server, begin):
    """C11: reset, the current records, and then what happens; once."""
    for key in "ab":
        server.request("PUT", f"/Counter/{key}", json={"n": 1})
    assert ANEW == begin(server, "00000000:1")


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_a_cursor_beyond_the_end_gives_one_reset(server, begin):
    for key in "ab":
        cursor = server.request("PUT", f"/Counter/{key}", json={"n": 1}).headers["Rowcast-Position"]
    assert ANEW == begin(server, f"{cursor.partition(':')[0]}:{10**9}")


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_a_cursor_that_is_too_old_gives_one_reset(tmp_path, begin):
    settings = {"history.keep_events": 1, "history.sweep_seconds": 0.02}
    with Server(tmp_path, settings=settings) as server:
        old = server.request("PUT", "/Counter/a", json={"n": 1}).headers["Rowcast-Position"]
        for key in "aaab":
            server.request("PUT", f"/Counter/{key}", json={"n": 2})

        def forgotten():
            with Events(server, "/Counter/", since=old) as events:
                return events.next().kind == "reset"

        wait_until(forgotten, "the log is trimmed")
        assert ANEW == begin(server, old)
