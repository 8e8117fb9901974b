"""Two servers that keep topics equal: what there was, what is written, what is lost (K3)."""

import pytest
from bridged import ANN, server

from rowcast.core.errors import Error
from rowcast.core.topics import TopicFilter
from rowcast.features.sites.conflict_rows import PATH

SCHEMA = """type Dog @table @export {
  id: ID @primaryKey
  name: String
  chip: String @hidden
  made: Date @createdTime
  changed: Long @updatedTime
}
"""


TOLD = "topic", "version", "origin", "deleted", "winner_version", "winner_origin", "written_at"


@pytest.fixture
def folders(tmp_path):
    found = [tmp_path / name for name in ("north", "south")]
    for folder in found:
        folder.mkdir()
    return found


def site(folder, **more):
    return server(folder, schema_text=SCHEMA, **more)


def to(other, *filters, **more):
    """Return the settings of a bridge to another site of this process."""
    return {"host": "127.0.0.1", "port": other.application.mqtt_port, "sync": list(filters),
            "reconnect_interval_ms": 100} | more  # fmt: skip


async def join(one, other, *filters):
    await one.gateway.change("b", to(other, *filters))
    await other.gateway.change("b", to(one, *filters))


async def calm(*worlds):
    """Wait until nothing is on its way: what one has sent on may come back once more."""
    for _ in range(3):
        for world in worlds:
            await world.idle()


async def record(world, topic):
    try:
        found = await world.kernel.read(topic, ANN)
    except Error:
        return None
    return found.payload, found.version


async def rows(world):
    return await world.kernel.resource(f"{PATH}/", ANN).get()


async def test_what_is_written_at_either_site_is_at_both(folders):
    """K3: puts, patches and deletions, with times and what is hidden; and no conflict."""
    async with site(folders[0]) as north, site(folders[1]) as south:
        await join(north, south, "Dog/#", "u/#")
        for one, other, topic in ((north, south, "Dog/1"), (south, north, "Dog/2")):
            await one.put(topic, b'{"name":"Rex","chip":"secret"}')
            await calm(north, south)
            await other.put(topic, b'{"name":"Rexi","chip":"known"}')
            await calm(north, south)
        await north.put("u/1", b"\x00raw")
        await north.put("Dog/3", b'{"name":"gone"}')
        await calm(north, south)
        await south.put("Dog/3", b"")
        await calm(north, south)
        for topic in ("Dog/1", "Dog/2", "Dog/3", "u/1"):
            assert await record(north, topic) == await record(south, topic)
        assert b'"chip":"known"' in (await record(south, "Dog/1"))[0]
        assert await record(south, "Dog/3") is None
        assert [] == await rows(north) == await rows(south)


async def test_what_was_there_before_is_made_equal(folders):
    """K3: the newer record wins, and the other is a row; messages of the past stay at home."""
    async with site(folders[0]) as north, site(folders[1]) as south:
        carried = {"sync": [], "out": [{"filter": "nothing/#"}]}
        await north.gateway.change("b", to(south) | carried)
        await north.put("Dog/1", b'{"name":"only north"}')
        await north.put("Dog/2", b'{"name":"older"}')
        await south.put("Dog/2", b'{"name":"newer"}')
        north.kernel.durable.add(TopicFilter("other/#"))  # as a session has it logged
        await north.say("other/1", b"before")
        await join(north, south, "#")
        await calm(north, south)
        for topic in ("Dog/1", "Dog/2"):
            assert await record(north, topic) == await record(south, topic) is not None
        (row,) = await rows(south)
        assert ("Dog/2", "older", False) == (row["topic"], row["value"]["name"], row["deleted"])
        assert "chip" not in row["value"]
        (same,) = await rows(north)
        assert [row[name] for name in TOLD] == [same[name] for name in TOLD]
        events = south.application.store.read(0, 10_000)
        assert "other/1" not in [event.topic for event in events]
        await north.say("other/1", b"after")
        await calm(north, south)
        events = south.application.store.read(0, 10_000)
        assert [b"after"] == [event.payload for event in events if event.topic == "other/1"]


async def test_other_topics_begin_with_what_there_is_too(folders):
    """K3: another filter is another beginning, whose numbers are no repeats."""
    async with site(folders[0]) as north, site(folders[1]) as south:
        await north.put("u/1", b"1")
        await join(north, south, "Dog/#")
        await north.put("Dog/1", b'{"name":"Rex"}')
        await calm(north, south)
        assert await record(south, "u/1") is None
        await join(north, south, "Dog/#", "u/#")
        await calm(north, south)
        assert b"1" == (await record(south, "u/1"))[0]


@pytest.mark.heavy
async def test_after_a_cut_both_sites_have_the_newest_and_the_loser_is_a_row(folders):
    """K3, K5: each site goes on alone; what is stored with the decision survives a restart."""
    async with site(folders[1]) as south:
        async with site(folders[0]) as north:
            await join(north, south, "Dog/#")
            await north.put("Dog/1", b'{"name":"both"}')
            await calm(north, south)
            await north.gateway.change("b", to(south, "Dog/#") | {"port": 9})
            await south.gateway.change("b", to(north, "Dog/#") | {"port": 9})
            await north.put("Dog/1", b'{"name":"of the north"}')
            await south.put("Dog/1", b"")
            await join(north, south, "Dog/#")
            await calm(north, south)
            assert await record(north, "Dog/1") is None
            assert await record(south, "Dog/1") is None
            kept = await rows(north)
        async with site(folders[0]) as north:
            assert kept == await rows(north)
        (row,), (same,) = kept, await rows(south)
        assert ("of the north", True) == (row["value"]["name"], row["winner_deleted"])
        assert [row[name] for name in TOLD] == [same[name] for name in TOLD]
