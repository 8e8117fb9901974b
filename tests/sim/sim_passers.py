"""MQTT clients that come once: each leaves a durable session, which ends without its return.

What the disk refuses when such a session ends, no later connection of the client puts in order.
"""

from sim_wire import Link

from rowcast.mqtt.packets import Connack, Connect, Disconnect, Subscribe, Subscription

PASSERS = 6
EXPIRIES_SECONDS = (1, 2)
PAUSES_SECONDS = (0, 0.05, 0.3)


class Passers:
    """Clients one after the other, none of them twice."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.rng = world.fork(name)

    async def run(self):
        for index in range(PASSERS):
            await self.world.loop.pause(self.rng.choice(PAUSES_SECONDS))
            await self._pass(f"{self.name}{index}", await self.world.server_up())

    async def _pass(self, client_id, server):
        """Connect, subscribe to what nobody publishes, and go."""
        rng, link = self.rng, Link(self.world, server, 5)
        properties = {"session_expiry_interval": rng.choice(EXPIRIES_SECONDS)}
        link.send(Connect(5, client_id, True, properties=properties))
        if isinstance(await link.receive(), Connack):
            link.send(Subscribe(1, (Subscription("passing/#", 1, False, False, 0),)))
            await link.receive()
            if rng.random() < 0.5:  # it ends at once, not in time
                link.goodbye = Disconnect(0, {"session_expiry_interval": 0})
                link.send(link.goodbye)
                await link.receive()
        link.drop()
