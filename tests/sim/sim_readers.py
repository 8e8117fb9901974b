"""Those who watch through the kernel's door, as the SSE and WebSocket edges do."""

from sim_checks import Follow, require
from sim_store import number_of

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Error
from rowcast.core.events import CURRENT, GAP, RESET, SNAPSHOT
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

FILTERS = (
    "#", "Dog/+", "Dog/#", "Dog/1", "+/1", "Note/+", "Note/#", "u/#", "u/+/x", "+/+", "Counter/#",
    "Lease/+", "u/1", "Dog",
)  # fmt: skip


class Watcher:
    """One stream with one filter, that comes back with its cursor."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.rng = world.fork(name)
        self.caller = Caller(name, ALL, "sse", name)
        self.topics = TopicFilter(self.rng.choice(FILTERS))
        self.follow = Follow(world, name, self.topics)
        self.connected = False

    async def run(self):
        while not self.world.closing:
            server = await self.world.server_up()
            subscription = Subscription(server.reader, self.name)
            server.ends.append(subscription.close)
            try:
                self._begin(server, subscription)
                await self._listen(server, subscription)
            except Error as error:  # the store could not be read: come again
                self.world.trace(f"{self.name} ended: {error.message}")
            self.connected = False
            if server.alive:
                server.kernel.close(subscription)
            await self.world.loop.pause(self.rng.choice((0, 0.005, 0.05)))

    def _begin(self, server, subscription):
        follow, rng = self.follow, self.rng
        since, current = None, rng.random() < 0.7
        if follow.position is not None and follow.live and rng.random() < 0.7:
            since = follow.position
        kernel = server.kernel
        floor = kernel.committer.announced
        token = None if since is None else kernel.cursor(since)
        self.world.trace(f"{self.name} watch {self.topics.text} at {floor} {since=} {current=}")
        kernel.watch(
            subscription, SubscribedFilter(self.topics), self.caller, token, current=current
        )
        follow.begin(server.tap, floor, since, current=current)
        self.connected = True

    async def _listen(self, server, subscription):
        rng, world = self.rng, self.world
        while server.alive:
            pairs = await subscription.batch(rng.choice((1, 3, 50)))
            if not pairs:
                return
            for event, _ in pairs:
                tell(self.follow, event)
                world.trace(f"{self.name} got {event.kind} {event.topic} {event.seq}")
            if not world.quiet:
                if rng.random() < 0.05:
                    return
                await world.loop.pause(rng.choice((0, 0, 0.002, 0.01, 0.1)))

    def finish(self):
        require(self.connected, f"{self.name} is not connected")
        self.follow.finish()


def tell(follow, event):
    """Pass what a subscription handed over to the oracle."""
    kind = event.kind
    if kind == CURRENT:
        follow.current(event.seq)
    elif kind == RESET:
        follow.reset(event.seq)
    elif kind == GAP:
        follow.gap(event.count, event.why)
    elif kind == SNAPSHOT:
        follow.snapshot(event.topic, number_of(event.payload, event.properties), event.seq)
    else:
        n = number_of(event.payload, event.properties)
        follow.event(event.topic, n, event.seq, empty=not event.payload)


class Juggler:
    """One stream whose filters come and go, overlap, and begin in the past."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.rng = world.fork(name)
        self.caller = Caller(name, ALL, "ws", name)
        self.follows = {}
        self.connected = False

    async def run(self):
        while not self.world.closing:
            server = await self.world.server_up()
            self.follows = {}
            subscription = Subscription(server.reader, self.name)
            server.ends.append(subscription.close)
            try:
                for _ in range(self.rng.randrange(1, 3)):
                    self._add(server, subscription)
                await self._listen(server, subscription)
            except Error as error:
                self.world.trace(f"{self.name} ended: {error.message}")
            self.connected = False
            if server.alive:
                server.kernel.close(subscription)
            await self.world.loop.pause(self.rng.choice((0, 0.005, 0.05)))

    def _add(self, server, subscription):
        text = self.rng.choice(FILTERS)
        if text in self.follows:
            return
        kernel, rng = server.kernel, self.rng
        topics, floor = TopicFilter(text), kernel.committer.announced
        since, token = None, None
        if rng.random() < 0.5:
            since = rng.randrange(max(0, floor - 30), floor + 1)
            token = kernel.cursor(since)
            if rng.random() < 0.2:
                since, token = None, rng.choice(("0dd0dd00:1", kernel.cursor(floor + 1_000)))
        current = rng.random() < 0.5
        kernel.watch(subscription, SubscribedFilter(topics), self.caller, token, current=current)
        self.world.trace(f"{self.name} adds {text} {token} {current=} at {floor}")
        follow = Follow(self.world, f"{self.name} {text}", topics, counts=False)
        follow.begin(server.tap, floor, since, current=current)
        self.follows[text] = follow
        self.connected = True

    def _remove(self, server, subscription):
        text = self.rng.choice(list(self.follows))
        self.world.trace(f"{self.name} removes {text}")
        server.kernel.unwatch(subscription, TopicFilter(text))
        del self.follows[text]

    async def _listen(self, server, subscription):
        rng, world = self.rng, self.world
        while server.alive:
            pairs = await subscription.batch(rng.choice((1, 3, 50)))
            if not pairs:
                return
            for event, interest in pairs:
                self._take(event, interest)
            if not world.quiet:
                await world.loop.pause(rng.choice((0, 0, 0.002, 0.01)))
                choice = rng.random()
                if choice < 0.1:
                    self._add(server, subscription)
                elif choice < 0.15 and len(self.follows) > 1:
                    self._remove(server, subscription)

    def _take(self, event, interest):
        texts = list(self.follows)
        if interest is not None:
            texts = [item.topics.text for item in interest.merged or (interest,)]
        self.world.trace(f"{self.name} got {event.kind} {event.topic} {event.seq} for {texts}")
        for text in texts:
            tell(self.follows[text], event)

    def finish(self):
        require(self.connected, f"{self.name} is not connected")
        for follow in self.follows.values():
            follow.finish()
