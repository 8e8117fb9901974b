"""Workers of a shared subscription, while workers are cut and the server is killed (D36, X11)."""

import random
import select
from collections import Counter
from contextlib import suppress

import pytest

from rowcast.mqtt.packets import MQTT_5, Puback, Pubcomp, Publish, Pubrec, Pubrel
from serving import PATIENCE_SECONDS, Server
from talking import Closed, Mqtt

WORKERS = 3
KILLS = 6
PACKETS_BEFORE_KILL_MAX = 400
WINDOW = 24
GONE = (OSError, Closed)
LASTING = {"session_expiry_interval": 3600}


class Person:
    """Who has a connection, or none."""

    client = None

    def cut(self):
        """Lose the connection."""
        if self.client is not None:
            with suppress(*GONE):
                self.client.cut()
            self.client = None


class Worker(Person):
    """A client with a durable session, that notes what it did, once for each QoS 2 delivery."""

    def __init__(self, name, qos):
        self.name, self.qos = name, qos
        self.unreleased = set()
        self.done = []

    def connect(self, server):
        self.client = Mqtt(server.mqtt_port, MQTT_5, self.name, LASTING, clean_start=False)
        if not self.client.connack.session_present:
            self.client.subscribe("$share/g/jobs/#", self.qos)

    def handle(self, packet):
        if isinstance(packet, Publish):
            if packet.packet_id not in self.unreleased:
                self.done.append(int(packet.payload))
            if packet.qos == 2:
                self.unreleased.add(packet.packet_id)
            answer = Puback if packet.qos == 1 else Pubrec
            self.client.send(answer(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self.unreleased.discard(packet.packet_id)
            self.client.send(Pubcomp(packet.packet_id))


class Boss(Person):
    """A client that publishes numbers, each once, and notes which were taken over."""

    def __init__(self, qos):
        self.qos = qos
        self.number = 0
        self.flights = {}
        self.taken = set()

    def connect(self, server):
        self.client = Mqtt(server.mqtt_port, MQTT_5)
        self.flights.clear()

    def work(self):
        while len(self.flights) < WINDOW:
            self.number += 1
            packet_id = self.client.next_id()
            self.flights[packet_id] = self.number
            body = b"%d" % self.number
            self.client.send(Publish("jobs/1", body, self.qos, False, False, packet_id, None))

    def handle(self, packet):
        if isinstance(packet, Puback | Pubrec):
            self.taken.add(self.flights[packet.packet_id])
        if isinstance(packet, Pubrec):
            self.client.send(Pubrel(packet.packet_id))
        else:
            del self.flights[packet.packet_id]


def handled(people, timeout=0.0):
    """Let everybody handle one packet, if there is one; return how many there were."""
    there = {one.client.socket: one for one in people if one.client is not None}
    ready = [one for one in there.values() if one.client.ready()]
    if not ready and timeout:
        found = select.select(list(there), (), (), timeout)[0]
        ready = [there[item] for item in found]
    for one in ready:
        one.handle(one.client.receive())
    return len(ready)


def until_killed(server, boss, workers, rng):
    """Work until so many packets came; now and then a worker is cut, and comes back."""
    left = rng.randrange(50, PACKETS_BEFORE_KILL_MAX)
    while left > 0:
        boss.work()
        left -= handled([boss, *workers], PATIENCE_SECONDS)
        if rng.random() < 0.01:
            worker = rng.choice(workers)
            if worker.client is None:
                worker.connect(server)
            elif sum(one.client is not None for one in workers) > 1:
                worker.cut()


def until_done(boss, workers):
    """Handle what is left, until everything that was taken over is done."""
    while boss.flights or boss.taken - {number for one in workers for number in one.done}:
        assert handled([boss, *workers], PATIENCE_SECONDS), "something is lost"


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_taken_over_is_done_whoever_is_killed(tmp_path, qos):
    """At least once with QoS 1; with QoS 2 exactly once, over all workers and kills."""
    rng = random.Random(qos)
    boss, workers = Boss(qos), [Worker(f"w{number}", qos) for number in range(WORKERS)]
    with Server(tmp_path) as server:
        for round_number in range(KILLS + 1):
            for worker in workers:
                worker.connect(server)
            boss.connect(server)
            if round_number == KILLS:
                until_done(boss, workers)
                break
            until_killed(server, boss, workers, rng)
            server.kill()
            for one in (boss, *workers):
                one.cut()
            server.start()
        for one in (boss, *workers):
            one.cut()
    counts = Counter(number for worker in workers for number in worker.done)
    assert boss.taken <= set(counts)
    assert qos == 1 or {1} == set(counts.values())
    assert all(worker.done for worker in workers)
