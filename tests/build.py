"""Builds any part of the server in the test's own process: no file, no socket, no thread.

``Server`` is a kernel on a store in memory, with topic tables, the MQTT broker or the HTTP edge
where a test asks for them. Its clock is a number, its threads work when the test says so.
"""

import asyncio
from functools import partial

from journaled import journaled
from memory_store import MemoryStore
from rowcast.bus.bus import Bus
from rowcast.bus.subscriber import Subscriber
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX
from rowcast.core.tables import Attribute, Logs, Role, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.core.undeclared_topic_limits import SEEN_TOPICS_MAX
from rowcast.doors.http.door import HttpSettings
from rowcast.doors.http.edge import Edge
from rowcast.doors.http.fixed_routes import make_application
from rowcast.doors.mqtt.door import make_broker
from rowcast.doors.mqtt.sessions.session_loading import OWNER as SESSIONS
from rowcast.doors.mqtt.sessions.wills import WILLS
from rowcast.doors.mqtt.settings import BrokerSettings
from rowcast.features.delayed.delayed import OWNER as DELAYED
from rowcast.features.delayed.feature import DelayedPublish
from rowcast.features.history.feature import History
from rowcast.features.hooks.feature import UserHooks
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.idempotency.feature import Idempotency
from rowcast.features.late_writes.feature import LateWrites
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.replay.feature import ReplaysOfThePast
from rowcast.features.rights.feature import AccessRights
from rowcast.features.shared_subscriptions.feature import SharedSubscriptions
from rowcast.features.shared_subscriptions.group_table import OWNER as GROUPS
from rowcast.features.slow_subscribers.slow_rows import PATH as SLOW
from rowcast.features.slow_subscribers.slow_rows import slow_rows
from rowcast.features.slow_subscribers.slow_subscribers import SlowSubscriptions
from rowcast.features.undeclared_topics.feature import UndeclaredTopics
from rowcast.features.undeclared_topics.topic_tables import OWNER as TOPIC_TABLES
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.kernel.kernel import Kernel
from rowcast.reads.record_cache import RecordCache
from rowcast.routes.registry import Registry
from rowcast.store.sqlite import SqlStore
from rowcast.subscriptions.reader import Reader
from rowcast.writes.commit import Committer
from virtual import Threads, VirtualLoop, turns

NOW = 1_700_000_000.0
EPOCH = "0badcafe"
KEY = Attribute("id", Type.ID, primary_key=True)
DOG = Table(
    "Dog",
    "Dog",
    (
        KEY,
        Attribute("name", Type.STRING),
        Attribute("age", Type.INT),
        Attribute("created", Type.DATE, role=Role.CREATED_TIME),
        Attribute("updated", Type.LONG, role=Role.UPDATED_TIME),
    ),
)
NOTE = Table("Note", "Note", (KEY,), logs=Logs.QOS1)
COUNTER = Table("Counter", "Counter", (Attribute("id", Type.LONG, primary_key=True),))
LEASE = Table(
    "Lease", "Lease", (KEY, Attribute("name", Type.STRING)), expiration_seconds=60
)  # fmt: skip
TABLES = (DOG, NOTE, COUNTER, LEASE)

ANN = Caller("ann", ALL, "http")
BEN = Caller("ben", ALL, "http")


class Listener(Subscriber):
    """A subscriber that remembers."""

    def __init__(self, server, topics="#"):
        self.events = []
        server.bus.add(TopicFilter(topics), self)

    def offer(self, event):
        self.events.append(event)

    @property
    def topics(self):
        return [event.topic for event in self.events]


