"""A whole server in this process, bridged to a real Mosquitto, and somebody who reads there."""

import asyncio
import time
from contextlib import asynccontextmanager

from rowcast.core.callers import ALL, Caller
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.features.bridges.feature import Bridges
from rowcast.features.bridges.link import Link
from rowcast.features.bridges.remote import Remote
from rowcast.program.config import Config
from rowcast.program.features import FEATURES
from rowcast.program.main import Application
from rowcast.program.settings.gateway import plan_of, plans
from serving import PATIENCE_SECONDS, features_with, until

ANN = Caller("ann", ALL, "http")


def config(folder, *brokers, **more):
    """Return settings of a server that listens nowhere but where it must."""
    return Config.model_validate(
        {
            "data": folder,
            "schema": folder / "none.graphql",
            "http": {"port": 0},
            "mqtt": {"network": {"port": 0}},
            "gateway": {"brokers": brokers},
            **more,
        }
    )


def to(broker, *filters, **more):
    """Return the settings of a bridge that carries these filters out."""
    carried = [{"filter": text} for text in filters]
    return {"name": "b", "host": "127.0.0.1", "port": broker.port, "out": carried,
            "reconnect_interval_ms": 100} | more  # fmt: skip


class Bridged:
    """A running server."""

    def __init__(self, application):
        self.application = application
        self.kernel = application.kernel

    @property
    def gateway(self):
        return self.application.features["bridges"].gateway

    @property
    def bridge(self):
        return self.gateway.bridges["b"]

    async def put(self, topic, payload, **facts):
        event = Event(topic, PUT if payload else DELETE, payload, qos=1, retain=True, **facts)
        return await self.kernel.write(event, ANN)

    async def say(self, topic, payload, qos=1, **facts):
        return await self.kernel.write(Event(topic, MESSAGE, payload, qos=qos, **facts), ANN)

    until = staticmethod(until)

    async def idle(self):
        """Wait until the bridge has delivered all."""
        await self.until(lambda: self.bridge.idle)


def _features(change):
    """Return the features; that of bridges changes their plans."""

    def make(parts):
        known = [change(plan) for plan in plans(parts.config.gateway)]
        return Bridges(known, lambda given: change(plan_of(given)))

    return features_with("bridges", make)


@asynccontextmanager
async def server(folder, *brokers, change=None, **more):
    """Run a server; ``change`` returns the plan of a bridge with other limits."""
    (folder / "none.graphql").write_text(more.pop("schema_text", "type Dog @table @export {\n"
                                         "  id: ID @primaryKey\n  name: String\n}\n"))  # fmt: skip
    now = more.pop("now", time.time)
    features = _features(change) if change else FEATURES
    application = Application(config(folder, *brokers, **more), now, features)
    await application.start()
    try:
        yield Bridged(application)
    finally:
        await application.stop()


class Reader:
    """Who hears what arrives at a broker."""

    def __init__(self, broker):
        self.heard = []
        self.properties = []
        self._more = asyncio.Event()
        self.link = Link(Remote("127.0.0.1", broker.port), lambda _why: None)

    async def hear(self, topic, payload, _qos, properties):
        self.heard.append((topic, payload))
        self.properties.append(properties)
        self._more.set()
        return True

    async def open(self, text="#"):
        await self.link.open(self.hear, [(text, 1)])
        return self

    async def wait(self, count):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.heard) < count:
                self._more.clear()
                await self._more.wait()
        return self.heard

    def marks(self, index):
        return dict(self.properties[index].get("user_property", ()))


@asynccontextmanager
async def reading(broker, text="#"):
    reader = Reader(broker)
    await reader.open(text)
    try:
        yield reader
    finally:
        await reader.link.close()
