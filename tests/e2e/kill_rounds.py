"""Kills the real program while it is written to, starts it again, and compares what is there.

Writers use every door and note what was acknowledged; a reader notes what was announced. After
each `kill -9`:

- every acknowledged write is in the log, under the number that was told, and no number is twice;
- what a reader saw is in the log: nothing is announced that a crash can take back;
- nothing is there that was not sent, each writer's events are in its order, and a batch that was
  to be written together is there wholly or not at all;
- the records are what the events of the log make, and the log's epoch is the same;
- each topic table says of itself what the log says of it, to the event and to the record.
"""

import argparse
import json
import random
import select
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from killing import work_until_killed

from rowcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Puback, Publish
from serving import PATIENCE_SECONDS, Server
from talking import Events, Mqtt, Told, open_websocket, told, user_properties

# ruff: noqa: T201 - a program that talks to people

ACKNOWLEDGED_MAX = 2_000
"""A round ends after so many acknowledgements at the latest."""
LATER_SECONDS_MAX = 0.05
"""The kill comes so much later at the most, at no moment that anybody chose."""
START_SECONDS_MAX = 2.0
"""A server that is killed while it starts lives so long at the most."""
KILLED_AT_START = 0.2
"""How often it is killed once more while it starts."""
WINDOW = 24
"""Publishes that a writer sends before it reads the acknowledgements."""
BATCH = 7
KEYS = 6
LEVELS = 12
"""First levels that messages are said below: each has a table of its own, made when one comes."""
SETTINGS = {"topics.cleanup_delay": 0.1}


# -- what is known ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Write:
    """One write: `n` is unique, but None for a delete; `together` names what is all or nothing."""

    topic: str
    n: int | None
    together: int = 0


@dataclass
class Ledger:
    """What was sent, what was acknowledged under which number, and what a reader saw."""

    sent: set[Write] = field(default_factory=set)
    acknowledged: list[tuple[Write, str]] = field(default_factory=list)
    seen: list[Told] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    number: int = 0

    def next(self) -> int:
        """Return a number that no write has had."""
        with self.changed:
            self.number += 1
            return self.number

    def send(self, write: Write) -> Write:
        """Note a write that is about to be sent."""
        with self.changed:
            self.sent.add(write)
        return write

    def acknowledge(self, write: Write, cursor: str = "") -> None:
        """Note that a write was acknowledged, under a cursor where the protocol tells it."""
        with self.changed:
            self.acknowledged.append((write, cursor))
            self.changed.notify()

    def wait(self, count: int) -> None:
        """Wait until so many writes are acknowledged."""
        with self.changed:
            enough = self.changed.wait_for(
                lambda: len(self.acknowledged) >= count, PATIENCE_SECONDS
            )
        assert enough, f"{len(self.acknowledged)} acknowledged of {count}"


# -- writers ---------------------------------------------------------------------------------------


def body(n: int, rng: random.Random) -> dict[str, object]:
    """Return a value: small, and now and then of several pages."""
    return {"n": n, "pad": "x" * rng.choice((0, 10, 200, 20_000))}


def mqtt_writer(version: int, place: str) -> Callable[[Server, Ledger, random.Random], None]:
    """Return a writer of retained QoS 1 publishes, many at a time, to topics below ``place``."""

    def write(server: Server, ledger: Ledger, rng: random.Random) -> None:
        with Mqtt(server.mqtt_port, version, f"{place}-{version}") as client:
            while True:
                flights: dict[int, Write] = {}
                for _ in range(WINDOW):
                    packet_id = client.next_id()
                    flights[packet_id] = publish(client, packet_id, ledger, rng, place)
                while flights:
                    answer = client.receive()
                    assert isinstance(answer, Puback), answer
                    assert 0 == answer.reason, answer
                    cursor = user_properties(answer).get("seq", "")
                    ledger.acknowledge(flights.pop(answer.packet_id), cursor)

    return write


def publish(client: Mqtt, packet_id: int, ledger: Ledger, rng: random.Random, place: str) -> Write:
    """Send a publish: a value, or with MQTT 5, whose acknowledgement tells the number, a delete."""
    topic = f"{place}{client.version}-{rng.randrange(KEYS)}"
    if client.version == MQTT_5 and rng.random() < 0.1:
        write, payload = Write(topic, None), b""
    else:
        n = ledger.next()
        write, payload = Write(topic, n), json.dumps(body(n, rng)).encode()
    client.send(Publish(topic, payload, 1, True, False, packet_id, None))
    return ledger.send(write)


