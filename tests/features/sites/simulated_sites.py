"""Sites in this process: servers that send each other what they log, over a network of dice.

``SimulatedSites`` has sites, and messages on their way, each with its receiver. A test delivers
them one by one, in any order, some of them twice. It also knows what is true: which writes each
site has had at a topic, and so which writes had seen which, without the vectors that the server
keeps.
"""

import json
from dataclasses import dataclass, field

from build import ANN, NOW, Listener, Server
from memory_store import MemoryStore
from rowcast.codecs import JSON
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.bridges.messages import PRODUCER, Sender, event_of, message_of
from rowcast.features.sites.feature import Sites
from rowcast.writes.last_write_wins import stamp_of
from rowcast.writes.staged_commit import YieldScope
from rowcast.writes.write import FIRE_AND_FORGET, Write

SYNCED = "Dog/#", "u/#"
ALWAYS = 10_000_000


@dataclass
class Letter:
    """A message on its way."""

    sender: str
    receiver: str
    topic: str
    payload: bytes
    properties: dict


@dataclass
class Truth:
    """What happened at one topic of one site: the stamps that it had, and all they had seen."""

    current: tuple = ()
    known: dict = field(default_factory=dict)

    def show(self, stamp, seen):
        """Note the write that the topic has now."""
        self.known = greatest(self.known, seen, {stamp[1]: stamp[0]})
        self.current = stamp


def greatest(*vectors):
    """Return the greatest version of each origin."""
    joined = {}
    for vector in vectors:
        for origin, version in vector.items():
            joined[origin] = max(version, joined.get(origin, 0))
    return joined


class Site:
    """One server, and the truth about it."""

    def __init__(self, name, ahead_seconds=0.0, synced=SYNCED, store=None, **options):
        """``store``: one that takes large results, else it is in memory."""
        self.name = name
        self.server = Server(store=store or MemoryStore(name), now=NOW + ahead_seconds)
        self.feature = Sites([TopicFilter(text) for text in synced], **options)
        self.feature.install(self.server.kernel)
        self.heard = Listener(self.server)
        self.truth = {}
        self.rows = set()
        """Names of the rows that there must be."""
        self.sent = 0
        self.result = None
        """The result that is being staged, and what its rows had seen, by topic."""

    @property
    def kernel(self):
        return self.server.kernel

    @property
    def conflicts(self):
        return self.feature.conflicts

    async def value(self, topic):
        """Return what every site must have alike at a topic."""
        try:
            record = await self.kernel.read(topic, ANN)
        except Error:
            return None
        value = json.dumps(self.kernel.transcoder.spelled(record, JSON), default=repr)
        return value, stamp_of(record, self.name)


