"""Kills the real program while it archives, and compares what is there with what was acknowledged.

Writers change records and say messages at undeclared topics, retention sweeps all the time and
keeps a few events, and a reader begins at random cursors and reads on to what is live. After each
`kill -9`, of the server or of the applier of its log too:

- every acknowledged write is in the history, once, under the number that was told, in order;
- the history has nothing that was not sent;
- no reader was ever told of a reset or a gap, or got an event twice or none (M2).
"""

import argparse
import json
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from killing import work_until_killed

from rowcast.mqtt.packets import Puback, Publish
from serving import Server, wait_until
from talking import Events, Mqtt, user_properties

# ruff: noqa: T201 - a program that talks to people

SCHEMA = "type Counter @table @export { id: ID @primaryKey n: Long! pad: String }\n"
SETTINGS = {
    "log.archive": "true",
    "history.keep_events": 7,
    "history.keep_seconds": 0,
    "history.sweep_seconds": 0.02,
}
ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX = 50, 700
"""In a round; some more than are kept in the log."""
WINDOW = 12
KEYS = 5
ASKED = {"user_property": (("seq", "1"),)}


class Ledger:
    """What was sent, by its unique number, and the number of the log that acknowledged it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.sent: dict[int, str] = {}
        self.acknowledged: dict[int, int] = {}
        self.oldest = ""
        """The cursor of the first acknowledged write."""
        self.read = 0
        """Events that readers got."""

    def send(self, topic: str) -> int:
        """Note a write; return its number."""
        with self.changed:
            self.sent[len(self.sent)] = topic
            return len(self.sent) - 1

    def acknowledge(self, n: int, cursor: str) -> None:
        """Note that a write is durable."""
        with self.changed:
            self.oldest = self.oldest or cursor
            self.acknowledged[n] = int(cursor.partition(":")[2])
            self.changed.notify()

    def check(self, found: list[tuple[int, int, str]]) -> None:
        """Compare with the history: number of the log, number of the write, topic."""
        seqs = [seq for seq, _, _ in found]
        assert seqs == sorted(set(seqs)), "an event is there twice, or out of order"
        by_n = {n: (seq, topic) for seq, n, topic in found}
        assert len(by_n) == len(found), "a write is there twice"
        for n, seq in self.acknowledged.items():
            assert by_n.get(n) == (seq, self.sent[n]), (n, seq, by_n.get(n))
        for n, (_, topic) in by_n.items():
            assert self.sent[n] == topic, (n, topic)


def write(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Publish records and messages, a window at a time."""
    with Mqtt(server.mqtt_port, 5, f"writer-{rng.random()}", ASKED) as client:
        while True:
            flights = {}
            for _ in range(WINDOW):
                retain = rng.random() < 0.5
                place = "Counter" if retain else rng.choice(("home", "work"))
                topic = f"{place}/{rng.randrange(KEYS)}"
                n, packet_id = ledger.send(topic), client.next_id()
                value = json.dumps({"n": n, "pad": "x" * rng.choice((0, 10, 2_000))}).encode()
                client.send(Publish(topic, value, 1, retain, False, packet_id, None))
                flights[packet_id] = n
            while flights:
                answer = client.receive()
                assert isinstance(answer, Puback), answer
                assert 0 == answer.reason, answer
                ledger.acknowledge(flights.pop(answer.packet_id), user_properties(answer)["seq"])


def read(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Begin at a random cursor, read some events, and compare them with those acknowledged."""
    while True:
        with ledger.changed:
            ledger.changed.wait_for(lambda: ledger.acknowledged, 60)
            known = sorted((s, n) for n, s in ledger.acknowledged.items())
            oldest = ledger.oldest
        epoch = oldest.partition(":")[0]
        place = rng.choice(("Counter", "home"))
        after = rng.choice(known)[0]
        wanted = [s for s, n in known if s > after and ledger.sent[n].startswith(place)]
        if not wanted:
            continue
        with Events(server, f"/{place}/", since=f"{epoch}:{after}") as stream:
            found = []
            for event in stream:
                assert event.kind not in {"reset", "gap"}, event
                if event.kind != "current":
                    found.append(int(str(event.id).partition(":")[2]))
                if found and found[-1] >= wanted[-1]:
                    break
            else:
                return  # the server was killed
        assert found == sorted(set(found)), found
        assert not set(wanted) - set(found), (after, set(wanted) - set(found))
        ledger.read += len(found)


def history(server: Server) -> list[tuple[int, int, str]]:
    """Return all that the server tells of the past, in the order of the log."""
    found = []
    for place in ("Counter", "home", "work"):
        answer = server.request("GET", f"/{place}/.ndjson?from=0")
        if answer.status_code == 404:
            continue
        answer.raise_for_status()
        assert "rowcast-trimmed" not in answer.headers
        rows = map(json.loads, answer.text.splitlines())
        found += [(row["_seq"], row["value"]["n"], row["topic"]) for row in rows]
    return sorted(found)


def play(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Let all work, kill the server, and start it again."""
    wanted = len(ledger.acknowledged) + rng.randint(ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX)

    def enough(failures: list[BaseException]) -> None:
        with ledger.changed:
            ledger.changed.wait_for(
                lambda: len(ledger.acknowledged) >= wanted or bool(failures), 60
            )

    work_until_killed(server, ledger, (write, read), rng, enough)
    server.start()


def archived(server: Server) -> int:
    """Return the position up to which events are in files, as the server tells it."""
    rows = server.request("GET", "/$SYS/archive/").json()
    return max((row["last"] or 0 for row in rows), default=0)


def _archived_beyond(server: Server, before: int) -> int:
    """Wait until events after a position are in files; return the position of the last one."""
    wait_until(lambda: archived(server) > before, "more events are in files")
    return archived(server)


def run(
    folder: Path,
    rounds: int,
    seed: int,
    say: Callable[[str], object] = print,
    more: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Play so many rounds, each of which ends with more events in files than it began with.

    ``more`` are further settings of the server.
    """
    rng, ledger, before = random.Random(seed), Ledger(), 0
    with Server(folder, SCHEMA, settings=SETTINGS | dict(more)) as server:
        for number in range(1, rounds + 1):
            play(server, ledger, rng)
            found = history(server)
            ledger.check(found)
            before = _archived_beyond(server, before)
            told = f"{len(ledger.acknowledged)} acknowledged, {ledger.read} read by cursors"
            say(f"round {number}: {told}, {len(found)} in the history, files up to {before}")


def main() -> None:
    """Run the rounds that the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/kill archive")
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"{options.rounds} rounds, --seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        run(Path(folder), options.rounds, options.seed, lambda x: print(x, flush=True))
    print("nothing is missing or there twice")


if __name__ == "__main__":
    sys.exit(main())
