"""How long dead letters are kept (H14)."""

from types import SimpleNamespace

from bridged import ANN, server, to

from free_ports import free_port
from rowcast.core.events import DELETE, MESSAGE, Event
from rowcast.features.bridges.dead_letters import topic_of_letter
from rowcast.features.bridges.outbox import Item
from rowcast.kernel.expired_records import delete_expired

DAY = 86_400


async def test_a_dead_letter_ends_after_thirty_days(tmp_path):
    """H14: the search, which comes more often than hourly, ends it; nobody sees it any later."""
    clock = SimpleNamespace(now=1_700_000_000.0)
    nobody = SimpleNamespace(port=free_port())
    plans = to(nobody, "u/#"), to(nobody, "u/#", name="brief", dead_letter_retain_days=2)
    async with server(tmp_path, *plans, now=lambda: clock.now) as world:
        large = Event("u/2", MESSAGE, b"x" * 100_000, qos=1, seq=2)
        bridges = world.gateway.bridges
        bridges["b"]._bury(Item(1, "u/1", Event("u/1", MESSAGE, b"x", qos=1, seq=1), 5))
        bridges["b"]._bury(Item(2, "u/2", large, 5))
        bridges["brief"]._bury(Item(3, "u/3", Event("u/3", MESSAGE, b"x", qos=1, seq=3), 5))
        await world.until(lambda: (2, 1) == (bridges["b"].dead, bridges["brief"].dead))

        async def left():
            await delete_expired(world.kernel, world.kernel.now)
            rows = await world.kernel.resource("$SYS/dead_letters", ANN).get()
            return sorted(row["id"] for row in rows)

        found = []
        for days in (0, 1.9, 0.2, 27.8, 0.2):  # after 0, 1.9, 2.1, 29.9 and 30.1 days
            clock.now += days * DAY
            found.append(await left())
        assert [[1, 2, 3], [1, 2, 3], [1, 2], [1, 2], []] == found
        kept = world.application.store
        assert kept.get(None, topic_of_letter("b", 2) + "/payload") is None
        ends = {event.topic for event in kept.read(0, 10_000) if event.kind == DELETE}
        assert {topic_of_letter("b", 1), topic_of_letter("b", 2)} <= ends
    assert world.application.config.history.sweep_seconds <= 3_600