class SimulatedSites:
    """Sites, and what is on its way between them."""

    def __init__(self, *sites):
        self.sites = {site.name: site for site in sites}
        self.letters = []
        self.seen = {}
        """By topic and stamp: what its writer's site had seen."""

    def __getitem__(self, name):
        return self.sites[name]

    async def write(self, name, topic, kind=PUT, payload=b"{}"):
        """Write at one site; what it logs is on its way."""
        site = self.sites[name]
        payload = b"" if kind == DELETE else payload
        event = Event(topic, kind, payload, qos=1, retain=kind != MESSAGE)
        receipt = await site.kernel.write(event, ANN)
        if kind != MESSAGE:
            truth = site.truth.setdefault(topic, Truth())
            stamp = (receipt.event.version, name)
            assert stamp > (truth.current or (0, ""))
            self.seen[topic, stamp] = dict(truth.known)
            truth.show(stamp, {})
        self._post(site)
        return receipt.event.version

    # -- large results -----------------------------------------------------------------------------

    async def stage(self, name, topics, kind=PUT, payload=b"{}"):
        """Stage rows of a result, those of its first page or of a further one."""
        site = self.sites[name]
        committer = site.kernel.committer
        if site.result is None:
            everywhere = YieldScope({"Dog"}, lambda _: True)
            site.result = committer.begin_staged(99, everywhere), {}
        staged, rows = site.result
        truths = {topic: site.truth.setdefault(topic, Truth()) for topic in topics}
        seen = {topic: dict(truth.known) for topic, truth in truths.items()}
        payload = b"" if kind == DELETE else payload
        writes = []
        for topic in topics:
            event = Event(topic, kind, payload, JSON if payload else None, 1, True)
            writes.append(Write(event, ANN, FIRE_AND_FORGET, passed=True, part_of="a result"))
            site.kernel.writes.admit(writes[-1])
        for outcome in await committer.stage(staged, writes):
            newer = site.truth[outcome.event.topic].current > (staged.version, name)
            assert bool(outcome.late) is newer
            if not newer:
                rows[outcome.event.topic] = seen[outcome.event.topic]

    async def switch(self, name):
        """Let all see the rows of a site's result, without those that have lost meanwhile."""
        site = self.sites[name]
        (staged, rows), site.result = site.result, None
        told = []

        def conclude(_last, superseded):
            told.append(sum(superseded))
            return ()

        await site.kernel.committer.switch(staged, conclude, lambda _: True)
        stamp, left = (staged.version, name), 0
        for topic, seen in rows.items():
            truth = site.truth[topic]
            if truth.current > stamp:
                continue
            left += 1
            self.seen[topic, stamp] = seen
            truth.known = {}  # what came after its page loses here without having been met
            truth.show(stamp, seen)
        assert told == [len(rows) - left]
        self._post(site)

    # -- the network -------------------------------------------------------------------------------

    def _post(self, site, marks=True):
        """Put what a site has logged since on its way to all others."""
        for event in site.server.store.read(site.sent, ALWAYS):
            site.sent = event.seq
            if event.topic[0] == "$":
                continue
            for other in self.sites:
                if other not in {site.name, event.client}:
                    self.letters.append(self._letter(site, event, other))

    def _letter(self, site, event, other):
        sender = Sender(site.name, other, syncs=True)
        message = message_of(
            event, site.kernel.transcoder, sender, site.server.time, again=False, waited=False
        )
        properties = message.properties | {"retain": message.retain}
        return Letter(site.name, other, event.topic, message.payload, properties)

    async def deliver(self, letter, *, marked=True):
        """Give a letter to its receiver; without its mark, it is not known as a repeat."""
        site = self.sites[letter.receiver]
        properties = dict(letter.properties)
        pairs = [pair for pair in properties["user_property"] if marked or pair[0] != PRODUCER]
        properties["user_property"] = pairs
        event = event_of(letter.topic, letter.payload, 1, properties, letter.sender, site.name)
        if event is None:
            return
        if event.kind != MESSAGE:
            self._expect(site, letter.topic, stamp_of(event, ""))
        await site.kernel.write(event, ANN)
        self._post(site)

    def _expect(self, site, topic, stamp):
        """Note what becomes of a write that comes to a site."""
        truth = site.truth.setdefault(topic, Truth())
        last, seen = truth.current, self.seen[topic, stamp]
        if last and last != stamp:
            loser, winner = sorted((last, stamp))
            known = greatest(self.seen[topic, winner], {winner[1]: winner[0]})
            if loser[0] > known.get(loser[1], 0):
                site.rows.add(f"{loser[0]}@{loser[1]}/{topic}")
        if not last or stamp > last:
            truth.show(stamp, seen)

    async def settle(self):
        """Deliver everything, in order."""
        while self.letters:
            await self.deliver(self.letters.pop(0))

    async def pick(self, sender, receiver):
        """Deliver the oldest letter from one site to another."""
        way = sender, receiver
        letter = next(item for item in self.letters if (item.sender, item.receiver) == way)
        self.letters.remove(letter)
        await self.deliver(letter)

    async def states(self, *topics):
        """Return what each site has at these topics."""
        return [[await site.value(topic) for topic in topics] for site in self.sites.values()]


__all__ = ["DELETE", "MESSAGE", "PATCH", "PUT", "SimulatedSites", "Site"]
