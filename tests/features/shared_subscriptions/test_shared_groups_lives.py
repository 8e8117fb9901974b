"""A group through random lives of its members, from a seed: nothing is lost (D36)."""

from random import Random

import pytest
from group_workers import GroupWorld, Worker


class Hand(Worker):
    """A worker that says what became of each message."""

    def send(self):
        for assignment in self.assigned:
            if not assignment.sent:
                payload = b"%d" % assignment.seq
                assert payload not in self.world.exclusive, (self.name, payload)
                if assignment.qos == 2:  # MQTT-4.8.2-4, -5: nobody else is sent it from now on
                    self.world.exclusive.add(payload)
        super().send()

    def done(self, assignment):
        self.world.processed.add(b"%d" % assignment.seq)
        super().done(assignment)

    @property
    def exclusive(self):
        """What it alone may be sent."""
        return {
            b"%d" % assignment.seq
            for assignment in self.assigned
            if assignment.qos == 2 and assignment.sent
        }

    def end(self):
        """Of QoS 2 that was sent, nobody hears any more."""
        self.world.processed |= self.exclusive
        super().end()


class Life:
    """One seed: members come, go, stall and acknowledge while messages are written."""

    def __init__(self, seed, kills):
        self.random = Random(seed)
        self.kills = kills
        self.world = self._fresh(GroupWorld())
        self.names = 0
        self.away, self.here = [], []
        self.written = 0
        self.anchor = self._hire(durable=True)

    @staticmethod
    def _fresh(world):
        world.exclusive, world.processed = set(), set()
        return world

    def _hire(self, *, durable):
        self.names += 1
        room, sends = self.random.choice([1, 2, 50]), self.random.random() < 0.7
        worker = Hand(self.world, f"w{self.names}", self.random.choice([1, 2]), durable=durable,
                      room=room, sends=sends)  # fmt: skip
        self.here.append(worker.join())
        if durable:
            self.world.groups.save()  # as the edge does before it answers SUBSCRIBE
        return worker

    def step(self):
        acts = (self.write, self.write, self.work, self.work, self.send, self.hire, self.rest)
        act = self.random.choice((*acts, self.back, self.end, self.leave))
        act()

    def write(self):
        for _ in range(self.random.randrange(1, 6)):
            self.written += 1
            self.world.put(b"%d" % self.written, qos=self.random.choice([1, 2]))

    def _one(self, workers):
        return self.random.choice(workers) if workers else None

    def work(self):
        worker = self._one(self.here)
        if worker is not None:
            for assignment in [assignment for assignment in worker.assigned if assignment.sent]:
                if self.random.random() < 0.5:
                    worker.done(assignment)
            worker.group.ready()

    def send(self):
        worker = self._one(self.here)
        if worker is not None:
            worker.send()

    def hire(self):
        if len(self.here) < 4:
            self._hire(durable=self.random.random() < 0.5)

    def rest(self):
        worker = self._one([worker for worker in self.here if worker.durable])
        if worker is not None:
            self.here.remove(worker)
            self.away.append(worker)
            worker.rest()

    def back(self):
        worker = self._one(self.away)
        if worker is not None:
            self.away.remove(worker)
            self.here.append(worker)
            worker.join()

    def end(self):
        worker = self._one([worker for worker in self.here + self.away if worker != self.anchor])
        if worker is not None:
            (self.here if worker in self.here else self.away).remove(worker)
            worker.end()

    def leave(self):
        worker = self._one([worker for worker in self.here if worker != self.anchor])
        if worker is not None:
            self.here.remove(worker)
            worker.leave()
            worker.finish()

    def kill(self):
        """Kill the server: what durable sessions were sent is theirs, the state may be old."""
        old = self.world
        if self.random.random() < 0.5:
            old.groups.save()
        self.world = again = old.restart()
        again.processed, again.exclusive = old.processed, set()
        for worker in self.here:
            if not worker.durable:  # its session ends with the server: MQTT-4.8.2-5
                old.processed |= worker.exclusive
        survivors = [worker for worker in self.here + self.away if worker.durable]
        self.here, self.away = [], []
        for worker in survivors:
            held = [
                (assignment.seq, assignment.qos)
                for assignment in worker.assigned
                if assignment.sent
            ]
            worker.world, worker.assigned = again, []
            worker.join(connected=False)
            worker.assigned = [worker.group.hold(worker, seq, qos) for seq, qos in held]
            self.away.append(worker)
        again.groups.clean()

    async def live(self, steps):
        for _ in range(steps):
            if self.kills and self.random.random() < 0.03:
                await self.world.rounds()
                self.kill()
            self.step()
            if self.random.random() < 0.6:
                await self.world.rounds()
        await self._finish()

    async def _finish(self):
        """Let the anchor do all that is left."""
        for worker in [worker for worker in self.here if worker != self.anchor]:
            worker.end()
        if self.anchor in self.away:
            self.anchor.join()
        for worker in [worker for worker in self.away if worker != self.anchor]:
            worker.end()
        self.anchor.free = 100
        self.anchor.group.ready()
        for _ in range(1_000):
            await self.world.rounds()
            if not self.anchor.assigned:
                break
            self.anchor.send()
            self.anchor.finish()


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("decade", range(6))
async def test_every_message_is_done_by_somebody(decade, kills):
    """0 lost; and without a kill, what was sent with QoS 2 is never sent to another."""
    for seed in range(decade * 10, decade * 10 + 10):
        life = Life(seed, kills)
        await life.live(150)
        wanted = {b"%d" % number for number in range(1, life.written + 1)}
        assert wanted == life.world.processed, (
            seed,
            sorted(wanted - life.world.processed, key=int),
        )
