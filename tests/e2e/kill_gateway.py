"""Kills a bridged server and its broker, and cuts the way between them; counts what is lost.

Four publishers of QoS 1 and 2 write to the server, on undeclared topics and a table, as in
`kill_sessions`. A bridge carries it all to another broker, where a subscriber of each with a
durable session reads. The server dies by `kill -9` again and again; the broker goes away for
seconds; connections between the two are reset, and acknowledgements on them thrown away. At the
end, at the other broker

- every message that the server acknowledged has arrived (H4, H21, H26);
- first arrivals are in the order of their topic (H8, X13);
- what came twice says so: the second copy has the mark `rowcast-again` (H41). When the broker is a
  Rowcast too, which is killed as well, nothing comes twice (M8, H25).

Mosquitto is ended by SIGTERM: after a `kill -9` it forgets what it has acknowledged, and what it
lost could not be told from what the bridge lost.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from kill_sessions import NEVER, PAUSE_SECONDS, Pair, Play, pause

from cutting import Way
from remote_broker import RemoteBroker
from rowcast.mqtt.packets import Puback, Publish, Pubrec
from serving import PATIENCE_SECONDS, Server, wait_until
from talking import Closed, Mqtt, user_properties

# ruff: noqa: T201 - a program that talks to people

AWAY_SECONDS_MAX = 3.0
LIFE_SECONDS_MAX = 1.0
DEAF_SECONDS_MAX = 0.3
BACKLOG_MAX = 250
"""A publisher waits when so many of its messages have not arrived at the other end."""
PREFIX = "edge/"
KEPT = "persistence true\npersistence_location {folder}/\nmax_queued_messages 0\n"


class Remote(Protocol):
    """The other broker."""

    def start(self) -> None:
        """Start it."""

    def end(self) -> None:
        """End it in the worst way after which it may forget nothing."""

    @property
    def port(self) -> int:
        """Where it speaks MQTT."""


class Mosquitto(RemoteBroker):
    """Mosquitto with what sessions need on its disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, KEPT.format(folder=folder))

    def end(self) -> None:
        self.stop()


class Rowcast(Server):
    """Another Rowcast."""

    def end(self) -> None:
        self.kill()

    @property
    def port(self) -> int:
        return self.mqtt_port


class Bridged(Play):
    """Publishers here, subscribers there."""

    def __init__(self, server: Server, remote: Remote, rng: random.Random, exact: bool) -> None:
        super().__init__(server, rng)
        self._remote = remote
        self._exact = exact
        """Whether nothing may come twice."""
        self._ids: dict[str, set[str]] = {pair.topic: set() for pair in self.pairs}
        self.again: Counter[str] = Counter()

    @contextmanager
    def _connected(self, pair: Pair, role: str, known: bool) -> Iterator[Mqtt]:
        if role == "from":
            with super()._connected(pair, role, known) as client:
                yield client
            return
        name = f"{role} {pair.topic}"
        with Mqtt(self._remote.port, 5, name, NEVER, clean_start=False) as client:
            client.socket.settimeout(0.2)
            if client.connack is None or client.connack.reason:
                raise Closed
            if known and not client.connack.session_present:
                raise AssertionError(f"the session of {name} is lost")
            if not known:
                qos = 2 if self._exact else pair.qos  # a kill of the other Rowcast repeats QoS 1
                client.subscribe(PREFIX + pair.topic, qos, retain_handling=2)
            pair.subscribed.set()
            yield client

    def check(self) -> None:
        """Raise what is wrong."""
        wrong = [f"{pair}: {said}" for pair in self.pairs for said in pair.wrong]
        assert not wrong, "\n".join(wrong)

    def _may_send(self, pair: Pair) -> bool:
        far = pair.sent - pair.arrived > BACKLOG_MAX
        if far:
            pause(PAUSE_SECONDS)
        return not far and super()._may_send(pair)

    def _take(self, pair: Pair, client: Mqtt, packet: Publish) -> None:  # type: ignore[override]
        answer = Pubrec(packet.packet_id) if packet.qos == 2 else Puback(packet.packet_id)
        if packet.qos == 2 and packet.packet_id in pair.held:
            client.send(answer)
            return
        n = json.loads(packet.payload)["n"]
        marks = user_properties(packet)
        self._look(pair, n, marks, may_repeat=packet.dup and packet.qos == 1)
        if packet.qos == 2:
            pair.held.add(packet.packet_id)
        client.send(answer)

    def _look(self, pair: Pair, n: int, marks: dict[str, str], *, may_repeat: bool) -> None:
        known = self._ids[pair.topic]
        event = marks["rowcast-id"]
        if n <= pair.arrived:
            pair.doubled += 1
            if event in known:  # QoS 1 of the last step repeats with DUP, the bridge with a mark
                marked = "rowcast-again" in marks and not self._exact
                self.again[pair.topic] += not may_repeat
                assert marked or may_repeat, f"doubled, not marked: {n} {marks}"
            else:
                assert pair.qos == 1, f"doubled before the bridge at QoS 2: {n}"
        else:
            assert n == pair.arrived + 1, f"lost or out of order: {n} after {pair.arrived}"
            pair.arrived = n
        known.add(event)