class Server:
    """The parts of one server.

    ``topics`` are the settings of topic tables; without, undeclared topics have none.
    ``undeclared`` is the setting ``topics.undeclared``: by default what ``topics`` make of it.
    ``now`` is a time, which a test moves by setting ``time``, or a clock.
    ``access`` are rules of the access list.
    ``writer``, ``readers``, ``cache`` and ``bounds`` (of writes in hand) replace what is made else;
    ``reading`` are limits of the reader, ``features`` are installed instead of those of their
    class; other options are those of the kernel.
    """

    def __init__(
        self,
        tables=TABLES,
        *,
        store=None,
        topics=None,
        undeclared=None,
        resources=(),
        now=NOW,
        writer=None,
        readers=None,
        cache=None,
        bounds=None,
        hooks=None,
        access=(),
        seen_max=SEEN_TOPICS_MAX,
        routes_max=MATCH_CACHE_TOPICS_MAX,
        reading=None,
        features=(),
        replays=None,
        **options,
    ):
        self.time = now
        self.tables = tables
        self.now = now = now if callable(now) else lambda: self.time
        self.store = store or MemoryStore(EPOCH)
        if isinstance(store, SqlStore):
            self.store = journaled(store)
        self.store.open(tables)
        self.bus = Bus()
        self.cache = RecordCache() if cache is None else cache
        self.writer, self.readers = writer or Threads(), readers or Threads()
        self.clock = HybridClock(now, self.store.last_version())
        self.committer = self._committer(bounds)
        committer = self.committer
        self.reader = self._reader(reading or {})
        undeclared = undeclared or ("route" if topics is None else "table")
        self.registry = Registry(
            tables,
            undeclared=undeclared != "reject",
            routes_max=routes_max,
        )
        for path, resource in resources:
            self.registry.add(path, resource)
        self.kernel = Kernel(
            self.registry,
            self.bus,
            committer,
            self.reader,
            now,
            **options,
        )
        logged = undeclared == "table"
        settings = topics or TopicSettings()
        self._given = {type(feature): feature for feature in features}
        self._install(hooks or Hooks(), settings, access, replays, logged=logged, seen_max=seen_max)

    def _committer(self, bounds):
        return Committer(self.store, self.bus, self.cache, self.clock, self.writer, bounds)

    def _reader(self, limits):
        def announced():
            return self.committer.announced

        return Reader(self.store, self.cache, self.readers, self.tables, announced, **limits)

    def _install(self, hooks, topics, access, replays, **options):
        self.people = {}
        """Callers whose rights can be asked about, by name."""
        delayed = self._given.get(DelayedPublish) or DelayedPublish()
        repeats = self._given.get(Idempotency) or Idempotency()
        rights = AccessRights(self._person, access)
        history = self._given.get(History) or History()
        undeclared = UndeclaredTopics(self.store, topics, **options)
        shared = SharedSubscriptions()
        live = self._given.get(LiveQueriesOfTables) or LiveQueriesOfTables()
        replay = ReplaysOfThePast(replays)
        self.features = (
            undeclared,
            shared,
            rights,
            self._given.get(UserHooks) or UserHooks(hooks),
            history,
            repeats,
            LateWrites(),
            delayed,
            live,
            replay,
        )
        for feature in self.features:
            feature.install(self.kernel)
        for client in hooks.clients:
            client.bind(self.kernel)
        self.topic_tables = tables = undeclared.tables
        tables.restore(self.store.topic_tables(), self.store.states(TOPIC_TABLES))
        tables.start()
        self.groups = shared.groups
        self.live_queries, self.replays = live.queries, replay.replays
        self.delayed, self.past = delayed.delayed, history.reads
        self.idempotent_writes, self.rules = repeats.writes, rights.rules

    async def _person(self, name):
        return self.people.get(name)

    async def stop(self):
        """Stop as the program does, when its doors are closed."""
        for feature in reversed(self.features):
            await feature.stop()
        await self.kernel.stop()

    # -- doors -------------------------------------------------------------------------------------

    def open_mqtt(self, loop=None, slow=None, **settings):
        """Put a broker without sockets on it, its clock a virtual one unless a ``loop`` is given.

        ``slow`` are settings of slow subscriptions. Sessions, groups and delayed messages that the
        store has are taken up.
        """
        self.loop = loop or VirtualLoop(asyncio.get_running_loop())
        self.slow = None
        if slow is not None:
            changed = partial(self.kernel.live.changed, SLOW)
            self.slow = SlowSubscriptions(slow, self.now, self.loop, changed)
            self.slow.listen(self.reader)
            self.registry.add(SLOW, slow_rows(self.slow))
        self.broker = make_broker(self.kernel, BrokerSettings(**settings), self.now, self.loop)
        self.delayed.loop = self.topic_tables.loop = self.loop
        self.groups.restore(self.store.states(GROUPS))
        self.broker.restore(self.store.states(SESSIONS), self.store.states(WILLS))
        self.groups.clean()
        self.delayed.restore(self.store.states(DELAYED))
        self.delayed.start()
        return self.broker

    def make_edge(self, fixed=make_application, grants=ALL, **settings):
        """Return an HTTP edge for it; ``grants`` are those of callers without a name."""
        facts = {
            "title": "Rowcast",
            "version": "1.2.3",
            "sse_heartbeat_seconds": 15,
            "sse_retry_ms": 1000,
            "websocket_heartbeat_seconds": 20,
            "cors_origins": (),
            "body_bytes_max": 100_000,
            "anonymous": lambda peer, door: Caller("anonymous", grants, door, peer=peer),
        } | settings
        http = HttpSettings(**facts)
        return Edge(self.kernel, http, fixed(self.kernel, http))

    # -- verbs -------------------------------------------------------------------------------------

    async def put(self, topic, payload=b"{}", caller=None, condition=None, **facts):
        event = Event(topic, PUT, payload, qos=1, retain=True, **facts)
        return await self.kernel.write(event, caller or ANN, condition)

    async def delete(self, topic, condition=None):
        event = Event(topic, DELETE, b"", qos=1, retain=True)
        return await self.kernel.write(event, ANN, condition)

    async def say(self, topic, payload=b"{}", caller=None, qos=0, **facts):
        event = Event(topic, MESSAGE, payload, qos=qos, **facts)
        return await self.kernel.write(event, caller or ANN)

    def cursor(self, seq):
        """Return the token of a position."""
        return self.kernel.cursor(seq)

    # -- time --------------------------------------------------------------------------------------

    async def turn(self):
        """Let all happen that is due, without letting time pass."""
        await turns(60)

    async def pass_time(self, seconds):
        """Let time pass on both clocks, the wall's and the loop's."""
        self.time += seconds
        self.loop.advance(seconds)
        await self.turn()


async def refusal(work):
    """Return the code with which work is refused."""
    try:
        await work
    except Error as error:
        return error.code
    return None


def code_of(call, *args, **kwargs):
    """Return the code with which a call is refused."""
    try:
        call(*args, **kwargs)
    except Error as error:
        return error.code
    return None


__all__ = [
    "ANN", "BEN", "COUNTER", "DOG", "EPOCH", "KEY", "LEASE", "NOTE", "NOW", "TABLES", "Code",
    "Listener", "Server", "Threads", "code_of", "refusal", "turns",
]  # fmt: skip
