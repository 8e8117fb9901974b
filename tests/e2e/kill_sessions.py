"""Kills the real program and its clients under durable sessions; counts what is lost and doubled.

Four pairs of a publisher and a subscriber, of QoS 1 and 2, on an undeclared topic and on a table,
go on through every `kill -9` of the server and every cut of their own connections, as MQTT asks of
clients that keep their state: a publisher sends what is not answered again, with DUP, and a
subscriber remembers the QoS 2 identifiers that are not released. Messages are numbered. At the end

- every message that was acknowledged has arrived, at QoS 2 once (MQTT 5, 4.3.3; D16);
- the first arrivals of each are in the order in which they were sent (MQTT-4.6.0-6);
- no session was lost: Session Present is 1 whenever it must be (D27).
"""

import argparse
import json
import random
import select
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rowcast.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from serving import PATIENCE_SECONDS, Server, wait_until
from talking import Closed, Mqtt

# ruff: noqa: T201 - a program that talks to people

WINDOW = 20
"""Publishes that a publisher has on their way at most."""
CUT = 0.002
"""How often, for each packet, a client loses its connection."""
LIFE_SECONDS_MAX = 0.8
"""How long a server lives at the most."""
KILLED_AT_START = 0.2
"""How often it is killed once more while it starts."""
START_SECONDS_MAX = 1.5
PAUSE_SECONDS = 0.02
NEVER = {"session_expiry_interval": 0xFFFFFFFF}
GONE = (OSError, Closed, EOFError)


class Cut(Exception):  # noqa: N818 - not a mistake
    """The client is to lose its connection."""


@dataclass
class Pair:
    """A publisher and a subscriber, and what both keep over their connections."""

    topic: str
    qos: int
    retain: bool
    flights: dict[int, Publish | Pubrel] = field(default_factory=dict)
    sent: int = 0
    acknowledged: int = 0
    last_id: int = 0
    subscribed: threading.Event = field(default_factory=threading.Event)
    held: set[int] = field(default_factory=set)
    """QoS 2 identifiers that are received and not released."""
    arrived: int = 0
    """The number of the last message whose first arrival was in order: all before it arrived."""
    doubled: int = 0
    cuts: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"QoS {self.qos} {self.topic}: {self.sent} sent, {self.acknowledged} acknowledged, "
            f"{self.arrived} arrived, {self.doubled} doubled, {self.cuts} cuts"
        )


PAIRS = (
    ("open/kill/one", 1, False),
    ("open/kill/two", 2, False),
    ("Counter/kill-one", 1, True),
    ("Counter/kill-two", 2, True),
)


