"""A server with triggers, which can be killed at any moment; its retries do not wait."""

from dataclasses import replace

from build import Server, turns
from memory_store import MemoryStore
from rowcast.features.triggers.dead_events import OWNER as DEAD
from rowcast.features.triggers.feature import TriggersOfEvents
from rowcast.features.triggers.runner import OWNER, Bounds
from rowcast.features.triggers.settings import TriggerSection
from rowcast.features.triggers.trigger import Retries, Trigger

AT_ONCE = Retries(3, 0.0, 1, 0.0)


class TriggerServer:
    """A server whose triggers are those that a test has collected, and of its settings."""

    def __init__(self, hooks, settings=None, store=None, **bounds):
        self.hooks, self.settings = hooks, settings or TriggerSection()
        self.room = Server(hooks=hooks, store=store or MemoryStore("0badcafe"))
        functions = [replace(item, retries=AT_ONCE) for item in hooks.collected(Trigger)]
        self.feature = TriggersOfEvents(functions, self.settings, Bounds(**bounds))
        self.feature.install(self.room.kernel)
        states = self.room.store.states
        self.room.idempotent_writes.restore(states("producer/"))
        self.feature._restore(states(OWNER))
        self.feature.dead.restore(states(DEAD))

    async def start(self):
        await self.feature.start()
        await self.feature.opened()
        await self.turn()
        return self

    async def kill(self):
        """End it as a kill does: nothing is said or stored any more."""
        await self.feature._background.stop()
        return TriggerServer(self.hooks, self.settings, self.room.store)

    async def turn(self):
        await turns(200)

    def row(self, name):
        return self.feature.runners[name].row()

    def said(self, topic):
        return [event.payload for event in self.room.store.read(0, 1000) if event.topic == topic]
