"""Very many messages over a bridge that has a hard time; counts what is lost, late and doubled.

Writers number what they write, so that a repeat after a lost acknowledgement has no second effect
here (M8). A bridge carries it all to a Mosquitto, where a durable session reads. Meanwhile the
server is killed (-9), Mosquitto goes away for seconds, or is killed when it has told its disk what
it has acknowledged; connections between the two are reset, and acknowledgements thrown away. Some
messages are poison: refused by the access list, larger than Mosquitto takes, or ending each
connection that carries them. At the end

- every message that was acknowledged has arrived, in the order of its topic (H4, H8, H26, X13);
- what came twice says so: it has the mark `rowcast-again`, or Mosquitto's DUP (H41);
- all poison, and nothing else, is in dead letters, each once (H10, H12).
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kill_gateway import KEPT, PREFIX
from kill_sessions import GONE, NEVER, PAUSE_SECONDS, pause

from cutting import Way
from remote_broker import RemoteBroker
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Puback, Publish
from serving import PATIENCE_SECONDS, Server, wait_until
from talking import Closed, Mqtt, user_properties

# ruff: noqa: T201 - a program that talks to people

WRITERS = 2
TOPICS = 32
"""Of each writer: as many can be on the way at once in strict order."""
WINDOW = 200
AHEAD_MAX = 30_000
"""Writers wait when so many messages have not arrived."""
LIFE_SECONDS_MAX = 6.0
AWAY_SECONDS_MAX = 4.0
DEAF_SECONDS_MAX = 0.5
REST_SECONDS_MAX = 120.0
POISON_EVERY = 5_000
"""One message of so many that a writer sends is poison; of these one of ``CHOKE_OF`` chokes."""
CHOKE_OF = 10
CHOKE = b"chokes on this" * 8
PACKET_BYTES_MAX = 20_000
SETTINGS = f"{KEPT}max_packet_size {PACKET_BYTES_MAX}\nacl_file {{folder}}/rules\n"
RULES = "".join(f"topic readwrite {PREFIX}open/{name}/#\n" for name in ("good", "big", "choke"))


@dataclass
class Writer:
    """One who writes: what it sent, and what is not acknowledged."""

    number: int
    rng: random.Random
    most: int
    total: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    poison: set[str] = field(default_factory=set)
    flights: dict[int, Publish] = field(default_factory=dict)
    acknowledged: int = 0

    def next(self) -> Publish:
        """Return the next message; it is numbered in its topic, and by its writer."""
        self.total += 1
        topic, payload = self._content()
        low = self.total - len(self.flights)
        marks = (("rowcast-producer", f"w{self.number}:1:{self.total}"), ("rowcast-low", str(low)))
        packet_id = self.total % 65_535 + 1
        packet = Publish(topic, payload, 1, False, False, packet_id, {"user_property": marks})
        self.flights[packet_id] = packet
        return packet

    def _content(self) -> tuple[str, bytes]:
        rng = self.rng
        sure = self.total == self.most // 3
        if sure or rng.randrange(POISON_EVERY) == 0:
            choke = sure or rng.randrange(CHOKE_OF) == 0
            kind = "choke" if choke else rng.choice(("big", "shut"))
            topic = f"open/{kind}/{self.number}-{self.total}"
            self.poison.add(topic)
            return topic, {"choke": CHOKE, "big": b"x" * 2 * PACKET_BYTES_MAX, "shut": b"x"}[kind]
        topic = f"open/good/{self.number}-{rng.randrange(TOPICS)}"
        self.sent[topic] += 1
        return topic, b"%d %s" % (self.sent[topic], b"x" * rng.choice((0, 10, 100)))


class Play:
    """Writers here, a reader there."""

    def __init__(self, server: Server, remote: RemoteBroker, rng: random.Random, most: int) -> None:
        self.server, self._remote = server, remote
        share = most // WRITERS
        self.writers = [Writer(n, random.Random(rng.random()), share) for n in range(WRITERS)]
        self.arrived: Counter[str] = Counter()
        self.doubled: Counter[str] = Counter()
        self.resting = self.ended = False
        self.wrong: list[str] = []
        jobs = [(self._write, writer) for writer in self.writers]
        self._threads = [threading.Thread(target=self._live, args=job) for job in jobs]
        self._threads.append(threading.Thread(target=self._live, args=(self._read, None)))
        self.subscribed = threading.Event()

    # -- what is known -----------------------------------------------------------------------------

    @property
    def written(self) -> int:
        """How many messages were sent, poison and all."""
        return sum(writer.total for writer in self.writers)

    @property
    def missing(self) -> int:
        """How many were sent and have not arrived."""
        return sum(writer.sent.total() for writer in self.writers) - self.arrived.total()

    @property
    def done(self) -> bool:
        """Whether all that is to be written is acknowledged, and has arrived."""
        return not self.missing and all(
            writer.total >= writer.most and not writer.flights for writer in self.writers
        )

    @property
    def poison(self) -> set[str]:
        """The topics of all poison."""
        return set().union(*(writer.poison for writer in self.writers))

    def check(self) -> None:
        """Raise what is wrong."""
        assert not self.wrong, self.wrong

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let all work."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End all."""
        self.ended = True
        for thread in self._threads:
            thread.join()

    def _live(self, role: Callable[..., None], who: Writer | None) -> None:
        while not self.ended and not self.wrong:
            try:
                role(who)
            except GONE:
                pause(PAUSE_SECONDS)
            except BaseException as failure:  # noqa: BLE001 - told by the main thread
                self.wrong.append(repr(failure))

    def _write(self, writer: Writer) -> None:
        if not self.subscribed.wait(0.2):
            return
        with Mqtt(self.server.mqtt_port, MQTT_5, f"writer {writer.number}") as client:
            client.socket.settimeout(PATIENCE_SECONDS)
            self._send(client, writer.flights.values())  # again, under the same numbers
            while not self.ended:
                room = min(WINDOW - len(writer.flights), writer.most - writer.total)
                if room > 0 and not self.resting and self.missing < AHEAD_MAX:
                    self._send(client, [writer.next() for _ in range(room)])
                if not writer.flights:
                    pause(PAUSE_SECONDS)
                while writer.flights and (len(writer.flights) > WINDOW // 2 or client.ready()):
                    self._answered(writer, client.receive())

    @staticmethod
    def _send(client: Mqtt, packets: object) -> None:
        client.socket.sendall(b"".join(encode(packet, MQTT_5) for packet in packets))

    @staticmethod
    def _answered(writer: Writer, packet: object) -> None:
        assert isinstance(packet, Puback), packet
        assert packet.reason == 0, packet
        writer.acknowledged += writer.flights.pop(packet.packet_id, None) is not None

    def _read(self, _: None) -> None:
        with Mqtt(self._remote.port, MQTT_5, "reader", NEVER, clean_start=False) as client:
            if client.connack is None or client.connack.reason:
                raise Closed
            if not client.connack.session_present:
                assert not self.arrived, "Mosquitto has lost the session of the reader"
                client.subscribe(f"{PREFIX}open/good/#")
            self.subscribed.set()
            client.socket.settimeout(0.2)
            answers: list[Puback] = []
            while not self.ended:
                try:
                    packet = client.receive()
                except TimeoutError:
                    continue
                if isinstance(packet, Publish):
                    self._look(packet)
                    answers.append(Puback(packet.packet_id))
                if answers and (len(answers) >= WINDOW or not client.ready()):
                    self._send(client, answers)
                    answers.clear()

    def _look(self, packet: Publish) -> None:
        topic, n = packet.topic.removeprefix(PREFIX), int(packet.payload.split(b" ")[0])
        last = self.arrived[topic]
        if n == last + 1:
            self.arrived[topic] = n
            return
        assert n <= last, f"lost or out of order at {topic}: {n} after {last}"
        again = "rowcast-again" in user_properties(packet)
        assert again or packet.dup, f"doubled at {topic}, and not marked: {n} after {last}"
        self.doubled["by the bridge" if again else "by Mosquitto"] += 1


class Chaos:
    """What happens meanwhile."""

    def __init__(self, play: Play, remote: RemoteBroker, way: Way, rng: random.Random) -> None:
        self._play, self._remote, self._way, self._rng = play, remote, way, rng
        self.done: Counter[str] = Counter()

    def round(self) -> None:
        """Let all go on for a while, and do one of it."""
        self._pass(self._rng.random() * LIFE_SECONDS_MAX)
        what = self._rng.choice((self.kill, self.leave, self.leave, self.cut, self.deafen))
        what = self.crash if self._rng.random() < 0.1 else what
        what()

    def _pass(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._play.wrong and not self._play.done:
            pause(PAUSE_SECONDS)

    def rest(self, done: Callable[[], bool]) -> None:
        """Let it come to an end in peace: the last poison is tried for a quarter of a minute."""
        until = time.monotonic() + REST_SECONDS_MAX
        while not done():
            assert time.monotonic() < until, "the bridge does not come to an end"
            pause(PAUSE_SECONDS * 10)

    def kill(self) -> None:
        """Kill the server."""
        self.done["kill -9 of the server"] += 1
        self._play.server.kill()
        self._play.server.start()

    def leave(self) -> None:
        """Let Mosquitto be away for seconds."""
        self.done["outage"] += 1
        self._remote.stop()
        self._pass(self._rng.uniform(0.5, AWAY_SECONDS_MAX))
        self._remote.start()

    def crash(self) -> None:
        """Kill Mosquitto when it has nothing that only it knows: it acknowledges from memory."""
        play = self._play
        play.resting = True
        wait_until(lambda: play.wrong or not play.missing, "all that was sent has arrived")
        database = self._remote.folder / "mosquitto.db"
        before = database.stat().st_mtime_ns if database.exists() else 0
        self._remote.signal(signal.SIGUSR1)
        wait_until(lambda: database.exists() and database.stat().st_mtime_ns > before, "it saved")
        self._remote.kill()
        play.resting = False
        self.done["kill -9 of Mosquitto"] += 1
        self._pass(self._rng.random())
        self._remote.start()

    def cut(self) -> None:
        """Reset the connection between the two."""
        self.done["cut"] += 1
        self._way.cut()

    def deafen(self) -> None:
        """Throw away what Mosquitto says, for a while."""
        self.done["acknowledgements dropped"] += 1
        self._way.deaf = True
        self._pass(self._rng.uniform(0.05, DEAF_SECONDS_MAX))
        self._way.cut()


@dataclass(frozen=True)
class Report:
    """What became of it."""

    play: Play
    done: Counter[str]
    letters: int
    seconds: float

    def __str__(self) -> str:
        play = self.play
        return (
            f"{play.written:,} written, {play.arrived.total():,} arrived, {play.missing} missing, "
            f"{self.letters} dead letters, doubled: {dict(play.doubled)}, "
            f"{self.seconds:.0f} s, {dict(self.done)}"
        )


def run(folder: Path, messages: int, seed: int, say: Callable[[str], object] = print) -> Report:
    """Send so many messages; raises on the first wrong thing."""
    rng = random.Random(seed)
    here, there = folder / "here", folder / "there"
    for place in (here, there):
        place.mkdir()
    (there / "rules").write_text(RULES)
    begin = time.monotonic()
    with Server(here) as server, RemoteBroker(there, SETTINGS.format(folder=there)) as remote:
        way = Way(remote.port)
        way.choke = CHOKE
        out = [{"filter": "open/#", "prefix": PREFIX}]
        settings = {"host": "127.0.0.1", "port": way.port, "out": out, "reconnect_interval_ms": 100}
        server.request("PUT", "/$SYS/brokers/there", json=settings).raise_for_status()
        play = Play(server, remote, rng, messages)
        chaos = Chaos(play, remote, way, rng)
        play.start()
        try:
            for count in _rounds(play):
                chaos.round()
                play.check()
                if count % 20 == 0:
                    say(str(Report(play, chaos.done, 0, time.monotonic() - begin)))
            chaos.rest(lambda: not _row(server)["outbox_pending"])
        finally:
            play.end()
            way.close()
        play.check()
        letters = [row["topic"] for row in _letters(server)]
        assert sorted(play.poison) == sorted(letters), set(letters) ^ play.poison
        assert 0 == _row(server)["messages_dropped"]
        chaos.done["poison that made it disconnect, connections"] = way.choked
        return Report(play, chaos.done, len(letters), time.monotonic() - begin)


def _rounds(play: Play) -> Iterator[int]:
    count = 0
    while not play.done:
        count += 1
        yield count


def _row(server: Server) -> dict[str, int]:
    return server.request("GET", "/$SYS/brokers/there").json()


def _letters(server: Server) -> list[dict[str, str]]:
    return server.request("GET", "/$SYS/dead_letters/?select(topic,id)").json()


def main() -> None:
    """Send as many as the command line says."""
    parser = argparse.ArgumentParser(
        prog="scripts/kill gateway", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"{options.messages:,} messages, --seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        report = run(
            Path(folder), options.messages, options.seed, lambda text: print(text, flush=True)
        )
    print(f"nothing is lost, all is in order: {report}")


if __name__ == "__main__":
    sys.exit(main())