class Play:
    """Clients at work until they are told to finish."""

    def __init__(self, server: Server, rng: random.Random, pace: float = 0.0) -> None:
        self.server = server
        self._pace = pace
        """Seconds that a publisher waits before each message."""
        self.pairs = [Pair(*what) for what in PAIRS]
        self.finishing = False
        self.ended = False
        self._threads = [
            threading.Thread(target=self._live, args=(pair, role, rng.random()))
            for pair in self.pairs
            for role in (self._publish, self._subscribe)
        ]

    def start(self) -> None:
        """Let everybody work."""
        for thread in self._threads:
            thread.start()

    def is_busy(self, messages: int) -> bool:
        """Return whether more than so many messages of each pair have arrived, or one is wrong."""
        return all(pair.arrived > messages or pair.wrong for pair in self.pairs)

    def finish(self) -> None:
        """Send nothing new, wait until all has arrived, and end."""
        self.finishing = True
        try:
            wait_until(lambda: all(self._settled(pair) for pair in self.pairs), "all has arrived")
        finally:
            self.ended = True
            for thread in self._threads:
                thread.join()

    @staticmethod
    def _settled(pair: Pair) -> bool:
        return bool(pair.wrong) or (not pair.flights and pair.arrived == pair.sent)

    def _live(self, pair: Pair, role: Callable[..., None], seed: float) -> None:
        rng = random.Random(seed)
        while not self.ended and not pair.wrong:
            try:
                role(pair, rng)
                pause(PAUSE_SECONDS)
            except Cut:
                pair.cuts += 1
            except GONE:
                pause(PAUSE_SECONDS)
            except BaseException as failure:  # noqa: BLE001 - told by the main thread
                pair.wrong.append(repr(failure))

    @contextmanager
    def _connected(self, pair: Pair, role: str, known: bool) -> Iterator[Mqtt]:
        """Connect with the pair's session; ``known``: it must be there."""
        port = self.server.settings["mqtt.network.port"]
        name = f"{role} {pair.topic}"
        with Mqtt(port, 5, name, NEVER, clean_start=False) as client:
            client.socket.settimeout(0.2)
            if client.connack is None or client.connack.reason:
                raise Closed
            if known and not client.connack.session_present:
                raise AssertionError(f"the session of {name} is lost")
            yield client

    def _receive(self, client: Mqtt, rng: random.Random) -> object:
        """Return the next packet; None when none comes soon."""
        if rng.random() < CUT and not self.finishing:
            client.cut()
            raise Cut
        try:
            return client.receive()
        except TimeoutError:
            return None

    # -- publishers --------------------------------------------------------------------------------

    def _publish(self, pair: Pair, rng: random.Random) -> None:
        if not pair.subscribed.wait(0.2):
            return
        with self._connected(pair, "from", known=pair.acknowledged > 0) as client:
            for packet in pair.flights.values():  # MQTT-4.4.0-1
                client.send(packet)
            while not self.ended:
                while self._may_send(pair):
                    pause(self._pace)
                    self._send(pair, client)
                if pair.flights:
                    self._answered(pair, client, self._receive(client, rng))
                elif self.finishing:
                    return

    def _may_send(self, pair: Pair) -> bool:
        return len(pair.flights) < WINDOW and not self.finishing

    @staticmethod
    def _send(pair: Pair, client: Mqtt) -> None:
        packet_id = pair.last_id = pair.last_id % 65_535 + 1
        payload = json.dumps({"n": pair.sent + 1}).encode()
        packet = Publish(pair.topic, payload, pair.qos, pair.retain, False, packet_id, None)
        again = Publish(pair.topic, payload, pair.qos, pair.retain, True, packet_id, None)
        pair.flights[packet_id] = again  # kept before it is sent
        pair.sent += 1
        client.send(packet)

    @staticmethod
    def _answered(pair: Pair, client: Mqtt, packet: object) -> None:
        if isinstance(packet, Puback | Pubrec):
            assert packet.reason == 0, packet
            if isinstance(pair.flights.get(packet.packet_id), Publish):
                pair.acknowledged += 1
            if isinstance(packet, Puback):
                pair.flights.pop(packet.packet_id, None)
            else:
                release = Pubrel(packet.packet_id)
                pair.flights.pop(packet.packet_id, None)
                pair.flights[packet.packet_id] = release
                client.send(release)
        elif isinstance(packet, Pubcomp):
            pair.flights.pop(packet.packet_id, None)

    # -- subscribers -------------------------------------------------------------------------------

    def _subscribe(self, pair: Pair, rng: random.Random) -> None:
        with self._connected(pair, "to", known=pair.subscribed.is_set()) as client:
            if not pair.subscribed.is_set():
                client.subscribe(pair.topic, pair.qos, retain_handling=2)
                pair.subscribed.set()
            while not self.ended:
                packet = self._receive(client, rng)
                if isinstance(packet, Publish):
                    self._take(pair, client, packet)
                elif isinstance(packet, Pubrel):
                    pair.held.discard(packet.packet_id)
                    client.send(Pubcomp(packet.packet_id))

    @staticmethod
    def _take(pair: Pair, client: Mqtt, packet: Publish) -> None:
        assert packet.qos == pair.qos, packet
        if pair.qos == 2 and packet.packet_id in pair.held:
            assert packet.dup, packet
            client.send(Pubrec(packet.packet_id))
            return
        n = json.loads(packet.payload)["n"]
        if n <= pair.arrived:
            pair.doubled += 1
            assert pair.qos == 1, f"doubled at QoS 2: {n} after {pair.arrived}"
        else:
            assert n == pair.arrived + 1, f"lost or out of order: {n} after {pair.arrived}"
            pair.arrived = n
        if pair.qos == 2:
            pair.held.add(packet.packet_id)
        client.send(Puback(packet.packet_id) if pair.qos == 1 else Pubrec(packet.packet_id))


def run(folder: Path, rounds: int, seed: int, say: Callable[[str], object] = print) -> list[Pair]:
    """Kill so many servers; return what became of the pairs. Raises on the first wrong thing."""
    rng = random.Random(seed)
    with Server(folder) as server:
        play = Play(server, rng)
        play.start()
        try:
            for count in range(1, rounds + 1):
                kill_once(server, rng)
                if count % 25 == 0 or count == rounds:
                    say("\n  ".join((f"round {count}", *map(str, play.pairs))))
                assert not any(pair.wrong for pair in play.pairs), play.pairs
        finally:
            play.finish()
        assert not any(pair.wrong for pair in play.pairs), play.pairs
    return play.pairs


def kill_once(server: Server, rng: random.Random) -> None:
    """Let the server live for a while, kill it, and start it again."""
    pause(rng.random() * LIFE_SECONDS_MAX)
    server.kill()
    if rng.random() < KILLED_AT_START:
        server.launch()
        pause(rng.random() * START_SECONDS_MAX)
        server.kill()
    server.start()


def pause(seconds: float) -> None:
    """Let the others go on."""
    select.select((), (), (), seconds)


def main() -> None:
    """Run the rounds that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="scripts/kill sessions", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"{options.rounds} rounds, --seed {options.seed}; {PATIENCE_SECONDS} s of patience")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        pairs = run(Path(folder), options.rounds, options.seed, lambda x: print(x, flush=True))
    print("\n".join(("nothing is lost, nothing of QoS 2 is doubled", *map(str, pairs))))


if __name__ == "__main__":
    sys.exit(main())