class Chaos:
    """What happens in a round."""

    def __init__(self, server: Server, remote: Remote, way: Way, rng: random.Random) -> None:
        self._server, self._remote, self._way, self._rng = server, remote, way, rng
        self.done: Counter[str] = Counter()

    def round(self) -> None:
        """Let all go on for a while, and do one of it."""
        rng = self._rng
        pause(rng.random() * LIFE_SECONDS_MAX)
        what = rng.choice((self._kill, self._leave, self._both, self._cut, self._deafen))
        self.done[what.__name__.strip("_")] += 1
        what()

    def _kill(self) -> None:
        self._server.kill()
        self._server.start()

    def _leave(self) -> None:
        self._remote.end()
        pause(self._rng.random() * AWAY_SECONDS_MAX)
        self._remote.start()

    def _both(self) -> None:
        self._remote.end()
        pause(self._rng.random())
        self._kill()
        self._remote.start()

    def _cut(self) -> None:
        self._way.cut()

    def _deafen(self) -> None:
        self._way.deaf = True
        pause(self._rng.random() * DEAF_SECONDS_MAX)
        self._way.cut()


def bridge(server: Server, way: Way, open_qos: int) -> None:
    """Bridge the server to the other broker; the server remembers it."""
    out = [
        {"filter": "open/#", "prefix": PREFIX, "qos": open_qos},
        {"filter": "Counter/#", "prefix": PREFIX, "qos": 2},
    ]
    settings = {"host": "127.0.0.1", "port": way.port, "out": out, "reconnect_interval_ms": 100}
    server.request("PUT", "/$SYS/brokers/there", json=settings).raise_for_status()


def run(
    folder: Path, rounds: int, seed: int, *, rowcast: bool, say: Callable[[str], object] = print
) -> Bridged:
    """Do so many rounds; return what became of the messages. Raises on the first wrong thing."""
    rng = random.Random(seed)
    here, there = folder / "here", folder / "there"
    for place in (here, there):
        place.mkdir()
    remote = Rowcast(there) if rowcast else Mosquitto(there)
    with Server(here) as server, remote:
        way = Way(remote.port)
        chaos = Chaos(server, remote, way, rng)
        bridge(server, way, 2 if rowcast else 1)
        play = Bridged(server, remote, rng, exact=rowcast)
        play.start()
        try:
            for count in range(1, rounds + 1):
                chaos.round()
                if count % 25 == 0 or count == rounds:
                    say("\n  ".join((f"round {count} {dict(chaos.done)}", *map(str, play.pairs))))
                play.check()
            play.finish()
        finally:
            play.ended = play.finishing = True
            way.close()
        play.check()
        wait_until(lambda: not _status(server)["outbox_pending"], "the bridge is done")
        status = _status(server)
        assert (0, 0) == (status["dead_lettered"], status["messages_dropped"]), status
    return play


def _status(server: Server) -> dict[str, int]:
    return server.request("GET", "/$SYS/brokers/there").json()


def main() -> None:
    """Run the rounds that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="scripts/kill gateway", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--rowcast", action="store_true", help="bridge to another Rowcast")
    options = parser.parse_args()
    print(f"{options.rounds} rounds, --seed {options.seed}; {PATIENCE_SECONDS} s of patience")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        play = run(
            Path(folder), options.rounds, options.seed, rowcast=options.rowcast,
            say=lambda text: print(text, flush=True),
        )  # fmt: skip
    print("\n".join(("nothing is lost, all is in order", *map(str, play.pairs))))
    print(f"sent twice by the bridge: {play.again.total()}, each marked")


if __name__ == "__main__":
    sys.exit(main())
