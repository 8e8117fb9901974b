"""Kills the real program under retained publishes and wildcard reads, and compares what is there.

A writer retains messages at many topics, in windows of QoS 1, and deletes some with empty ones; a
reader asks for all of them with a wildcard, over and over. After each `kill -9` each topic has what
its last acknowledged publish made, or a later one that was sent; the filters, the list under
``$SYS/retained`` and the count that the store keeps agree with that (E3, E21, E29, X4).
"""

import argparse
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from killing import work_until_killed

from rowcast.core.topics import TopicFilter
from rowcast.mqtt.packets import Puback, Publish
from rowcast.store.sqlite import SqlStore
from serving import Server
from talking import Mqtt

# ruff: noqa: T201 - a program that talks to people

TOPICS = 1_500
"""More than one page of records."""
WINDOW = 100
ACKNOWLEDGED_MAX = 3_000
DELETED = 0.2
"""How often a publish is empty."""
FILTERS = ("r/+/c", "r/+/c/#", "r/1/#", "+/+/d", "#")
ASKED = {"user_property": (("seq", ""),)}
"""So that the end of the current records is told."""


def topic(number: int) -> str:
    """Return one of the topics: twenty branches, with leaves ``c``, ``d`` and below ``c``."""
    branch, leaf = number % 20, number // 20
    return f"r/{branch}/{('c', 'd')[leaf]}" if leaf < 2 else f"r/{branch}/c/{leaf}"


class Ledger:
    """What was sent to each topic, in order, and how much of that was acknowledged."""

    def __init__(self) -> None:
        self.sent: dict[str, list[bytes]] = {}
        self.acknowledged: dict[str, int] = {}
        self.total = 0
        self.changed = threading.Condition()

    def send(self, name: str, payload: bytes) -> int:
        """Note a publish; return how many the topic has had with it."""
        self.sent.setdefault(name, [b""]).append(payload)
        return len(self.sent[name]) - 1

    def acknowledge(self, name: str, index: int) -> None:
        """Note that a publish, and so each before it, is durable."""
        with self.changed:
            self.acknowledged[name] = max(index, self.acknowledged.get(name, 0))
            self.total += 1
            self.changed.notify()

    def check(self, found: dict[str, bytes]) -> None:
        """Compare with what is there; go on from that."""
        assert set(found) <= set(self.sent), set(found) - set(self.sent)
        for name, sent in self.sent.items():
            possible = sent[self.acknowledged.get(name, 0) :]
            value = found.get(name, b"")
            assert value in possible, f"{name}: {value!r} is none of {possible}"
            self.sent[name], self.acknowledged[name] = [value], 0


def write(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Retain and delete, a window at a time."""
    with Mqtt(server.mqtt_port, 5, "writer") as client:
        number = rng.randrange(10**9)
        while True:
            flights = {}
            for _ in range(WINDOW):
                number += 1
                name = topic(rng.randrange(TOPICS))
                payload = b"" if rng.random() < DELETED else b"%d" % number
                packet_id = client.next_id()
                flights[packet_id] = name, ledger.send(name, payload)
                client.send(Publish(name, payload, 1, True, False, packet_id, None))
            while flights:
                answer = client.receive()
                assert isinstance(answer, Puback), answer
                assert 0 == answer.reason, answer
                ledger.acknowledge(*flights.pop(answer.packet_id))


def current(client: Mqtt, text: str) -> dict[str, bytes]:
    """Return what a filter selects, and unsubscribe."""
    client.subscribe(text, properties=ASKED)
    found: dict[str, bytes] = {}
    while not (message := client.message()).topic.startswith("$snapshot/end"):
        if message.retain:
            assert message.topic not in found, f"twice: {message.topic}"
            found[message.topic] = message.payload
    client.unsubscribe(text)
    return found


def read(server: Server, _ledger: Ledger, rng: random.Random) -> None:
    """Ask for all that a filter selects, over and over."""
    turn = 0
    while True:
        turn += 1
        with Mqtt(server.mqtt_port, 5, f"reader-{turn}") as client:
            current(client, rng.choice(FILTERS))


def play(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Let both work, kill the server, and start it again."""
    wanted = ledger.total + rng.randint(1, ACKNOWLEDGED_MAX)

    def enough(failures: list[BaseException]) -> None:
        with ledger.changed:
            ledger.changed.wait_for(lambda: ledger.total >= wanted or failures, 60)

    work_until_killed(server, ledger, (write, read), rng, enough)
    server.start()


def compare(server: Server, ledger: Ledger) -> int:
    """Check what is there against what was sent, and all ways to see it against each other."""
    with Mqtt(server.mqtt_port) as client:
        seen = {text: current(client, text) for text in FILTERS}
    every = seen["#"]
    ledger.check(every)
    for text, found in seen.items():
        chosen = TopicFilter(text)
        assert {name: value for name, value in every.items() if chosen.matches(name)} == found
    listed, after = [], ""
    while page := server.request("GET", f"/$SYS/retained/?limit(400){after}").json():
        listed += [row["topic"] for row in page]
        after = f"&after({page[-1]['cursor']})"
    assert sorted(every) == listed
    return len(every)


def count(folder: Path) -> tuple[int, int]:
    """Return how many there are by the store's own count, and by looking."""
    store = SqlStore(folder / "data" / "rowcast.db")
    store.open([])
    try:
        filters = map(TopicFilter, ("#", "$SYS/#"))
        found = sum(len(store.scan(None, every, "", 10**6).records) for every in filters)
        return store.count(None), found
    finally:
        store.close()


def run(folder: Path, rounds: int, seed: int, say: Callable[[str], object] = print) -> int:
    """Play so many rounds; return how many publishes were acknowledged in all."""
    rng, ledger = random.Random(seed), Ledger()
    settings = {"retainer.delivery_rate": 0}
    with Server(folder, schema="type Unused @table @export\n", settings=settings) as server:
        for number in range(1, rounds + 1):
            play(server, ledger, rng)
            kept = compare(server, ledger)
            say(f"round {number}: {ledger.total} acknowledged so far, {kept} retained")
        server.kill()
    known, found = count(folder)
    assert known == found >= kept, (known, found, kept)
    return ledger.total


def main() -> None:
    """Run the rounds that the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/kill retained")
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"{options.rounds} rounds, --seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        total = run(Path(folder), options.rounds, options.seed, lambda x: print(x, flush=True))
    print(f"{total} retained publishes were acknowledged, and nothing is missing or came back")


if __name__ == "__main__":
    sys.exit(main())