def speaker(version: int) -> Callable[[Server, Ledger, random.Random], None]:
    """Return a writer of QoS 1 messages below many first levels, which leave no record."""

    def speak(server: Server, ledger: Ledger, rng: random.Random) -> None:
        asks: dict[str, object] = {"user_property": (("seq", "1"),)}
        properties = asks if version == MQTT_5 else None
        with Mqtt(server.mqtt_port, version, f"speaker-{version}", properties) as client:
            while True:
                n = ledger.next()
                write = ledger.send(Write(f"level{rng.randrange(LEVELS)}/said/{version}", n))
                payload = json.dumps(body(n, rng)).encode()
                client.send(Publish(write.topic, payload, 1, False, False, client.next_id(), None))
                answer = client.receive()
                assert isinstance(answer, Puback), answer
                assert 0 == answer.reason, answer
                ledger.acknowledge(write, user_properties(answer).get("seq", ""))

    return speak


def visitor(server: Server, _ledger: Ledger, rng: random.Random) -> None:
    """Subscribe where nothing is ever said: tables come, and go when they are not needed."""
    while True:
        with Mqtt(server.mqtt_port) as client:
            client.subscribe(f"visited{rng.randrange(LEVELS)}/x")


def rest_writer(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """PUT one record after the other."""
    with server.client() as http:
        while True:
            n = ledger.next()
            write = ledger.send(Write(f"Counter/rest-{rng.randrange(KEYS)}", n))
            answer = http.put(f"/{write.topic}", json=body(n, rng))
            assert answer.is_success, answer.text
            ledger.acknowledge(write, answer.headers["Rowcast-Position"])


def batch_writer(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """PUT batches that are written together or not at all."""
    with server.client() as http:
        while True:
            together = ledger.next()
            writes = [
                ledger.send(Write(f"Counter/batch-{key}", ledger.next(), together))
                for key in range(BATCH)
            ]
            rows = [{"id": x.topic.partition("/")[2]} | body(x.n or 0, rng) for x in writes]
            answer = http.put("/Counter/?atomic=true", json=rows)
            assert answer.status_code == 200, answer.text
            for write, row in zip(writes, answer.json(), strict=True):
                ledger.acknowledge(write, row["position"])


def reader(server: Server, ledger: Ledger, _rng: random.Random) -> None:
    """Note what is announced."""
    with open_websocket(server, "/?topic=%23&start=new") as websocket:
        while True:
            event = told(websocket)
            if event.kind != "current":
                ledger.seen.append(event)


WORKERS = (
    mqtt_writer(MQTT_5, "Counter/v"),
    mqtt_writer(MQTT_3_1_1, "Counter/v"),
    mqtt_writer(MQTT_5, "open/topic/v"),
    mqtt_writer(MQTT_3_1_1, "open/topic/v"),
    speaker(MQTT_5),
    speaker(MQTT_3_1_1),
    visitor,
    rest_writer,
    batch_writer,
    reader,
)


# -- one round -------------------------------------------------------------------------------------


@dataclass
class History:
    """What was found after the last kill, and must not change any more."""

    position: str
    state: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each topic, the number of its last event and its value."""
    events: int = 0
    said: Counter[str] = field(default_factory=Counter)
    """How many events there are below each first level."""


def play(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Let everybody work, kill the server, and start it again."""

    def enough(_failures: list[BaseException]) -> None:
        ledger.wait(rng.randint(1, ACKNOWLEDGED_MAX))
        select.select((), (), (), rng.random() * LATER_SECONDS_MAX)

    work_until_killed(server, ledger, WORKERS, rng, enough)
    if rng.random() < KILLED_AT_START:
        server.launch()
        select.select((), (), (), rng.random() * START_SECONDS_MAX)
        server.kill()
    server.start()


def compare(server: Server, ledger: Ledger, history: History) -> History:
    """Check the log since the last round, and the records; return what is there now."""
    sentinel = server.request("PUT", "/open/sentinel", json={"n": 0}).headers["Rowcast-Position"]
    assert epoch(sentinel) == epoch(history.position)
    log = list(read_log(server, history.position, sentinel))
    by_number = {event.number: event for event in log}
    check_order(log, history)
    check_sent(log, ledger)
    check_together(log, ledger)
    values = {event.n for event in log}
    for write, cursor in ledger.acknowledged:
        check_acknowledged(write, cursor, by_number, values)
    check_seen(ledger, by_number)
    state = dict(history.state)
    for event in log:
        if event.kind == "delete":
            state.pop(event.topic, None)
        elif event.kind != "message":
            state[event.topic] = event.number, event.n
    state["open/sentinel"] = number_of(sentinel), 0
    assert state == read_records(server)
    said = history.said + Counter(level_of(event.topic) for event in log) + Counter(["open"])
    check_topic_tables(server, said, Counter(map(level_of, state)))
    return History(sentinel, state, history.events + len(log), said)


# -- what is there ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Logged:
    """One event of the log."""

    number: int
    topic: str
    kind: str
    n: int | None


def epoch(cursor: str) -> str:
    """Return the part of a cursor that names the log."""
    return cursor.partition(":")[0]


def number_of(cursor: object) -> int:
    """Return the number in a cursor."""
    return int(str(cursor).partition(":")[2])


def level_of(topic: str) -> str:
    """Return the first level of a topic."""
    return topic.partition("/")[0]


def as_logged(event: Told) -> Logged:
    """Return what a stream told."""
    fields = event.fields
    value = None if event.kind == "delete" else event.value["n"]
    return Logged(number_of(fields["cursor"]), fields["topic"], event.kind, value)


def read_log(server: Server, after: str, until: str) -> Iterator[Logged]:
    """Give the events between two cursors."""
    with Events(server, "/?topic=%23", since=after) as events:
        for event in events:
            if event.id == until:
                return
            yield as_logged(event)
    raise AssertionError("the log ended")


def read_records(server: Server) -> dict[str, tuple[int, int]]:
    """Return number and value of every record."""
    state = {}
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("#", properties={"user_property": (("seq", ""),)})
        while not (message := client.message()).topic.startswith("$snapshot/end"):
            seq = number_of(user_properties(message)["seq"])
            state[message.topic] = seq, json.loads(message.payload)["n"]
    return state


# -- what must hold --------------------------------------------------------------------------------


def check_order(log: list[Logged], history: History) -> None:
    """Numbers rise, and so do the values of each topic, for one writer writes it in order."""
    numbers = [number_of(history.position), *(event.number for event in log)]
    assert sorted(set(numbers)) == numbers
    last = {topic: n for topic, (_, n) in history.state.items()}
    for event in log:
        if event.n is not None:
            assert event.n > last.get(event.topic, -1), event
            last[event.topic] = event.n


def check_sent(log: list[Logged], ledger: Ledger) -> None:
    """Nothing is there that nobody wrote."""
    sent = {(write.topic, write.n) for write in ledger.sent}
    assert [] == [event for event in log if (event.topic, event.n) not in sent]


def check_together(log: list[Logged], ledger: Ledger) -> None:
    """A batch is there wholly, without a stranger in between, or not at all."""
    together = {(x.topic, x.n): x.together for x in ledger.sent if x.together}
    found = Counter(together.get((event.topic, event.n), 0) for event in log)
    del found[0]
    assert {} == {name: count for name, count in found.items() if count != BATCH}


def check_topic_tables(server: Server, said: Counter[str], kept: Counter[str]) -> None:
    """Each says how many events and records it has: no more and no fewer than there are.

    A table is made before the first event of its topics is logged, so a kill in between leaves one
    that is empty, as a subscriber does that has left.
    """
    rows = server.request("GET", "/$SYS/topic_tables/").json()
    told = {row["level"]: (row["events"], row["retained"]) for row in rows}
    undeclared = {level: said[level] for level in said if level != "Counter"}
    empty = dict.fromkeys(told.keys() - undeclared.keys(), (0, 0))
    assert told == {level: (count, kept[level]) for level, count in undeclared.items()} | empty


def check_acknowledged(
    write: Write, cursor: str, by_number: dict[int, Logged], values: Container[int | None]
) -> None:
    """An acknowledged write is there, under the number that was told."""
    if cursor:
        event = by_number.get(number_of(cursor))
        assert event is not None, f"lost: {write} at {cursor}"
        assert (write.topic, write.n) == (event.topic, event.n), (write, cursor, event)
    else:
        assert write.n in values, f"lost: {write}"


def check_seen(ledger: Ledger, by_number: dict[int, Logged]) -> None:
    """What was announced is in the log."""
    for event in ledger.seen:
        logged = as_logged(event)
        assert logged == by_number.get(logged.number), f"announced, but not kept: {logged}"


# -- all rounds ------------------------------------------------------------------------------------


def run(folder: Path, rounds: int, seed: int, say: Callable[[str], object] = print) -> int:
    """Play so many rounds; return how many writes were acknowledged in all."""
    rng = random.Random(seed)
    total = 0
    with Server(folder, settings=SETTINGS) as server:
        first = server.request("PUT", "/open/sentinel", json={"n": 0})
        history = History(first.headers["Rowcast-Position"], said=Counter(["open"]))
        for count in range(1, rounds + 1):
            ledger = Ledger(number=history.events * 2 + count * 10**6)
            play(server, ledger, rng)
            history = compare(server, ledger, history)
            total += len(ledger.acknowledged)
            say(
                f"round {count}: {len(ledger.acknowledged)} acknowledged of {len(ledger.sent)} "
                f"sent, {len(ledger.seen)} seen; the log has {history.events}"
            )
    return total


def main() -> None:
    """Run the rounds that the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/kill", description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"{options.rounds} rounds, --seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        total = run(Path(folder), options.rounds, options.seed, lambda x: print(x, flush=True))
    print(f"{total} writes were acknowledged, and all of them are there")


if __name__ == "__main__":
    sys.exit(main())
